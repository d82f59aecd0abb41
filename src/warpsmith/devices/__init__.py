"""Artifact and inputs in, outputs, faults, counters and times out: the machines behind one seam."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
from typing import Any

from .. import targets
from ..errors import DeviceUnavailable, UnknownName
from ..spec import Device, Target, load_plugin, plugin_names
from .tensormap import tensor_map
from .textures import surface, texture

BUILT_IN = ("virtual", "cuda")
DEFAULT_TARGET = "h100"

__all__ = ["BUILT_IN", "DEFAULT_TARGET", "device_names", "open_device", "report", "surface",
           "tensor_map", "texture"]  # fmt: skip


def open_device(
    name: str = "auto", target: Target | str | None = None, *, isolate: bool = True
) -> Device:
    """A device to judge on. Close it when done.

    name: "virtual", "cuda", a plug-in's name, or "auto": the GPU if there is one, else virtual.
    target: what the virtual GPU imitates (default h100); on "cuda" the part is detected.
    isolate: run candidates in child processes. Without, a candidate's crash is yours: for debuggers.
    Raises UnknownName, or DeviceUnavailable saying what is missing.
    """
    if name == "auto":
        name = "cuda" if targets.detect() is not None and _torch_sees_cuda() else "virtual"
    if name not in BUILT_IN:
        return _from_plugin(name)
    part = _CHOOSE[name](target)
    if isolate:
        from .isolated import Isolated

        return Isolated(name, part)
    from .local import Local

    return Local(name, part)


def device_names() -> list[str]:
    """Built-in names and those of installed plug-ins."""
    return [*BUILT_IN, *(n for n in plugin_names("device") if n not in BUILT_IN)]


def report() -> dict[str, Any]:
    """Facts for `warpsmith doctor`: what can run here, and why not."""
    gpu = targets.detect()
    return {
        "devices": device_names(),
        "gpu": gpu.title if gpu else None,
        "torch": _version("torch"),
        "triton": _version("triton"),
        "torch_sees_cuda": _torch_sees_cuda(),
        "auto": "cuda" if gpu and _torch_sees_cuda() else "virtual",
    }


def _virtual_target(target: Target | str | None) -> Target:
    if isinstance(target, Target):
        return target
    return targets.get(target or DEFAULT_TARGET)


def _cuda_target(target: Target | str | None) -> Target:
    found = targets.detect()
    if found is None:
        raise DeviceUnavailable(
            "no CUDA GPU that the driver shows: check nvidia-smi, or open the device 'virtual'"
        )
    if not _torch_sees_cuda():
        raise DeviceUnavailable(
            f"there is a {found.title}, but PyTorch cannot use it: install a CUDA build of torch"
        )
    wanted = _virtual_target(target).name if target is not None else found.name
    if wanted != found.name:
        raise DeviceUnavailable(
            f"this machine's GPU is {found.name}, not {wanted}: leave target out, or open "
            f"open_device('virtual', {wanted!r})"
        )
    return found


_CHOOSE = {"virtual": _virtual_target, "cuda": _cuda_target}


def _from_plugin(name: str) -> Device:
    if name not in plugin_names("device"):
        raise UnknownName("device", name, ["auto", *device_names()])
    device: Device = load_plugin("device", name)()
    return device


def _torch_sees_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    # asked of the driver, without a context: a forked child could not use one
    import torch

    return torch.version.cuda is not None and torch.cuda.device_count() > 0


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
