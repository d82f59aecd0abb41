"""The memory of a run: one append-only SQLite file that survives being killed at any moment."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import JournalError
from .plain import from_plain, to_plain
from .record import Record
from .task import Task

SCHEMA = 1
APPLICATION_ID = 0x77617270  # "warp" in the file's header, so that `file` and we know it
BUSY_SECONDS = 5.0

_TABLES = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE files (sha256 TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE records (number INTEGER PRIMARY KEY, plain TEXT NOT NULL);
CREATE TABLE events (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, seconds REAL NOT NULL,
    text TEXT NOT NULL
);
"""
_IN_ORDER = """
CREATE TRIGGER records_in_order BEFORE INSERT ON records
WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM records)
BEGIN SELECT RAISE(ABORT, 'records are numbered from 1, without gaps'); END;
"""
_REFUSE = """
CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'a journal is append-only: {table} takes no {verb}'); END;
"""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a run besides records: kind is 'opened', 'time' or 'finished'."""

    at: str  # ISO 8601, UTC
    kind: str
    seconds: float = 0.0
    text: str = ""


class Journal:
    """All that a run learned, in one file: the task, the settings, every record, the time spent.

    Records are numbered from 1 in the order of their verdicts and never change. Files of candidates
    are stored once, under their SHA-256. Values are the JSON of `to_plain`, so any SQLite reads them.

    One process writes, any number read at the same time. From its first append until it closes or
    dies the writer holds the operating system's lock on `<path>.writer`; the lock dies with its
    process, so none is ever stale, whatever files lie about. The file wants a local disk: SQLite's
    write-ahead log does not work over NFS.

    Every method raises JournalError when the file cannot be read, is not a journal, was written by
    a newer warpsmith, or has another writer.
    """

    def __init__(self, path: str | Path):
        """Open an existing journal. It reads; the first append makes it the writer."""
        self.path = Path(path)
        if self.path.is_dir():
            self.path = self.path / "journal.sqlite"
        if not self.path.is_file():
            raise JournalError(f"no journal at {self.path}")
        self._lock = threading.RLock()
        self._records: list[Record] = []
        self._files: dict[str, str] = {}
        self._writer: int | None = None
        self._connection = self._connect()
        try:
            self._check_header()
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        task: Task,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
    ) -> Journal:
        """A new journal for one run of `task`, and its writer.

        settings: what the run was asked to do (plain data). environment: what to remember of the
        machine besides Python, platform and warpsmith. Raises JournalError if the file exists.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {
            "task": _task_facts(task),
            "settings": settings or {},
            "environment": _environment() | dict(environment or {}),
            "created": _now(),
        }
        _write_new(path, {key: _dumps(value, key) for key, value in facts.items()})
        return cls(path).claim()

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> Journal:
        """An existing journal, or the folder of a run; `write` asks for the write lock at once."""
        journal = cls(path)
        return journal.claim() if write else journal

    def claim(self) -> Journal:
        """Become the writer. JournalError if another process is."""
        with self._lock:
            if self._writer is None:
                self._writer = self._lock_writer()
                with self._transaction():
                    self._insert_event(Event(_now(), "opened", text=f"process {os.getpid()}"))
        return self

    def append(self, record: Record) -> Record:
        """Write a record and give it back with its number, in one transaction.

        When this returns the record is on the disk: neither a crash nor a power cut loses it.
        """
        self.claim()
        with self._lock:
            record = replace(record, number=len(self) + 1)
            text, files = _split(record)
            with self._transaction() as run:
                for pair in files.items():
                    run("INSERT OR IGNORE INTO files VALUES (?, ?)", pair)
                run("INSERT INTO records VALUES (?, ?)", (record.number, text))
        return record

    def log_time(self, seconds: float) -> None:
        """Add seconds to the time that the run has used, since the last call."""
        self.log("time", seconds=seconds)

    def log(self, kind: str, text: str = "", *, seconds: float = 0.0) -> None:
        """Write an event down: 'finished' with the reason, for one."""
        self.claim()
        with self._lock, self._transaction():
            self._insert_event(Event(_now(), kind, float(seconds), text))

    def records(self) -> list[Record]:
        """Every record, in order. Cheap to call again: records never change, so they are kept."""
        with self._lock:
            known = len(self._records)
            query = "SELECT number, plain FROM records WHERE number > ? ORDER BY number"
            for number, plain in self._rows(query, (known,)):
                self._records.append(self._record(number, plain))
            return list(self._records)

    def best(self) -> Record | None:
        """The fastest right record; the first right one if none was timed; None if none is right."""
        best: Record | None = None
        for record in self.records():
            if record.right:
                best = record if best is None else best.better_of(record)
        return best

    def events(self) -> list[Event]:
        rows = self._rows("SELECT at, kind, seconds, text FROM events ORDER BY id")
        return [Event(*row) for row in rows]

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM records")[0][0])

    def __bool__(self) -> bool:
        return True  # an empty journal is still a journal: `if journal` must not drop it

    @property
    def elapsed_seconds(self) -> float:
        """Seconds used so far, earlier sessions of a resumed run included."""
        logged = self._rows("SELECT total(seconds) FROM events WHERE kind = 'time'")[0][0]
        # A killed run has its last record but not that record's time: never count less than records.
        return max(float(logged), sum(r.seconds for r in self.records()))

    @property
    def settings(self) -> dict[str, Any]:
        return self._fact("settings")

    @property
    def environment(self) -> dict[str, Any]:
        return self._fact("environment")

    @property
    def created(self) -> str:
        """ISO 8601, UTC."""
        return str(self._fact("created"))

    @property
    def task(self) -> dict[str, Any]:
        """The task as plain data: name, id, source, path, ranges, cases, tolerance, backward."""
        return self._fact("task")

    @property
    def task_name(self) -> str:
        return str(self.task["name"])

    @property
    def task_id(self) -> str:
        return str(self.task["id"])

    @property
    def task_source(self) -> str:
        """The text of the task file; empty for a task made in Python."""
        return str(self.task["source"])

    def close(self) -> None:
        """Give the write lock back. A closed journal cannot be used again."""
        with self._lock:
            if self._writer is not None:
                os.close(self._writer)
                self._writer = None
            self._connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    # -- SQLite ---------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        """A connection in manual transaction mode; a journal in a read-only folder opens as a still image."""
        uri = self.path.resolve().as_uri()
        writable = os.access(self.path.parent, os.W_OK) and os.access(self.path, os.W_OK)
        live = self.path.with_name(self.path.name + "-wal").exists()
        uri += "?mode=rw" if writable else "?mode=ro" if live else "?mode=ro&immutable=1"
        with self._typed():
            connection = sqlite3.connect(
                uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # FULL: an append costs one fsync, nothing beside a judgement, and survives a power cut.
            connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _check_header(self) -> None:
        schema = int(self._rows("PRAGMA user_version")[0][0])
        if self._rows("PRAGMA application_id")[0][0] != APPLICATION_ID:
            raise JournalError(f"{self.path} is an SQLite file, but not a warpsmith journal")
        if schema > SCHEMA:
            raise JournalError(
                f"{self.path} was written by a newer warpsmith (journal schema {schema}, this one "
                f"reads up to {SCHEMA}). To read it: pip install --upgrade warpsmith"
            )
        if not self._rows("SELECT 1 FROM facts WHERE key = 'task'"):
            raise JournalError(f"{self.path} has no task: it is not a whole journal")

    def _lock_writer(self) -> int:
        """The descriptor whose lock makes this process the only writer."""
        lock = self.path.with_name(self.path.name + ".writer")
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise JournalError(f"{self.path} cannot be written: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise JournalError(
                f"{self.path} has another writer: a run is going on there. Wait for it, stop "
                "it, or give this run a folder of its own; reading is fine meanwhile."
            ) from None
        return descriptor

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """One atomic step of the writer."""
        with self._typed():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # disk full: nothing is left behind
                    self._connection.rollback()
                raise

    def _insert_event(self, event: Event) -> None:
        row = (event.at, event.kind, event.seconds, event.text)
        query = "INSERT INTO events (at, kind, seconds, text) VALUES (?, ?, ?, ?)"
        with self._typed():
            self._connection.execute(query, row)

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, self._typed():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _typed(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: {_explain(error)}") from error

    # -- Plain data -----------------------------------------------------------------------------

    def _fact(self, key: str) -> Any:
        rows = self._rows("SELECT value FROM facts WHERE key = ?", (key,))
        return self._loads(rows[0][0], key) if rows else {}

    def _record(self, number: int, text: str) -> Record:
        plain = self._loads(text, f"record {number}")
        try:
            names = plain["candidate"]["files"]
            plain["candidate"]["files"] = {n: self._file(sha) for n, sha in names.items()}
            return from_plain(Record, plain)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalError(f"{self.path}: record {number} is damaged: {error}") from error

    def _file(self, sha256: str) -> str:
        if sha256 not in self._files:
            rows = self._rows("SELECT text FROM files WHERE sha256 = ?", (sha256,))
            if not rows or _sha256(rows[0][0]) != sha256:
                raise JournalError(f"{self.path}: the file with SHA-256 {sha256[:12]} is damaged")
            self._files[sha256] = rows[0][0]
        return self._files[sha256]

    def _loads(self, text: str, what: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise JournalError(f"{self.path}: {what} is damaged: {error}") from error


def _write_new(path: Path, facts: Mapping[str, str]) -> None:
    """A whole new journal or none: made beside the path, then linked to it, which never overwrites."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    try:
        if not path.exists():  # SQLite would replay a log that a deleted journal left behind
            for ending in ("-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)
        connection = sqlite3.connect(fresh, isolation_level=None)
        try:
            _fill_new(connection, facts)
        finally:
            connection.close()
        _publish(fresh, path)
    except FileExistsError:
        raise JournalError(
            f"{path} exists: resume it, or give the new run a folder of its own"
        ) from None
    except (OSError, sqlite3.Error) as error:
        raise JournalError(f"cannot create {path}: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def _publish(fresh: Path, path: Path) -> None:
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(path) from None
        fresh.rename(path)


def _fill_new(connection: sqlite3.Connection, facts: Mapping[str, str]) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.executescript(_TABLES)
    connection.executemany("INSERT INTO facts VALUES (?, ?)", list(facts.items()))
    connection.execute(_IN_ORDER)
    for table in ("facts", "files", "records", "events"):
        for verb in ("UPDATE", "DELETE"):
            connection.execute(_REFUSE.format(table=table, verb=verb))
    connection.execute("PRAGMA journal_mode = WAL")


def _split(record: Record) -> tuple[str, dict[str, str]]:
    """A record as JSON that names its files by SHA-256, and those files."""
    what = f"record of {record.candidate.name!r}"
    try:
        plain = to_plain(record)
        files = plain["candidate"]["files"]
        plain["candidate"]["files"] = {name: _sha256(text) for name, text in files.items()}
        return _dumps(plain, what), {_sha256(text): text for text in files.values()}
    except (TypeError, ValueError) as error:
        raise JournalError(f"{what} cannot be written to a journal: {error}") from None


def _task_facts(task: Task) -> dict[str, Any]:
    kept = ("name", "id", "source", "path", "ranges", "cases", "tolerance", "backward")
    return {name: to_plain(getattr(task, name)) for name in kept}


def _environment() -> dict[str, Any]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    facts = {"python": platform.python_version(), "platform": platform.platform()}
    for name in ("warpsmith", "torch", "triton", "cuda-bindings"):
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            continue
    return facts


def _dumps(value: Any, what: str) -> str:
    try:
        return json.dumps(to_plain(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise JournalError(f"{what} cannot be written to a journal: {error}") from None


def _explain(error: sqlite3.Error) -> str:
    text = str(error)
    if isinstance(error, sqlite3.DatabaseError) and (
        "malformed" in text or "not a database" in text or "no such table" in text
    ):
        return f"not a journal, or damaged ({text})"
    return text


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
