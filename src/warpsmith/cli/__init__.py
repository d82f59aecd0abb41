"""Arguments -> calls: the `warpsmith` command. Each subcommand is a file here or a plug-in."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from .. import __version__
from . import exits

# command -> module of this package that defines it, in the order that --help shows
COMMANDS = {
    "optimize": "optimize",
    "check": "check",
    "run": "run",
    "sanitize": "sanitize",
    "profile": "profile",
    "show": "show",
    "emit": "emit",
    "doctor": "doctor",
    "targets": "targets",
    "proposers": "proposers",
}


class Workshop(click.Group):
    """A group that loads a subcommand when it is asked for, and ends with the table's exit codes.

    A subcommand returns its exit code, or None for 0. Plug-ins of the group `warpsmith.commands`
    name a click command, or a callable without arguments that gives one.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        from ..spec import plugin_names

        return [*COMMANDS, *(n for n in plugin_names("command") if n not in COMMANDS)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        from ..spec import load_plugin, plugin_names

        plugged = name in plugin_names("command")
        if name in COMMANDS and plugged:
            from ..errors import NameClash

            raise NameClash(f"a plug-in claims the command {name!r}, which warpsmith has itself")
        if name in COMMANDS:
            module = importlib.import_module(f".{COMMANDS[name]}", __name__)
            return module.command  # type: ignore[no-any-return]
        if not plugged:
            return None
        found: Any = load_plugin("command", name)
        return found if isinstance(found, click.Command) else found()  # type: ignore[no-any-return]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """An unknown command is answered with the nearest name."""
        from ..errors import UnknownName

        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(str(UnknownName("command", args[0], self.list_commands(ctx))))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand. `main` of click would end with 1 for a closed pipe."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
            return code
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return exits.FINE

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            code = super().main(arguments, prog_name or "warpsmith", **extra)
        except Exception as error:
            code = exits.tell(error, arguments)
        sys.exit(code if isinstance(code, int) else exits.FINE)


def _table() -> str:
    return "\n".join(f"  {code:<4} {meaning}" for code, meaning in exits.MEANINGS.items())


@click.command(
    cls=Workshop,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes:\n" + _table(),
)
@click.version_option(__version__, message="warpsmith %(version)s")
def warpsmith() -> None:
    """A GPU-kernel workshop: propose, judge, time, explain and ship kernels.

    Everything works without a GPU, on a virtual one; with a GPU, kernels are timed on it.
    Start with `warpsmith doctor`.
    """


def main() -> None:
    """The console script."""
    warpsmith()
