"""Java properties files of the operator: read with a limit, and with errors that name them."""

from __future__ import annotations

from pathlib import Path

from seamark.context.files import read_limited
from seamark.context.java_properties import MalformedEscapeError, Property, parse_properties
from seamark.context.origin import Origin
from seamark.errors import ConfigurationError

# Worker files are a few kilobytes; one with inline certificates stays far below a mebibyte.
MAX_BYTES = 1 << 20


def read_properties(path: Path, *, origin: Origin) -> dict[str, Property]:
    """The keys of a file. `origin` names the file in errors."""
    data = read_limited(path, limit=MAX_BYTES, place=str(origin))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # What Java's own loader assumes. Every byte has a meaning there, so this can't fail.
        text = data.decode("latin-1")
    malformed = None
    try:
        return {found.key: found for found in parse_properties(text)}
    except MalformedEscapeError as error:
        malformed = error.line
    raise ConfigurationError(
        f"{origin.place} is not a Java properties file",
        cause=f"{origin.place}:{malformed}: \\u must be followed by four hexadecimal digits",
        hint=f"correct line {malformed}; a backslash itself is written \\\\",
        context={"file": origin.place},
    )
