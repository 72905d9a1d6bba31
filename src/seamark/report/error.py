"""An error as three lines for people, or as the same object for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seamark.core.sensitive import mask_text
from seamark.errors import PartialError, SeamarkError
from seamark.report.data import build_document, render_json_line
from seamark.report.formats import OutputFormat
from seamark.report.text import Line, Span, Style, line, render_lines


def build_error_body(error: SeamarkError) -> dict[str, Any]:
    """The error object: code, message, cause, hint, retryable, context; a partial error also has its parts."""
    # A cause may quote a server, and a server may quote a config.
    body = {**error.as_dict(), "cause": mask_text(error.cause)}
    if isinstance(error, PartialError):
        body["failures"] = build_failures(error.failures)
    return body


def build_failures(failures: Mapping[str, SeamarkError]) -> list[dict[str, Any]]:
    """What could not be read, one a cluster: a program must see from the data that some is missing."""
    return [{"cluster": cluster, "error": build_error_body(error)} for cluster, error in failures.items()]


def build_error_lines(error: SeamarkError) -> list[Line]:
    """`error:`, `cause:` and `hint:`; what was not told is left out."""
    return [
        *_labelled("error: ", error.message, Style.BAD),
        *_labelled("cause: ", mask_text(error.cause), Style.STRONG),
        *_labelled("hint:  ", error.hint, Style.STRONG),
    ]


def render_error(error: SeamarkError, form: OutputFormat = OutputFormat.TABLE, *, color: bool = False) -> str:
    """The error as text: one json line with `-o json`, else three lines."""
    if form is OutputFormat.JSON:
        return render_json_line(build_document("Error", build_error_body(error)))
    return render_lines(build_error_lines(error), color=color)


def _labelled(label: str, text: str, style: Style) -> list[Line]:
    if not text:
        return []
    first, *rest = text.splitlines() or [""]
    return [line(Span(label, style), first), *(line(" " * len(label), more) for more in rest)]
