"""`warpsmith optimize` as a process: what it says, what it leaves behind, how it stops and goes on."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import subprocess
import time

import pytest

from warpsmith.spec import Journal

pytestmark = pytest.mark.plain
FAKE = ("optimize", "identity.py", "--device", "fake", "--proposer", "fake")


def test_a_whole_run(warpsmith, folder):
    code, out, _ = warpsmith(*FAKE)
    run = folder / "runs" / "identity-fake-1"
    assert code == 0
    assert "Best: #3 right-10 (cuda): 10.0 µs, modelled" in out
    assert "4.15× against eager (41.5 µs): faster" in out
    for line in ("operator  runs/identity-fake-1/identity", "report    runs/identity-fake-1/report.html",
                 "journal   runs/identity-fake-1/journal.sqlite"):  # fmt: skip
        assert line in out
    assert "ws.load('runs/identity-fake-1/identity')" in out
    assert (run / "identity" / "__init__.py").read_text() == "# right-10\n"
    assert "right-10" in (run / "report.html").read_text()
    assert [r.candidate.name for r in Journal.open(run).records()] == [
        "right-30", "wrong", "right-10", "right-20", "wrong-2",
    ]  # fmt: skip


def test_the_table_fills_on_stderr(warpsmith):
    _, out, err = warpsmith(*FAKE)
    lines = [" ".join(line.split()) for line in err.splitlines()]
    assert "identity on fake (NVIDIA A100 SXM 80 GB; times are modelled)" in lines
    assert "# candidate modelled speed-up next" in lines
    assert any(x.startswith("1 right-30 30.0 µs 0.68× vs compile Loads are 4 bytes") for x in lines)
    assert "2 wrong wrong value element 3 is off; 5 hidden cases" in lines
    assert "stopped: fake has nothing more to propose: its list has ended" in lines
    assert "judging" not in re.sub(r".*\n", "", err[: err.index("#")])
    assert "speed-up" not in out


def test_json_is_the_only_thing_on_stdout(warpsmith):
    code, out, err = warpsmith(*FAKE, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["best"]["name"] == "right-10"
    assert data["operator"] == "runs/identity-fake-1/identity"
    assert (
        data["reason"]
        == data["stopped"]
        == ("fake has nothing more to propose: its list has ended")
    )
    assert data["budget"]["candidates_limit"] == 40
    assert "noise of a child process" in err


def test_quiet_says_only_the_result(warpsmith):
    code, out, err = warpsmith(*FAKE, "--quiet")
    assert code == 0
    assert err == ""
    assert "Best: #3 right-10" in out
    assert "wrong-2" in out  # the table that was not shown


def test_nothing_right_is_exit_1_and_has_no_operator(warpsmith, folder):
    code, out, _ = warpsmith(*FAKE, "--json", FAKE_NAMES="wrong wrong-2")
    assert code == 1
    data = json.loads(out)
    assert data["best"] is None
    assert data["operator"] is None
    assert (folder / "runs/identity-fake-1/report.html").is_file()


def test_a_proposer_without_ideas_is_exit_1(warpsmith):
    code, out, _ = warpsmith("optimize", "identity.py", "--device", "fake", "--proposer", "mute")
    assert code == 1
    assert "No candidate was judged yet." in out


def test_the_budget_counts_candidates_of_earlier_sessions(warpsmith, folder):
    code, out, _ = warpsmith(*FAKE, "--candidates", "2", "--json")
    data = json.loads(out)
    assert (code, data["judged"]) == (0, 2)
    assert data["reason"] == "the budget of 2 candidates is spent"
    code, out, err = warpsmith(*FAKE, "--candidates", "4", "--json", "--resume")
    data = json.loads(out)
    assert (code, data["judged"]) == (0, 4)
    assert data["budget"]["candidates_limit"] == 4
    assert "going on after 2 candidates" in err
    assert data["folder"] == "runs/identity-fake-1"


def test_own_kernels_come_first_and_runs_are_numbered(warpsmith, folder):
    (folder / "right-5.py").write_text("def run(inputs, state):\n    return inputs[0]\n")
    _, out, _ = warpsmith(*FAKE, "--kernel", "right-5.py", "--json")
    data = json.loads(out)
    assert data["candidates"][0]["name"] == data["best"]["name"] == "right-5"
    warpsmith(*FAKE, "--quiet")
    assert sorted(p.name for p in (folder / "runs").iterdir()) == [
        "identity-fake-1",
        "identity-fake-2",
    ]


def test_language_and_seed_reach_the_proposer(warpsmith, folder):
    warpsmith(*FAKE, "--language", "cuda", "--language", "triton", "--seed", "7", "--out", "here")
    source = Journal.open(folder / "here").records()[0].candidate.entry
    assert "('cuda', 'triton') 7" in source


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("optimize", "no.py"), 2, "no task file at no.py"),
        (("optimize",), 2, "Missing argument 'TASK'"),
        ((*FAKE, "--candidates", "0"), 2, "0 is not in the range x>=1"),
        ((*FAKE, "--resume"), 2, "nothing to resume"),
        (("optimize", "identity.py", "--device", "fake", "--proposer", "fakee"), 2, "Did you mean 'fake'?"),
        ((*FAKE, "--device", "tpu"), 2, "no device named 'tpu'"),
        ((*FAKE, "--device", "virtual", "--target", "h10"), 2, "Did you mean 'h100'"),
        (("optimize", "identity.py", "--device", "fake", "--proposer", "mute", "--seed", "3"), 2,
         "proposer 'mute' takes no --seed"),
        ((*FAKE, "--kernel", "none.cu"), 2, "no kernel at none.cu"),
    ],
)  # fmt: skip
def test_misuse_is_exit_2_with_one_message(warpsmith, arguments, code, message):
    got, out, err = warpsmith(*arguments)
    assert got == code
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_a_run_is_not_overwritten(warpsmith):
    warpsmith(*FAKE, "--out", "here")
    code, _, err = warpsmith(*FAKE, "--out", "here")
    assert code == 2
    assert "already holds a run. Add --resume" in err


def test_a_bug_is_exit_4_keeps_what_was_judged_and_shows_its_place_when_asked(warpsmith, folder):
    code, _, err = warpsmith(*FAKE, "--out", "here", "--quiet", FAKE_NAMES="right-3 boom")
    assert code == 4
    assert "internal error: ZeroDivisionError: a bug in warpsmith. Run the same command" in err
    assert "Traceback" not in err
    assert len(Journal.open(folder / "here")) == 1
    code, out, err = warpsmith(*FAKE, "--json", "--traceback", FAKE_NAMES="boom")
    assert code == 4
    assert "Traceback" in err
    assert "fake_pack.py" in err
    assert json.loads(out) == {
        "error": {"type": "ZeroDivisionError", "message": "a bug in warpsmith", "exit": 4}
    }


def wait_for(process, journal, records):
    """Until the run has judged so many candidates and is at the next."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        if journal.is_file() and len(Journal(journal)) >= records:
            time.sleep(0.3)
            return
        time.sleep(0.05)
    raise AssertionError("the run did not get there")


