"""Write the C handlers of ALU and collective instructions, from the rules in vgpu/isa."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .fixed import FixedLanes
from .isa import registry
from .isa.memory import items_of, move_special, move_symbol
from .ptx import ir

if TYPE_CHECKING:
    from .emit import Emitter

_CARRY_IN = {"addc", "subc", "madc"}
CARRY = ir.Register("%carry", "pred")


class _Operands:
    """Collects an op's operands and the C declarations that fetch them."""

    def __init__(self, e: Emitter, ins: ir.Instruction):
        self.e, self.ins = e, ins
        self.a: list[int] = []
        self.declarations: list[str] = []

    def pointer(self, offset: int, bits: int, fixed: bool) -> str:
        """A C expression of a lane array at an offset."""
        base = "fixed" if fixed else "regs"
        self.a.append(offset)
        return f"(uint{bits}_t *)(w->{base} + A({len(self.a) - 1}))"

    def small(self, value: int) -> str:
        """A C expression of a run-time scalar."""
        signed = value - (1 << 64) if value >> 63 else value
        if -(1 << 31) <= signed < 1 << 31:
            self.a.append(signed & 0xFFFF_FFFF)
            return f"(uint64_t)(int64_t)(int32_t)A({len(self.a) - 1})"
        self.a.append(self.e.constants.lanes(64, value))
        return f"*(const uint64_t *)(w->fixed + A({len(self.a) - 1}))"

    def declare(self, kind: str, name: str, value: str) -> str:
        self.declarations.append(f"  {kind}{name} = {value};")
        return name

    def array(self) -> str:
        """How `A(i)` reads operand i, and the op's fields that hold them."""
        return "o->more[i]" if len(self.a) > 8 else "o->a[i]"


def emit_alu(e: Emitter, ins: ir.Instruction, rule: registry.AluRule) -> None:
    """The op of an ALU instruction: its handler computes every lane by itself."""
    target, *sources = ins.operands
    if ins.opcode == "mov" and _special_move(e, ins):
        return
    targets = _targets(target)
    if "cc" in ins.modifiers:
        targets.append(CARRY)
    flat = [item for source in sources for item in items_of(source)]
    if ins.opcode in _CARRY_IN:
        flat.append(CARRY)
    alu_handler(e, ins, targets, flat, lambda args: rule.emit(ins, args), rule.constant)


def _targets(target: ir.Operand) -> list[ir.Operand]:
    if isinstance(target, ir.Pair):
        return [target.first, target.second]
    if isinstance(target, ir.Part):
        return [target.register]
    return items_of(target)


def _special_move(e: Emitter, ins: ir.Instruction) -> bool:
    target, source = ins.operands
    if not isinstance(target, ir.Register):
        return False
    known = e.known_value(source)
    same_width = not isinstance(known, FixedLanes) or known.bits == target.lane_bits
    if known is not None and same_width and e.never_changes(ins, target, known):
        return True
    if isinstance(source, ir.Special):
        return move_special(e, ins, target, source.name[1:])
    if isinstance(source, ir.Symbol):
        move_symbol(e, ins, target, source)
        return True
    return False


def alu_handler(
    e: Emitter, ins: ir.Instruction, targets: Sequence[ir.Operand], sources: Sequence[ir.Operand],
    expression: Callable[[list[str]], registry.AluResult], constant: tuple[int, ...] = (),
) -> None:  # fmt: skip
    """Append an op whose generated handler assigns `expression(arguments)` to the targets."""
    operands = _Operands(e, ins)
    stores: list[str | None] = []
    for i, item in enumerate(targets):
        if isinstance(item, ir.Sink):
            stores.append(None)
            continue
        if not isinstance(item, ir.Register):
            raise registry.unsupported(ins, "a result must be a register")
        bits = item.lane_bits
        pointer = operands.pointer(e.frame.register(item), bits, fixed=False)
        stores.append(operands.declare(f"uint{bits}_t *const ", f"d{i}", pointer))
    args = [_argument(operands, i, s, i in constant) for i, s in enumerate(sources)]
    results = expression(args)
    results = results if isinstance(results, tuple) else (results,)
    if len(results) < len(stores):
        raise registry.unsupported(ins, f"{len(stores)} results")
    kept = [(s, r) for s, r in zip(stores, results) if s]
    _append(e, ins, operands, _alu_text(operands, kept, guarded=ins.guard is not None))


