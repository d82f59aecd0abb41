"""A PyTorch operator made by warpsmith. `README.md` says what it computes and how it was judged.

op(*inputs, state=None): the operator. Model: an nn.Module with the reference's parameters.
provenance: what is known about it, as a dict. Needs `pip install warpsmith` and torch.
"""

from pathlib import Path

import warpsmith

operator = warpsmith.load(Path(__file__).parent)
op, Model, provenance = operator.op, operator.Model, operator.provenance

__all__ = ["Model", "op", "operator", "provenance"]
