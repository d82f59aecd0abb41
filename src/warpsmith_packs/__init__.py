"""Kernel libraries built with warpsmith: the expert bar that generated kernels are measured against."""
# SPDX-License-Identifier: Apache-2.0
