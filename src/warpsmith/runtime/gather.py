"""The source of a task: its file's text, or a file put together from the objects it was made of."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
import types
from typing import Any

from ..errors import OperatorError, TaskError
from ..spec import Task, to_plain
from ..spec.load import execute


def source_of(task: Task) -> str:
    """Text that `load_task` turns into an equal task.

    A task made in Python has no file: its functions and classes are written down with the imports,
    helpers and plain constants that they use. Raises OperatorError naming what cannot be written.
    """
    if task.source:
        return task.source
    text = _Gathered(task).text()
    try:
        module = execute(text, f"<{task.name}>")
    except (TaskError, NameError, ImportError) as error:
        raise OperatorError(_advice(task.name, f"its gathered source fails: {error}")) from error
    missing = [n for n in ("Model", "get_inputs", "get_init_inputs") if not callable(module.get(n))]
    if missing:
        raise OperatorError(_advice(task.name, f"{missing[0]} could not be written down"))
    return text


class _Gathered:
    """Collects definitions, each after what it needs."""

    def __init__(self, task: Task):
        self.task = task
        self.imports: dict[str, str] = {}  # name -> import line
        self.definitions: dict[str, str] = {}  # name -> text, in order
        self.objects: dict[str, Any] = {}

    def text(self) -> str:
        roles = {
            "Model": self.task.model,
            "get_inputs": self.task.get_inputs,
            "get_init_inputs": self.task.get_init_inputs,
        }
        expressions = {role: self._expression(value, role) for role, value in roles.items()}
        aliases = [f"{role} = {text}" for role, text in expressions.items() if text != role]
        parts = [
            f'"""The task {self.task.name!r}, gathered from Python objects."""',
            "\n".join(sorted(set(self.imports.values()))),
            *self.definitions.values(),
            "\n".join(aliases + self._settings()),
        ]
        return "\n\n".join(p for p in parts if p) + "\n"

    def _settings(self) -> list[str]:
        ranges = {n: (r.low, r.high, r.multiple) for n, r in self.task.ranges.items()}
        tolerance = to_plain(self.task.tolerance)
        return [
            f"RANGES = {ranges!r}",
            f"CASES = {[dict(c.dims) for c in self.task.cases]!r}",
            f"TOLERANCE = {tolerance!r}",
            f"BACKWARD = {self.task.backward!r}",
        ]

    def _expression(self, value: Any, role: str) -> str:
        """Text that gives the value; its definitions are collected on the way."""
        if any(value is known for known in vars(builtins).values()):
            return str(value.__name__)
        if _importable(value):
            self._import(value.__name__, f"from {value.__module__} import {value.__name__}")
            return str(value.__name__)
        if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
            return self._lambda(value, role)
        if isinstance(value, (types.FunctionType, type)):
            self._define(value.__name__, value)
            return value.__name__
        raise OperatorError(_advice(self.task.name, f"{role} is {value!r}"))

    def _define(self, name: str, value: Any) -> None:
        if name in self.objects:
            if self.objects[name] is not value:
                raise OperatorError(_advice(self.task.name, f"two objects are called {name!r}"))
            return
        self.objects[name] = value
        text = textwrap.dedent(self._source(value, name))
        self._needs(ast.parse(text), value, name)
        self.definitions[name] = text.rstrip()

    def _lambda(self, value: types.FunctionType, role: str) -> str:
        found = _lambdas_in(self._source(value, role))
        if len(found) != 1:
            raise OperatorError(_advice(self.task.name, f"{role} is one of several lambdas"))
        self._needs(found[0], value, role)
        return ast.unparse(found[0])

    def _source(self, value: Any, name: str) -> str:
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):
            raise OperatorError(
                _advice(self.task.name, f"the source of {name} is not in a file")
            ) from None

    def _needs(self, tree: ast.AST, value: Any, name: str) -> None:
        closed = _closed_over(value)
        if closed:
            raise OperatorError(
                _advice(self.task.name, f"{name} uses {', '.join(closed)} of an enclosing function")
            )
        known = (
            vars(sys.modules[value.__module__]) if isinstance(value, type) else value.__globals__
        )
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        for used_name in sorted(used - {name, "__class__"}):
            if used_name in known and used_name not in vars(builtins):
                self._provide(used_name, known[used_name])

    def _provide(self, name: str, value: Any) -> None:
        if isinstance(value, types.ModuleType):
            self._import(name, f"import {value.__name__} as {name}")
        elif _importable(value):
            self._import(name, f"from {value.__module__} import {value.__name__} as {name}")
        elif isinstance(value, (types.FunctionType, type)) and value.__name__ == name:
            self._define(name, value)
        elif _plain(value):
            self.definitions[name] = f"{name} = {value!r}"
        else:
            raise OperatorError(_advice(self.task.name, f"it uses {name} = {value!r}"))

    def _import(self, name: str, line: str) -> None:
        self.imports[name] = (
            line.removesuffix(f" as {name}") if f"import {name} as" in line else line
        )


def _importable(value: Any) -> bool:
    """Whether other programs can import it: it lives in an installed package, not in a script."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__name__", "")
    file = getattr(module, "__file__", None) or ""
    installed = "site-packages" in file or _in_standard_library(module)
    return bool(module and installed and getattr(module, name, None) is value)


def _in_standard_library(module: Any) -> bool:
    return getattr(module, "__name__", "").partition(".")[0] in sys.stdlib_module_names - {
        "__main__"
    }


def _closed_over(value: Any) -> list[str]:
    functions = [value] if isinstance(value, types.FunctionType) else vars(value).values()
    return [
        name
        for f in functions
        if isinstance(f, types.FunctionType)
        for name in f.__code__.co_freevars
        if name != "__class__"
    ]


def _lambdas_in(source: str) -> list[ast.Lambda]:
    """The outermost lambdas of a snippet, which getsource may have cut inside a statement."""
    text = textwrap.dedent(source).strip().rstrip(",")
    for attempt in (text, f"f({text})", f"f({text}", f"dict({text}))"):
        try:
            tree = ast.parse(attempt)
        except SyntaxError:
            continue
        return [n for n in ast.walk(tree) if isinstance(n, ast.Lambda)]
    return []


def _plain(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError):
        return False


def _advice(task: str, why: str) -> str:
    return (
        f"task {task!r} was made in Python and cannot be written into a saved operator: {why}. "
        "Put it in a file and use warpsmith.load_task(path)"
    )