def test_ctrl_c_keeps_everything_and_says_how_to_go_on(start, warpsmith, folder):
    names = "right-30 wrong right-10 slow right-20"
    process = start(*FAKE, FAKE_NAMES=names)
    wait_for(process, folder / "runs/identity-fake-1/journal.sqlite", 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted; 3 candidates judged, and all of that is kept." in err
    assert "Traceback" not in err
    again = re.search(r"go on with: warpsmith (.*)", err)[1].split()
    assert again == [
        "optimize", "identity.py", "--resume", "--out", "runs/identity-fake-1", "--device", "fake",
        "--proposer", "fake",
    ]  # fmt: skip
    assert (folder / "runs/identity-fake-1/identity/__init__.py").read_text() == "# right-10\n"
    assert "right-10" in (folder / "runs/identity-fake-1/report.html").read_text()
    code, out, _ = warpsmith(*again, "--json", FAKE_NAMES=names.replace("slow", "right-7"))
    data = json.loads(out)
    assert (code, data["judged"], data["best"]["name"]) == (0, 5, "right-7")


def test_a_killed_run_goes_on_and_counts_its_time(start, warpsmith, folder):
    process = start(*FAKE, FAKE_NAMES="right-30 slow")
    wait_for(process, folder / "runs/identity-fake-1/journal.sqlite", 1)
    process.kill()
    process.communicate()
    code, out, _ = warpsmith(*FAKE, "--resume", "--json", FAKE_NAMES="right-30 right-8")
    data = json.loads(out)
    assert (code, data["judged"], data["best"]["name"]) == (0, 2, "right-8")
    assert data["budget"]["seconds"] > 0


def test_a_run_can_be_shown_while_it_goes_on(start, warpsmith, folder):
    process = start(*FAKE, FAKE_NAMES="right-30 slow")
    wait_for(process, folder / "runs/identity-fake-1/journal.sqlite", 1)
    code, out, _ = warpsmith("show", "runs/identity-fake-1")
    assert code == 0
    assert "Best: #1 right-30" in out
    code, _, err = warpsmith(*FAKE, "--resume")
    assert code == 2
    assert "has another writer" in err
    process.kill()
    process.communicate()


def test_ten_kills_at_random_moments_lose_nothing_and_count_right(start, warpsmith, folder):
    """Killed mid-import, mid-candidate, mid-append or mid-report: what was there stays as it was."""
    names = " ".join(f"right-{us}" for us in range(40, 10, -1))
    slowly = {"FAKE_NAMES": names, "FAKE_SECONDS": "0.08"}
    journal = folder / "run" / "journal.sqlite"
    budget = ("--candidates", "30", "--out", "run", "--quiet")
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng, kept, kills = random.Random(seed), [], 0
    while kills < 10:
        resume = ("--resume",) if journal.exists() else ()
        process = start(*FAKE, *budget, *resume, **slowly)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=rng.uniform(0.1, 1.6))
        process.kill()
        process.communicate()
        kills += 1
        if journal.exists():
            with Journal.open(journal) as found:
                now = found.records()
            assert now[: len(kept)] == kept
            kept = now
    code, out, err = warpsmith(*FAKE, *budget, "--resume", "--json", **slowly)
    assert code == 0, err
    data = json.loads(out)
    assert data["judged"] == 30
    assert [c["name"] for c in data["candidates"]] == names.split()
    assert data["best"]["name"] == "right-11"
    with Journal.open(journal) as found:
        assert found.records()[: len(kept)] == kept
        assert found.elapsed_seconds >= 30 * 0.08
