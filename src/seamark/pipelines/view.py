"""Landings as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from seamark.errors import SeamarkError
from seamark.pipelines.status import LandPlan, LandState
from seamark.report.error import build_failures
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Span, Style, line
from seamark.report.words import render_count, render_number

_SYMBOLS = {
    LandState.NEW: ("▲", Style.WARN),
    LandState.BEHIND: ("▲", Style.WARN),
    LandState.LANDED: ("✓", Style.GOOD),
    LandState.LOST: ("✗", Style.BAD),
}


def _render_state(plan: LandPlan) -> str:
    return f"{_SYMBOLS[plan.state][0]} {plan.state}"


PIPELINE_LISTING: Listing[LandPlan] = Listing(
    kind="LandingList",
    noun="landing",
    name=lambda plan: plan.declared.landing.name,
    columns=(
        Column("name", "NAME", lambda plan: plan.declared.landing.name),
        Column("topic", "TOPIC", lambda plan: plan.declared.landing.topic),
        Column("where", "WHERE", lambda plan: plan.declared.where, wide=True),
        Column("table", "TABLE", lambda plan: plan.declared.landing.table),
        Column("mode", "MODE", lambda plan: plan.declared.landing.mode.value, wide=True),
        Column(
            "state",
            "STATE",
            lambda plan: plan.state.value,
            text=_render_state,
            style=lambda plan: _SYMBOLS[plan.state][1],
        ),
        Column("behind", "BEHIND", lambda plan: plan.behind, text=lambda plan: render_number(plan.behind), right=True),
        Column("next", "", lambda plan: plan.next_step),
    ),
)


def build_landings_view(plans: Sequence[LandPlan], failures: Mapping[str, SeamarkError]) -> View[LandPlan]:
    """All landings that are declared."""
    return View(
        PIPELINE_LISTING,
        tuple(plans),
        body=lambda: {"items": [plan.to_dict() for plan in plans], "failures": build_failures(failures)},
        empty="No landing is declared.",
    )


def build_landing_view(plan: LandPlan) -> View[LandPlan]:
    """One landing, and what a run would do."""
    return View(PIPELINE_LISTING, (plan,), kind="Landing", body=plan.to_dict, lines=lambda _: list(_build_lines(plan)))


def _build_lines(plan: LandPlan) -> Iterator[Line]:
    landing = plan.declared.landing
    yield line(
        Span(f"Landing {landing.name}", Style.STRONG),
        f"  {landing.topic} → {plan.declared.where}, {landing.table} ({landing.mode})  ",
        Span(_render_state(plan), _SYMBOLS[plan.state][1]),
    )
    for statement in plan.statements:
        yield line(Span("  + ", Style.GOOD), statement)
    for one in plan.partitions:
        begin = f"begins at {plan.declared.start}" if one.landed is None else f"landed to {render_number(one.landed)}"
        lost = f", {render_count(one.lost, 'offset')} lost" if one.lost else ""
        yield line(
            f"  partition {one.partition}: {begin}; {render_number(one.bounds.earliest)} to "
            f"{render_number(one.bounds.latest)} are there, {render_number(one.behind)} to land{lost}"
        )
    if plan.former:
        entries = render_count(plan.former, "entry", "entries")
        yield line(Span("  ! ", Style.WARN), f"the ledger has {entries} of a former topic of this name")
    yield line(f"  next: {plan.next_step}")
