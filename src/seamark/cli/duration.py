"""Lengths of time as people type them."""

from __future__ import annotations

from typing import Any

import click

from seamark.core.duration import parse_duration


class Duration(click.ParamType[float]):
    """A length of time as a Click parameter, in seconds."""

    name = "duration"

    def __init__(self, *, minimum_seconds: float = 0.0) -> None:
        self.minimum_seconds = minimum_seconds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, or a usage error that shows the forms."""
        try:
            seconds = value if isinstance(value, float) else parse_duration(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a length of time, such as 500ms, 2s or 5m", param, ctx)
        if seconds < self.minimum_seconds:
            self.fail(f"{value!r} is shorter than {self.minimum_seconds:g}s", param, ctx)
        return seconds
