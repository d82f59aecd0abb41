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


def merged_labels(function: ir.Function) -> dict[str, int]:
    """Label -> number of the block (of `blocks`) that it starts."""
    return {block.label: block.index for block in blocks(function) if block.label}


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
    names = {f.name for f in functions}
    graph = {f.name: {module.aliases.get(c, c) for c in callees(f)} & names for f in functions}
    while True:
        leaves = {name for name, reached in graph.items() if not reached}
        if not leaves:
            return bool(graph)
        graph = {n: reached - leaves for n, reached in graph.items() if n not in leaves}