def copy_lanes(e: Emitter, ins: ir.Instruction, target: ir.Register, fixed: int, bits: int) -> None:
    """Append an op that copies constant lanes to a register."""
    operands = _Operands(e, ins)
    pointer = operands.pointer(e.frame.register(target), target.lane_bits, fixed=False)
    operands.declare(f"uint{target.lane_bits}_t *const ", "d0", pointer)
    operands.declare(f"const uint{bits}_t *const ", "s0", operands.pointer(fixed, bits, fixed=True))
    _append(e, ins, operands, _alu_text(operands, [("d0", "s0[l]")], ins.guard is not None))


def _argument(operands: _Operands, i: int, item: ir.Operand, literal: bool) -> str:
    e, ins = operands.e, operands.ins
    if isinstance(item, ir.Negated):
        return f"(uint32_t)({_argument(operands, i, item.operand, literal)} ^ 1u)"
    if isinstance(item, ir.Part):
        item = item.register
    known = e.known_value(item)
    if isinstance(known, FixedLanes):
        pointer = operands.pointer(known.offset, known.bits, fixed=True)
        return operands.declare(f"const uint{known.bits}_t *const ", f"s{i}", pointer) + "[l]"
    if known is not None:
        item = known
    if isinstance(item, ir.Register):
        bits = item.lane_bits
        pointer = operands.pointer(e.frame.register(item), bits, fixed=False)
        return operands.declare(f"const uint{bits}_t *const ", f"s{i}", pointer) + "[l]"
    if isinstance(item, ir.Immediate):
        value = _immediate(ins, item)
        if literal:
            return str(value)
        return operands.declare("const uint64_t ", f"s{i}", operands.small(value))
    if isinstance(item, ir.Symbol) and item.name in e.shared.offsets:
        value = e.shared.offsets[item.name] + item.offset
        return operands.declare("const uint64_t ", f"s{i}", operands.small(value))
    raise registry.unsupported(ins, f"operand {i + 1} here")


def _immediate(ins: ir.Instruction, item: ir.Immediate) -> int:
    from .emit import immediate_bits

    if ins.types and ins.types[-1] == "pred":
        return int(item.value != 0)  # `mov.pred p, -1` is true, and true is 1
    narrow = item.kind == "f64" and ins.types and ins.types[-1] in ("f32", "tf32")
    return immediate_bits(item, 32 if narrow else 64)


def _alu_text(operands: _Operands, results: list[tuple[str, str]], guarded: bool) -> str:
    """Full warps take the loop without a test: the common case, and it vectorizes best."""
    if len(results) == 1:
        body = f"{results[0][0]}[l] = {results[0][1]};"
    else:
        body = " ".join(f"__auto_type r{i} = {text};" for i, (_, text) in enumerate(results))
        body += " " + " ".join(f"{name}[l] = r{i};" for i, (name, _) in enumerate(results))
    mask = (
        "  const uint32_t mask = vg_mask(o, w);\n"
        "  w->worker->sites[o->site].threads += (uint64_t)__builtin_popcount(mask);\n"
        if guarded
        else "  const uint32_t mask = w->mask;\n"
    )
    return (
        f"#define A(i) {operands.array()}\n"
        "const VgOp *NAME(const VgOp *o, VgWarp *w) {\n" + "\n".join(operands.declarations) + "\n"
        + mask +
        f"  if (mask == VG_FULL) {{ VG_LANE_LOOP {{ {body} }} }}\n"
        f"  else {{ VG_LANE_LOOP if (mask >> l & 1) {{ {body} }} }}\n"
        "  return o + 1;\n}\n#undef A\n"
    )  # fmt: skip


