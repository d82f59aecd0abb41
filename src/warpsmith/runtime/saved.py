"""The folder of a saved operator: what is in it, its hashes, and how it is read and written whole."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import OperatorError

FORMAT = 1
PROVENANCE = "provenance.json"


def digest(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def write(
    folder: Path, files: Mapping[str, str], provenance: dict[str, Any], replace: bool
) -> None:
    """Write a saved operator in one step: the folder is complete or as it was.

    Raises OperatorError if something else is there: another operator (unless `replace`), or files
    that are not a saved operator.
    """
    _refuse_other(folder, provenance, replace)
    provenance["files"] = {name: digest(text) for name, text in sorted(files.items())}
    provenance["seal"] = seal_of(provenance)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, text in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(text.encode())
        (fresh / PROVENANCE).write_text(json.dumps(provenance, indent=1) + "\n")
        fresh.chmod(0o755 & ~_umask())
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def below(name: str) -> str:
    """The name itself, if it stays in the folder that it is put in. Raises OperatorError."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\\" in name:
        raise OperatorError(
            f"a candidate's file is named {name!r}; expected a name below its folder"
        )
    return name


def read(folder: Path) -> dict[str, Any]:
    """The provenance of a saved operator whose files are all there and unchanged.

    Raises OperatorError naming the file otherwise.
    """
    provenance = read_provenance(folder)
    if provenance.get("seal") != seal_of(provenance):
        raise OperatorError(f"{folder / PROVENANCE} was changed after it was written; save again")
    for name, expected in provenance["files"].items():
        path = folder / name
        if not path.is_file():
            raise OperatorError(f"{folder}: the file {name!r} is missing; save the operator again")
        if digest(path.read_bytes()) != expected:
            raise OperatorError(
                f"{path} was changed after it was judged (its sha256 differs from {PROVENANCE}). "
                "Put the old file back, or judge the new one and save it: warpsmith check, then "
                "warpsmith.save"
            )
    return provenance


def read_provenance(folder: Path) -> dict[str, Any]:
    path = folder / PROVENANCE
    if not path.is_file():
        what = "has no provenance.json" if folder.is_dir() else "does not exist"
        raise OperatorError(
            f"{folder} {what}; expected a folder written by warpsmith.save or warpsmith optimize"
        )
    try:
        provenance: dict[str, Any] = json.loads(path.read_text())
        found = int(provenance["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise OperatorError(f"{path} cannot be read: {error!r}") from None
    if found > FORMAT:
        by = provenance.get("versions", {}).get("warpsmith", "a newer one")
        raise OperatorError(
            f"{folder} has format {found}, written by warpsmith {by}; this one reads up to "
            f"{FORMAT}. To update: pip install -U warpsmith"
        )
    return provenance


def seal_of(provenance: Mapping[str, Any]) -> str:
    """A hash of everything else in the provenance: an edited number is noticed."""
    rest = {k: v for k, v in provenance.items() if k != "seal"}
    return digest(json.dumps(rest, sort_keys=True))


def _refuse_other(folder: Path, provenance: Mapping[str, Any], replace: bool) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        there = read_provenance(folder)
    except OperatorError:
        raise OperatorError(
            f"{folder} is there already and is not a saved operator; choose another folder"
        ) from None
    if there.get("identity") != provenance["identity"] and not replace:
        raise OperatorError(
            f"{folder} holds another operator, {there.get('name')}, saved {there.get('saved')}; "
            "choose another folder, or pass overwrite=True"
        )


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now
