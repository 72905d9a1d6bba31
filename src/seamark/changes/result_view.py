"""What became of a change, in one line for people and whole for programs."""

from __future__ import annotations

from typing import Any

from seamark.changes.entry import Ending
from seamark.changes.result import ChangeResult, Outcome, StepResult
from seamark.report.error import build_error_body
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Span, Style, line
from seamark.report.words import render_count, render_duration

_OUTCOMES = {
    Outcome.DONE: ("✓", Style.GOOD),
    Outcome.NOTHING_TO_DO: ("=", Style.MUTED),
    Outcome.DID_NOT_HAPPEN: ("✗", Style.BAD),
    Outcome.UNKNOWN: ("?", Style.WARN),
    Outcome.FOREIGN: ("▲", Style.WARN),
}

# Steps that nobody can take back, and with them the whole change.
_FOR_GOOD = frozenset({"delete-topic", "grow-topic"})

STEP_LISTING: Listing[StepResult] = Listing(
    kind="Change",
    noun="step",
    name=lambda step: step.subject,
    columns=(
        Column("number", "STEP", lambda step: step.number, right=True),
        Column("kind", "KIND", lambda step: step.kind),
        Column("subject", "SUBJECT", lambda step: step.subject),
        Column("outcome", "OUTCOME", lambda step: step.outcome.value),
        Column("error", "ERROR", lambda step: build_error_body(step.error) if step.error else None),
        Column("note", "NOTE", lambda step: step.note or None),
    ),
)


def build_change_view(result: ChangeResult, *, seconds: float) -> View[StepResult]:
    """How a change ended, after so many seconds."""
    return View(
        STEP_LISTING,
        result.steps,
        body=lambda: _build_result_body(result, seconds),
        lines=lambda _screen: [build_result_line(result, seconds=seconds)],
    )


def build_step_line(step: StepResult) -> Line:
    """One step as it ended: `✓ pause connector/game/a: its tasks stay and wait`."""
    symbol, style = _OUTCOMES[step.outcome]
    words = "" if step.outcome is Outcome.DONE else f": {step.outcome}"
    if step.note:
        words += f": {step.note}"
    return line("  ", Span(symbol, style), f" {step.words}{words}")


def build_result_line(result: ChangeResult, *, seconds: float) -> Line:
    """The last line: how it ended, and the way back."""
    is_final = any(step.kind in _FOR_GOOD and step.outcome is Outcome.DONE for step in result.steps)
    undo = "" if is_final else f" Undo: seamark journal undo {result.change}"
    took = f"in {render_duration(seconds)}"
    done = sum(step.outcome is Outcome.DONE for step in result.steps)
    if not result.change:
        return line("Nothing to do.")
    if result.ending is Ending.DONE:
        return line(Span("✓", Style.GOOD), f" Change {result.change} done {took}.{undo if done else ''}")
    if result.ending is Ending.PARTLY:
        of = f"{done} of {render_count(len(result.steps) + len(result.left), 'step')}"
        return line(Span("▲", Style.WARN), f" Change {result.change} partly done {took}: {of}.{undo}")
    if result.ending is None:
        return line(Span("?", Style.WARN), f" Change {result.change} is still open.")
    return line(Span("✗", Style.BAD), f" Change {result.change} failed {took}; nothing was changed.")


def _build_result_body(result: ChangeResult, seconds: float) -> dict[str, Any]:
    return {
        "change": result.change,
        "title": result.title,
        "ending": result.ending.value if result.ending else None,
        "seconds": round(seconds, 3),
        "steps": STEP_LISTING.build_items(result.steps),
        "left": list(result.left),
        "interrupted": result.interrupted,
    }
