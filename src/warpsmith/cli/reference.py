"""Write docs/cli.md from the commands themselves: `python -m warpsmith.cli.reference > docs/cli.md`."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import click

from . import COMMANDS, exits, warpsmith

WIDTH = 100
HEAD = """\
# The command line

This page is made from the commands' own help: `python -m warpsmith.cli.reference > docs/cli.md`.

Results go to stdout, progress and logs to stderr. With `--json`, stdout holds exactly one JSON
object, also when a command fails: then it is `{"error": {"type", "message", "exit"}}`.

A run of `optimize` is a folder: `journal.sqlite` (everything that was learned, append-only, one
writer, any number of readers), `report.html`, and the winner as an operator that `warpsmith.load`
loads. A killed run loses nothing that was judged: `--resume` goes on with it.

Installed packages can add commands: an entry point of the group `warpsmith.commands` that names a
click command, or a callable that gives one.

## Exit codes

| code | meaning |
| ---: | --- |
"""


def page() -> str:
    """The whole of docs/cli.md."""
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in exits.MEANINGS.items())
    root = click.Context(
        warpsmith,
        info_name="warpsmith",
        max_content_width=WIDTH,
        terminal_width=WIDTH,
        **warpsmith.context_settings,
    )
    return (
        HEAD
        + codes
        + "".join(f"\n## {name}\n\n```text\n{_help(root, name)}\n```\n" for name in COMMANDS)
    )


def _help(root: click.Context, name: str) -> str:
    command = warpsmith.get_command(root, name)
    assert command is not None
    context = click.Context(command, root, info_name=name, terminal_width=WIDTH)
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


if __name__ == "__main__":
    print(page(), end="")