def _append(e: Emitter, ins: ir.Instruction, operands: _Operands, text: str) -> None:
    symbol = e.handler(text)
    if len(operands.a) > 8:
        e.op(ins, symbol, more=list(operands.a))
    else:
        e.op(ins, symbol, operands.a)


# ------------------------------------------------------------------------------------ collectives


class CollectiveOperands:
    """registry.Operands, for one instruction."""

    def __init__(self, e: Emitter, ins: ir.Instruction):
        self._e, self._ins = e, ins
        self.found = _Operands(e, ins)

    def __len__(self) -> int:
        return len(self._ins.operands)

    def raw(self, index: int) -> ir.Operand:
        return self._ins.operands[index]

    def lanes(self, index: int, bits: int) -> str:
        item = self.raw(index)
        return self._lanes(item.first if isinstance(item, ir.Pair) else item, bits)

    def second(self, index: int) -> str:
        item = self.raw(index)
        return self._lanes(item.second, 32) if isinstance(item, ir.Pair) else "NULL"

    def vector(self, index: int, bits: int) -> str:
        items = items_of(self.raw(index))
        return f"(uint{bits}_t *const[]){{{', '.join(self._lanes(i, bits) for i in items)}}}"

    def width(self, index: int) -> int:
        return len(items_of(self.raw(index)))

    def address(self, index: int) -> str:
        lanes, flags, offset = self._e.address(self._ins, self.raw(index))
        from .program import ADDRESS_32, ADDRESS_FIXED

        bits = 32 if flags & ADDRESS_32 else 64
        pointer = self.found.pointer(lanes, bits, bool(flags & ADDRESS_FIXED))
        if bits == 64 and not offset:
            return f"(const uint64_t *){pointer}"
        shift = self.found.small(offset & (1 << 64) - 1)
        return f"vg_lane_addresses(w, (const char *){pointer}, {bits}, (int64_t)({shift}))"

    def constant(self, index: int) -> int:
        item = self.raw(index)
        if not isinstance(item, ir.Immediate):
            raise registry.unsupported(self._ins, f"operand {index + 1} must be a number")
        return item.value

    def _lanes(self, item: ir.Operand, bits: int) -> str:
        if isinstance(item, ir.Sink):
            return "NULL"
        if isinstance(item, ir.Register) and item.lane_bits != bits:
            raise registry.unsupported(self._ins, f"{item.name} has not {bits} bits")
        kinds: list[int] = []
        offset = self._e.data(self._ins, item, bits, kinds)
        return self.found.pointer(offset, bits, bool(kinds[0]))


def emit_collective(e: Emitter, ins: ir.Instruction, rule: registry.CollectiveRule) -> None:
    """The op of an instruction that acts on all lanes of a warp together."""
    operands = CollectiveOperands(e, ins)
    body = rule.emit(ins, operands)
    wait = ""
    if ins.has("sync"):
        members = "VG_FULL"
        if rule.member is not None:
            lanes = operands.lanes(rule.member % len(operands), 32)
            members = f"({lanes})[__builtin_ctz(mask)]"
        wait = (
            f"  const uint32_t members = {members};\n"
            "  if (__builtin_expect((members & w->live & ~w->mask) != 0 || w->early == o, 0)) {\n"
            "    const VgOp *next = vg_join(o, w, members);\n"
            "    if (next != o) return next;\n"
            "    mask = vg_mask(o, w);\n  }\n"
            "  if (__builtin_expect(w->worker->check != NULL, 0)) vg_check_together(w, mask);\n"
        )
    text = (
        f"#define A(i) {operands.found.array()}\n"
        "const VgOp *NAME(const VgOp *o, VgWarp *w) {\n"
        "  const uint32_t site = o->site; (void)site;\n"
        "  uint32_t mask = vg_mask(o, w);\n"
        "  if (o->flags & VG_COUNTED) w->worker->sites[site].threads += (uint64_t)__builtin_popcount(mask);\n"
        "  if (!mask) return o + 1;\n"
        f"{wait}  {{ {body} }}\n  return o + 1;\n}}\n#undef A\n"
    )
    _append(e, ins, operands.found, text)
