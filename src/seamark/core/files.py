"""Files that are written whole or not at all, and read with a limit."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seamark.errors import UsageError

PRIVATE = 0o600
_NEW = 0o666


def write_atomically(data: bytes, target: Path, *, mode: int | None = None, is_new: bool = False) -> None:
    """Write a file beside its place and put it there when it is on the disk. Without a mode the umask decides.

    With `is_new` nothing is replaced: FileExistsError where there is a file, also one that was made meanwhile.
    """
    draft = target.with_name(f".seamark-{secrets.token_hex(8)}")
    try:
        # It has its mode from the beginning: no other user can read a private file while it is written.
        first = _NEW if mode is None else mode
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, first), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            draft.chmod(mode)
        if is_new:
            os.link(draft, target)
        else:
            draft.replace(target)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def read_limited(path: Path, *, most_bytes: int, what: str) -> bytes:
    """Read a file that the user named. UsageError where it can't be read, or is larger than `what` can be."""
    try:
        with path.expanduser().open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise UsageError(f"{path} can't be read", cause=cause, hint=f"pass the path of {what}") from None
    if len(data) > most_bytes:
        raise UsageError(f"{path} is too large to be {what}", cause=f"it has more than {most_bytes} bytes")
    return data


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A location in a file. `line` and `column` count from 1; 0 where the format has none."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """As editors and compilers write it: `config/log.yaml:12:5`."""
        numbers = [str(number) for number in (self.line, self.column) if number]
        return ":".join([self.file, *numbers])
