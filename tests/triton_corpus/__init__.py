"""Triton programs that the virtual GPU must run right, by theme."""
# SPDX-License-Identifier: Apache-2.0
