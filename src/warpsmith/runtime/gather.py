"""The source of a task: its file's text, or a file put together from what its functions need."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ..errors import OperatorError
from ..spec import Task


def source_of(task: Task) -> str:
    """Text that `load_task` turns into an equal task."""
    if task.source:
        return task.source
    raise OperatorError(f"task {task.name!r} was made in Python without a file")
