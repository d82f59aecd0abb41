"""What ships: kernels that can be called, and saved operators."""
# SPDX-License-Identifier: Apache-2.0

from .operator import Operator, load, save

__all__ = ["Operator", "load", "save"]
