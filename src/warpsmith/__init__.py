"""warpsmith: a GPU-kernel workshop. Say what to compute; get kernels that are right, fast and explained.

    import warpsmith as ws

    kernel = ws.cuda("softmax.cu")                 # a CUDA C++ file; ws.triton(fn) for Triton
    kernel[rows, 256](x, out, rows, cols)          # CPU tensors: virtual GPU; CUDA tensors: the GPU

    task = ws.load_task("examples/softmax/task.py")
    record = ws.judge(task, "examples/softmax/softmax.cu")
    result = ws.optimize(task, budget=ws.Budget(candidates=20))
    softmax = ws.load(result.operator)             # an ordinary PyTorch operator

A name loads its room when it is first used, so that `import warpsmith` stays light.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .devices import open_device, surface, tensor_map, texture
    from .emission import EmitReport, emit
    from .errors import WarpsmithError
    from .loop import Budget, Watcher
    from .profiling import KernelProfile, Profile, profile
    from .runtime import Kernel, cuda, load, save, triton
    from .sanitizer import SanitizeReport, sanitize
    from .spec import (
        Candidate,
        Case,
        Journal,
        Outcome,
        Range,
        Record,
        Target,
        Task,
        Tolerance,
        Verdict,
        load_candidate,
        load_task,
    )
    from .workshop import Result, judge, optimize

__version__ = "0.1.0.dev0"

_HOMES = {
    "devices": ("open_device", "surface", "tensor_map", "texture"),
    "emission": ("EmitReport", "emit"),
    "errors": ("WarpsmithError",),
    "loop": ("Budget", "Watcher"),
    "profiling": ("KernelProfile", "Profile", "profile"),
    "runtime": ("Kernel", "cuda", "load", "save", "triton"),
    "spec": (
        "Candidate",
        "Case",
        "Journal",
        "Outcome",
        "Range",
        "Record",
        "Target",
        "Task",
        "Tolerance",
        "Verdict",
        "load_candidate",
        "load_task",
    ),
    "sanitizer": ("SanitizeReport", "sanitize"),
    "workshop": ("Result", "judge", "optimize"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Budget",
    "Candidate",
    "Case",
    "EmitReport",
    "Journal",
    "Kernel",
    "KernelProfile",
    "Outcome",
    "Profile",
    "Range",
    "Record",
    "Result",
    "SanitizeReport",
    "Target",
    "Task",
    "Tolerance",
    "Verdict",
    "WarpsmithError",
    "Watcher",
    "cuda",
    "emit",
    "judge",
    "load",
    "load_candidate",
    "load_task",
    "open_device",
    "optimize",
    "profile",
    "sanitize",
    "save",
    "surface",
    "tensor_map",
    "texture",
    "triton",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'warpsmith' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
