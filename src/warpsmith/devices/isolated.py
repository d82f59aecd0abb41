"""A device that runs every candidate in a process of its own, so that a crash costs one case."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import errors
from ..errors import DeviceError, DeviceTimeout, MissingTool
from ..spec import (
    Launch,
    Outcome,
    Run,
    Samples,
    Target,
    Task,
    TimingPlan,
    Work,
    from_plain,
    to_plain,
)
from . import wire
from .endings import Ending, ending_of_status, line_in_dump
from .trace import recorded

GRACE_SECONDS = 1.0  # past its budget, for a worker to end by itself and say more
LOG_BYTES = 64 * 1024  # kept of what a candidate prints: the end
_START_SECONDS = 120.0


class Isolated:
    """A Device whose candidates run in forked workers of a warm keeper process (see `worker`).

    A worker serves one candidate, and is replaced when that candidate failed, hung, crashed, or
    has run `uses` times. One call at a time: calls from several threads wait for each other.

    memory_bytes: how much a worker's address space may grow; virtual GPU only. The default is 80 %
    of the machine's memory.
    """

    def __init__(
        self, name: str, target: Target, *, uses: int = 256, memory_bytes: int | None = None
    ):
        self.name, self.target, self.modelled = name, target, name == "virtual"
        self._uses = uses
        limit = memory_bytes if memory_bytes is not None else _machine_bytes() * 8 // 10
        self._memory_bytes = limit if self.modelled else 0
        self._lock = threading.RLock()
        self._keeper: _Keeper | None = None
        self._worker: _Worker | None = None

    def __repr__(self) -> str:
        return f"Isolated({self.name!r}, {self.target.name!r})"

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def run(
        self,
        work: Work,
        *,
        max_seconds: float = 60.0,
        count: bool | None = None,
        sanitize: Mapping[str, Any] | None = None,
    ) -> Run:
        """Run once; see `spec.Device.run`. Every ending of the worker is an outcome.

        count: collect the virtual GPU's counters; None does so for all but hidden cases.
        sanitize: as of `Local.run`.

        Raises MissingTool where this machine lacks a compiler.
        """
        start = time.monotonic()
        order: dict[str, Any] = {"do": "run", "work": work, "seconds": max_seconds, "count": count}
        order["sanitize"] = None if sanitize is None else dict(sanitize)
        with self._lock:
            worker, answer = self._ask(work.candidate.id, order)
            run = _run_of(answer, worker, max_seconds)
            if run.outcome is not Outcome.RIGHT or worker.uses >= self._uses:
                self._retire()
        return replace(run, seconds=time.monotonic() - start)

    def time(self, task: Task, work: Work, plan: TimingPlan) -> Samples:
        """See `spec.Device.time`: candidate and baselines are timed in one worker.

        Raises DeviceError when the worker fails or the device has no clock.
        """
        order: dict[str, Any] = {"do": "time", "task": _portable(task), "work": work, "plan": plan}
        # baselines compile before the clock starts, so the process gets more than the plan
        seconds = plan.max_seconds * 2 + 240
        order |= {"seconds": seconds, "path": sys.path}
        with self._lock:
            worker, answer = self._ask(work.candidate.id, order)
            if not isinstance(answer, dict) or "time" not in answer:
                log = worker.log
                self._retire()
                raise _timing_error(answer, log)
        return from_plain(Samples, answer["time"])

    def operators_of(self, call: Callable[[], Any]) -> list[dict[str, Any]]:
        """What PyTorch operators `call` (trusted code, the reference) is made of. Runs it here."""
        found: list[dict[str, Any]] = []
        with recorded(found):
            call()
        return found

    def close(self) -> None:
        """End the worker and the keeper. The device starts again if it is used again."""
        with self._lock:
            self._retire()
            if self._keeper is not None:
                self._keeper.close()
                self._keeper = None

    def _ask(self, candidate: str, order: dict[str, Any]) -> tuple[_Worker, Any]:
        """The answer, or how the worker ended. Asked again where the keeper was killed, not it."""
        for _ in range(2):
            worker = self._worker_for(candidate)
            try:
                answer = worker.ask(order, order["seconds"] + GRACE_SECONDS)
            except BaseException:  # Ctrl-C: an answer that comes later must not meet the next order
                self._retire()
                raise
            if not worker.keeper.lost:
                break
            self._retire()
        return worker, answer

    def _worker_for(self, candidate: str) -> _Worker:
        if self._worker is not None and self._worker.candidate != candidate:
            self._retire()
        if self._worker is None:
            self._worker = self._fork(candidate)
        return self._worker

    def _fork(self, candidate: str) -> _Worker:
        """A new worker, from a new keeper where the old one died."""
        for _ in range(2):
            if self._keeper is None or not self._keeper.alive:
                self._keeper = _Keeper(self.name, self.target, self._memory_bytes)
            with contextlib.suppress(wire.Hangup, OSError):
                return self._keeper.fork(candidate)
            self._keeper.close()
            self._keeper = None
        raise DeviceError(f"device {self.name!r} cannot start worker processes on this machine")

    def _retire(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


class _Keeper:
    """The owner's side of the keeper process."""

    def __init__(self, name: str, target: Target, memory_bytes: int):
        self.folder = tempfile.mkdtemp(prefix="warpsmith-")
        self.control, theirs = socket.socketpair()
        self.process = _spawn(name, target, memory_bytes, self.folder, theirs)
        theirs.close()
        self.statuses: dict[int, int] = {}
        self.lost = False
        self.close = weakref.finalize(self, _end_keeper, self.process, self.control, self.folder)
        try:
            self.notice("ready", _START_SECONDS)
        except (wire.Hangup, DeviceTimeout) as error:
            self.close()
            raise DeviceError(
                f"the worker process for device {name!r} did not start ({error}); try "
                f"{sys.executable} -c 'import torch, warpsmith.devices.worker'"
            ) from None

    @property
    def alive(self) -> bool:
        return not self.lost and self.process.poll() is None

    def fork(self, candidate: str) -> _Worker:
        ours, theirs = socket.socketpair()
        log, their_log = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(log, False)
        try:
            wire.send(self.control, b"fork", [theirs.fileno(), their_log])
        finally:
            theirs.close()
            os.close(their_log)
        return _Worker(self, self.notice("born", _START_SECONDS), ours, log, candidate)

    def notice(self, name: str, seconds: float) -> int:
        """Read notices until one of that name comes. Raises Hangup or DeviceTimeout."""
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.control], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise DeviceTimeout(f"the keeper was silent for {seconds:g} s")
            try:
                notice = json.loads(wire.receive(self.control)[0])
            except (wire.Hangup, OSError):
                self.lost = True
                raise wire.Hangup("the keeper is gone") from None
            if "died" in notice:
                self.statuses[notice["died"]] = notice["status"]
            if name in notice:
                return int(notice[name])

    def status_of(self, pid: int) -> int:
        """waitpid's status of a worker that is dead or about to be."""
        while pid not in self.statuses:
            self.notice("died", 10.0)
        return self.statuses.pop(pid)


