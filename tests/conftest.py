"""Tests say what they need; what this machine lacks is skipped, with the reason."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools

import pytest


@functools.cache
def gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for marker, needed in (("gpu", 1), ("multi", 2)):
            if item.get_closest_marker(marker) and gpus() < needed:
                item.add_marker(pytest.mark.skip(reason=f"needs {needed} CUDA GPU"))
