"""What is said of a record that can't be a row."""

from __future__ import annotations

from seamark.errors import RejectedError
from seamark.pipelines.landing import Landing


def build_refusal(landing: Landing, which: str, *, reason: str) -> RejectedError:
    """The error for a record that can't be a row."""
    return RejectedError(
        f"{which} can't be a row of {landing.table}",
        cause=reason,
        hint="mend the columns of the landing; or let such records be kept apart: on_error: dead-letter",
    )