class _Worker:
    """The owner's side of one worker process."""

    def __init__(self, keeper: _Keeper, pid: int, sock: socket.socket, log: int, candidate: str):
        self.keeper, self.pid, self.candidate = keeper, pid, candidate
        self._sock, self._log, self._kept = sock, log, b""
        self.uses = 0
        self._release = weakref.finalize(self, _close_all, sock, log)

    @property
    def log(self) -> str:
        """The end of what the worker has printed since the last order."""
        return self._kept.decode(errors="replace")

    def ask(self, order: dict[str, Any], seconds: float) -> dict[str, Any] | Ending:
        """The answer, or how the worker ended instead of giving one. Never raises for the latter."""
        self.uses += 1
        self._kept = b""
        end = time.monotonic() + seconds
        try:
            self._send(order)
            return self._wait(end)
        except (wire.Hangup, ConnectionError):
            return self._post_mortem()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(wire.Hangup, DeviceTimeout, OSError):
            self.keeper.status_of(self.pid)
        self._release()

    def _send(self, order: dict[str, Any]) -> None:
        body, fds = wire.pack(order)
        try:
            wire.send(self._sock, body, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _wait(self, end: float) -> dict[str, Any] | Ending:
        control = self.keeper.control
        watched: list[Any] = [self._sock, control, self._log]
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select(watched, [], [], left)
            if self._log in ready and not self._drain():
                watched.remove(self._log)
            if self._sock in ready:
                self._sock.settimeout(max(left, 1.0))
                body, fds = wire.receive(self._sock)
                answer: dict[str, Any] = wire.unpack_plain(body, fds)
                self._drain()
                return answer
            if control in ready:
                self.keeper.notice("died", 1.0)
                if self.pid in self.keeper.statuses:
                    raise wire.Hangup
        return self._timeout()

    def _timeout(self) -> Ending:
        self._drain()
        place = line_in_dump(self.log)
        at = f"; it was at {place}" if place else ""
        return Ending(
            Outcome.TIMED_OUT, f"did not finish in its time and was killed{at}", place, False
        )

    def _post_mortem(self) -> Ending:
        """The connection broke: the worker is dead, or closed it and must not live on."""
        end = time.monotonic() + 1.0
        with contextlib.suppress(wire.Hangup, DeviceTimeout):
            while self.pid not in self.keeper.statuses and time.monotonic() < end:
                self.keeper.notice("died", 1.0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        try:
            status = self.keeper.status_of(self.pid)
        except (wire.Hangup, DeviceTimeout):
            return Ending(
                Outcome.CRASHED, "its process and the one that kept it are gone", "", False
            )
        self._drain()
        self.keeper.statuses[self.pid] = status  # for `kill`
        return ending_of_status(status, self.log)

    def _drain(self) -> bool:
        """Read what is in the log pipe. False at its end."""
        while True:
            try:
                part = os.read(self._log, LOG_BYTES)
            except BlockingIOError:
                return True
            if not part:
                return False
            self._kept = (self._kept + part)[-LOG_BYTES:]


def _spawn(
    name: str, target: Target, memory_bytes: int, folder: str, control: socket.socket
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "warpsmith.devices.worker", "--device", name]
    command += ["--control", str(control.fileno()), "--memory", str(memory_bytes)]
    command += ["--folder", folder, "--target", json.dumps(to_plain(target))]
    home = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        p for p in (home, environment.get("PYTHONPATH")) if p
    )
    environment.setdefault("OMP_WAIT_POLICY", "passive")  # idle threads must not spin
    if name == "virtual":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=[control.fileno()],
        start_new_session=True,  # Ctrl-C in a terminal is for the owner alone
    )


