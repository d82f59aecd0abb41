"""Record the PyTorch operators that code runs: what each one moves and computes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

_TENSOR_PIPES = {"float16": "tensor_fp16", "bfloat16": "tensor_bf16"}
_PIPES = {"float64": "fp64", "float16": "fp16", "bfloat16": "fp16"}
# they move nothing: memory is handed out, or seen in another way
_FREE = ("empty", "detach", "alias", "lift_fresh", "_local_scalar_dense", "set_", "resize_")


@contextlib.contextmanager
def recorded(found: list[dict[str, Any]]) -> Iterator[None]:
    """Append one entry for each operator that launches kernels while the block is open.

    Entries have `name`, `bytes_read`, `bytes_written`, `flops` and `pipe` (of matrix units for
    matrix products below float32). Views and allocations cost nothing and are left out.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # True imports torch._dynamo, which takes seconds

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
            result = function(*args, **(kwargs or {}))
            cost = _cost(function, args, kwargs or {}, result)
            if cost:
                found.append(cost)
            return result

    with Recorder():
        yield


def _cost(function: Any, args: Any, kwargs: Any, result: Any) -> dict[str, Any] | None:
    name = function.overloadpacket.__name__
    if function.is_view or name.startswith(_FREE):
        return None
    inputs, outputs = list(_tensors([*args, *kwargs.values()])), list(_tensors([result]))
    if name == "_reshape_alias" or not outputs:
        return None
    flops, pipe = _work(function, args, kwargs, result, outputs)
    fills = name in ("fill_", "zero_", "copy_")  # they do not read what they overwrite
    return {
        "name": name,
        "bytes_read": sum(map(_bytes, inputs[1:] if fills else inputs)),
        "bytes_written": sum(map(_bytes, outputs)),
        "flops": flops,
        "pipe": pipe,
    }


def _work(
    function: Any, args: Any, kwargs: Any, result: Any, outputs: Sequence[Any]
) -> tuple[float, str]:
    """FLOPs by PyTorch's own formulas where it has one (matrix products, convolutions, attention),
    else one for each element of the result."""
    from torch.utils.flop_counter import flop_registry

    dtype = str(outputs[0].dtype).removeprefix("torch.")
    formula = flop_registry.get(function.overloadpacket)
    if formula is None:
        return float(sum(t.numel() for t in outputs)), _PIPES.get(dtype, "fp32")
    flops = float(formula(*args, **kwargs, out_val=result))
    return flops, _TENSOR_PIPES.get(dtype, _PIPES.get(dtype, "fp32"))


def _tensors(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif hasattr(value, "untyped_storage"):
            yield value


def _bytes(tensor: Any) -> int:
    """Distinct bytes: an expanded axis is stored once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        count *= size if stride else min(size, 1)
    return count * int(tensor.element_size())
