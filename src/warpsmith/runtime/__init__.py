"""What ships: kernels that can be called, and saved operators."""
# SPDX-License-Identifier: Apache-2.0

from .kernel import Kernel, cuda
from .operator import Operator, load, save
from .triton_kernel import TritonKernel, triton

__all__ = ["Kernel", "Operator", "TritonKernel", "cuda", "load", "save", "triton"]
