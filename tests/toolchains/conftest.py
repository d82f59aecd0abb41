"""Compile into a cache of the test session's own, so that a warm cache of the user hides nothing."""
# SPDX-License-Identifier: Apache-2.0

import pytest

from warpsmith import targets


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("WARPSMITH_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def h100():
    return targets.get("h100")


@pytest.fixture(scope="session")
def a100():
    return targets.get("a100")
