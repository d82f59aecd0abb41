"""Launch kernels on a CUDA GPU: through the driver, on PyTorch's current stream, with typed errors."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import functools
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from .. import targets
from ..errors import (
    DeviceError,
    DeviceLost,
    DeviceTimeout,
    DeviceUnavailable,
    KernelFault,
    LaunchError,
    MissingTool,
)
from ..spec import Artifact, Target
from . import arguments, limits
from .arguments import Buffer
from .launch import Request
from .observe import Session

PLAIN_SHARED_BYTES = 48 * 1024  # more dynamic shared memory has to be asked for
_SLOT_BYTES = 16  # parameters start at multiples of this in the staging buffer

# CUresult: the word for a KernelFault, and what it means. The context is gone after each.
_FAULTS = {
    700: ("illegal-access", "a load or store outside the memory that is allocated"),
    710: ("assert", "a device-side assertion failed"),
    714: ("stack-overflow", "the stack of a thread overflowed"),
    715: ("trap", "a trap or an instruction that does not exist"),
    716: ("misaligned", "a load or store at an address that its size does not divide"),
    717: ("illegal-access", "an address of the wrong memory space"),
    718: ("illegal-access", "the program counter left the program"),
    719: ("illegal-access", "the launch failed, with no reason given"),
    721: ("illegal-access", "tensor memory was not freed"),
}
_TIMEOUT = 702

# CUresult of a launch that was refused: what to look at. The context is still good.
_REFUSALS = {
    1: "an argument of the launch is invalid",
    200: "the machine code is not for this device",
    209: "there is no machine code for this device",
    218: "the driver does not accept the PTX",
    222: "the PTX is of a newer version than the driver reads: compile with older tools",
    500: "the kernel is not in the module",
    701: "it needs more registers or shared memory than a block may have",
    720: "a cooperative grid has more blocks than fit on the device at once",
    801: "the device does not support it",
    912: "clusters of this size are not possible",
}
_WORTH_JIT = {200, 209}  # machine code for another architecture: the PTX may still do


def launch_on(index: int, request: Request, session: Session | None = None) -> None:
    """Put a launch on the current stream of CUDA device `index`.

    Returns before the kernel has run, except in a synchronous session. Raises LaunchError or
    DtypeError for what does not fit, KernelFault for what this kernel (synchronous) or an earlier
    one did wrong, and from then on DeviceLost.
    """
    gpu = gpu_at(index)
    gpu.check_alive(request.name)
    function = gpu.function(request.artifact, request.name)
    function.check(gpu.target, request)
    with function.staging.lock:
        parameters = function.staging.fill(request, index)
        gpu.launch(function, request, parameters)
    if session is not None:
        request.seen_by(session)
        if session.synchronous:
            gpu.synchronize(request.name)


@functools.cache
def gpu_at(index: int) -> Gpu:
    """The device's state in this process. Raises DeviceUnavailable without one."""
    target = targets.detect(index)
    if target is None:
        raise DeviceUnavailable(f"CUDA device {index} does not answer: check nvidia-smi")
    gpu = Gpu(index, target, _driver())
    gpu.retain()
    return gpu


@functools.cache
def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise MissingTool("cuda-bindings", str(error), "pip install 'warpsmith[cuda]'") from None
    return driver


