"""Programs that write kernels: fused regions of PyTorch models."""
# SPDX-License-Identifier: Apache-2.0