def _end_keeper(process: subprocess.Popen[bytes], control: socket.socket, folder: str) -> None:
    """The keeper ends its workers and removes its folder when the connection closes."""
    import shutil

    control.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _close_all(sock: socket.socket, log: int) -> None:
    sock.close()
    os.close(log)


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _run_of(answer: dict[str, Any] | Ending, worker: _Worker, max_seconds: float) -> Run:
    if isinstance(answer, Ending):
        message = answer.message.replace("in its time", f"in {max_seconds:g} s")
        return Run(answer.outcome, message=message, source=answer.source, printed=worker.log)
    if "missing" in answer:
        raise MissingTool(*answer["missing"])
    if "error" in answer:
        kind, said = answer["error"]
        return Run(Outcome.BAD_CANDIDATE, message=f"{kind}: {said}", printed=worker.log)
    try:
        return _rebuilt(answer["run"], worker.log)
    except (KeyError, TypeError, ValueError) as error:
        return Run(Outcome.CRASHED, message=f"its process sent no proper answer: {error!r}")


def _rebuilt(plain: dict[str, Any], log: str) -> Run:
    sequences: dict[str, Any] = {
        name: tuple(plain[name]) for name in ("outputs", "gradients", "changed_inputs", "kernels")
    }
    run = Run(**{name: plain[name] for name in Run.__dataclass_fields__})
    return replace(
        run,
        outcome=Outcome(plain["outcome"]),
        launches=tuple(from_plain(Launch, launch) for launch in plain["launches"]),
        printed=plain["printed"] + log,
        **sequences,
    )


def _portable(task: Task) -> bytes | str:
    """A task that another process can load: the path of its unchanged file, or a pickle by value."""
    if task.path and Path(task.path).is_file() and Path(task.path).read_text() == task.source:
        return task.path
    import cloudpickle

    data: bytes = cloudpickle.dumps(task)
    return data


def _timing_error(answer: dict[str, Any] | Ending, log: str) -> DeviceError:
    if isinstance(answer, Ending):
        return DeviceError(f"while timing, the candidate {answer.message}\n{log[-2000:]}")
    if "missing" in answer:
        return DeviceError(str(MissingTool(*answer["missing"])))
    kind, said = answer.get("error", ("DeviceError", "no proper answer"))
    known = getattr(errors, str(kind), DeviceError)
    proper = isinstance(known, type) and issubclass(known, DeviceError)
    return known(said) if proper and known is not errors.KernelFault else DeviceError(said)
