"""What a GPU and its software are doing: clocks, power, throttling, versions. Reads, never sets."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import platform
import shutil
import subprocess
from typing import Any


def environment() -> dict[str, Any]:
    """Device, driver and versions, and the switches that decide the precision of the baselines."""
    import torch

    return {
        "device": torch.cuda.get_device_name(0),
        "driver": _driver(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": _version("triton"),
        "python": platform.python_version(),
        "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
        "tf32_convolution": torch.backends.cudnn.allow_tf32,
        "fp16_reduced_reduction": bool(
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        ),
        "clock_source": "nvml" if _nvml() else ("nvidia-smi" if _smi() else "none"),
    }


def clocks() -> dict[str, float]:
    """Clocks in MHz, power in watts, temperature in °C, and NVML's throttle bits; {} if unknown."""
    nvml = _nvml()
    if nvml is None:
        return _clocks_from_smi()
    module, handle = nvml
    found: dict[str, float] = {}
    questions = {
        "sm_mhz": lambda: module.nvmlDeviceGetClockInfo(handle, module.NVML_CLOCK_SM),
        "memory_mhz": lambda: module.nvmlDeviceGetClockInfo(handle, module.NVML_CLOCK_MEM),
        "power_w": lambda: module.nvmlDeviceGetPowerUsage(handle) / 1e3,
        "temperature_c": lambda: module.nvmlDeviceGetTemperature(handle, 0),
        "throttle_bits": lambda: module.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    }
    for name, ask in questions.items():
        with contextlib.suppress(Exception):  # some parts do not answer some questions
            found[name] = float(ask())
    return found


_SMI_FIELDS = {
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "power_w": "power.draw",
    "temperature_c": "temperature.gpu",
}


def _clocks_from_smi() -> dict[str, float]:
    answer = _ask_smi(",".join(_SMI_FIELDS.values()))
    found = {}
    for name, text in zip(_SMI_FIELDS, answer):
        with contextlib.suppress(ValueError):
            found[name] = float(text)
    return found


@functools.cache
def _nvml() -> tuple[Any, Any] | None:
    """The NVML module and the handle of torch's current device, or None where either is missing."""
    try:
        import pynvml
        import torch

        pynvml.nvmlInit()
        uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
        if uuid is not None:
            name = str(uuid)
            name = name if name.startswith("GPU-") else f"GPU-{name}"
            return pynvml, pynvml.nvmlDeviceGetHandleByUUID(name)
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception:  # no module, no library, no permission, MIG: clocks are then not read
        return None


@functools.cache
def _smi() -> str | None:
    return shutil.which("nvidia-smi")


def _ask_smi(fields: str) -> list[str]:
    if _smi() is None:
        return []
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    lines = done.stdout.strip().splitlines()
    return [part.strip() for part in lines[0].split(",")] if lines else []


@functools.cache
def _driver() -> str | None:
    nvml = _nvml()
    if nvml is not None:
        said = nvml[0].nvmlSystemGetDriverVersion()
        return said.decode() if isinstance(said, bytes) else str(said)
    answer = _ask_smi("driver_version")
    return answer[0] if answer else None


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    with contextlib.suppress(PackageNotFoundError):
        return version(name)
    return None
