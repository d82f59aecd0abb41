"""A crash costs one case: the next candidate runs, and nothing is left behind."""
# SPDX-License-Identifier: Apache-2.0

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from runs import body, work

from warpsmith import targets
from warpsmith.devices import open_device
from warpsmith.devices.isolated import LOG_BYTES, Isolated
from warpsmith.errors import DeviceError, DeviceUnavailable, MissingTool, UnknownName
from warpsmith.spec import Device, Outcome, TimingPlan

pytestmark = pytest.mark.plain
X = torch.arange(12.0).reshape(3, 4)


@pytest.fixture(scope="module")
def device():
    with open_device("virtual") as opened:
        yield opened


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until(condition, seconds=5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_it_is_a_device(device):
    assert isinstance(device, Device)
    assert (device.name, device.modelled, device.target.name) == ("virtual", True, "h100")


def test_outputs_of_every_kind_come_back_bit_by_bit(device):
    kinds = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
    kinds += [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool]
    inputs = [X.to(kind) for kind in kinds] + [X.T, X[:, 1:3], X[:0], torch.tensor(3.0), 5, None]
    run = device.run(body("return [i.clone() if hasattr(i, 'new') else i for i in inputs]", inputs))
    assert run.outcome is Outcome.RIGHT, run.message
    for mine, theirs in zip(inputs, run.outputs):
        same = torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs
        assert same
        assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None)


def test_a_worker_is_kept_for_its_candidate(device):
    given = body("return torch.tensor(os.getpid())", [X])
    pids = {int(device.run(given).outputs[0]) for _ in range(3)}
    assert len(pids) == 1
    other = int(device.run(body("return torch.tensor(os.getpid()) + 0", [X])).outputs[0])
    assert other not in pids
    assert wait_until(lambda: not any(map(alive, pids)))


def test_a_candidate_cannot_spoil_the_next_one(device):
    spoil = body("torch.relu = lambda t: t\nsys.path.clear()\nos.chdir('/')\nreturn x + 0", [X])
    assert device.run(spoil).outcome is Outcome.RIGHT
    assert torch.equal(device.run(body("return torch.relu(-x)", [X])).outputs[0], X * 0)


def test_a_worker_is_replaced_after_some_uses():
    with Isolated("virtual", targets.get("a100"), uses=2) as device:
        given = body("return torch.tensor(os.getpid())", [X])
        pids = [int(device.run(given).outputs[0]) for _ in range(5)]
    assert len(set(pids)) == 3


CRASHES = [
    "os._exit(1)",
    "os.kill(os.getpid(), 11)",
    "ctypes.string_at(0)",
    "os.close(3)\nos.abort()",
]


def test_a_hundred_crashes(device):
    begin = time.monotonic()
    for index in range(100):
        run = device.run(body(f"{CRASHES[index % 4]}\nreturn {index}", [X]), max_seconds=20)
        assert run.outcome is Outcome.CRASHED, run
    assert time.monotonic() - begin < 60
    assert device.run(body("return x + 1", [X])).outcome is Outcome.RIGHT


def test_what_it_prints_is_captured_and_bounded(device):
    code = "print('python')\nos.write(1, b'descriptor\\n')\nctypes.CDLL(None).puts(b'native')\nreturn x + 0"
    run = device.run(body(code, [X]))
    assert {"python", "descriptor", "native"} <= set(run.printed.split())
    run = device.run(body("for i in range(100000):\n    print('x' * 100)\nreturn x + 0", [X]))
    assert run.outcome is Outcome.RIGHT
    assert len(run.printed) <= LOG_BYTES


def test_a_timeout_ends_the_whole_group(device):
    code = "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\nprint(child.pid)\nsys.stdout.flush()\nwhile True:\n    time.sleep(1)"
    begin = time.monotonic()
    run = device.run(body(code, [X]), max_seconds=1.0)
    assert run.outcome is Outcome.TIMED_OUT
    assert "candidate.py:" in run.message
    assert time.monotonic() - begin < 5
    assert wait_until(lambda: not alive(int(run.printed.split()[0])))


def test_a_daemon_does_not_outlive_its_candidate(device):
    code = "if os.fork() == 0:\n    os.setsid()\n    print(os.getpid())\n    sys.stdout.flush()\n    time.sleep(1000)\ntime.sleep(0.3)\nreturn x + 0"
    run = device.run(body(code, [X]))
    assert run.outcome is Outcome.RIGHT
    daemon = int(run.printed.split()[0])
    assert alive(daemon)
    device.run(body("return x + 0", [X]))
    assert wait_until(lambda: not alive(daemon))


def test_memory_is_bounded():
    with Isolated("virtual", targets.get("h100"), memory_bytes=200 << 20) as device:
        run = device.run(body("return torch.ones(1 << 30)", [X]))
        assert run.outcome is Outcome.OUT_OF_MEMORY
        assert device.run(body("return torch.ones(10)", [X])).outcome is Outcome.RIGHT


