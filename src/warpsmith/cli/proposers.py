"""`warpsmith proposers`: who can suggest kernels on this machine."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
from typing import Any

import click

from ..errors import WarpsmithError
from .options import common, emit, examples


@click.command(
    "proposers",
    short_help="What --proposer takes.",
    epilog=examples("warpsmith proposers", "warpsmith proposers --json"),
)
@common
def command(as_json: bool) -> int:
    """List what --proposer takes: built-in proposers and those of installed plug-ins."""
    from ..spec import plugin_names

    found = [_describe(name) for name in plugin_names("proposer")]
    if as_json:
        emit({"proposers": found})
        return 0
    width = max((len(p["name"]) for p in found), default=0)
    for proposer in found:
        click.echo(f"{proposer['name']:<{width}}  {proposer['says']}")
    return 0


def _describe(name: str) -> dict[str, Any]:
    """Name, first line of the docstring, and the options that its factory takes."""
    from ..spec import load_plugin

    try:
        factory = load_plugin("proposer", name)
    except (ImportError, AttributeError, WarpsmithError) as error:
        return {"name": name, "usable": False, "says": f"cannot be loaded: {error}", "options": []}
    says = (inspect.getdoc(factory) or "").split("\n")[0]
    options = list(inspect.signature(factory).parameters)
    return {"name": name, "usable": True, "says": says, "options": options}
