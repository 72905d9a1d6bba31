"""Pipelines as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from seamark.errors import SeamarkError
from seamark.pipelines.status import LandPlan, LandState
from seamark.pipelines.submission import Submission, SubmitForm, render_application, render_line, render_task
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Span, Style, line
from seamark.report.words import render_count, render_number
from seamark.spark.packing import SparkPack, SubmitOption

SUBMIT_OPTION_LISTING: Listing[SubmitOption] = Listing(
    kind="SubmitOptionList",
    noun="option of spark-submit",
    # As a command line takes it: spark-submit $(seamark spark pack -o name) job.py
    name=str,
    columns=(
        Column("option", "OPTION", lambda option: option.option),
        Column("value", "VALUE", lambda option: option.value),
    ),
)


def build_pack_view(pack: SparkPack) -> View[SubmitOption]:
    """The options, and for programs what is in the archive."""
    return View(
        SUBMIT_OPTION_LISTING,
        pack.submit_options,
        body=lambda: {
            "items": SUBMIT_OPTION_LISTING.build_items(pack.submit_options),
            "archive": pack.archive,
            "python": pack.python,
            "packages": list(pack.packages),
            "jars": list(pack.jars),
            "program": pack.program,
        },
    )


_RENDERERS = {
    SubmitForm.SPARK_SUBMIT: render_line,
    SubmitForm.AIRFLOW: render_task,
    SubmitForm.SPARK_APPLICATION: render_application,
}


@dataclass(frozen=True, slots=True)
class _Printed:
    name: str
    form: SubmitForm
    text: str


SUBMISSION_LISTING: Listing[_Printed] = Listing(
    kind="Submission",
    noun="submission",
    name=lambda one: one.name,
    columns=(
        Column("name", "NAME", lambda one: one.name),
        Column("form", "FORMAT", lambda one: one.form.value),
        Column("text", "TEXT", lambda one: one.text),
    ),
)


def build_submission_view(run: Submission, form: SubmitForm) -> View[_Printed]:
    """The text alone for people, so that it can go to a file; for programs with its name and form."""
    printed = _Printed(run.name, form, _RENDERERS[form](run))
    return View(
        SUBMISSION_LISTING,
        (printed,),
        body=lambda: {"name": printed.name, "form": form.value, "text": printed.text},
        lines=lambda _: [line(text) for text in printed.text.splitlines()],
    )


_SYMBOLS = {
    LandState.NEW: ("▲", Style.WARN),
    LandState.BEHIND: ("▲", Style.WARN),
    LandState.LANDED: ("✓", Style.GOOD),
    LandState.LOST: ("✗", Style.BAD),
}


def _render_state(plan: LandPlan) -> str:
    return f"{_SYMBOLS[plan.state][0]} {plan.state}"


PIPELINE_LISTING: Listing[LandPlan] = Listing(
    kind="PipelineList",
    noun="pipeline",
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
        Column("behind", "LAG", lambda plan: plan.behind, text=lambda plan: render_number(plan.behind), right=True),
        Column("next", "", lambda plan: plan.next_step),
    ),
)


def build_landings_view(plans: Sequence[LandPlan], failures: Mapping[str, SeamarkError]) -> View[LandPlan]:
    """All landings that are declared."""
    return View(
        PIPELINE_LISTING,
        tuple(plans),
        body=lambda: {"items": [plan.to_dict() for plan in plans], "failures": build_failures(failures)},
        empty="No pipelines are defined.",
    )


def build_landing_view(plan: LandPlan) -> View[LandPlan]:
    """One landing, and what a run would do."""
    return View(PIPELINE_LISTING, (plan,), kind="Pipeline", body=plan.to_dict, lines=lambda _: list(_build_lines(plan)))


def _build_lines(plan: LandPlan) -> Iterator[Line]:
    landing = plan.declared.landing
    yield line(
        Span(f"Pipeline {landing.name}", Style.STRONG),
        f"  {landing.topic} → {plan.declared.where}, {landing.table} ({landing.mode})  ",
        Span(_render_state(plan), _SYMBOLS[plan.state][1]),
    )
    for statement in plan.statements:
        yield line(Span("  + ", Style.GOOD), statement)
    for note in plan.declared.notes:
        yield line(Span("  ! ", Style.WARN), note)
    for one in plan.partitions:
        begin = f"starts at {plan.declared.start}" if one.landed is None else f"at offset {render_number(one.landed)}"
        lost = f", {render_count(one.lost, 'offset')} lost" if one.lost else ""
        yield line(
            f"  partition {one.partition}: {begin}; offsets {render_number(one.bounds.earliest)} to "
            f"{render_number(one.bounds.latest)}, lag {render_number(one.behind)}{lost}"
        )
    if plan.former:
        entries = render_count(plan.former, "entry", "entries")
        yield line(Span("  ! ", Style.WARN), f"the ledger has {entries} of a deleted topic of this name")
    yield line(f"  next: {plan.next_step}")
