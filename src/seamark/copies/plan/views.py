"""The plan of a copy for every output format."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.copies.plan.plan import CopyPlan
from seamark.copies.plan.planner import PlannedCopy
from seamark.copies.plan.target_configs import ConfigChoice
from seamark.copies.plan.users import CopyReader, ReaderKind
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_bytes, render_count, render_duration, render_number
from seamark.topics.users import TopicUser

LISTING: Listing[PlannedCopy] = Listing(
    kind="CopyPlan",
    noun="copy",
    name=lambda draft: draft.plan.id,
    columns=(
        Column("id", "ID", lambda draft: draft.plan.id),
        Column("source", "SOURCE", lambda draft: draft.plan.source.topic),
        Column("target", "TARGET", lambda draft: draft.plan.target.topic),
        Column("from_partitions", "FROM", lambda draft: draft.plan.source.partitions, right=True),
        Column("to_partitions", "TO", lambda draft: draft.plan.target.partitions, right=True),
        Column("records", "RECORDS", lambda draft: draft.plan.size, right=True),
        Column("slices", "SLICES", lambda draft: len(draft.plan.slices), right=True),
        Column("refused", "REFUSED", lambda draft: draft.plan.is_refused),
    ),
)


def build_draft_view(draft: PlannedCopy) -> View[PlannedCopy]:
    """Return the view of the plan: the plan, its consumers and producers, and the reasons against it."""
    return View(
        LISTING,
        (draft,),
        kind="CopyPlan",
        body=draft.to_dict,
        lines=lambda screen: list(_build_lines(draft, screen)),
    )


def _build_lines(draft: PlannedCopy, screen: Screen) -> Iterator[Line]:
    plan = draft.plan
    state = "new" if not plan.target.topic_id else "exists"
    yield line(
        Span(f"Copy {plan.id}", Style.STRONG),
        f"  {plan.source.topic} ({render_count(plan.source.partitions, 'partition')}) → {plan.target.topic} "
        f"({render_count(plan.target.partitions, 'partition')}, {state})",
    )
    yield line(f"  {_render_size(draft)}")
    yield line(f"  {_render_placing(plan)}")
    yield from _build_users(draft)
    yield from _build_after(draft)
    yield from _build_configs(plan, screen)
    notes = (*plan.notes, *draft.notes, *draft.users.notes)
    yield from (line(Span("  ! ", Style.WARN), note) for note in notes)
    yield from (line(Span("  ✗ refused: ", Style.BAD), refusal) for refusal in plan.refusals)
    yield line("No changes were made.")


def _render_size(draft: PlannedCopy) -> str:
    plan = draft.plan
    largest = max((one.size for one in plan.slices), default=0)
    size = "" if draft.bytes is None else f", {render_bytes(draft.bytes)}"
    slices = f"{render_count(len(plan.slices), 'slice')} of up to {render_number(largest)}"
    return f"{render_count(plan.size, 'record')} at most{size} · {slices}"


def _render_placing(plan: CopyPlan) -> str:
    if plan.routing is None:
        return f"unknown partitioner: {plan.evidence}"
    shuffled = "records are shuffled" if plan.routing.needs_shuffle else "no shuffle"
    return f"placed by {plan.routing.rule}: {plan.evidence} · {shuffled}"


def _build_users(draft: PlannedCopy) -> Iterator[Line]:
    readers = draft.readers
    yield line(Span("  consumers" if readers else "  no known consumers", Style.STRONG))
    width = max((len(reader.name) for reader in readers), default=0)
    for reader in readers:
        yield line(f"    {reader.name.ljust(width)}  {render_reader(reader)}")
    writers = draft.users.writers
    words = ", ".join(_render_writer(user) for user in writers) if writers else "no connectors"
    yield line(f"  producers: {words}; Kafka does not report other producers")


def render_reader(reader: CopyReader) -> str:
    """Format a consumer: its kind, its state, and its lag."""
    parts = [reader.kind.value, f"{reader.state}{', active' if reader.is_active else ''}"]
    if reader.lag is None:
        parts.append("lag unknown")
    elif reader.lag:
        late = "" if reader.delay_seconds is None else f" ({render_duration(reader.delay_seconds)})"
        parts.append(f"lag {render_number(reader.lag)}{late}")
    else:
        parts.append("no lag")
    if reader.missing and reader.offsets:
        parts.append(f"no committed offset in {render_count(len(reader.missing), 'partition')}")
    elif reader.missing:
        parts.append("no committed offsets")
    return ", ".join(parts)


def _render_writer(user: TopicUser) -> str:
    return f"{user.subject} {user.use} ({user.state})"


def _build_after(draft: PlannedCopy) -> Iterator[Line]:
    """Format what consumers must expect of the cutover, as far as it is known before a record is copied."""
    routing = draft.plan.routing
    if routing is None or not draft.readers:
        return
    if not routing.needs_shuffle:
        again = "no record is reprocessed, because each target partition has one source partition"
    else:
        again = "consumers without lag reprocess none; with lag, some, which the cutover plan counts"
    # The cutover stops sinks itself, and refuses other consumers that are active.
    stops = [reader.name for reader in draft.readers if reader.is_active and reader.kind is not ReaderKind.SINK]
    must = f"; stop these first: {', '.join(stops)}" if stops else ""
    yield line(f"  after the cutover: no record is skipped; {again}{must}")


def _build_configs(plan: CopyPlan, screen: Screen) -> Iterator[Line]:
    held = [choice for choice in plan.configs if choice.value != choice.final]
    copied = [choice for choice in plan.configs if choice.value == choice.final]
    if held:
        yield line(Span("  configs of the target until the cutover", Style.STRONG))
    yield from (_build_config(choice) for choice in held)
    if copied and screen.wide:
        yield line(Span("  configs of the source that are copied", Style.STRONG))
        yield from (line(f"    {choice.key}={choice.value}") for choice in copied)
    elif copied:
        yield line(Span(f"  {render_count(len(copied), 'config')} copied from the source: -o wide", Style.MUTED))


def _build_config(choice: ConfigChoice) -> Line:
    then = "the broker default" if choice.final is None else choice.final
    return line(f"    {choice.key}={choice.value}, then {then}", Span(f"  {choice.why}", Style.MUTED))
