"""The processes in which candidates run: a keeper that has torch loaded, and workers it forks.

`python -m warpsmith.devices.worker` is the keeper. It imports what is slow to import, never touches
CUDA nor candidate code, and forks a worker for each candidate: a fresh, warm process in
milliseconds. It notices when its owner is gone, and then ends its workers and removes their files.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from ..errors import MissingTool, WarpsmithError
from ..spec import Outcome, Run, Target, from_plain, to_plain
from . import wire

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--control", "--memory"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--device", "--target", "--folder"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    options.target = from_plain(Target, json.loads(options.target))
    _preload()
    Keeper(socket.socket(fileno=options.control), options).serve()
    os._exit(0)  # the teardown of torch takes a second


# slow to import, and start neither threads nor CUDA
_PRELOADED = ("torch", "torch.utils.flop_counter", "warpsmith.devices.local")


def _preload() -> None:
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # cuInit would not survive a fork
    for name in _PRELOADED:
        importlib.import_module(name)


class Keeper:
    """Forks workers on request and reports their deaths. Orders and notices are JSON on `control`."""

    def __init__(self, control: socket.socket, options: argparse.Namespace):
        self.control, self.options = control, options
        self.workers: set[int] = set()

    def serve(self) -> None:
        # orphans of a worker (a daemon that it started) come to the keeper, which ends them
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        woken: Any = _wake_on_child_exit()
        self._tell(ready=os.getpid())
        try:
            while True:
                ready = select.select([self.control, woken], [], [])[0]
                if woken in ready:
                    os.read(woken, 4096)
                    self._reap()
                if self.control in ready:
                    self._obey(*wire.receive(self.control))
        except (wire.Hangup, OSError):
            pass
        finally:
            self._end()

    def _obey(self, body: bytes, fds: list[int]) -> None:
        """The only order is 'fork': the descriptors are the worker's socket and its log."""
        pid = os.fork()
        if pid == 0:
            self.control.close()
            _become_worker(socket.socket(fileno=fds[0]), fds[1], self.options)
        for fd in fds:
            os.close(fd)
        self.workers.add(pid)
        self._tell(born=pid)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.workers:
                self.workers.discard(pid)
                _kill_group(pid)
                for orphan in _children() - self.workers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(orphan, signal.SIGKILL)
                self._tell(died=pid, status=status)

    def _tell(self, **notice: int) -> None:
        wire.send(self.control, json.dumps(notice).encode())

    def _end(self) -> None:
        for pid in self.workers:
            _kill_group(pid)
        shutil.rmtree(self.options.folder, ignore_errors=True)


def _wake_on_child_exit() -> int:
    """A descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing)
    return reading


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _children() -> set[int]:
    try:
        return {int(n) for n in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
    except OSError:
        return set()


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _become_worker(sock: socket.socket, log: int, options: argparse.Namespace) -> None:
    """After the fork: own group, own log, no inherited handlers. Does not return."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        faulthandler.enable(file=2, all_threads=False)
        if options.memory:
            _limit_memory(options.memory)
        _work(sock, options)
    except wire.Hangup:
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(70)
    os._exit(0)


def _limit_memory(extra_bytes: int) -> None:
    """Address space may grow by this much. Not for CUDA, which reserves more than machines have."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + extra_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _work(sock: socket.socket, options: argparse.Namespace) -> None:
    from .local import Local

    device = Local(options.device, options.target, folder=Path(options.folder))
    while True:
        order = wire.unpack(*wire.receive(sock))
        # what it hung on goes to the log just before the owner's patience ends
        faulthandler.dump_traceback_later(order["seconds"], file=2)
        answer = _answer(device, order)
        faulthandler.cancel_dump_traceback_later()
        _flush()
        body, fds = wire.pack_plain(answer)
        wire.send(sock, body, fds)
        os.close(fds[0])


def _answer(device: Any, order: dict[str, Any]) -> dict[str, Any]:
    try:
        return {order["do"]: _DEEDS[order["do"]](device, order)}
    except MissingTool as error:
        return {"missing": [error.tool, *_why(error)]}
    except WarpsmithError as error:
        return {"error": [type(error).__name__, str(error)]}
    except KeyboardInterrupt:
        return {"run": _plain_run(Run(Outcome.BAD_CANDIDATE, message="raised KeyboardInterrupt"))}


def _why(error: MissingTool) -> tuple[str, str]:
    text = str(error).removeprefix(f"{error.tool} is not available: ")
    why, _, install = text.rpartition(". To install it: ")
    return why, install


def _run(device: Any, order: dict[str, Any]) -> dict[str, Any]:
    run = device.run(
        order["work"],
        max_seconds=order["seconds"],
        count=order["count"],
        sanitize=order["sanitize"],
    )
    return _plain_run(run)


def _plain_run(run: Run) -> dict[str, Any]:
    fields = {name: getattr(run, name) for name in Run.__dataclass_fields__}
    return fields | {"outcome": run.outcome.value, "launches": to_plain(run.launches)}


def _time(device: Any, order: dict[str, Any]) -> Any:
    sys.path[:] = order["path"]
    task = order["task"]
    if isinstance(task, bytes):
        import cloudpickle

        task = cloudpickle.loads(task)
    else:
        from ..spec import load_task

        task = load_task(task)
    return to_plain(device.time(task, order["work"], order["plan"]))


_DEEDS = {"run": _run, "time": _time}


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # printf in native code


if __name__ == "__main__":
    main()
