"""The catalogue of PTX opcodes holds: what it says is taken translates, what it says is refused is."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import isa_catalogue as catalogue

from warpsmith.errors import PtxError, UnsupportedInstruction
from warpsmith.vgpu.isa import load_rules, registry
from warpsmith.vgpu.ptx.parse import parse
from warpsmith.vgpu.translate import translate

pytestmark = pytest.mark.virtual
LINE = catalogue.SHELL.split("{lines}")[0].count("\n") + 1


def program(arch, line):
    return catalogue.SHELL.format(arch=arch, lines=f".loc 1 77 1\n{line};")


def refusal(arch, line):
    text = f'.file 1 "mine.cu"\n{program(arch, line)}'
    # .file stands before .version here, as NVRTC never writes it; the reader does not mind
    with pytest.raises(UnsupportedInstruction) as caught:
        translate(parse(text), "k")
    return caught.value


def opcodes():
    load_rules()
    return registry.RUNTIME.keys() | registry.COLLECTIVES.keys() | registry.ALU.keys()


@pytest.mark.parametrize("group", sorted({e[0] for e in catalogue.entries()}))
def test_taken(group):
    for _, _, arch, line in (e for e in catalogue.entries() if e[0] == group):
        translate(parse(program(arch, line)), "k")


def test_every_rule_is_in_the_catalogue():
    taken, refused = {e[1] for e in catalogue.entries()}, {r[0] for r in catalogue.REFUSED}
    assert opcodes() == taken | (refused & opcodes())
    assert taken <= opcodes()


@pytest.mark.parametrize(("opcode", "arch", "line", "words"), catalogue.REFUSED)
def test_refused_with_instruction_line_and_reason(opcode, arch, line, words):
    error = refusal(arch, line)
    assert words in error.why
    assert error.line == LINE + 2
    assert error.source == "mine.cu:77"
    assert opcode in error.instruction.split(".")[0]


@pytest.mark.parametrize("opcode", sorted({e[1] for e in catalogue.entries()}))
def test_malformed_operands_are_refused_or_a_syntax_error(opcode):
    """Every statement with operands missing, doubled or of another kind: a typed error or a program."""
    for _, name, arch, line in catalogue.entries():
        if name != opcode or line[:1] in "{T":
            continue
        head, _, rest = line.rstrip(";").partition(" ")
        operands = rest.split(", ")
        for changed in ("", rest + ", " + rest, ", ".join(operands[:-1]), ", ".join(operands[::-1]),
                        ", ".join(["%p9"] * len(operands)), ", ".join(["7"] * len(operands)), "[%d0]"):  # fmt: skip
            with contextlib.suppress(PtxError):
                translate(parse(program(arch, f"{head} {changed}")), "k")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ptxas"), reason="ptxas is not installed")
@pytest.mark.parametrize("arch", sorted({e[2] for e in catalogue.entries()}))
def test_ptxas_takes_the_catalogue_too(arch, tmp_path):
    """The spellings are PTX and not our own: one kernel for each, as ptxas stops at a function's end."""
    for _, _, _, line in (e for e in catalogue.entries() if e[2] == arch):
        source = tmp_path / "one.ptx"
        source.write_text(catalogue.SHELL.format(arch=arch, lines=line))
        done = subprocess.run(["ptxas", f"-arch={arch}", "-O0", str(source), "-o", str(tmp_path / "o")],
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
