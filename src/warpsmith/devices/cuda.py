"""Launch kernels on a CUDA GPU: through the driver, on PyTorch's current stream, with typed errors."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from .launch import Request
from .observe import Session, open_sessions
from .staging import Staging

PLAIN_SHARED_BYTES = 48 * 1024  # more dynamic shared memory has to be asked for
FORMS_KEPT = 10_000  # sizes of launches, for each kernel

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


def launch_on(index: int, request: Request, session: Session | None = None) -> Function:
    """Put a launch on the current stream of CUDA device `index`; gives the loaded kernel.

    Returns before the kernel has run, except in a synchronous session. Raises LaunchError or
    DtypeError for what does not fit, KernelFault for what this kernel (synchronous) or an earlier
    one did wrong, and from then on DeviceLost.
    """
    gpu = gpu_at(index)
    gpu.check_alive(request.name)
    function = gpu.function(request.artifact, request.name)
    function.launch(request)
    if session is not None:
        request.seen_by(session)
        if session.synchronous:
            gpu.synchronize(request.name)
    return function


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


@functools.cache
def _current_stream() -> Callable[[int], int]:
    """A function from a device's index to the handle of PyTorch's current stream there."""
    import torch

    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return raw or (lambda index: torch.cuda.current_stream(index).cuda_stream)


class Gpu:
    """One CUDA device of this process: its primary context, loaded kernels, and whether it is lost."""

    def __init__(self, index: int, target: Target, driver: Any):
        self.index, self.target, self.driver = index, target, driver
        self.context: Any = None
        self._context_address = 0
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
        self._context_address = int(self.context)

    def check_alive(self, kernel: str) -> None:
        if self.lost:
            raise DeviceLost(f"cannot launch {kernel}: {self.lost}. Start a new process")

    def function(self, artifact: Artifact, name: str) -> Function:
        """The loaded kernel of an artifact; loaded at its first launch."""
        found = self._functions.get(id(artifact))
        if found is None:
            with self._lock, _Current(self):
                found = Function(self, artifact, self._load(artifact, name))
                self._functions[id(artifact)] = found
        return found

    def submit(self, function: Function, form: Form, name: str) -> None:
        """Put one launch, whose arguments are staged, on PyTorch's current stream."""
        if int(self.driver.cuCtxGetCurrent()[1]) == self._context_address:
            status = self._submit(function, form)
        else:
            with _Current(self):
                status = self._submit(function, form)
        if status:
            raise self.failure(int(status), name, at_launch=True)
        self.recent.append(name)

    def _submit(self, function: Function, form: Form) -> Any:
        driver, address = self.driver, function.staging.address
        if form.config is None:
            return driver.cuLaunchKernel(
                function.handle, *form.sizes, self.stream(), address, 0
            )[0]  # fmt: skip
        form.config.hStream = driver.CUstream(self.stream())
        return driver.cuLaunchKernelEx(form.config, function.handle, address, 0)[0]

    def form(self, function: Function, request: Request) -> Form:
        """Make ready for launches of this size."""
        with _Current(self):
            self._allow_shared(function, request)
        sizes = (*request.grid, *request.block, request.shared_bytes)
        special = request.cooperative or request.artifact.cluster != (1, 1, 1)
        return Form(sizes, self._config(request) if special else None)

    def synchronize(self, kernel: str) -> None:
        """Wait for the current stream. Raises KernelFault in the name of `kernel`."""
        with _Current(self):
            (status,) = self.driver.cuStreamSynchronize(self.stream())
        if int(status) != 0:
            raise self.failure(int(status), kernel, at_launch=False)

    def stream(self) -> int:
        return _current_stream()(self.index)

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
        if int(now) != self.gpu._context_address:
            self.gpu._call("cuCtxPushCurrent", self.gpu.context)
            self.pushed = True

    def __exit__(self, *_: object) -> None:
        if self.pushed:
            self.gpu.driver.cuCtxPopCurrent()


@dataclass(frozen=True, slots=True)
class Form:
    """A size of launch that the device can make: what the driver is told besides arguments."""

    sizes: tuple[int, ...]  # grid, block, dynamic shared bytes
    config: Any = None  # CUlaunchConfig of a cooperative or cluster launch


class Function:
    """A loaded kernel. It holds its artifact, so that the artifact's identity stays a valid key."""

    def __init__(self, gpu: Gpu, artifact: Artifact, handle: Any):
        self.gpu, self.artifact, self.handle = gpu, artifact, handle
        self.name = arguments.readable(artifact.kernel)
        self.staging = Staging(artifact)
        self.shared_allowed = 0
        self._forms: dict[Any, Form] = {}

    def launch(self, request: Request) -> None:
        """Check and launch anything. Raises LaunchError, DtypeError, or what the driver says."""
        form = self._form(request)
        with self.staging.lock:
            if not self.staging.again(request.args, self.gpu.index):
                self.staging.first(request.name, request.args, self.gpu.index)
            self.gpu.submit(self, form, request.name)

    def again(
        self, grid: Any, block: Any, shared_bytes: Any, cooperative: bool, args: Sequence[Any]
    ) -> bool:
        """Launch in a size that was launched before, with arguments like those of an earlier launch.

        False where it is not that, where a session observes, or where the device is lost: then
        nothing was launched, and the long way says what is wrong, if anything is.
        """
        if open_sessions or self.gpu.lost or not (_exact(grid) and _exact(block)):
            return False
        if type(shared_bytes) is not int:
            return False
        form = self._forms.get((grid, block, shared_bytes, cooperative))
        if form is None:
            return False
        with self.staging.lock:
            if not self.staging.again(args, self.gpu.index):
                return False
            self.gpu.submit(self, form, self.name)
        return True

    def remember(self, grid: Any, block: Any, request: Request) -> None:
        """Let `again` find a launch that was made by what the caller wrote for grid and block."""
        if _exact(grid) and _exact(block):
            key = (grid, block, request.shared_bytes, request.cooperative)
            self._forms[key] = self._form(request)

    def _form(self, request: Request) -> Form:
        """The limits of the target, once for every size of launch."""
        key = (request.grid, request.block, request.shared_bytes, request.cooperative)
        found = self._forms.get(key)
        if found is None:
            limits.check(self.gpu.target, request.artifact, request.name, *key)
            if len(self._forms) >= FORMS_KEPT:
                self._forms.clear()
            found = self._forms[key] = self.gpu.form(self, request)
        return found


def _exact(size: Any) -> bool:
    """Whether a size equals only sizes that mean the same: 1 does not mean True, nor 1.0."""
    return type(size) is int or (type(size) is tuple and tuple(map(type, size)) in _INTS)


_INTS = {(int,), (int, int), (int, int, int)}
