"""One isolated device for all tests of the judge: it must survive every one of them."""
# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from warpsmith.devices import open_device


@pytest.fixture(scope="session")
def device():
    torch.set_num_threads(1)  # the references are small, and other processes run beside the tests
    opened = open_device("virtual")
    yield opened
    opened.close()
