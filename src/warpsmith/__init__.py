"""warpsmith: a GPU-kernel workshop. Say what to compute; get kernels that are right, fast and explained."""
# SPDX-License-Identifier: Apache-2.0

__version__ = "0.1.0.dev0"