class Gpu:
    """One CUDA device of this process: its primary context, loaded kernels, and whether it is lost."""

    def __init__(self, index: int, target: Target, driver: Any):
        self.index, self.target, self.driver = index, target, driver
        self.context: Any = None
        self.lost = ""
        self.recent: deque[str] = deque(maxlen=8)
        self._functions: dict[int, Function] = {}
        self._modules: dict[Any, Any] = {}  # by code: kernels of one source share its variables
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"gpu_at({self.index})"

    def retain(self) -> None:
        """Take the primary context, the one that PyTorch uses."""
        self._call("cuInit", 0)
        device = self._call("cuDeviceGet", self.index)
        self.context = self._call("cuDevicePrimaryCtxRetain", device)

    def check_alive(self, kernel: str) -> None:
        if self.lost:
            raise DeviceLost(f"cannot launch {kernel}: {self.lost}. Start a new process")

    def function(self, artifact: Artifact, name: str) -> Function:
        """The loaded kernel of an artifact; loaded at its first launch."""
        found = self._functions.get(id(artifact))
        if found is None:
            with self._lock, _Current(self):
                found = Function(artifact, self._load(artifact, name))
                self._functions[id(artifact)] = found
        return found

    def launch(self, function: Function, request: Request, parameters: int) -> None:
        """Put one launch on PyTorch's current stream. `parameters`: address of a void*[]."""
        with _Current(self):
            self._allow_shared(function, request)
            if request.cooperative or request.artifact.cluster != (1, 1, 1):
                config = self._config(request)
                (status,) = self.driver.cuLaunchKernelEx(config, function.handle, parameters, 0)
            else:
                (status,) = self.driver.cuLaunchKernel(
                    function.handle, *request.grid, *request.block, request.shared_bytes,
                    self.stream(), parameters, 0,
                )  # fmt: skip
        if int(status) != 0:
            raise self.failure(int(status), request.name, at_launch=True)
        self.recent.append(request.name)

    def synchronize(self, kernel: str) -> None:
        """Wait for the current stream. Raises KernelFault in the name of `kernel`."""
        with _Current(self):
            (status,) = self.driver.cuStreamSynchronize(self.stream())
        if int(status) != 0:
            raise self.failure(int(status), kernel, at_launch=False)

    def stream(self) -> int:
        import torch

        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return raw(self.index) if raw else torch.cuda.current_stream(self.index).cuda_stream

    def failure(self, status: int, kernel: str, *, at_launch: bool) -> Exception:
        """The typed error of a CUresult; a fault marks the device as lost."""
        name = self._name(status)
        if status in _FAULTS or status == _TIMEOUT:
            self.lost = f"the context died of {name}"
        if status == _TIMEOUT:
            return DeviceTimeout(
                f"{kernel}: the driver stopped a kernel that ran too long ({name})"
            )
        if status in _FAULTS:
            return self._fault(status, name, kernel, at_launch)
        if status in _REFUSALS:
            return LaunchError(
                f"{kernel}: the driver refuses the launch ({name}): {_REFUSALS[status]}"
            )
        return DeviceError(f"{kernel}: {name} (CUDA error {status})")

    def _fault(self, status: int, name: str, kernel: str, at_launch: bool) -> KernelFault:
        kind, meaning = _FAULTS[status]
        advice = "run it on CPU tensors: the virtual GPU names the line, block and thread"
        if not at_launch:
            return KernelFault(kind, f"{meaning} ({name}). To see where, {advice}", kernel)
        suspects = ", ".join(dict.fromkeys(self.recent)) or "one outside warpsmith"
        message = (
            f"{meaning} ({name}), seen at the launch of {kernel} and made by a kernel before it: "
            f"{suspects}. To see which, launch inside observe(synchronous=True), or {advice}"
        )
        return KernelFault(
            kind, message, details={"seen_at": kernel, "suspects": list(self.recent)}
        )

    def _load(self, artifact: Artifact, name: str) -> Any:
        key = (artifact.ptx, artifact.cubin)
        if key not in self._modules:
            self._modules[key] = self._module(artifact, name)
        return self._call("cuModuleGetFunction", self._modules[key], artifact.kernel.encode())

    def _module(self, artifact: Artifact, name: str) -> Any:
        """The machine code, loaded; the PTX where the machine code is for another architecture."""
        images = [i for i in (artifact.cubin, artifact.ptx.encode() + b"\0") if i]
        for image in images:
            status, module = self.driver.cuModuleLoadData(image)
            if int(status) == 0:
                return module
            if int(status) not in _WORTH_JIT:
                break
        raise self.failure(int(status), name, at_launch=True)

    def _allow_shared(self, function: Function, request: Request) -> None:
        static = request.artifact.resources.static_shared_bytes
        if request.shared_bytes + static <= PLAIN_SHARED_BYTES:
            return
        if request.shared_bytes <= function.shared_allowed:
            return
        attribute = self.driver.CUfunction_attribute
        self._call(
            "cuFuncSetAttribute",
            function.handle,
            attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            request.shared_bytes,
        )
        function.shared_allowed = request.shared_bytes

    def _config(self, request: Request) -> Any:
        driver = self.driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = request.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = request.block
        config.sharedMemBytes = request.shared_bytes
        config.hStream = driver.CUstream(self.stream())
        config.attrs = self._attributes(request)
        config.numAttrs = len(config.attrs)
        return config

    def _attributes(self, request: Request) -> list[Any]:
        ids, found = self.driver.CUlaunchAttributeID, []
        if request.cooperative:
            one = self.driver.CUlaunchAttribute()
            one.id = ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            one.value.cooperative = 1
            found.append(one)
        if request.artifact.cluster != (1, 1, 1):
            one = self.driver.CUlaunchAttribute()
            one.id = ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            size = one.value.clusterDim
            size.x, size.y, size.z = request.artifact.cluster
            found.append(one)
        return found

    def _call(self, function: str, *given: Any) -> Any:
        status, *values = getattr(self.driver, function)(*given)
        if int(status) != 0:
            raise self.failure(int(status), function, at_launch=True)
        return values[0] if values else None

    def _name(self, status: int) -> str:
        try:
            return str(self.driver.CUresult(status).name)
        except ValueError:
            return f"CUDA_ERROR_{status}"


