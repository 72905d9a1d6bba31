"""The reporter: the one way by which anything reaches a person or a pipe.

Data goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TextIO

from seamark.core.secrets import mask_text
from seamark.errors import PartialError, SeamarkError
from seamark.report.data import OutputFormat, build_document, render_json_line
from seamark.report.listing import View, render_tick, stream_view
from seamark.report.text import Line, Screen, Span, Style, escape, line, render_lines


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


class ColorMode(StrEnum):
    """What `--color` takes."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(slots=True)
class TerminalReporter:
    """Writes to two streams, in one format."""

    form: OutputFormat = OutputFormat.TABLE
    headers: bool = True
    quiet: bool = False
    color: ColorMode = ColorMode.AUTO
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def show(self, view: View[Any]) -> None:
        """Write an answer to standard output; say on standard error when there is nothing in it."""
        self.out.writelines(stream_view(view, self.form, self.build_screen()))
        self._note_empty(view)
        self.out.flush()

    def show_tick(self, view: View[Any], moment: datetime, *, first: bool) -> None:
        """Append one reading of many."""
        self.out.write(render_tick(view, self.form, moment=moment, screen=self.build_screen(), first=first))
        # The reader of a pipe waits for this update, not for a full buffer.
        self.out.flush()

    def note(self, text: str) -> None:
        """Write a remark to standard error, unless output is quiet."""
        if not self.quiet:
            self._write_error(f"{escape(text, multiline=True)}\n")

    def fail(self, error: SeamarkError) -> None:
        """Write an error to standard error: three lines, or one json object with `-o json`."""
        self._write_error(render_error(error, self.form, color=can_color(self.err, self.color, self.environ)))

    def build_screen(self) -> Screen:
        """Standard output as it is now; a terminal may have been resized since the last time."""
        width = shutil.get_terminal_size().columns if is_terminal(self.out) else None
        return Screen(width=width, color=can_color(self.out, self.color, self.environ), headers=self.headers)

    def _note_empty(self, view: View[Any]) -> None:
        if view.empty and not view.rows and self.form.is_text:
            self.note(view.empty)

    def _write_error(self, text: str) -> None:
        # What was found comes before what went wrong, also where both streams are one file.
        self.out.flush()
        self.err.write(text)
        self.err.flush()


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at the stream."""
    return not stream.closed and stream.isatty()


def can_color(stream: TextIO, mode: ColorMode, environ: Mapping[str, str]) -> bool:
    """Whether to colour: the flag decides, then NO_COLOR, then FORCE_COLOR, then the terminal."""
    if mode is not ColorMode.AUTO:
        return mode is ColorMode.ALWAYS
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0", "false"):
        return True
    return is_terminal(stream) and environ.get("TERM") != "dumb"
