"""The other commands: check, show, targets, proposers, plug-ins, help, and exit codes of each error."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import click
import made_runs
import pytest
from click.testing import CliRunner

from warpsmith import errors
from warpsmith.cli import COMMANDS, exits, reference
from warpsmith.cli import warpsmith as root
from warpsmith.spec import Journal

pytestmark = pytest.mark.plain


def call(*arguments):
    return CliRunner().invoke(root, [str(a) for a in arguments])


@pytest.fixture
def run(tmp_path):
    made_runs.journal(tmp_path / "journal.sqlite").close()
    return tmp_path


def test_docs_are_what_the_help_says():
    """To accept a change: python -m warpsmith.cli.reference > docs/cli.md"""
    path = Path(__file__).parents[2] / "docs" / "cli.md"
    assert path.read_text() == reference.page()


def test_the_docs_have_every_command_and_exit_code():
    page = reference.page()
    for name in COMMANDS:
        assert f"\n## {name}\n" in page
    for code, meaning in exits.MEANINGS.items():
        assert f"| {code} | {meaning} |" in page


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_and_the_common_options(name):
    result = call(name, "--help")
    assert result.exit_code == 0
    assert f"\n  Examples:\n    warpsmith {name}" in result.output
    assert "--json" in result.output
    assert "--traceback" in result.output


def test_help_of_the_whole_lists_commands_and_exit_codes():
    output = call("--help").output
    for name in COMMANDS:
        assert f"\n  {name} " in output
    assert "130  interrupted" in output


def test_an_unknown_command_is_answered_with_the_nearest():
    result = call("chek")
    assert result.exit_code == 2
    assert "Did you mean 'check'?" in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.TaskError("x"), 2),
        (errors.CandidateError("x"), 2),
        (errors.UnknownName("target", "x", ["y"]), 2),
        (errors.JournalError("x"), 2),
        (errors.OperatorError("x"), 2),
        (errors.MissingTool("nvrtc", "not there", "pip install it"), 3),
        (errors.DeviceUnavailable("x"), 3),
        (errors.CompileError("cuda", [errors.Diagnostic("error", "x")]), 1),
        (errors.KernelFault("race", "x"), 1),
        (errors.DeviceTimeout("x"), 1),
        (errors.UnsupportedInstruction("tcgen05", 3), 1),
        (errors.WarpsmithError("x"), 4),
        (RuntimeError("x"), 4),
        (click.UsageError("x"), 2),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
@pytest.mark.parametrize("as_json", [False, True], ids=["", "json"])
def test_exit_code_and_message_of_every_error(monkeypatch, error, code, as_json):
    def fail():
        raise error

    monkeypatch.setattr("warpsmith.targets.names", fail)
    result = call("targets", *(["--json"] if as_json else []))
    assert result.exit_code == code
    assert "Traceback" not in result.output
    assert result.stderr.strip()
    assert result.stderr.count("\n") <= 4
    if as_json:
        assert json.loads(result.stdout)["error"]["exit"] == code
    else:
        assert result.stdout == ""


def test_show_prints_the_text_report(run):
    result = call("show", run)
    assert result.exit_code == 0
    assert "Best: #9 vector-4 (cuda): 12.8 µs, modelled" in result.output


def test_show_json_and_html(run):
    assert json.loads(call("show", run, "--json").stdout)["best"]["number"] == 9
    assert call("show", run, "--html").output.strip() == str(run / "report.html")
    assert (run / "report.html").is_file()


def test_show_prints_the_source_of_a_candidate(run):
    output = call("show", run, "--candidate", 9).stdout
    assert made_runs.story()[-1].candidate.files["softmax.cu"] in output
    assert "# ---- candidate.py ----" in output
    data = json.loads(call("show", run, "--candidate", 9, "--json").stdout)
    assert data["candidate"]["name"] == "vector-4"
    result = call("show", run, "--candidate", 10)
    assert result.exit_code == 2
    assert "no candidate named '10'" in result.stderr


def test_show_does_not_write(run):
    before = (run / "journal.sqlite").read_bytes()
    call("show", run)
    assert (run / "journal.sqlite").read_bytes() == before
    assert len(Journal.open(run).events()) == 10


def test_show_of_nothing_is_exit_2(tmp_path):
    result = call("show", tmp_path / "none")
    assert result.exit_code == 2
    assert "no journal at" in result.stderr


def test_targets(monkeypatch):
    monkeypatch.setattr("warpsmith.targets.detect", lambda: None)
    lines = call("targets").output.splitlines()
    h100 = next(line for line in lines if line.startswith("h100 "))
    assert h100.split() == [
        "h100",
        "H100",
        "SXM",
        "sm_90a",
        "132",
        "80",
        "GiB",
        "3352",
        "66.9",
        "989.4",
    ]
    data = json.loads(call("targets", "--json").stdout)
    assert data["here"] is None
    assert {"h100", "a100"} <= {t["name"] for t in data["targets"]}


def test_plug_ins_bring_commands_and_proposers(warpsmith):
    for name in ("hello", "factory-hello"):
        assert warpsmith(name)[:2] == (0, "hello from a plug-in\n")
    assert "hello" in warpsmith("--help")[1]
    code, out, _ = warpsmith("proposers", "--json")
    found = {p["name"]: p for p in json.loads(out)["proposers"]}
    assert code == 0
    assert found["fake"] == {
        "name": "fake", "usable": True, "says": "Proposes the names in $FAKE_NAMES.",
        "options": ["languages", "seed"],
    }  # fmt: skip
    assert found["broken"]["usable"] is False
    assert "cannot be loaded" in found["broken"]["says"]


def test_a_closed_pipe_is_no_error(start):
    process = start("targets")
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    assert process.stderr.read() == ""


@pytest.mark.parametrize(("name", "code"), [("right-3", 0), ("wrong", 1)])
def test_check_exits_with_the_verdict(warpsmith, folder, name, code):
    (folder / f"{name}.py").write_text("def run(inputs, state):\n    return inputs[0]\n")
    got, out, _ = warpsmith("check", "identity.py", f"{name}.py", "--device", "fake", "--cases", 3)
    assert got == code
    assert f"{'RIGHT' if code == 0 else 'NOT RIGHT'}: {name}" in out
    assert code == 0 or "element 3 is off; 3 hidden cases" in out
    got, out, err = warpsmith("check", "identity.py", f"{name}.py", "--device", "fake", "--json")
    data = json.loads(out)
    assert (got, data["right"]) == (code, code == 0)
    assert data["timing"] is None
    assert f"judging {name}" in err


def test_check_with_time_shows_the_speedups(warpsmith, folder):
    (folder / "right-3.py").write_text("def run(inputs, state):\n    return inputs[0]\n")
    code, out, _ = warpsmith("check", "identity.py", "right-3.py", "--device", "fake", "--time")
    assert code == 0
    assert "3.00 µs, modelled" in out
    assert "6.75× against compile" in out


def test_check_of_a_file_that_is_no_candidate_is_exit_2(warpsmith, folder):
    (folder / "bare.cu").write_text("__global__ void k() {}\n")
    code, _, err = warpsmith("check", "identity.py", "bare.cu", "--device", "fake")
    assert code == 2
    assert "has no '/* host.py" in err