class _Current:
    """Makes a device's context the current one, and puts back the one before."""

    __slots__ = ("gpu", "pushed")

    def __init__(self, gpu: Gpu):
        self.gpu, self.pushed = gpu, False

    def __enter__(self) -> None:
        _, now = self.gpu.driver.cuCtxGetCurrent()
        if int(now) != int(self.gpu.context):
            self.gpu._call("cuCtxPushCurrent", self.gpu.context)
            self.pushed = True

    def __exit__(self, *_: object) -> None:
        if self.pushed:
            self.gpu.driver.cuCtxPopCurrent()


@dataclass
class Function:
    """A loaded kernel. It holds its artifact, so that the artifact's identity stays a valid key."""

    artifact: Artifact
    handle: Any
    shared_allowed: int = 0
    staging: Staging = field(init=False)
    _checked: set[tuple[Any, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.staging = Staging(self.artifact)

    def check(self, target: Target, request: Request) -> None:
        """The limits of the target, once for every form of launch."""
        form = (request.grid, request.block, request.shared_bytes, request.cooperative)
        if form in self._checked:
            return
        limits.check(target, request.artifact, request.name, *form)
        if len(self._checked) < 10_000:
            self._checked.add(form)


class Staging:
    """Where a kernel's parameters lie for the driver, which copies them before a launch returns.

    Held for one launch at a time by `lock`.
    """

    def __init__(self, artifact: Artifact):
        self.parameters = artifact.parameters
        self.lock = threading.RLock()
        starts, end = [], 0
        for parameter in self.parameters:
            starts.append(end)
            end += -(-parameter.size // _SLOT_BYTES) * _SLOT_BYTES
        self._bytes = ctypes.create_string_buffer(max(end, 1))
        self._view = memoryview(self._bytes).cast("B")
        base = ctypes.addressof(self._bytes)
        self._pointers = (ctypes.c_void_p * max(len(starts), 1))(*(base + s for s in starts))
        self._slots = [(s, s + p.size) for s, p in zip(starts, self.parameters)]
        self._known: list[set[Any]] = [set() for _ in self.parameters]  # dtypes found to fit

    def fill(self, request: Request, index: int) -> int:
        """Write the arguments; gives the address of the array of pointers to them."""
        view, slots, known = self._view, self._slots, self._known
        for i, value in enumerate(request.args):
            start, end = slots[i]
            dtype = getattr(value, "dtype", None)
            if dtype is not None and dtype in known[i] and value.get_device() == index:
                view[start:end] = value.data_ptr().to_bytes(8, "little")
            else:
                view[start:end] = self._slowly(request, i, value, index)
        return ctypes.addressof(self._pointers)

    def _slowly(self, request: Request, i: int, value: Any, index: int) -> bytes:
        packed = arguments.pack(request.name, i, self.parameters[i], value)
        if packed is None:
            return bytes(8)
        if not isinstance(packed, Buffer):
            return packed
        if not hasattr(value, "get_device") or value.get_device() != index:
            arguments.place_of(request.name, request.args)  # says which argument is where
        elif not value.dtype.is_complex:
            self._known[i].add(value.dtype)
        return packed.address.to_bytes(8, "little")
