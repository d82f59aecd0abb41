"""A journal gives back what was appended, refuses everything else, and says why."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
import sqlite3
import subprocess
import sys
import time

import made_runs
import pytest

from warpsmith.errors import JournalError
from warpsmith.spec import Journal, Outcome

pytestmark = pytest.mark.plain


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "journal.sqlite"


def test_records_come_back_equal_and_numbered_from_one(path):
    story = made_runs.story()
    with made_runs.journal(path, story) as journal:
        written = journal.records()
    read = Journal.open(path).records()
    assert [r.number for r in read] == list(range(1, len(story) + 1))
    assert read == written
    assert read == [dataclasses.replace(r, number=i) for i, r in enumerate(story, 1)]
    assert [r.candidate.id for r in read] == [r.candidate.id for r in story]


def test_append_gives_the_record_with_its_number(path):
    with made_runs.journal(path, []) as journal:
        assert journal.append(made_runs.right("a", 3.0)).number == 1
        assert journal.append(made_runs.right("b", 2.0)).number == 2
        assert len(journal) == 2
        assert journal.best().candidate.name == "b"


def test_best_is_the_fastest_right_record(path):
    with made_runs.journal(path) as journal:
        assert journal.best().candidate.name == "vector-4"
    with made_runs.journal(path.with_name("none"), made_runs.story()[:1]) as journal:
        assert journal.best() is None


def test_facts_of_the_run_are_kept(path):
    made_runs.journal(path, seed=7).close()
    journal = Journal(path)
    assert journal.settings["seed"] == 7
    assert journal.task_name == "softmax"
    assert journal.task_source == made_runs.TASK_SOURCE
    assert journal.task["ranges"]["rows"] == {"low": 1, "high": 64, "multiple": 1}
    assert journal.environment["python"].count(".") == 2


def test_time_adds_up_over_sessions_and_never_undercounts_records(path):
    with made_runs.journal(path, []) as journal:
        journal.log_time(2.5)
        journal.log_time(1.5)
    with Journal.open(path) as journal:
        assert journal.elapsed_seconds == 4.0
        for name in "abcd":  # 1.5 s each, as if killed before the time was logged
            journal.append(made_runs.right(name, 1.0))
        assert journal.elapsed_seconds == 6.0
        assert [e.kind for e in journal.events()].count("opened") == 2


def test_equal_files_are_stored_once(path):
    with made_runs.journal(path, []) as journal:
        for name in ("a", "b", "c"):
            journal.append(made_runs.record(made_runs.candidate(name)))
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM files").fetchone() == (2,)


def test_infinite_errors_survive(path):
    record = made_runs.wrong("nan", Outcome.NON_FINITE, "NaN at (0, 0)")
    case = dataclasses.replace(record.verdict.cases[0], error=math.inf)
    record = dataclasses.replace(record, verdict=dataclasses.replace(record.verdict, cases=(case,)))
    with made_runs.journal(path, [record]) as journal:
        pass
    assert Journal(path).records()[0].verdict.cases[0].error == math.inf
    del journal


@pytest.mark.parametrize("table", ["facts", "files", "records", "events"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET rowid = rowid + 1"])
def test_nothing_written_can_be_changed(path, table, statement):
    made_runs.journal(path).close()
    raw = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw.execute(statement.format(table))


@pytest.mark.parametrize("number", [1, 9, 11, -1])
def test_a_number_can_be_neither_doubled_nor_skipped(path, number):
    made_runs.journal(path).close()
    raw = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="without gaps"):
        raw.execute("INSERT OR REPLACE INTO records VALUES (?, '{}')", (number,))


def test_what_is_not_plain_is_refused_whole(path):
    with made_runs.journal(path, []) as journal:
        bad = dataclasses.replace(made_runs.right("x", 1.0), environment={"tensor": object()})
        with pytest.raises(JournalError, match=r"record of 'x' cannot be written.*not plain data"):
            journal.append(bad)
        with pytest.raises(JournalError, match="cannot be written"):
            journal.append(made_runs.record(made_runs.candidate("y", kernel="\ud800")))
        assert journal.append(made_runs.right("z", 1.0)).number == 1
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM files").fetchone() == (2,)


def test_a_second_journal_is_not_made_over_the_first(path):
    made_runs.journal(path).close()
    with pytest.raises(JournalError, match="exists: resume it"):
        made_runs.journal(path)
    assert len(Journal(path)) == 9


def test_a_log_left_by_a_deleted_journal_does_not_haunt_the_next(path):
    first = made_runs.journal(path)
    wal = path.with_name(path.name + "-wal")
    left_behind = wal.read_bytes()
    first.close()
    path.unlink()
    wal.write_bytes(left_behind)
    with made_runs.journal(path, []) as second:
        assert len(second) == 0


def test_a_folder_stands_for_the_journal_in_it(path):
    made_runs.journal(path).close()
    assert len(Journal.open(path.parent)) == 9


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a warpsmith journal"),
        (b"hello, I am a text file\n" * 100, "not a journal, or damaged"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "not a journal, or damaged|not a warpsmith"),
    ],
    ids=["empty", "text", "broken header"],
)
def test_what_is_no_journal_is_said_to_be_none(path, content, message):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(JournalError, match=message):
        Journal(path)


def test_a_missing_journal_is_named(path):
    with pytest.raises(JournalError, match=r"no journal at .*journal\.sqlite"):
        Journal.open(path)


def test_a_truncated_journal_is_a_journal_error(path):
    made_runs.journal(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(JournalError):
        Journal(path).records()


@pytest.mark.parametrize("spot", ["record", "file"])
def test_a_changed_byte_is_noticed(path, spot):
    made_runs.journal(path).close()
    content = path.read_bytes()
    old, new = {
        "record": (b'"candidate": {', b'"candidate" {{'),
        "file": (b"float sum = 0;", b"float sum = 1;"),
    }[spot]
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(JournalError, match="damaged"):
        Journal(path).records()


def test_a_newer_schema_says_to_upgrade(path):
    made_runs.journal(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 99")
    with pytest.raises(JournalError, match=r"newer warpsmith.*schema 99.*pip install --upgrade"):
        Journal(path)


def test_a_second_writer_is_refused_and_the_first_goes_on(path):
    with made_runs.journal(path, []) as first:
        with pytest.raises(JournalError, match="has another writer"):
            Journal.open(path, write=True)
        second = Journal.open(path)  # a reader is welcome
        first.append(made_runs.right("a", 1.0))
        assert [r.candidate.name for r in second.records()] == ["a"]
        with pytest.raises(JournalError, match="has another writer"):
            second.append(made_runs.right("b", 1.0))
        first.append(made_runs.right("c", 1.0))
        assert [r.candidate.name for r in second.records()] == ["a", "c"]
    assert second.append(made_runs.right("d", 1.0)).number == 3  # the first has closed


def test_knocking_never_takes_the_lock_from_a_busy_writer(path):
    """Another process asks for the lock without pause while this one appends."""
    knock = (
        "import sys; from warpsmith.spec import Journal; from warpsmith.errors import JournalError\n"
        "print('up', flush=True)\n"
        "while True:\n"
        "    try: Journal.open(sys.argv[1], write=True); print('stole', flush=True)\n"
        "    except JournalError: pass\n"
    )
    with made_runs.journal(path, []) as journal:
        thief = subprocess.Popen(
            [sys.executable, "-c", knock, str(path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert thief.stdout.readline() == "up\n"
            deadline = time.monotonic() + 1.5
            while time.monotonic() < deadline:
                journal.append(made_runs.right("a", 1.0))
        finally:
            thief.kill()
            rest, _ = thief.communicate()
        assert rest == ""
        assert len(journal) > 3


def test_a_read_only_journal_can_be_read(path):
    made_runs.journal(path).close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert len(Journal(path).records()) == 9
    finally:
        path.parent.chmod(0o755)