def test_killed_in_the_middle_nothing_is_left():
    before = set(os.listdir("/dev/shm")), set(Path("/tmp").glob("warpsmith-*"))
    device = open_device("virtual")
    big = torch.ones(1 << 22)
    found: list = []
    given = body(
        "open('/tmp/warpsmith-test-pid', 'w').write(str(os.getpid()))\ntime.sleep(100)", [big]
    )
    thread = threading.Thread(target=lambda: found.append(device.run(given)))
    pid_file = Path("/tmp/warpsmith-test-pid")
    thread.start()
    assert wait_until(lambda: pid_file.exists() and pid_file.read_text(), 20)
    pid = int(pid_file.read_text())
    pid_file.unlink()
    os.kill(pid, signal.SIGKILL)
    thread.join(10)
    assert found[0].outcome is Outcome.CRASHED
    assert "SIGKILL" in found[0].message
    assert device.run(body("return x + 0", [big])).outcome is Outcome.RIGHT
    keeper = device._keeper.process.pid
    device.close()
    assert not alive(pid)
    assert not alive(keeper)
    assert set(os.listdir("/dev/shm")) == before[0]
    assert set(Path("/tmp").glob("warpsmith-*")) <= before[1]


OWNER = """
import os, sys, threading, time
sys.path.insert(0, {here!r})
import torch
from runs import body
from warpsmith.devices import open_device
device = open_device("virtual")
code = "print(os.getpid())\\nsys.stdout.flush()\\nwhile True: pass"
threading.Thread(target=device.run, args=(body(code, [torch.ones(3)]),), daemon=True).start()
while device._worker is None: time.sleep(0.01)
print(device._keeper.process.pid, device._worker.pid, device._keeper.folder, flush=True)
time.sleep(1000)
"""


def test_when_its_owner_is_killed_all_end():
    code = OWNER.format(here=str(Path(__file__).parent))
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    keeper, worker, folder = owner.stdout.readline().split()
    assert alive(int(keeper))
    assert alive(int(worker))
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert wait_until(lambda: not alive(int(keeper)) and not alive(int(worker)))
    assert not Path(folder).exists()


def test_a_dead_keeper_is_replaced(device):
    device.run(body("return x + 0", [X]))
    os.kill(device._keeper.process.pid, signal.SIGKILL)
    for _ in range(3):
        assert device.run(body("return x + 0", [X])).outcome is Outcome.RIGHT
    os.kill(device._keeper.process.pid, signal.SIGKILL)
    device._keeper.process.wait()
    assert device.run(body("return x + 0", [X])).outcome is Outcome.RIGHT


def test_a_closed_device_opens_again():
    device = open_device("virtual")
    device.close()
    device.close()
    assert device.run(body("return x + 0", [X])).outcome is Outcome.RIGHT
    device.close()


def test_answers_are_read_as_data_only(device):
    """Candidate code that writes to the answer's socket can only lie about itself."""
    forge = """
import socket, gc
for thing in gc.get_objects():
    if isinstance(thing, socket.socket):
        from warpsmith.devices import wire
        body, fds = wire.pack(print)
        try:
            wire.send(thing, body, fds)
        except OSError:
            pass
time.sleep(100)
"""
    run = device.run(body(forge.strip(), [X]), max_seconds=20)
    assert run.outcome is Outcome.CRASHED


def test_a_missing_compiler_is_not_the_candidates_fault(device):
    code = "from warpsmith.errors import MissingTool\nraise MissingTool('nvcc', 'not found', 'pip install it')"
    with pytest.raises(MissingTool, match="nvcc is not available: not found"):
        device.run(body(code, [X]))
    assert device.run(body("return x + 0", [X])).outcome is Outcome.RIGHT


def test_the_virtual_gpu_has_no_clock(device):
    from warpsmith.spec import Task

    task = Task("add", lambda: torch.relu, lambda: [X])
    with pytest.raises(DeviceError, match="has no clock"):
        device.time(task, body("return x + 0", [X]), TimingPlan())
    assert device.run(body("return x + 0", [X])).outcome is Outcome.RIGHT


def test_calls_from_threads_take_turns(device):
    runs = []
    given = [body(f"time.sleep(0.05)\nreturn x + {i}", [X]) for i in range(4)]
    threads = [threading.Thread(target=lambda w=w: runs.append(device.run(w))) for w in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(float(r.outputs[0][0, 0]) for r in runs) == [0.0, 1.0, 2.0, 3.0]


def test_names_of_devices():
    with pytest.raises(UnknownName, match="virtual"):
        open_device("virtaul")
    if targets.detect() is None:
        with pytest.raises(DeviceUnavailable, match="open the device 'virtual'"):
            open_device("cuda")
        with open_device("auto", "a100") as device:
            assert device.target.name == "a100"


def test_a_module_file_is_found_beside_the_candidate(device):
    from warpsmith.spec import Candidate, Work

    files = {"candidate.py": "import beside\ndef run(i, s): return beside.twice(i[0])\n"}
    files["beside.py"] = "def twice(x): return x * 2\n"
    run = device.run(Work(Candidate("two files", "torch", files), [X]))
    assert torch.equal(run.outputs[0], X * 2)
    files["../outside.py"] = ""
    run = device.run(Work(Candidate("escapes", "torch", files), [X]))
    assert run.outcome is Outcome.BAD_CANDIDATE


def test_module_state_lives_as_long_as_the_worker(device):
    given = work("n = []\ndef run(i, s):\n    n.append(1)\n    return torch.tensor(len(n))\n", [X])
    assert [int(device.run(given).outputs[0]) for _ in range(3)] == [1, 2, 3]
