"""Look at a function before translation: basic blocks, waiting loops, and who calls whom."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator

from .ptx import ir

_ENDS = {"bra", "brx", "ret", "exit", "call", "trap"}
_WAITS = {"atom", "nanosleep", "mbarrier", "call"}


def blocks(function: ir.Function) -> list[ir.Block]:
    """The basic blocks in layout order; a call ends a block, so that returns arrive at a block."""
    found: list[ir.Block] = [ir.Block(0, [])]
    for item in function.body:
        if isinstance(item, ir.Label):
            if found[-1].instructions or found[-1].label:
                found.append(ir.Block(len(found), []))
            found[-1].label = item.name
            continue
        found[-1].instructions.append(item)
        if item.opcode in _ENDS:
            found.append(ir.Block(len(found), []))
    return found


def waits(ins: ir.Instruction) -> bool:
    """Whether a loop around the instruction may wait for another thread."""
    return ins.opcode in _WAITS or (
        ins.opcode == "ld" and ins.has("volatile", "relaxed", "acquire", "mmio")
    )


def waiting_ranges(found: list[ir.Block]) -> list[int]:
    """Prefix sums over blocks of the instructions that may wait."""
    sums = [0]
    for block in found:
        sums.append(sums[-1] + sum(waits(ins) for ins in block.instructions))
    return sums


def waits_alone(found: list[ir.Block]) -> set[int]:
    """The ids of mbarrier test_wait and try_wait instructions that are all there is of their loop, so
    that lanes may as well stop until a phase ends: `L: wait p; @!p bra L`, or
    `L: wait p; @p bra DONE; bra L`."""
    alone = set()
    for block, after in zip(found, [*found[1:], None]):
        match block.instructions:
            case [ir.Instruction(opcode="mbarrier") as wait, ir.Instruction(opcode="bra") as leave]:
                repeat = leave.guard is not None and leave.guard.negated
                back = leave if repeat else _lone_branch(after)
                if (
                    _tests(wait, leave)
                    and back
                    and back.operands == (ir.Symbol(block.label or ""),)
                ):
                    alone.add(id(wait))
    return alone


def _tests(wait: ir.Instruction, leave: ir.Instruction) -> bool:
    """Whether the branch's guard is the result of the unguarded wait."""
    if leave.guard is None or wait.guard is not None or not wait.has("test_wait", "try_wait"):
        return False
    return leave.guard.register == wait.operands[0]


def _lone_branch(block: ir.Block | None) -> ir.Instruction | None:
    match block and block.instructions:
        case [ir.Instruction(opcode="bra", guard=None) as branch]:
            return branch
    return None


def callees(function: ir.Function) -> Iterator[str]:
    """Names the function calls, or takes the address of."""
    for item in function.body:
        if isinstance(item, ir.Instruction) and item.opcode in ("call", "mov"):
            for operand in item.operands:
                if isinstance(operand, ir.Symbol):
                    yield operand.name


def closure(module: ir.Module, kernel: str) -> list[ir.Function]:
    """The kernel and every defined function it can reach, kernel first."""
    names, at = [kernel], 0
    names += [s.name for v in module.variables.values() for s in v.initializer
              if isinstance(s, ir.Symbol) and s.name in module.functions]  # fmt: skip
    names = list(dict.fromkeys(names))
    while at < len(names):
        for name in callees(module.functions[names[at]]):
            name = module.aliases.get(name, name)
            known = module.functions.get(name)
            if known and known.defined and name not in names:
                names.append(name)
        at += 1
    return [module.functions[name] for name in names if module.functions[name].defined]


def recursive(module: ir.Module, functions: list[ir.Function]) -> bool:
    """Whether a call can reach its own function again (or goes through a pointer)."""
    calls = (
        i for f in functions for i in f.body if isinstance(i, ir.Instruction) and i.opcode == "call"
    )
    if any(isinstance(operand, ir.Register) for call in calls for operand in call.operands):
        return True
    names = {f.name for f in functions}
    graph = {f.name: {module.aliases.get(c, c) for c in callees(f)} & names for f in functions}
    while True:
        leaves = {name for name, reached in graph.items() if not reached}
        if not leaves:
            return bool(graph)
        graph = {n: reached - leaves for n, reached in graph.items() if n not in leaves}


RESERVED_BYTES = 1024
RESERVED = "%reserved_smem"
"""Name of the shared variable that stands for the system's reserved shared memory."""


def shared_variables(module: ir.Module, functions: list[ir.Function]) -> list[ir.Variable]:
    """The shared variables that the functions use, as declared."""
    used = {name for f in functions for i in f.body if isinstance(i, ir.Instruction)
            for name in symbols(i)}  # fmt: skip
    found = [v for v in module.variables.values() if v.space == "shared"]
    found += [v for f in functions for v in f.variables.values() if v.space == "shared"]
    found = [v for v in found if v.name in used]
    if any(name.startswith("%reserved_smem_offset") for name in used):
        found.append(ir.Variable(RESERVED, "shared", "b8", RESERVED_BYTES, 128))
    return found


def symbols(ins: ir.Instruction) -> Iterator[str]:
    """Names of variables, functions and special registers among the operands."""
    stack = list(ins.operands)
    while stack:
        item = stack.pop()
        if isinstance(item, ir.Symbol | ir.Special):
            yield item.name
        elif isinstance(item, ir.Address):
            stack.append(item.base)
        elif isinstance(item, ir.Vector | ir.Tuple):
            stack.extend(item.items)
