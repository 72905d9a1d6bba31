"""A view as HTML, for notebooks: the same lines as in a terminal, every text escaped, no script, no style sheet."""

from __future__ import annotations

from html import escape as escape_html
from typing import Any

from seamark.report.listing import View
from seamark.report.safety import escape
from seamark.report.text import Line, Screen, Span, Style

# Each can be read on white and on a dark page (contrast above 3:1 on both); the words say the same without them.
_STYLES = {
    Style.STRONG: "font-weight:bold",
    Style.MUTED: "opacity:0.75",
    Style.GOOD: "color:#2a8f4f",
    Style.WARN: "color:#b07a00",
    Style.BAD: "color:#d9453d",
}
_BLOCK = "font-family:monospace;white-space:pre-wrap;line-height:1.35;color:inherit;background:transparent;margin:0"


def render_html(view: View[Any]) -> str:
    """The whole view as one block. A line break stands after each line, so that it can be copied as text."""
    lines = "\n".join(_render_line(spans) for spans in view.build_lines(Screen()))
    return f'<pre style="{_BLOCK}">{lines}</pre>'


def _render_line(spans: Line) -> str:
    return "".join(_render_span(span) for span in spans)


def _render_span(span: Span) -> str:
    # Control characters first: a name must play no tricks with the direction of the text either.
    text = escape_html(escape(span.text))
    style = _STYLES.get(span.style)
    return f'<span style="{style}">{text}</span>' if style and text else text
