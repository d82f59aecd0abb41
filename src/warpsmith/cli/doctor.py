"""`warpsmith doctor`: what this machine has, what really works on it, and what to install for more."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from ..errors import DeviceUnavailable, MissingTool
from .exits import FINE, MISSING
from .options import clean_stdout, common, emit, examples

HERE = Path(__file__).parent
CUDA_EXTRA = "pip install 'warpsmith[cuda]'"
TORCH_EXTRA = "pip install 'warpsmith[torch]'"
CC_EXTRA = "pip install 'warpsmith[cc]'"


@dataclass(frozen=True)
class Found:
    """A tool that is here, or not: then `install` says how to get it."""

    name: str
    here: bool
    what: str  # version and place, or what it would be good for
    install: str = ""


@dataclass(frozen=True)
class Probe:
    """A tiny kernel that was really run. `works` is None where it could not be tried."""

    name: str
    works: bool | None
    what: str
    seconds: float = 0.0


@click.command(
    "doctor",
    short_help="What works on this machine, and what to install.",
    epilog=examples("warpsmith doctor", "warpsmith doctor --json"),
)
@common
def command(as_json: bool) -> int:
    """Say what this machine can do. Exits with 3 if no kernel runs here at all."""
    with clean_stdout(as_json):
        tools = [look() for look in TOOLS]
        probes = [_try(name, device, file) for name, device, file in PROBES]
    works = any(p.works for p in probes)
    if as_json:
        emit(
            {
                "works": works,
                "tools": [asdict(t) for t in tools],
                "probes": [asdict(p) for p in probes],
            }
        )
    else:
        _print(tools, probes)
    return FINE if works else MISSING


def _python() -> Found:
    return Found("Python", True, f"{platform.python_version()} at {sys.executable}")


def _compiler() -> Found:
    from ..vgpu.build import compiler

    try:
        found = compiler()
    except MissingTool as error:
        return Found("C compiler", False, "the virtual GPU needs one", error.install)
    says = found.version.strip().splitlines()[:1] or ["?"]
    return Found("C compiler", True, f"{' '.join(found.command)}: {says[0]}")


def _package(
    name: str, distributions: tuple[str, ...], use: str, install: str
) -> Callable[[], Found]:
    def look() -> Found:
        versions = [v for v in map(_version, distributions) if v]
        if len(versions) < len(distributions):
            return Found(name, False, use, install)
        return Found(name, True, ", ".join(dict.fromkeys(versions)))

    return look


def _torch() -> Found:
    if importlib.util.find_spec("torch") is None:
        return Found("PyTorch", False, "references, inputs and operators need it", TORCH_EXTRA)
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    return Found("PyTorch", True, f"{torch.__version__} ({build})")


def _ptxas() -> Found:
    from ..toolchains import ptxas

    use = "registers and spills in reports need it"
    path = ptxas.find()
    if path is None:
        return Found("ptxas", False, use, TORCH_EXTRA + ", which brings Triton's")
    return Found("ptxas", True, f"{ptxas.version(path)} at {path}")


def _gpu() -> Found:
    from .. import targets

    use = "without one, kernels run on the virtual GPU and times are modelled"
    gpu = targets.detect()
    if gpu is None:
        return Found("GPU", False, use)
    return Found(
        "GPU", True, f"{gpu.title}, {gpu.sms} SMs, {gpu.memory_bytes / 2**30:.0f} GiB{_driver()}"
    )


def _driver() -> str:
    """The driver's version as nvidia-smi tells it, where there is one."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return ""
    asked = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return ""
    return f", driver {said[0]}" if said else ""


TOOLS: tuple[Callable[[], Found], ...] = (
    _python,
    _compiler,
    _torch,
    _package(
        "NVRTC", ("cuda-bindings", "nvidia-cuda-nvrtc"), "CUDA C++ kernels need it", CUDA_EXTRA
    ),
    _package("Triton", ("triton",), "Triton kernels need it", TORCH_EXTRA),
    _ptxas,
    _gpu,
)

PROBES = (
    ("CUDA C++ on the virtual GPU", "virtual", "probe.cu"),
    ("Triton on the virtual GPU", "virtual", "probe_triton.py"),
    ("CUDA C++ on the GPU", "cuda", "probe.cu"),
    ("Triton on the GPU", "cuda", "probe_triton.py"),
)


def _try(name: str, device: str, file: str) -> Probe:
    """Run a probe, check its values; every failure is an answer."""
    begin = time.monotonic()
    try:
        works, what = _run(device, file)
    except (MissingTool, DeviceUnavailable) as error:
        works, what = None, str(error)
    except ImportError as error:
        works, what = None, f"{error}"
    except Exception as error:  # whatever is broken here is what the doctor is asked for
        works, what = False, f"{type(error).__name__}: {error}"
    return Probe(name, works, what, round(time.monotonic() - begin, 2))


def _run(device: str, file: str) -> tuple[bool, str]:
    import torch

    from ..devices import open_device
    from ..spec import Work, load_candidate

    if file.endswith("_triton.py") and importlib.util.find_spec("triton") is None:
        raise MissingTool("Triton", "it is not installed", TORCH_EXTRA)
    opened = open_device(device)
    try:
        x = torch.arange(64, dtype=torch.float32)
        run = opened.run(Work(load_candidate(HERE / file), [x]))
    finally:
        opened.close()
    if not run.outcome.right:
        return False, f"{run.outcome.value}: {run.message}"
    if not torch.equal(run.outputs[0], 2 * x + 1):
        return False, f"computed {run.outputs[0][:4].tolist()} … instead of 1, 3, 5, 7 …"
    return True, "a kernel ran and its 64 values are right"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _print(tools: list[Found], probes: list[Probe]) -> None:
    click.echo(f"warpsmith {_version('warpsmith')} on {platform.platform()}\n")
    for tool in tools:
        click.echo(
            _entry(
                "has" if tool.here else "no",
                tool.name,
                tool.what,
                "green" if tool.here else "yellow",
            )
        )
    click.echo()
    for probe in probes:
        sign, color = {
            True: ("works", "green"),
            False: ("broken", "red"),
            None: ("not here", "yellow"),
        }[probe.works]
        took = f" ({probe.seconds:.1f} s)" if probe.works else ""
        click.echo(_entry(sign, probe.name, probe.what + took, color))
    wanted = [t for t in tools if not t.here and t.install]
    if wanted:
        click.echo("\nFor more:")
    for tool in wanted:
        click.echo(f"  {tool.install:<42} {tool.name}: {tool.what}")


def _entry(sign: str, name: str, what: str, color: str) -> str:
    return f"{click.style(f'{sign:<9}', fg=color)}{name:<29}{what}"
