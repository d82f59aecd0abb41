"""Predicates that come from numbers are true or false, whatever the number."""
# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of

pytestmark = pytest.mark.virtual
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .reg .pred %p, %q; .reg .b32 %r; .reg .b64 %d;
  ld.param.b64 %d, [out]; mov.pred %q, {start};
  {text}
  selp.b32 %r, 1, 0, %p; st.global.b32 [%d], %r;
  ret;
}}"""
CASES = {
    "mov.pred %p, {n};": lambda n, q: n != 0,
    "mov.pred %p, {n}; not.pred %p, %p;": lambda n, q: n == 0,
    "and.pred %p, %q, {n};": lambda n, q: q and n != 0,
    "or.pred %p, %q, {n};": lambda n, q: q or n != 0,
    "xor.pred %p, %q, {n};": lambda n, q: q != (n != 0),
}


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("number", [0, 1, -1, 2])
@pytest.mark.parametrize("start", [0, -1])
def test_numbers_as_predicates(text, number, start):
    """CuTe closes its loops by `mov.pred %p, -1` and `not.pred`: -1 left as it is never ends them."""
    out, memory = copy_of(np.full(1, 7, np.int32)), vgpu.Memory()
    memory.register(out.ctypes.data, 4, "out")
    ptx = PTX.format(start=start, text=text.format(n=number))
    assert vgpu.load(ptx).launch("k", (1,), (32,), [out.ctypes.data], memory=memory).fault is None
    assert out[0] == CASES[text](number, start != 0)
