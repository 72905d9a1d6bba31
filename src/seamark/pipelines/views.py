"""Pipelines as people read them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamark.core.readings import Severity
from seamark.errors import SeamarkError
from seamark.pipelines.binding import RetryWait
from seamark.pipelines.progress import (
    BatchLanded,
    LandMetrics,
    LandProgress,
    MemberState,
    MemberStatus,
    PipelineLag,
    RunReport,
    check_metrics_file,
    render_metrics,
    write_metrics,
)
from seamark.pipelines.status import LandPlan, LandState, PipelineState, PipelineStatus
from seamark.pipelines.submission import Submission, SubmitForm, render_application, render_line, render_task
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Span, Style, line
from seamark.report.words import render_count, render_duration, render_number, style_severity
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


def _render_rows(status: PipelineStatus) -> str:
    table = status.table
    if table is None or table.rows is None:
        return "-"
    return f"~{render_number(table.rows)}" if table.is_estimate else render_number(table.rows)


def _render_lag_seconds(status: PipelineStatus) -> str:
    return "-" if status.lag_seconds is None else render_age(status.lag_seconds)


def render_age(seconds: float) -> str:
    """Format an age in whole units; less than a second is 0 s."""
    return "0 s" if seconds < 1 else render_duration(seconds)


def _render_committed(status: PipelineStatus) -> str:
    committed_at = status.table.committed_at if status.table is not None else None
    return "-" if committed_at is None else f"{render_age(max(0.0, status.at - committed_at))} ago"


def _render_status(status: PipelineStatus) -> str:
    """Format the state and what is wrong: `✗ suspended: column boss_id is text (retry in 40 s)`."""
    text = f"{status.state}: {status.reason}" if status.reason else status.state.value
    if status.retry_seconds is not None:
        text += f" (retry in {render_age(status.retry_seconds)})"
    # The state is one of the problems if it is one; the others follow it.
    others = [one.message for one in status.problems if not one.message.startswith(status.state.value)]
    is_idle = status.state is PipelineState.NOT_RUNNING and status.severity is Severity.OK
    return f"{'-' if is_idle else _SEVERITY_SYMBOLS[status.severity]} {'; '.join([text, *others])}"


_SEVERITY_SYMBOLS = {Severity.ERROR: "✗", Severity.WARNING: "▲", Severity.INFO: "i", Severity.OK: "✓"}

STATUS_LISTING: Listing[PipelineStatus] = Listing(
    kind="PipelineList",
    noun="pipeline",
    name=lambda one: one.name,
    columns=(
        Column("name", "PIPELINE", lambda one: one.name),
        Column("topic", "TOPIC", lambda one: one.declared.landing.topic, wide=True),
        Column("where", "WHERE", lambda one: one.declared.where, wide=True),
        Column("table", "TABLE", lambda one: one.declared.landing.table),
        Column("mode", "MODE", lambda one: one.declared.landing.mode.value),
        Column("rows", "ROWS", lambda one: one.table.rows if one.table else None, text=_render_rows, right=True),
        Column("lag", "LAG", lambda one: one.lag, right=True),
        Column("lag_seconds", "FRESHNESS", lambda one: one.lag_seconds, text=_render_lag_seconds, right=True),
        Column("last_commit", "LAST COMMIT", lambda one: one.last_commit, text=_render_committed, wide=True),
        Column("application", "APPLICATION", lambda one: one.application, wide=True),
        Column(
            "state",
            "STATE",
            lambda one: one.state.value,
            text=_render_status,
            style=lambda one: style_severity(one.severity),
        ),
        Column("reason", "", lambda one: one.reason),
        Column("severity", "", lambda one: one.severity.value),
    ),
)


def build_statuses_view(found: Sequence[PipelineStatus]) -> View[PipelineStatus]:
    """Build the table of pipelines, with how many there are in each state."""
    return View(
        STATUS_LISTING,
        tuple(found),
        body=lambda: {"items": [one.to_dict() for one in found]},
        lines=lambda screen: [*STATUS_LISTING.build_lines(found, screen), *_build_summary(found)],
        empty="No pipelines are defined.",
    )


def _build_summary(found: Sequence[PipelineStatus]) -> Iterator[Line]:
    if not found:
        return
    counts = Counter(one.state for one in found)
    states = ", ".join(f"{render_number(counts[state])} {state}" for state in PipelineState if counts[state])
    yield line(f"{render_count(len(found), 'pipeline')}: {states}")


def build_status_view(status: PipelineStatus) -> View[PipelineStatus]:
    """Build one pipeline with its partitions and what to do."""
    return View(
        STATUS_LISTING,
        (status,),
        kind="Pipeline",
        body=status.to_dict,
        lines=lambda _: list(_build_status_lines(status)),
    )


def _build_status_lines(status: PipelineStatus) -> Iterator[Line]:
    landing = status.declared.landing
    yield line(
        Span(f"Pipeline {landing.name}", Style.STRONG),
        f"  {landing.topic} → {status.declared.where}, {landing.table} ({landing.mode})",
    )
    yield line(Span(f"  {_render_status(status)}", style_severity(status.severity)))
    if isinstance(status.report, RunReport):
        seen = render_age(max(0.0, status.at - status.report.at_ms / 1000))
        yield line(f"  application {status.report.application} on {status.report.host}, last seen {seen} ago")
    yield line(
        f"  rows {_render_rows(status)}, lag {'-' if status.lag is None else render_number(status.lag)}, "
        f"freshness {_render_lag_seconds(status)}, last commit {_render_committed(status)}"
    )
    for one in status.partitions:
        begin = f"starts at {status.declared.start}" if one.landed is None else f"at offset {render_number(one.landed)}"
        delay = status.delays.get(one.partition)
        age = f", freshness {render_age(delay.seconds)}" if delay is not None else ""
        yield line(
            f"  partition {one.partition}: {begin}; offsets {render_number(one.bounds.earliest)} to "
            f"{render_number(one.bounds.latest)}, lag {render_number(one.behind)}{age}"
        )
    for problem in status.problems:
        if problem.fix:
            yield line(Span("  fix: ", Style.STRONG), problem.fix)


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


_EVERY_SECONDS = 10.0


class LandLines:
    """Writes the metrics to the terminal."""

    def __init__(self, note: Callable[[str], None], metrics: LandMetrics) -> None:
        self._note = note
        self._metrics = metrics
        self._said_at: float | None = None

    def landed(self, batch: BatchLanded) -> None:
        """Count a batch, and report progress if nothing was reported for some time."""
        self._metrics.landed(batch)
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _EVERY_SECONDS:
            self._said_at = now
            self._note(f"  {self.say()}")

    def waiting(self, wait: RetryWait) -> None:
        """Report that something can't be reached, and when it is retried."""
        self._metrics.waiting(wait)
        self._note(f"  {wait.reason}; next try in {wait.seconds:g} s")

    def close(self) -> None:
        """Report the totals."""
        self._note(self.say())

    def say(self) -> str:
        """Format the line."""
        found = self._metrics
        beside = f", {render_number(found.deleted)} deleted" if found.deleted else ""
        beside += f", {render_number(found.dead)} dead letters" if found.dead else ""
        line = f"batch {found.batches} · {render_number(found.rows)} rows{beside}"
        # Spark reports a batch after it: the previous one is known here. The start-up time of Spark is not included.
        if (last := found.last) is not None:
            line += f" · {render_number(round(last.rate))} records/s · {last.seconds:.1f} s per batch"
            line += "" if last.behind is None else f" · lag {render_number(last.behind)}"
        return line


