"""Every snippet of docs/kernels.md runs, in order, as a reader would run it."""
# SPDX-License-Identifier: Apache-2.0

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("cuda.bindings.nvrtc")

pytestmark = pytest.mark.virtual

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
SNIPPET = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_snippets_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(tmp_path))
    names = {"__file__": str(tmp_path / "page.py"), "__name__": "page"}
    ran = 0
    for language, title, text in SNIPPET.findall(PAGE.read_text()):
        if title:
            (tmp_path / title).write_text(text)
        elif language == "python":
            exec(compile(text, str(PAGE), "exec"), names)
            ran += 1
    sys.modules.pop("softmax_triton", None)
    assert ran == 6
    printed = capsys.readouterr().out
    assert "softmax_kernel (16, 1, 1) (128, 1, 1)" in printed
    assert "out-of-bounds in past at kernel.cu:3" in printed
