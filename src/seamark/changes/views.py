"""Views of a plan and of a change's result: the actions, their effects, and what to know before approval."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seamark.changes.effect import ChangeKind, ClusterSurvey, Drift, DriftField, Effect, FieldChange
from seamark.changes.journal import Ending
from seamark.changes.outcome import ChangeResult, Outcome, StepResult
from seamark.changes.step import StepData
from seamark.core.secrets import MASK, mask_config, mask_text
from seamark.report.data import render_compact
from seamark.report.listing import Column, Listing, View
from seamark.report.table import cut
from seamark.report.terminal import build_error_body
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count, render_duration, render_number

if TYPE_CHECKING:
    from seamark.changes.plan import Plan

_STYLES = {ChangeKind.CREATE: Style.GOOD, ChangeKind.CHANGE: Style.WARN, ChangeKind.DELETE: Style.BAD}
WORDS = {ChangeKind.CREATE: "create", ChangeKind.CHANGE: "change", ChangeKind.DELETE: "delete"}
_INDENT = " " * 6
# Not every field of a hundred connectors is shown, but every connector has its line.
_LARGE_PLAN = 50
_SHOWN_FIELDS = 3
# A longer value is a file's content or hundreds of records; its hash still shows that it differs.
_LONGEST_SETTING = 2000


EFFECT_LISTING: Listing[Effect] = Listing(
    kind="Plan",
    noun="effect",
    name=lambda effect: effect.subject,
    columns=(
        Column("action", "ACTION", lambda effect: WORDS[effect.sign]),
        Column("subject", "SUBJECT", lambda effect: effect.subject),
        Column("effect", "EFFECT", lambda effect: effect.words),
        Column("tasks", "TASKS", lambda effect: effect.tasks, right=True),
        Column("fields", "", lambda effect: [_build_field(found) for found in effect.fields]),
    ),
)


def build_plan_view(
    plan: Plan,
    effects: Sequence[Effect],
    *,
    drifts: Sequence[Drift] = (),
    survey: Sequence[ClusterSurvey] = (),
    is_complete: bool = False,
    is_preview: bool = False,
    is_blocked: bool = False,
) -> View[Effect]:
    """Build the view of a plan with its effects; for a plan from a spec also with its drift and what was examined.

    Args:
        plan: The plan.
        effects: What its actions do, in the order of the text.
        drifts: What was changed without seamark since the spec was applied.
        survey: The Connect clusters that were read, and how many connectors each has.
        is_complete: Whether text in any format shows everything that the plan does, as the wide format does.
        is_preview: Whether the command ends here, so that the text can end with "No changes were made."
        is_blocked: Whether something that the spec declares could not be planned; a note has the reason.
    """
    more = {"drift": [_build_drift(drift) for drift in drifts], "clusters": [_build_survey(found) for found in survey]}
    return View(
        EFFECT_LISTING,
        effects,
        body=lambda: {**_build_plan_body(plan), "effects": _build_items(effects), **(more if plan.spec else {})},
        lines=lambda screen: _build_lines(
            plan,
            effects,
            replace(screen, wide=screen.wide or is_complete),
            drifts=drifts,
            survey=survey,
            is_preview=is_preview,
            is_blocked=is_blocked,
        ),
    )


def _build_items(effects: Sequence[Effect]) -> list[dict[str, Any]]:
    """Build the effects for machine-readable output; consequences for the data only if offsets move."""
    return [
        {**item, **({"outlook": list(effect.consequences)} if effect.consequences else {})}
        for effect, item in zip(effects, EFFECT_LISTING.build_items(effects), strict=True)
    ]


def _build_plan_body(plan: Plan) -> dict[str, Any]:
    body = {**plan.to_dict(), "steps": [_build_step(step) for step in plan.steps]}
    # The ownership of ten thousand connectors is for the journal; readers of a plan need only the spec's ID.
    return {**body, "spec": {"id": plan.spec.get("id", "")}} if plan.spec else body


def _build_step(step: StepData) -> dict[str, Any]:
    """Build a step without secrets that only the form of a value reveals, such as a password in a URL."""
    config = step.arguments.get("config")
    shown = {"config": mask_config(config)} if isinstance(config, Mapping) else {}
    return {**step.to_dict(), "arguments": {**step.arguments, **shown}}


def _build_field(field: FieldChange) -> dict[str, Any]:
    note: dict[str, Any] = {"note": field.note} if field.note else {}
    if field.preview is not None:
        note["preview"] = dict(field.preview.as_dict())
    return {"key": field.key, "before": field.before, "after": field.after, "sensitive": field.is_sensitive, **note}


def _build_drift(drift: Drift) -> dict[str, Any]:
    fields = [
        {
            "key": field.key,
            "applied": field.applied,
            "live": field.live,
            "wanted": field.wanted,
            "sensitive": field.is_sensitive,
        }
        for field in drift.fields
    ]
    return {"subject": drift.subject, "words": drift.words, "change": drift.change, "fields": fields}


def _build_survey(found: ClusterSurvey) -> dict[str, Any]:
    return {
        "name": found.name,
        "version": found.version,
        "workers": found.workers,
        "connectors": found.connectors,
        "unchanged": found.unchanged,
        "foreign": found.foreign,
    }


def _build_lines(
    plan: Plan,
    effects: Sequence[Effect],
    screen: Screen,
    *,
    drifts: Sequence[Drift],
    survey: Sequence[ClusterSurvey],
    is_preview: bool,
    is_blocked: bool,
) -> list[Line]:
    lines = [_build_head(plan, survey), *([line(f"  undoes change {plan.undoes}")] if plan.undoes else [])]
    subjects = [*(effect.subject for effect in effects), *(drift.subject for drift in drifts)]
    width = max(map(len, subjects), default=0)
    for drift in drifts:
        lines += _build_drift_lines(drift, width=width, screen=screen)
    for effect in effects:
        lines += _build_effect(effect, width=width, screen=screen, is_large=len(effects) > _LARGE_PLAN)
    if screen.wide:
        lines += _build_settings(plan)
    lines += [line(Span("! ", Style.WARN), note) for note in plan.notes]
    if plan.is_empty:
        return [*lines, line("No changes." if is_blocked else "No changes. Everything is as it should be.")]
    if plan.pace is not None:
        wait = "; each group waits until the workers are stable" if plan.pace.wait_stable else ""
        lines.append(line(f"Pace: {render_number(plan.pace.parallel)} at once{wait}."))
    summary = _build_summary(effects, is_whole=bool(plan.spec) and not plan.undoes)
    return [*lines, *_build_legend(effects), line(f"{summary} No changes were made." if is_preview else summary)]


def _build_head(plan: Plan, survey: Sequence[ClusterSurvey]) -> Line:
    if not survey:
        return line(Span(f"Plan for context {plan.context}: ", Style.STRONG), plan.title)
    read, unchanged = (sum(getattr(found, key) for found in survey) for key in ("connectors", "unchanged"))
    foreign = sum(found.foreign for found in survey)
    workers = render_count(sum(found.workers for found in survey), "worker")
    where = f'Connect "{survey[0].name}" {survey[0].version}'.rstrip()
    if len(survey) > 1:
        where = f"{render_number(len(survey))} Connect clusters"
    beside = f", {render_number(foreign)} not in this spec" if foreign else ""
    counts = f"{render_count(read, 'connector')} read, {render_number(unchanged)} unchanged{beside}"
    return line(Span(f"Context {plan.context}", Style.STRONG), f" · {where}, {workers} · {counts}")


def _build_settings(plan: Plan) -> list[Line]:
    """Return what a plan does beyond its effects: the fields of its actions, and the spec it is recorded for."""
    rows = [(f"{action.subject} ({action.kind})", action.find_settings()) for action in plan.actions]
    shown = [
        line(f"{_INDENT}{name}  {'  '.join(f'{key}={_render_setting(value)}' for key, value in found.items())}")
        for name, found in rows
        if found
    ]
    spec = [line(f"{_INDENT}spec {plan.spec.get('id', '')}")] if plan.spec else []
    return [line(Span("  settings:", Style.MUTED)), *spec, *shown] if spec or shown else []


def _render_setting(value: Any) -> str:
    text = render_compact(value)
    if len(text) > _LONGEST_SETTING:
        return f"({render_number(len(text))} characters, SHA-256 {hashlib.sha256(text.encode()).hexdigest()})"
    return mask_text(text)


def _build_drift_lines(drift: Drift, *, width: int, screen: Screen) -> list[Line]:
    said = f" {drift.subject:<{width}}   {drift.words} since change {drift.change}"
    lines = [line("  ", Span("drift", Style.WARN), said)]
    keys = max((len(found.key) for found in drift.fields), default=0)
    return [*lines, *(_build_row(found.key, _render_drift(found), keys, screen) for found in drift.fields)]


def _render_drift(field: DriftField) -> str:
    if field.is_sensitive:
        return f"{MASK} changed"
    shown = f"{_quote(field.applied, absent='(not set)')} → {_quote(field.live, absent='(removed)')}"
    if field.wanted == field.live:
        return f"{shown}, as the spec has it now"
    if field.wanted is None:
        return f"{shown}; apply would remove it"
    verb = "restore" if field.wanted == field.applied else "set"
    return f'{shown}; apply would {verb} "{field.wanted}"'


def _build_effect(effect: Effect, *, width: int, screen: Screen, is_large: bool) -> list[Line]:
    lines = [line("  ", Span(effect.sign, _STYLES[effect.sign]), f" {effect.subject:<{width}}   ", effect.words)]
    consequences = [line(f"{_INDENT}{words}") for words in effect.consequences]
    # A new connector has nothing to compare with; `-o wide` shows its whole config.
    if effect.sign is ChangeKind.CREATE and not screen.wide:
        return [*lines, *consequences]
    fields = effect.fields[:_SHOWN_FIELDS] if is_large and not screen.wide else effect.fields
    keys = max((len(found.key) for found in fields), default=0)
    lines += [_build_row(found.key, render_field(found), keys, screen) for found in fields]
    if len(fields) < len(effect.fields):
        lines.append(line(f"{_INDENT}… {render_count(len(effect.fields) - len(fields), 'field')} more: -o wide"))
    return [*lines, *consequences]


def _build_row(key: str, value: str, width: int, screen: Screen) -> Line:
    text = f"{_INDENT}{key:<{width}}  {value}"
    return line(text if screen.width is None or screen.wide else cut(text, screen.width))


def render_field(field: FieldChange) -> str:
    """Format the change of one value: `"6" → "4"`, or for a secret only that it changes."""
    if field.is_sensitive:
        return f"{MASK} {'added' if field.before is None else 'removed' if field.after is None else 'changed'}"
    note = f", {field.note}" if field.note else ""
    return f"{_quote(field.before, absent='(not set)')} → {_quote(field.after, absent='(removed)')}{note}"


def _quote(value: str | None, *, absent: str) -> str:
    return absent if value is None else f'"{value}"'


def _build_summary(effects: Sequence[Effect], *, is_whole: bool) -> str:
    """Format the counts. A plan from a spec shows every count, even if it is zero."""
    found = {sign: sum(effect.sign is sign for effect in effects) for sign in WORDS}
    counts = [f"{render_number(found[sign])} to {word}" for sign, word in WORDS.items() if found[sign] or is_whole]
    tasks = sum(effect.tasks for effect in effects)
    # The plugin decides how many tasks a new connector really creates.
    bound = "Up to " if any(effect.sign is ChangeKind.CREATE and effect.tasks > 1 for effect in effects) else ""
    moved = (
        f" {bound}{render_count(tasks, 'task')} start{'s' if tasks == 1 else ''} or restart{'s' if tasks == 1 else ''}."
    )
    return f"Plan: {', '.join(counts)}.{moved if tasks else ''}"


def _build_legend(effects: Sequence[Effect]) -> list[Line]:
    """Build the line that explains the signs, if there are several: a single one is explained by the summary."""
    used = [sign for sign in ChangeKind if any(effect.sign is sign for effect in effects)]
    if len(used) == 1:
        return []
    return [line(Span("  ".join(f"{sign} {WORDS[sign]}" for sign in used), Style.MUTED))]


_OUTCOMES = {
    Outcome.DONE: ("✓", Style.GOOD),
    Outcome.NOTHING_TO_DO: ("=", Style.MUTED),
    Outcome.DID_NOT_HAPPEN: ("✗", Style.BAD),
    Outcome.UNKNOWN: ("?", Style.WARN),
    Outcome.FOREIGN: ("▲", Style.WARN),
}

# Steps that can't be undone, so that the whole change can't be undone.
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
    """Build the view of how a change ended, with its duration in seconds."""
    return View(
        STEP_LISTING,
        result.steps,
        body=lambda: _build_result_body(result, seconds),
        lines=lambda _screen: [build_result_line(result, seconds=seconds)],
    )


def build_step_line(step: StepResult) -> Line:
    """Build the line of one finished step: `✓ pause connector/game/a: its tasks stay assigned`."""
    symbol, style = _OUTCOMES[step.outcome]
    words = "" if step.outcome is Outcome.DONE else f": {step.outcome}"
    if step.note:
        words += f": {step.note}"
    return line("  ", Span(symbol, style), f" {step.words}{words}")


def is_final(result: ChangeResult) -> bool:
    """Return whether a change has done something that no undo can reverse."""
    return any(step.kind in _FOR_GOOD and step.outcome is Outcome.DONE for step in result.steps)


def build_result_line(result: ChangeResult, *, seconds: float) -> Line:
    """Build the last line: how the change ended, and the command that undoes it."""
    undo = "" if is_final(result) else f" Undo: seamark journal undo {result.change}"
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
    return line(Span("✗", Style.BAD), f" Change {result.change} failed {took}; no changes were made.")


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
