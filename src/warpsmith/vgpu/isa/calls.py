"""Calls: device functions, function pointers, and the system functions of CUDA."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from ..program import SINK
from ..ptx import ir
from .registry import runtime, unsupported

if TYPE_CHECKING:
    from ..emit import Emitter

SYSTEM = {
    "vprintf": "vg_op_vprintf",
    "__assertfail": "vg_op_assertfail",
    "malloc": "vg_op_malloc",
    "free": "vg_op_free",
}
_NO_DEVICE_RUNTIME = (
    "kernels that launch kernels need CUDA's device runtime, which the virtual GPU has not: launch "
    "from the host"
)
_ELSEWHERE = {
    "cudaGraphSetConditional": "it steers a node of a CUDA graph, and graphs do not run on the virtual GPU",
    "cudaGraph": "graphs do not run on the virtual GPU",
    "cudaCG": "it needs CUDA's cooperative-groups runtime of several devices",
    "cuda": _NO_DEVICE_RUNTIME,
    "__cudaCDP": _NO_DEVICE_RUNTIME,
}
"""Start of a function's name -> why nobody can define it here."""


@runtime("call")
def call(e: Emitter, ins: ir.Instruction) -> None:
    operands = list(ins.operands)
    results = _names(ins, operands.pop(0)) if isinstance(operands[0], ir.Tuple) else []
    target = operands.pop(0)
    parameters = _names(ins, operands.pop(0)) if operands else []
    if isinstance(target, ir.Register):
        _call_pointer(e, ins, target, operands, parameters, results)
        return
    if not isinstance(target, ir.Symbol):
        raise unsupported(ins, "the callee must be a name or a register")
    name = e.module.aliases.get(target.name, target.name)
    function = e.module.functions.get(name)
    if handler := SYSTEM.get(name):
        offsets = [e.frame.parameters[p] for p in parameters][:7]
        a = offsets + [SINK] * (7 - len(offsets))
        e.op(ins, handler, [*a, e.frame.parameters[results[0]] if results else SINK])
    elif function is None or not function.defined:
        raise unsupported(ins, _undefined(name))
    else:
        _check_signature(ins, function, parameters, results)
        e.op(ins, "vg_op_call", more=description(e, name, parameters, results))


def _undefined(name: str) -> str:
    """Why a function that no text defines cannot be called."""
    why = next((why for start, why in _ELSEWHERE.items() if name.startswith(start)), "")
    more = why or "load the PTX that defines it too: vgpu.load(ptx, link=[more])"
    return f"the function {name!r} is not defined in this module; {more}"


def _check_signature(ins: ir.Instruction, function: ir.Function, parameters: list[str],
                     results: list[str]) -> None:  # fmt: skip
    wanted = len(function.parameters), len(function.results)
    if (len(parameters), len(results)) != wanted:
        raise unsupported(
            ins, f"{function.name!r} takes {wanted[0]} arguments and gives {wanted[1]} results"
        )


def _names(ins: ir.Instruction, item: ir.Operand) -> list[str]:
    items = item.items if isinstance(item, ir.Tuple) else ()
    if not all(isinstance(i, ir.Symbol) for i in items):
        raise unsupported(ins, "arguments must be .param variables")
    return [i.name for i in items if isinstance(i, ir.Symbol)]


def description(e: Emitter, name: str, parameters: list[str], results: list[str]) -> list:
    """The call's description (rt/calls.c); frame sizes and the callee's offsets come at the end."""
    here = e.frame.parameters
    return [("call", name, tuple(here[p] for p in parameters), tuple(here[r] for r in results))]


def _call_pointer(
    e: Emitter, ins: ir.Instruction, target: ir.Register, rest: list, parameters: list[str],
    results: list[str],
) -> None:  # fmt: skip
    """A call through a register can reach every function whose signature has the same sizes."""
    sizes = [e.function.variables[p].bytes for p in parameters]
    result_sizes = [e.function.variables[r].bytes for r in results]
    fitting = [
        f.name for f in e.module.functions.values()
        if f.name in e.functions and not f.entry
        and [p.bytes for p in f.parameters] == sizes
        and [r.bytes for r in f.results] == result_sizes
    ]  # fmt: skip
    here = e.frame.parameters
    sources = (tuple(here[p] for p in parameters), tuple(here[r] for r in results))
    e.op(ins, "vg_op_call_pointer", [e.in_register(ins, target)],
         more=[("pointers", tuple(fitting), *sources)])  # fmt: skip
