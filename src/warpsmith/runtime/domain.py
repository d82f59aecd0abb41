"""Where an operator was verified: the shapes, dtypes, layouts and machines that its kernel may be given."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..spec import Range, Record, Task

Sizes = tuple[tuple[int, ...], ...]  # for each input: a tensor's shape, or (value,) of an int
Polynomial = Mapping[str, int]  # {"rows*cols": 2, "": 1} is 2·rows·cols + 1

ALIGNMENT_BYTES = (
    32  # the widest access of one instruction: a 256-bit load of compute capability 10
)
MOST_DIMS = 6


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the operator, as it was verified.

    kind: its schema type: "Tensor", "Tensor[]", "SymInt", "SymInt[]", "float", "bool", "str".
    dtypes, layouts: one entry per tensor. A layout is the order of axes in memory, outermost first;
        an empty one is a tensor that no order of axes makes contiguous.
    values: the values that floats, bools and strings had; empty when they varied freely.
    """

    name: str
    kind: str
    optional: bool = False
    dtypes: tuple[str, ...] = ()
    layouts: tuple[tuple[int, ...], ...] = ()
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """Verified calls. A call outside of it goes to the reference.

    shapes: the sizes of the verified cases. formulas: for each input and axis a polynomial in the
    ranged dims, where `get_inputs` follows one; then every size within `ranges` is inside too.
    state: shape and dtype of each weight. compute_capability: of the target it was verified on; None
    if nobody knows, and then no GPU is inside.
    """

    arguments: tuple[Argument, ...]
    shapes: tuple[Sizes, ...]
    ranges: Mapping[str, Range]
    formulas: tuple[tuple[Polynomial, ...], ...] | None
    state: Mapping[str, tuple[tuple[int, ...], str]]
    compute_capability: tuple[int, int] | None
    note: str = ""  # why the ranges could not be used

    def why_outside(self, inputs: Sequence[Any], state: Mapping[str, Any]) -> tuple[str, str]:
        """("", "") when the call was verified, else one word and a sentence."""
        for argument, value in zip(self.arguments, inputs):
            found = _argument_outside(argument, value)
            if found[0]:
                return found
        for name, (shape, dtype) in self.state.items():
            found = _weight_outside(name, state[name], shape, dtype)
            if found[0]:
                return found
        found = self._devices_outside(inputs, state)
        return found if found[0] else self._sizes_outside(sizes_of(inputs))

    def _devices_outside(self, inputs: Sequence[Any], state: Mapping[str, Any]) -> tuple[str, str]:
        import torch

        tensors = [t for v in (*inputs, *state.values()) for t in _tensors(v)]
        devices = {t.device for t in tensors}
        if len(devices) > 1:
            return "device", f"tensors are on {', '.join(sorted(map(str, devices)))}"
        if tensors and tensors[0].is_cuda:
            here = torch.cuda.get_device_capability(tensors[0].device)
            if here != self.compute_capability:
                there = self.compute_capability
                return "device", (
                    f"this GPU has compute capability {_dotted(here)}, "
                    f"verified on {_dotted(there) if there else 'one that is not known any more'}"
                )
        return "", ""

    def _sizes_outside(self, sizes: Sizes) -> tuple[str, str]:
        if sizes in self.shapes:
            return "", ""
        if self.formulas is None:
            return "shape", f"sizes {_shown(sizes)} are none of the verified cases"
        dims = solve(self.formulas, sizes)
        if dims is None:
            return "shape", f"sizes {_shown(sizes)} do not fit together"
        for name, value in dims.items():
            if not self.ranges[name].holds(value):
                return "shape", f"{name}={value} is outside {_range_text(self.ranges[name])}"
        return "", ""


