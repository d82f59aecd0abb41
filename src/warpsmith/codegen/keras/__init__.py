"""Trained Keras networks as one self-contained C++ header, or a CUDA kernel for many samples."""
# SPDX-License-Identifier: Apache-2.0
