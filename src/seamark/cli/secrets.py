"""Secrets on the command line: by reference, by file, from standard input, never as they are.

A command line is seen by every user of the machine and kept in the shell's history.
"""

from __future__ import annotations

import sys
from pathlib import Path

from seamark.cli.session import Session
from seamark.core.sensitive import is_reference
from seamark.errors import UsageError

_HOW = "give secret://env/NAME, secret://file/PATH#KEY, @FILE, or - to read it from standard input"


def read_secret(session: Session, given: str, *, option: str) -> str:
    """What to write into a contexts file for a secret.

    A reference stays what it is, `@FILE` becomes a reference to the whole of that file, and `-` is
    the first line of standard input.
    """
    if is_reference(given):
        return given
    if given == "-":
        return _read_line(session, option=option)
    if given.startswith("@") and len(given) > 1:
        return _build_file_reference(Path(given[1:]), option=option)
    # The message must not repeat what was given: it is a secret.
    raise UsageError(f"{option} does not take the secret itself", hint=_HOW)


def _build_file_reference(path: Path, *, option: str) -> str:
    whole = path.expanduser().resolve()
    if not whole.is_file():
        raise UsageError(f"the file of {option} is not there: {path}", hint=_HOW)
    if "#" in str(whole):
        raise UsageError(f"the path of {option} holds a #: {path}", hint="a # begins a key; rename the file or folder")
    return f"secret://file/{whole}"


def _read_line(session: Session, *, option: str) -> str:
    if session.stdin is sys.stdin and session.stdin.isatty():
        if session.no_input:
            raise UsageError(f"{option} - would ask, and --no-input is set", hint=_HOW)
        from click import prompt  # noqa: PLC0415

        return str(prompt(option.lstrip("-"), hide_input=True, err=True))
    line = session.stdin.readline().rstrip("\r\n")
    if not line:
        raise UsageError(f"standard input is empty, and {option} is read from it", hint=_HOW)
    return line
