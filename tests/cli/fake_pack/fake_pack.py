"""A stranger's plug-in: a device, a proposer and a command, with stages that judge by name.

Candidates called "right-<µs>" are right and take so long, "wrong" ones are not, "slow" ones take
seconds to judge; $FAKE_SECONDS is how long every one takes at least. So the command line is tested without compiling anything.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import click

from warpsmith import loop, runtime, targets
from warpsmith.spec import Candidate, Outcome

sys.path.insert(0, str(Path(__file__).parents[2] / "report"))
import made_runs

NAMES = os.environ.get("FAKE_NAMES", "right-30 wrong right-10 right-20 wrong-2").split()


class FakeDevice:
    name, modelled = "fake", True

    def __init__(self):
        self.target = targets.get("a100")

    def close(self): ...


class FakeProposer:
    """Proposes the names in $FAKE_NAMES."""

    name = "fake"

    def __init__(self, languages=(), seed=0):
        self.languages, self.seed = languages, seed

    def propose(self, task, records):
        for index, name in enumerate(NAMES):
            files = {"candidate.py": f"# {name} {index} {self.languages} {self.seed}\n"}
            yield Candidate(name, "cuda", files, origin="fake")

    def explain(self):
        return "its list has ended"


def mute():
    """Never proposes anything."""
    proposer = FakeProposer()
    proposer.propose = lambda task, records: ()
    return proposer


@click.command()
def hello():
    """Greet, as a plug-in."""
    click.echo("hello from a plug-in")


def factory_hello():
    return hello


def verify(task, record, device, *, hidden=5):
    name = record.candidate.name
    print(f"judging {name}")
    subprocess.run(["echo", "noise of a child process"], check=True)
    if name.startswith("slow"):
        time.sleep(30)
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    if name.startswith("boom"):
        raise ZeroDivisionError("a bug in warpsmith")
    made = made_runs.right(name, 1.0) if name.startswith("right") else made_runs.wrong(
        name, Outcome.WRONG_VALUE, f"element 3 is off; {hidden} hidden cases"
    )  # fmt: skip
    return dataclasses.replace(record, verdict=made.verdict)


def measure(task, record, device):
    made = made_runs.right("", float(record.candidate.name.split("-")[1]))
    return dataclasses.replace(record, timing=made.timing)


def analyze(task, record, device):
    return dataclasses.replace(record, analysis=made_runs.right("", 1.0).analysis)


def save(record, task, folder, **_):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(f"# {record.candidate.name}\n")
    return folder


loop.STAGES.update(build=lambda task, record, device: record, verify=verify, measure=measure)
loop.STAGES.update(analyze=analyze)
runtime.save = save
