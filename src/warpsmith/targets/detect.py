"""Which target this machine's CUDA device is, asked of the driver or of PyTorch."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from warpsmith.spec.target import Target
from warpsmith.targets.catalogue import CATALOGUE, limits_of


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a driver tells about a device."""

    title: str
    compute_capability: tuple[int, int]
    sms: int
    memory_bytes: int
    l2_bytes: int
    boost_mhz: float
    memory_gbps: float


def detect(index: int = 0) -> Target | None:
    """The target of CUDA device `index`, or None without a usable device. Never raises.

    A part of the catalogue comes back with the SM count, memory and L2 size that the driver
    reports; an unknown part of a known compute capability is derived from its lanes and clock.
    """
    for ask in (_ask_driver, _ask_torch):
        facts = _quietly(ask, index)
        if facts is not None:
            return describe(facts)
    return None


def describe(facts: DeviceFacts) -> Target | None:
    """A `Target` for these facts; None when the compute capability is unknown."""
    known = match(facts.title, facts.compute_capability, facts.memory_bytes)
    if known is None:
        return _derived(facts)
    return replace(known, sms=facts.sms, memory_bytes=facts.memory_bytes, l2_bytes=facts.l2_bytes)


def match(title: str, compute_capability: tuple[int, int], memory_bytes: int) -> Target | None:
    """The catalogue's part whose words all occur in `title`, nearest in memory size."""
    words = _words(title)
    fits = [
        part
        for part in CATALOGUE.values()
        if part.compute_capability == compute_capability and _model_words(part.title) <= words
    ]
    return min(
        fits,
        key=lambda part: (
            -len(_words(part.title) & words),
            abs(part.memory_bytes - memory_bytes),
        ),
        default=None,
    )


def _words(title: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", title.lower())) - {"nvidia", "geforce", "tesla"}


def _model_words(title: str) -> set[str]:
    """The words that name the model: not its socket or memory size, but PCIe sets parts apart."""
    return {
        w for w in _words(title) if w not in {"sxm", "sxm2", "gb", "blackwell"} and not w.isdigit()
    } | {w for w in _words(title) if w.isdigit() and int(w) >= 1000}


def _quietly(ask: Callable[[int], DeviceFacts | None], index: int) -> DeviceFacts | None:
    try:
        return ask(index)
    except Exception:  # a missing driver shows itself in many ways; the contract is None
        return None


def _ask_driver(index: int) -> DeviceFacts | None:
    if importlib.util.find_spec("cuda") is None:
        return None
    from cuda.bindings import driver

    def call(function, *arguments):
        error, *values = function(*arguments)
        if int(error) != 0:
            raise RuntimeError(str(error))
        return values[0] if values else None

    call(driver.cuInit, 0)
    device = call(driver.cuDeviceGet, index)
    attribute = driver.CUdevice_attribute

    def ask(name: str) -> int:
        return call(driver.cuDeviceGetAttribute, getattr(attribute, name), device)

    name = call(driver.cuDeviceGetName, 128, device)
    bus_bytes = ask("CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH") / 8
    return DeviceFacts(
        title=name.split(b"\0")[0].decode(),
        compute_capability=(
            ask("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"),
            ask("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"),
        ),
        sms=ask("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
        memory_bytes=call(driver.cuDeviceTotalMem, device),
        l2_bytes=ask("CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE"),
        boost_mhz=ask("CU_DEVICE_ATTRIBUTE_CLOCK_RATE") / 1e3,
        memory_gbps=2 * ask("CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE") * bus_bytes / 1e6,
    )


def _ask_torch(index: int) -> DeviceFacts | None:
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    p = torch.cuda.get_device_properties(index)
    return DeviceFacts(
        title=p.name,
        compute_capability=(p.major, p.minor),
        sms=p.multi_processor_count,
        memory_bytes=p.total_memory,
        l2_bytes=p.L2_cache_size,
        boost_mhz=getattr(p, "clock_rate", 1_500_000) / 1e3,
        memory_gbps=2
        * getattr(p, "memory_clock_rate", 5_000_000)
        * getattr(p, "memory_bus_width", 384)
        / 8e6,
    )


def _derived(facts: DeviceFacts) -> Target | None:
    """A part outside the catalogue: its peaks scale from the nearest part of its capability."""
    limits = limits_of(facts.compute_capability)
    kin = [p for p in CATALOGUE.values() if p.compute_capability == facts.compute_capability]
    if limits is None or not kin:
        return None
    base = kin[0]
    scale = facts.sms * facts.boost_mhz / (base.sms * base.boost_mhz)
    peaks = {
        name: getattr(base, name) * scale
        for name in base.__dataclass_fields__
        if name.endswith(("_tflops", "_tops"))
    }
    return replace(
        base,
        name="-".join(re.findall(r"[a-z0-9]+", facts.title.lower())),
        title=facts.title,
        sms=facts.sms,
        boost_mhz=facts.boost_mhz,
        memory_bytes=facts.memory_bytes,
        memory_gbps=facts.memory_gbps,
        l2_bytes=facts.l2_bytes,
        l2_gbps=base.l2_gbps * scale,
        **peaks,
    )
