"""Keras on torch, before anything imports it."""
# SPDX-License-Identifier: Apache-2.0

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
