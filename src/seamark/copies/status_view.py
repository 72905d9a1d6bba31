"""Where copies are, as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.copies.status import CopyState, CopyStatus
from seamark.core.reading import Reading
from seamark.report.error import build_failures
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Span, Style, line
from seamark.report.words import render_count, render_number

_MOST_DEBRIS = 5
_SYMBOLS = {
    CopyState.COPIED: ("✓", Style.GOOD),
    CopyState.BEHIND: ("▲", Style.WARN),
    CopyState.UNFINISHED: ("▲", Style.WARN),
    CopyState.BROKEN: ("✗", Style.BAD),
}


def _render_state(copy: CopyStatus) -> str:
    return f"{_SYMBOLS[copy.state][0]} {copy.state}"


LISTING: Listing[CopyStatus] = Listing(
    kind="CopyList",
    noun="copy",
    name=lambda copy: copy.plan.id,
    columns=(
        Column("id", "ID", lambda copy: copy.plan.id),
        Column("source", "SOURCE", lambda copy: copy.plan.source.topic),
        Column("target", "TARGET", lambda copy: copy.plan.target.topic),
        Column(
            "state",
            "STATE",
            lambda copy: copy.state.value,
            text=_render_state,
            style=lambda copy: _SYMBOLS[copy.state][1],
        ),
        Column("slices_done", "DONE", lambda copy: copy.progress.done if copy.progress else None, right=True),
        Column("slices", "SLICES", lambda copy: len(copy.plan.slices), right=True),
        Column(
            "offsets_copied",
            "COPIED",
            lambda copy: copy.copied,
            text=lambda copy: render_number(copy.copied),
            right=True,
        ),
        Column("behind", "BEHIND", lambda copy: copy.behind, text=lambda copy: _number(copy.behind), right=True),
        Column("registered_by", "BY", lambda copy: copy.registration.by, wide=True),
        Column("registered_at", "REGISTERED", lambda copy: copy.registration.registered_at, wide=True),
        Column("next", "", lambda copy: copy.next_step),
    ),
)


def build_statuses_view(reading: Reading[CopyStatus]) -> View[CopyStatus]:
    """All copies, and the plans that can't be read."""
    return View(
        LISTING,
        reading.items,
        body=lambda: {
            "items": [copy.to_dict() for copy in reading.items],
            "failures": build_failures(reading.failures),
        },
        empty="no copy was run with this control topic",
    )


def build_status_view(copy: CopyStatus) -> View[CopyStatus]:
    """One copy, with the next step."""
    return View(LISTING, (copy,), kind="Copy", body=copy.to_dict, lines=lambda _: list(_build_lines(copy)))


def _build_lines(copy: CopyStatus) -> Iterator[Line]:
    plan, progress = copy.plan, copy.progress
    yield line(
        Span(f"Copy {plan.id}", Style.STRONG),
        f"  {plan.source.topic} ({plan.source.partitions}) → {plan.target.topic} ({plan.target.partitions})  ",
        Span(_render_state(copy), _SYMBOLS[copy.state][1]),
    )
    yield line(
        f"  registered {copy.registration.registered_at} by {copy.registration.by}, "
        f"generation {copy.registration.generation}"
    )
    if progress is not None:
        yield line(
            f"  {progress.done} of {render_count(len(plan.slices), 'slice')} done · "
            f"{render_count(progress.count, 'record')} written, {render_number(copy.copied)} of "
            f"{render_number(plan.size)} offsets ({_render_share(copy)})"
        )
    if copy.behind is not None:
        yield line(f"  source: {render_number(copy.behind)} more since the plan's end")
    yield from _build_debris(copy)
    yield from (line(Span("  ! ", Style.WARN), note) for note in copy.notes)
    if copy.trouble is not None:
        yield line(Span("  ✗ ", Style.BAD), copy.trouble.message)
        if copy.trouble.cause:
            yield line(f"    {copy.trouble.cause}")
    yield line(f"  next: {copy.next_step}")


def _build_debris(copy: CopyStatus) -> Iterator[Line]:
    if not copy.debris:
        return
    count = sum(one.size for one in copy.debris)
    yield line(
        f"  debris: {render_count(count, 'offset')} of the target are of attempts that failed or go on; readers of "
        "committed records don't see them"
    )
    for one in copy.debris[:_MOST_DEBRIS]:
        yield line(f"    partition {one.target}: {render_number(one.first)} to {render_number(one.last)}")
    if len(copy.debris) > _MOST_DEBRIS:
        yield line(f"    … {len(copy.debris) - _MOST_DEBRIS} more: -o json")


def _render_share(copy: CopyStatus) -> str:
    # Rounded down: 100 % is said of what is done alone.
    return f"{100 * copy.copied // copy.plan.size if copy.plan.size else 100} %"


def _number(value: int | None) -> str:
    return "-" if value is None else render_number(value)