def domain_of(task: Task, record: Record, reference: Any, capability: Any) -> Domain:
    """The domain that a record proves: its right cases, and the task's ranges where they map to
    shapes."""
    main = task.get_inputs()
    names = unique(reference.argument_names(len(main)))
    optional = reference.optional_names()
    # the main case twice: a number that get_inputs draws anew is not part of the domain
    points = [*verified_dims(task, record), {}]
    seen = [_observe(task.get_inputs(**dims)) for dims in points]
    arguments = tuple(
        _argument(name, value, [plain[i] for _, plain in seen], name in optional)
        for i, (name, value) in enumerate(zip(names, main))
    )
    formulas, note = fit(task)
    return Domain(
        arguments=arguments,
        shapes=tuple(dict.fromkeys(sizes for sizes, _ in seen)),
        ranges=dict(task.ranges),
        formulas=formulas,
        state={
            n: (tuple(t.shape), str(t.dtype).removeprefix("torch."))
            for n, t in reference.state.items()
        },
        compute_capability=capability,
        note=note,
    )


def verified_dims(task: Task, record: Record) -> list[dict[str, int]]:
    """The sizes of the main case and of every right case of the verdict, each once.

    A verdict keeps its cases by name, 'rows=31 cols=4097 seed=2'.
    """
    known = set(inspect.signature(task.get_inputs).parameters)
    found: list[dict[str, int]] = [{}]
    for case in record.verdict.cases if record.verdict else ():
        if case.outcome.right:
            pairs = re.findall(r"(\w+)=(-?\d+)", case.case)
            found.append({name: int(value) for name, value in pairs if name in known})
    return [d for i, d in enumerate(found) if d not in found[:i]]


def smallest(task: Task, points: Sequence[dict[str, int]]) -> dict[str, int]:
    """The point whose inputs have the fewest elements."""
    if len(points) == 1:
        return points[0]
    sizes_at = _prober(task)
    return min(points, key=lambda dims: sum(math.prod(s) for s in sizes_at(dims)))


def sizes_of(inputs: Sequence[Any]) -> Sizes:
    """What `Sizes` says, flat for lists of tensors."""
    return tuple(tuple(_numbers(value)) for value in inputs)


def fit(task: Task) -> tuple[tuple[tuple[Polynomial, ...], ...] | None, str]:
    """Polynomials that give every input's sizes from the ranged dims, or None and why not.

    Each polynomial is affine in each dim, fitted at the corners of a small box at the low end of
    the ranges and checked at further points and at the defaults.
    """
    if not task.ranges:
        return None, "the task declares no ranges: only the verified cases' sizes count"
    unknown = set(task.ranges) - set(inspect.signature(task.get_inputs).parameters)
    if unknown:
        return None, f"get_inputs has no argument {', '.join(sorted(unknown))}"
    dims = {n: r for n, r in task.ranges.items() if r.low + r.multiple <= r.high}
    if len(dims) > MOST_DIMS:
        return None, f"{len(dims)} ranged sizes are more than {MOST_DIMS}"
    fixed = {n: r.low for n, r in task.ranges.items() if n not in dims}
    corners = [dict(zip(dims, c)) for c in itertools.product(*map(_two, dims.values()))]
    sizes_at = _prober(task)
    seen = [sizes_at(corner | fixed) for corner in corners]
    if len({tuple(map(len, s)) for s in seen}) > 1:
        return None, "the number of axes changes with the sizes"
    formulas = tuple(
        tuple(_interpolate(corners, [s[i][axis] for s in seen]) for axis in range(len(seen[0][i])))
        for i in range(len(seen[0]))
    )
    for point in (*_check_points(dims), _defaults(task, dims)):
        if sizes_at(point | fixed) != evaluate(formulas, point):
            return None, "get_inputs does not follow a polynomial in its sizes"
    if solve(formulas, seen[-1]) != corners[-1]:
        return None, "the ranged sizes cannot be read off the inputs' shapes"
    return formulas, ""


def evaluate(formulas: Sequence[Sequence[Polynomial]], dims: Mapping[str, int]) -> Sizes:
    """Sizes of all inputs at the given dims.

    >>> evaluate([[{"rows": 1}, {"rows*cols": 2, "": 1}]], {"rows": 3, "cols": 5})
    ((3, 31),)
    """
    return tuple(tuple(_value(p, dims) for p in axes) for axes in formulas)


