"""Make the helpers of this folder importable, and give every test the plans it asks for once."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def template():
    from warpsmith.propose import Template

    return Template()


@pytest.fixture(scope="session")
def tasks():
    from modules import TABLE

    return {row.name: row.task for row in TABLE}
