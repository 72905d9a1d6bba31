"""A new spec file for one connector."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from seamark.specs.render import render_block, render_key, render_text

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]|^\.|\.$")
# File systems take 255 bytes; the ending and a number need some.
_MAX_NAME = 200
_FIRST_KEY = "connector.class"


def compose_file(
    name: str,
    config: Mapping[str, str],
    *,
    cluster: str | None = None,
    state: str = "",
    without: Iterable[str] = (),
) -> str:
    """The text of a YAML file with this connector alone. `without` are inherited keys that it must not have."""
    lines = [f"cluster: {render_text(cluster)}"] if cluster is not None else []
    lines += ["connectors:", f"  - name: {render_text(name)}"]
    lines += [f"    state: {state.lower()}"] if state else []
    lines.append("    config:")
    for key in sorted(config, key=lambda key: (key != _FIRST_KEY, key)):
        lines.append(f"      {render_key(key)}: {_render_value(config[key])}")
    lines += [f"      {render_key(key)}: null" for key in sorted(without)]
    return "\n".join(lines) + "\n"


def build_file_name(name: str) -> str:
    """A file name for a connector, without its ending: harmless whatever the name is, and never that of another.

    Letters, digits, dots and dashes stay. Everything else is written %XX, as in addresses; an underscore is kept but
    at the beginning, where it would hide the file.
    """
    safe = _UNSAFE.sub(lambda found: _quote(found[0]), name)
    safe = re.sub(r"(?<!^)%5F", "_", safe)
    if len(safe) <= _MAX_NAME:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{safe[: _MAX_NAME - 17]}~{digest}"


def _quote(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _render_value(text: str) -> str:
    block = render_block(text, indent=" " * 8) if "\n" in text else None
    return block or render_text(text)
