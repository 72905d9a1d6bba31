"""Files of a pull: written whole or not at all, and shown without secrets."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from pathlib import Path

from seamark.core.files import write_whole
from seamark.core.plugin_keys import find_secret_keys
from seamark.core.sensitive import MASK, mask_text, mask_value
from seamark.errors import RefusedError, SeamarkError
from seamark.specs.definition import Definition
from seamark.specs.pull_model import PulledFile

# A shorter piece of a secret says nothing, and would be found all over the file.
_SHORTEST_PIECE = 4


def write_files(files: Sequence[PulledFile]) -> None:
    """Write all files, each whole or not at all. All must still be as they were read, or none is written."""
    for file in files:
        _refuse_changed(file)
    for file in files:
        _write(file)


def _refuse_changed(file: PulledFile) -> None:
    path = Path(file.path)
    if file.before is None:
        if path.exists():
            raise RefusedError(f"{path} was made in the meantime", cause="nothing was written", hint="pull again")
        return
    try:
        present = path.read_bytes()
    except OSError:
        present = b""
    if present != file.before.encode(file.encoding):
        raise RefusedError(f"{path} was changed in the meantime", cause="nothing was written", hint="pull again")


def _write(file: PulledFile) -> None:
    path = Path(file.path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link is followed: what it leads to is the file.
        target = path.resolve()
        mode = None if file.before is None else stat.S_IMODE(target.stat().st_mode)
        write_whole(file.after.encode(file.encoding), target, mode=mode)
    except OSError as error:
        raise SeamarkError(
            f"{path} can't be written",
            cause=error.strerror or type(error).__name__,
            hint="look whether you may write in that folder; pull again goes on where this one ended",
        ) from None


def build_diff(path: str, before: str, after: str, definitions: Iterable[Definition]) -> str:
    """The change as `diff -u` shows it. Secrets that stand in the file are masked."""
    pieces = _find_secrets(definitions)
    source = f"a/{path}" if before else "/dev/null"
    lines = unified_diff(before.splitlines(), after.splitlines(), source, f"b/{path}", lineterm="")
    return "\n".join(_mask(line, pieces) for line in lines)


def _find_secrets(definitions: Iterable[Definition]) -> list[tuple[str, str]]:
    """Each secret of the file as it is written there, in pieces of one line, with its key."""
    found: dict[tuple[str, str], None] = {}
    for definition in definitions:
        leaves = {**definition.inherited, **definition.own}
        # The file may have keys that the running connector hasn't, of another class too.
        secret = find_secret_keys(definition.connector.config)
        for key, leaf in leaves.items():
            if mask_value(key, leaf.scalar.text, secret) == leaf.scalar.text:
                continue
            raw = leaf.document.text[leaf.scalar.start : leaf.scalar.end]
            for piece in (*raw.splitlines(), *leaf.scalar.text.splitlines()):
                found[key, piece.strip()] = None
    return sorted(found, key=lambda pair: -len(pair[1]))


def _mask(line: str, pieces: list[tuple[str, str]]) -> str:
    for key, piece in pieces:
        if piece and piece in line and (len(piece) >= _SHORTEST_PIECE or key in line):
            line = line.replace(piece, MASK)
    return mask_text(line)
