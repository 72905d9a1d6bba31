"""Values in, text out: tables, json, yaml, csv and names, safe for a terminal.

Nothing here asks a server. What a person sees is built as lines of spans, and spans are escaped in
one place, so no value from outside reaches a terminal raw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.report.data import OutputFormat
    from seamark.report.listing import render_view
    from seamark.report.table import render_sparkline
    from seamark.report.terminal import TerminalReporter
    from seamark.report.text import escape

__all__ = [
    "OutputFormat",
    "TerminalReporter",
    "escape",
    "render_sparkline",
    "render_view",
]

_LAZY = {
    "OutputFormat": "seamark.report.data",
    "TerminalReporter": "seamark.report.terminal",
    "escape": "seamark.report.text",
    "render_sparkline": "seamark.report.table",
    "render_view": "seamark.report.listing",
}


def __getattr__(name: str) -> Any:
    # The command line asks for the words of OutputFormat at every start and must not pay for more.
    if name not in _LAZY:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_LAZY[name]), name)