def solve(formulas: Sequence[Sequence[Polynomial]], sizes: Sizes) -> dict[str, int] | None:
    """The dims that give these sizes, or None.

    Each dim is read off an axis in which it is the only one that is not known yet.

    >>> solve([[{"rows": 1}, {"rows*cols": 4}]], ((3, 60),))
    {'rows': 3, 'cols': 5}
    >>> solve([[{"rows": 1}, {"rows*cols": 4}]], ((3, 61),)) is None
    True
    """
    if tuple(map(len, sizes)) != tuple(map(len, formulas)):
        return None
    pairs = [pair for axes, values in zip(formulas, sizes) for pair in zip(axes, values)]
    needed = {n for polynomial, _ in pairs for n in _names_in(polynomial)}
    dims: dict[str, int] = {}
    while len(dims) < len(needed):
        found = next(filter(None, (_read_off(p, v, dims) for p, v in pairs)), None)
        if found is None:
            return None
        dims[found[0]] = found[1]
    return dims if evaluate(formulas, dims) == sizes else None


def layout_of(tensor: Any) -> tuple[int, ...]:
    """The order of axes that makes the tensor contiguous, outermost first; () if none does."""
    if tensor.is_contiguous():
        return tuple(range(tensor.dim()))
    order = tuple(sorted(range(tensor.dim()), key=lambda a: -tensor.stride(a)))
    return order if tensor.permute(order).is_contiguous() else ()


def unique(names: Sequence[str]) -> list[str]:
    """Schema-safe names, each once: 'linear.weight' becomes 'linear_weight'."""
    taken: list[str] = []
    for name in names:
        safe = re.sub(r"\W", "_", name)
        safe = f"a_{safe}" if not safe or safe[0].isdigit() or safe in _RESERVED else safe
        while safe in taken:
            safe += "_"
        taken.append(safe)
    return taken


_RESERVED = {"self", "from", "in", "out", "is", "None", "True", "False", "lambda", "return"}


def _observe(inputs: Sequence[Any]) -> tuple[Sizes, list[Any]]:
    """Sizes, and the floats, bools and strings by position, so that no tensor is kept."""
    return sizes_of(inputs), [v if isinstance(v, (bool, float, str)) else None for v in inputs]


def _argument(name: str, value: Any, plain: Sequence[Any], optional: bool) -> Argument:
    tensors = _tensors(value)
    values = tuple(dict.fromkeys(v for v in plain if v is not None))
    varies = len(values) > 1 and isinstance(values[0], float)
    return Argument(
        name,
        "Tensor" if value is None else _kind(name, value),
        optional or value is None,
        tuple(str(t.dtype).removeprefix("torch.") for t in tensors),
        tuple(layout_of(t) for t in tensors),
        () if varies else values,
    )


def _kind(name: str, value: Any) -> str:
    import torch

    from ..errors import OperatorError

    if isinstance(value, (list, tuple)) and value:
        if all(isinstance(v, torch.Tensor) for v in value):
            return "Tensor[]"
        if all(type(v) is int for v in value):
            return "SymInt[]"
    for types, kind in _KINDS:
        if isinstance(value, torch.Tensor if types is None else types):
            return kind
    raise OperatorError(
        f"input {name!r} is a {type(value).__name__}; an operator takes tensors, lists of tensors, "
        "ints, floats, bools and strings"
    )


_KINDS: tuple[tuple[Any, str], ...] = (
    (None, "Tensor"),
    (bool, "bool"),
    (int, "SymInt"),
    (float, "float"),
    (str, "str"),
)


def _argument_outside(argument: Argument, value: Any) -> tuple[str, str]:
    name = argument.name
    verified_none = argument.kind == "Tensor" and not argument.dtypes
    if (value is None) != verified_none:
        return "value", f"{name} is {'None' if value is None else 'given'}, verified the other way"
    if argument.values and value not in argument.values:
        return "value", f"{name}={value!r}, verified with {', '.join(map(repr, argument.values))}"
    for tensor, dtype, layout in zip(_tensors(value), argument.dtypes, argument.layouts):
        if str(tensor.dtype) != f"torch.{dtype}":
            return "dtype", f"{name} is {tensor.dtype}, verified with {dtype}"
        if tensor.dim() != len(layout) or not tensor.permute(layout).is_contiguous():
            return "layout", f"{name} has strides {tensor.stride()}: not laid out as verified"
        if tensor.data_ptr() % ALIGNMENT_BYTES:
            return "alignment", f"{name} does not start at a multiple of {ALIGNMENT_BYTES} bytes"
    return "", ""


