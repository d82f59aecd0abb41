"""One proposed way to compute a task: a Python host module and the kernel files it launches."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import CandidateError

ENTRY = "candidate.py"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Files that together compute a task.

    The file `candidate.py` is the host side. It defines one of

        def run(inputs, state): ...      # inputs: sequence, as the task's get_inputs gives them;
                                         # state: dict of the reference's parameters and buffers
        class ModelNew(nn.Module): ...   # the KernelBench form: ModelNew(*init_inputs)(*inputs)

    and loads kernels that lie beside it with `ws.cuda("softmax.cu")` or `ws.triton(function)`.
    CPU tensors run on the virtual GPU, CUDA tensors on the GPU.
    """

    name: str
    language: str  # of its kernels: "cuda", "triton", "torch", …
    files: Mapping[str, str]
    parameters: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    origin: str = "human"  # the proposer
    parents: tuple[str, ...] = ()  # ids of the candidates it came from
    note: str = ""  # one sentence for people: the idea

    def __post_init__(self) -> None:
        if ENTRY not in self.files:
            raise CandidateError(
                f"candidate {self.name!r} has files {sorted(self.files)}; it needs {ENTRY!r}"
            )

    @property
    def entry(self) -> str:
        return self.files[ENTRY]

    @property
    def id(self) -> str:
        """Twelve hex digits of the files' content: equal files, equal id, whatever the name."""
        text = json.dumps(dict(self.files), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
