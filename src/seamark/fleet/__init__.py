"""The Python API: one context with everything that can be read and changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.core import build_lazy_names

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.fleet.fleet import Fleet

__all__ = ["Fleet", "open_fleet"]

# `import seamark.fleet` stays cheap: the clients are loaded when a context is opened.
__getattr__ = build_lazy_names(__name__, {"Fleet": "seamark.fleet.fleet"})


def open_fleet(name: str | None = None, *, context: Context | None = None) -> Fleet:
    """Open a context by name, or the current one, or the one given. No server is contacted yet."""
    from seamark.fleet.fleet import Fleet  # noqa: PLC0415

    if context is None:
        from seamark.context import open_context  # noqa: PLC0415

        context = open_context(name)
    return Fleet(context)
