"""Kill the writer at random moments: what it was told is written stays written, once."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import made_runs
import pytest

from warpsmith.spec import Journal

pytestmark = pytest.mark.plain

# Appends without end, and says each record's number as soon as `append` has returned.
WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
import made_runs
from warpsmith.spec import Journal
with Journal.open(sys.argv[1]) as journal:
    for i in range(100_000):
        name = f"{sys.argv[3]}.{i}"
        kernel = made_runs.SOFTMAX * (i % 40) + name
        record = made_runs.record(made_runs.candidate(name, kernel=kernel))
        print(journal.append(record).number, name, flush=True)
        journal.log_time(0.25)
"""
KILLS = 12


def write_until_killed(path: Path, session: int, seconds: float) -> list[tuple[int, str]]:
    """What a writer acknowledged before SIGKILL, `seconds` after its first record."""
    command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parents[1] / "report")]
    writer = subprocess.Popen([*command, str(session)], stdout=subprocess.PIPE, text=True)
    first = writer.stdout.readline()
    time.sleep(seconds)
    writer.kill()
    rest, _ = writer.communicate()
    assert writer.returncode == -signal.SIGKILL
    lines = [
        line.split() for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")
    ]
    return [(int(number), name) for number, name in lines]


def test_no_record_is_lost_or_doubled_over_many_kills(tmp_path):
    path, moments = tmp_path / "journal.sqlite", random.Random(20261201)
    made_runs.journal(path, []).close()
    told: dict[int, str] = {}
    for session in range(KILLS):
        told |= write_until_killed(path, session, moments.uniform(0.0, 0.08))
        with Journal.open(path) as journal:  # opens at once: the dead writer's lock died with it
            names = [r.candidate.name for r in journal.records()]
            logged = sum(e.seconds for e in journal.events())
        assert len(names) == len(set(names))
        assert [r.number for r in journal._records] == list(range(1, len(names) + 1))
        assert told.items() <= dict(enumerate(names, 1)).items()
        # Each kill may leave one record that was written and not yet told, and one untold time.
        assert len(names) - len(told) <= session + 1
        assert 0 <= len(names) - logged / 0.25 <= session + 1
    assert len(told) > KILLS


def test_a_reader_sees_only_whole_records_while_a_writer_writes(tmp_path):
    path = tmp_path / "journal.sqlite"
    made_runs.journal(path, []).close()
    command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parents[1] / "report")]
    writer = subprocess.Popen([*command, "w"], stdout=subprocess.PIPE, text=True)
    try:
        writer.stdout.readline()
        seen = 0
        for _ in range(25):
            records = Journal.open(path).records()
            assert len(records) >= max(seen, 1)
            assert [r.number for r in records] == list(range(1, len(records) + 1))
            assert all(r.candidate.files["softmax.cu"].endswith(r.candidate.name) for r in records)
            seen = len(records)
    finally:
        writer.kill()
        writer.communicate()
    assert seen > 5
