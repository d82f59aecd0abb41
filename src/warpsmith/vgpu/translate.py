"""Translate a kernel of a parsed module into a program for the runtime."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from . import analysis
from .emit import FUNCTION_BASE, Emitter, SharedLayout
from .fixed import Constants
from .handlers import emit_alu, emit_collective
from .isa import load_rules, registry
from .program import Op, Program
from .ptx import ir
from .ptx.parse import MALFORMED

_RECURSION_STACK_BYTES = 1 << 20
_RECURSION_LOCAL_BYTES = 1 << 16


def translate(module: ir.Module, kernel: str) -> Program:
    """The program of one kernel and all it calls.

    Raises UnsupportedInstruction for what the virtual GPU does not have.
    """
    load_rules()
    return _Translation(module, kernel).program()


class _Translation:
    def __init__(self, module: ir.Module, kernel: str):
        self.module, self.kernel = module, kernel
        self.functions = analysis.closure(module, kernel)
        self.constants, self.shared = Constants(), SharedLayout()
        self.ops: list[Op] = []
        self.handlers: dict[str, str] = {}
        self.instructions: list[ir.Instruction] = []
        self.instruction_blocks: list[int] = []
        self.block_count = 0
        order = {name: i for i, name in enumerate(module.functions)}
        self.addresses = {f.name: FUNCTION_BASE + 16 * order[f.name] for f in self.functions}
        self.emitters: dict[str, Emitter] = {}
        self.entries: dict[str, int] = {}  # function -> its first op
        self.frame_bytes: dict[str, int] = {}

    def program(self) -> Program:
        self.shared.place(analysis.shared_variables(self.module, self.functions))
        for function in self.functions:
            self._function(function)
        self._link_calls()
        entry = self.emitters[self.kernel]
        locals_ = sum(-(-e.frame.local_bytes // 16) * 16 for e in self.emitters.values())
        stack = sum(e.frame.size + 64 for e in self.emitters.values())
        if analysis.recursive(self.module, self.functions):
            locals_ += _RECURSION_LOCAL_BYTES
            stack += _RECURSION_STACK_BYTES
        if any(op.handler == "vg_op_alloca" for op in self.ops):
            locals_ += _RECURSION_LOCAL_BYTES
        return Program(
            self.kernel, self.ops, self.handlers, self.instructions, self.instruction_blocks,
            self.block_count, bytes(self.constants.image), self.constants.relocations, self.constants.parameters,
            self.constants.specials, entry.frame.size,
            stack, entry.frame.local_bytes,
            locals_, self.shared.size, self.shared.dynamic_offset, entry.param_bytes,
            self.addresses, shared_variables=self._shared_variables(),
        )  # fmt: skip

    def _shared_variables(self) -> dict[str, tuple[int, int]]:
        """Offset and bytes of each shared variable; the dynamic ones have no size of their own."""
        found = analysis.shared_variables(self.module, self.functions)
        return {v.name: (self.shared.offsets[v.name], v.bytes if v.count else 0) for v in found}

    def _function(self, function: ir.Function) -> None:
        e = Emitter(self.module, function, self.constants, self.shared, self.ops, self.handlers,
                    self.addresses)  # fmt: skip
        self.emitters[function.name] = e
        self.entries[function.name] = first = len(self.ops)
        found = analysis.blocks(function)
        labels: dict[str, int] = {b.label: b.index for b in found if b.label}
        waiting = analysis.waiting_ranges(found)
        e.alone = analysis.waits_alone(found)
        starts = []
        for block in found:
            starts.append(len(self.ops))
            self._block(e, block, labels, waiting)
        if not self.ops[first:] or self.ops[-1].handler not in (
            "vg_op_exit",
            "vg_op_ret",
            "vg_op_bra",
        ):
            self.ops.append(Op("vg_op_exit" if function.entry else "vg_op_ret", site=0))
        _resolve(self.ops[first:], {name: starts[i] for name, i in labels.items()})

    def _block(
        self, e: Emitter, block: ir.Block, labels: dict[str, int], waiting: list[int]
    ) -> None:
        self.ops.append(Op("vg_op_enter", aux=self.block_count, imm=len(block.instructions),
                           site=len(self.instructions)))  # fmt: skip
        for position, ins in enumerate(block.instructions, 1):
            e.later = len(block.instructions) - position
            ins.index = len(self.instructions)
            self.instructions.append(ins)
            self.instruction_blocks.append(self.block_count)
            if ins.opcode == "bra":
                target = labels.get(getattr(ins.operands[0], "name", ""), block.index + 1)
                e.spin = target <= block.index and waiting[block.index + 1] > waiting[target]
            emit_typed(e, ins)
        self.block_count += 1

    def _link_calls(self) -> None:
        """Fill call descriptions: only now are frame sizes and first ops of callees known."""
        for op in self.ops:
            if op.more and isinstance(op.more[0], tuple):
                kind, target, sources, results = op.more[0]
                if kind == "call":
                    op.more = self._description(target, sources, results)
                else:
                    op.more = self._pointer_table(target, sources, results)

    def _description(self, name: str, sources: tuple, results: tuple) -> list[int]:
        e = self.emitters[name]
        own, function = e.frame.parameters, e.function
        words = [self.entries[name], e.frame.size, e.frame.local_bytes, len(sources)]
        for source, variable in zip(sources, function.parameters):
            words += [source, own[variable.name], variable.bytes]
        words.append(len(results))
        for result, variable in zip(results, function.results):
            words += [own[variable.name], result, variable.bytes]
        return words

    def _pointer_table(self, names: tuple, sources: tuple, results: tuple) -> list[int]:
        words, bodies = [len(names)], []
        at = 1 + 3 * len(names)
        for name in names:
            body = self._description(name, sources, results)
            address = self.addresses[name]
            words += [address & 0xFFFF_FFFF, address >> 32, at]
            at += len(body)
            bodies += body
        return words + bodies


def emit_typed(e: Emitter, ins: ir.Instruction) -> None:
    """Append an instruction's ops; one whose operands are not what its rule takes is refused."""
    try:
        emit(e, ins)
    except MALFORMED as error:
        why = f"its operands or modifiers do not fit ({type(error).__name__}: {error})"
        raise registry.unsupported(ins, why) from error


def emit(e: Emitter, ins: ir.Instruction) -> None:
    """Append the ops of one instruction. Raises UnsupportedInstruction where no rule takes it, or where
    its operands are not those that its rule knows (the cause says how)."""
    try:
        _emit(e, ins)
    except (LookupError, ValueError, TypeError, AttributeError, StopIteration) as error:
        why = f"its operands do not fit its form ({type(error).__name__}: {error})"
        raise registry.unsupported(ins, why) from error


def _emit(e: Emitter, ins: ir.Instruction) -> None:
    """Append the ops of one instruction, by the rule of its opcode."""
    if rule := registry.RUNTIME.get(ins.opcode):
        rule(e, ins)
    elif alu := registry.ALU.get(ins.opcode):
        emit_alu(e, ins, alu)
    elif collective := registry.COLLECTIVES.get(ins.opcode):
        emit_collective(e, ins, collective)
    else:
        raise registry.unsupported(ins, "no rule for its opcode")


def _resolve(ops: list[Op], starts: dict[str, int]) -> None:
    for op in ops:
        if isinstance(op.aux, str):
            op.aux = starts[op.aux]
        if op.more and op.handler == "vg_op_brx":
            op.more = [starts[t] if isinstance(t, str) else t for t in op.more]