class ApplicationLines:
    """Writes the progress of an application to the terminal, and its metrics to a file. Called by many threads."""

    def __init__(self, note: Callable[[str], None], behind: Mapping[str, int], *, file: Path | None) -> None:
        """Create the lines.

        Args:
            note: Prints a line.
            behind: By the name of each pipeline, its lag before the first batch.
            file: Where metrics are written.
        """
        check_metrics_file(file)
        self._note = note
        self._file = file
        self._lock = threading.Lock()
        self._behind = behind
        self._metrics = {name: LandMetrics(name) for name in behind}
        self._states: dict[str, MemberState] = {}
        self._said_at = time.monotonic()

    def landed(self, name: str, batch: BatchLanded) -> None:
        """Count a batch, and report progress if nothing was reported for some time."""
        with self._lock:
            self._find(name).landed(batch)
            self._write()
            now = time.monotonic()
            if now - self._said_at >= _EVERY_SECONDS:
                self._said_at = now
                self._note(f"  {self.say()}")

    def progressed(self, name: str, progress: LandProgress) -> None:
        """Add the figures of a batch."""
        with self._lock:
            self._find(name).progressed(progress)

    def measured(self, name: str, lag: PipelineLag) -> None:
        """Take the lag of a pipeline."""
        with self._lock:
            self._find(name).measured(lag)
            self._write()

    def changed(self, status: MemberStatus) -> None:
        """Report that a pipeline was suspended, is retried, or continues."""
        with self._lock:
            before = self._states.get(status.name)
            self._states[status.name] = status.state
            self._find(status.name).set_state(is_suspended=status.state is MemberState.SUSPENDED)
            self._write()
            if status.state in {MemberState.SUSPENDED, MemberState.RETRYING}:
                self._note(
                    f"  {status.name}: {status.state}: {status.reason}; next attempt in {status.retry_seconds:g} s"
                )
            elif status.state is MemberState.ENDED and status.reason:
                self._note(f"  {status.name}: {status.state}: {status.reason}")
            elif before in {MemberState.SUSPENDED, MemberState.RETRYING}:
                self._note(f"  {status.name}: {status.state}")

    def close(self) -> None:
        """Report the totals."""
        with self._lock:
            self._note(self.say())

    def say(self) -> str:
        """Format the line."""
        found = self._metrics.values()
        beside = "".join(
            f", {render_number(count)} {word}"
            for word, count in (
                ("deleted", sum(one.deleted for one in found)),
                ("dead letters", sum(one.dead for one in found)),
            )
            if count
        )
        states = Counter(self._states.values())
        shown = ", ".join(f"{render_number(count)} {state}" for state, count in sorted(states.items()))
        lag = sum(
            self._behind.get(name, 0) if one.last is None else one.last.behind or 0
            for name, one in self._metrics.items()
        )
        batches, rows = sum(one.batches for one in found), sum(one.rows for one in found)
        return (
            f"{render_count(batches, 'batch', 'batches')} · {render_number(rows)} rows{beside} · "
            f"lag {render_number(lag)} · {shown}"
        )

    def _find(self, name: str) -> LandMetrics:
        return self._metrics.setdefault(name, LandMetrics(name))

    def _write(self) -> None:
        if self._file is not None:
            write_metrics(render_metrics(self._metrics.values()), self._file)
