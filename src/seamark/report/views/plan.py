"""A plan: what will be done, what it means in operation, and what to know before saying yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seamark.model.effect import Effect, FieldChange, Sign
from seamark.model.plan import Plan, StepData
from seamark.model.sensitive import MASK, mask_config
from seamark.report.listing import Column, Listing, View
from seamark.report.table import cut
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count

_STYLES = {Sign.CREATE: Style.GOOD, Sign.CHANGE: Style.WARN, Sign.DELETE: Style.BAD}
_WORDS = {Sign.CREATE: "create", Sign.CHANGE: "change", Sign.DELETE: "delete"}
_INDENT = " " * 6

LISTING: Listing[Effect] = Listing(
    kind="Plan",
    noun="effect",
    name=lambda effect: effect.subject,
    columns=(
        Column("action", "ACTION", lambda effect: _WORDS[effect.sign]),
        Column("subject", "SUBJECT", lambda effect: effect.subject),
        Column("effect", "EFFECT", lambda effect: effect.words),
        Column("tasks", "TASKS", lambda effect: effect.tasks, right=True),
        Column("fields", "", lambda effect: [_build_field(found) for found in effect.fields]),
    ),
)


def build_plan_view(plan: Plan, effects: Sequence[Effect]) -> View[Effect]:
    """The plan with the effects of its steps."""
    return View(
        LISTING,
        effects,
        body=lambda: {**_build_body(plan), "effects": LISTING.build_items(effects)},
        lines=lambda screen: _build_lines(plan, effects, screen),
    )


def _build_body(plan: Plan) -> dict[str, Any]:
    return {**plan.to_dict(), "steps": [_build_step(step) for step in plan.steps]}


def _build_step(step: StepData) -> dict[str, Any]:
    """A step without the secrets that only the look of a value tells, such as a password in a URL."""
    config = step.arguments.get("config")
    shown = {"config": mask_config(config)} if isinstance(config, Mapping) else {}
    return {**step.to_dict(), "arguments": {**step.arguments, **shown}}


def _build_field(field: FieldChange) -> dict[str, Any]:
    return {"key": field.key, "before": field.before, "after": field.after, "sensitive": field.is_sensitive}


def _build_lines(plan: Plan, effects: Sequence[Effect], screen: Screen) -> list[Line]:
    head = line(Span(f"Plan for context {plan.context}: ", Style.STRONG), plan.title)
    if plan.is_empty:
        return [head, line("No changes. Everything is as it should be.")]
    width = max(len(effect.subject) for effect in effects)
    lines = [head, *([line(f"  takes back change {plan.undoes}")] if plan.undoes else [])]
    for effect in effects:
        lines += _build_effect(effect, width=width, screen=screen)
    lines += [line(Span("! ", Style.WARN), note) for note in plan.notes]
    return [*lines, line(_build_summary(effects)), line(Span(_build_legend(effects), Style.MUTED))]


def _build_effect(effect: Effect, *, width: int, screen: Screen) -> list[Line]:
    lines = [line("  ", Span(effect.sign, _STYLES[effect.sign]), f" {effect.subject:<{width}}   ", effect.words)]
    # A new connector has nothing to be compared with; who wants its whole config says so.
    if effect.sign is Sign.CREATE and not screen.wide:
        return lines
    keys = max((len(found.key) for found in effect.fields), default=0)
    for found in effect.fields:
        text = f"{_INDENT}{found.key:<{keys}}  {render_field(found)}"
        lines.append(line(text if screen.width is None or screen.wide else cut(text, screen.width)))
    return lines


def render_field(field: FieldChange) -> str:
    """What becomes of one value: `"6" → "4"`, or for a secret that it changes."""
    if field.is_sensitive:
        return f"{MASK} {'added' if field.before is None else 'removed' if field.after is None else 'changed'}"
    return f"{_quote(field.before, absent='(not set)')} → {_quote(field.after, absent='(taken out)')}"


def _quote(value: str | None, *, absent: str) -> str:
    return absent if value is None else f'"{value}"'


def _build_summary(effects: Sequence[Effect]) -> str:
    counts = [
        f"{sum(effect.sign is sign for effect in effects)} to {word}"
        for sign, word in _WORDS.items()
        if any(effect.sign is sign for effect in effects)
    ]
    tasks = sum(effect.tasks for effect in effects)
    moved = f" {render_count(tasks, 'task')} start{'s' if tasks == 1 else ''} or restart{'s' if tasks == 1 else ''}."
    return f"Plan: {', '.join(counts)}.{moved if tasks else ''} Nothing was changed yet."


def _build_legend(effects: Sequence[Effect]) -> str:
    used = [sign for sign in Sign if any(effect.sign is sign for effect in effects)]
    return "  ".join(f"{sign} {_WORDS[sign]}" for sign in used)