def _weight_outside(name: str, tensor: Any, shape: Any, dtype: str) -> tuple[str, str]:
    if tuple(tensor.shape) != shape:
        return "shape", f"{name} has shape {tuple(tensor.shape)}, verified with {shape}"
    if str(tensor.dtype) != f"torch.{dtype}":
        return "dtype", f"{name} is {tensor.dtype}, verified with {dtype}"
    if not tensor.is_contiguous():
        return "layout", f"{name} is not contiguous"
    if tensor.data_ptr() % ALIGNMENT_BYTES:
        return "alignment", f"{name} does not start at a multiple of {ALIGNMENT_BYTES} bytes"
    return "", ""


def _tensors(value: Any) -> list[Any]:
    from .reference import tensors_of

    return tensors_of(value)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, (list, tuple)):
        return [n for v in value for n in _numbers(v)]
    if hasattr(value, "shape"):
        return list(value.shape)
    return [value] if isinstance(value, int) and not isinstance(value, bool) else []


def _prober(task: Task) -> Callable[[Mapping[str, int]], Sizes]:
    """A function dims -> sizes that allocates nothing where get_inputs can be run with fakes."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def sizes_at(dims: Mapping[str, int]) -> Sizes:
        try:
            with FakeTensorMode():
                return sizes_of(task.get_inputs(**dims))
        except Exception:  # values are looked at, or data come from outside torch
            return sizes_of(task.get_inputs(**dims))

    return sizes_at


def _two(allowed: Range) -> tuple[int, int]:
    return allowed.low, allowed.low + allowed.multiple


def _check_points(dims: Mapping[str, Range]) -> list[dict[str, int]]:
    """Points off the fitted box, small enough to be allocated."""
    steps = ((2, 3, 5, 7, 2, 3), (5, 2, 3, 2, 7, 5))
    return [
        {n: min(r.high, r.low + step * r.multiple) for (n, r), step in zip(dims.items(), row)}
        for row in steps
    ]


def _defaults(task: Task, dims: Mapping[str, Range]) -> dict[str, int]:
    parameters = inspect.signature(task.get_inputs).parameters
    return {n: parameters[n].default for n in dims if n in parameters}


def _interpolate(corners: Sequence[Mapping[str, int]], values: Sequence[int]) -> Polynomial:
    """The multi-affine polynomial through the corners, integer coefficients, zeros left out."""
    import numpy as np

    names = list(corners[0])
    subsets = [s for k in range(len(names) + 1) for s in itertools.combinations(names, k)]
    matrix = np.array([[np.prod([c[n] for n in s]) for s in subsets] for c in corners], dtype=float)
    coefficients = np.rint(np.linalg.solve(matrix, np.array(values, dtype=float))).astype(int)
    return {"*".join(s): int(c) for s, c in zip(subsets, coefficients) if c}


def _value(polynomial: Polynomial, dims: Mapping[str, int]) -> int:
    total = 0
    for monomial, coefficient in polynomial.items():
        for name in filter(None, monomial.split("*")):
            coefficient *= dims[name]
        total += coefficient
    return total


def _names_in(polynomial: Polynomial) -> set[str]:
    return {name for monomial in polynomial if monomial for name in monomial.split("*")}


def _read_off(
    polynomial: Polynomial, value: int, known: Mapping[str, int]
) -> tuple[str, int] | None:
    """The one dim of a polynomial that is not known yet, and its value; None if there is no one."""
    unknown = _names_in(polynomial) - set(known)
    if len(unknown) != 1:
        return None
    (name,) = unknown
    at_zero = _value(polynomial, {**known, name: 0})
    slope = _value(polynomial, {**known, name: 1}) - at_zero
    return (name, (value - at_zero) // slope) if slope else None


def _shown(sizes: Sizes) -> str:
    return ", ".join("×".join(map(str, s)) for s in sizes if s)


def _dotted(capability: Sequence[int]) -> str:
    return ".".join(map(str, capability))


def _range_text(allowed: Range) -> str:
    step = f" in multiples of {allowed.multiple}" if allowed.multiple > 1 else ""
    return f"{allowed.low} … {allowed.high}{step}"
