"""The README's Python snippet runs as it stands, from the repository's root."""
# SPDX-License-Identifier: Apache-2.0

import re
from pathlib import Path

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings.nvrtc")

pytestmark = [pytest.mark.virtual, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def test_the_python_snippet_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)  # its runs/ folder stays out of the tree
    (snippet,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    names = {"__name__": "readme"}
    exec(compile(snippet, "README.md", "exec"), names)
    assert torch.equal(names["out"], 2.0 * names["x"])
    outcome, median_us = capsys.readouterr().out.split()[:2]
    assert outcome == "right"
    assert float(median_us) > 0
    assert callable(names["softmax"].op)
