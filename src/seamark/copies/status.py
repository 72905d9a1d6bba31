"""The progress of copies, read from the control topic and the ends of the logs, wherever they were run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seamark.copies.cutover.translation import TranslatedGroup
from seamark.copies.plan.checks import count_behind, find_target_aborted, read_ends
from seamark.copies.plan.endpoints import CopyEndpoints
from seamark.copies.plan.plan import CopyPlan
from seamark.copies.plan.progress import AbortedRecords, CopyProgress, read_progress
from seamark.copies.plan.registrations import Registration
from seamark.copies.plan.registry import read_body
from seamark.core.readings import Reading
from seamark.errors import RefusedError, SeamarkError, UnreachableError
from seamark.kafka_sink.control import ControlRecord
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Span, Style, line
from seamark.report.words import render_count, render_number


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """One group's offset in one partition."""

    group: str
    topic: str
    partition: int
    offset: int


_LISTING: Listing[TranslatedOffset] = Listing(
    kind="CopyReaders",
    noun="position",
    name=lambda row: row.group,
    columns=(
        Column("group", "GROUP", lambda row: row.group),
        Column("topic", "TOPIC", lambda row: row.topic),
        Column("partition", "PARTITION", lambda row: row.partition, right=True, is_id=True),
        Column("offset", "OFFSET", lambda row: row.offset, right=True),
    ),
)


def build_readers_view(readers: Mapping[str, TranslatedGroup], topic: str) -> View[TranslatedOffset]:
    """Return the offsets for every output format; the CSV is the input of `groups move --from-file`."""
    rows = [
        TranslatedOffset(group, topic, partition, offset)
        for group, reader in sorted(readers.items())
        for partition, offset in sorted(reader.offsets.items())
    ]
    return View(
        _LISTING,
        rows,
        body=lambda: {"items": [_build_item(group, reader, topic) for group, reader in sorted(readers.items())]},
        lines=lambda screen: [*_LISTING.build_lines(rows, screen), *_say(readers)],
        empty="no group has committed offsets in the source",
    )


def _build_item(group: str, reader: TranslatedGroup, topic: str) -> dict[str, Any]:
    offsets = {str(partition): offset for partition, offset in sorted(reader.offsets.items())}
    return {"group": group, "topic": topic, "offsets": offsets, **reader.to_dict()}


def _say(readers: Mapping[str, TranslatedGroup]) -> Iterator[Line]:
    for group, reader in sorted(readers.items()):
        aborted = f"; {reader.aborted:,} offsets ahead are aborted records" if reader.aborted else ""
        yield line(f"{group}: {reader.to_read:,} records to read, {reader.replay_words} to reprocess{aborted}")


_HELD = "an open transaction hides the records after it"


class CopyState(StrEnum):
    """The state of a copy, in one word."""

    COPIED = "COPIED"
    BEHIND = "BEHIND"
    UNFINISHED = "UNFINISHED"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """The status of one copy.

    `behind` is how many more offsets the source has than the plan, None if it could not be read. `aborted` are offsets
    of the target that are not records of the copy: those of failed or running attempts. `trouble` is the reason why the
    copy can't be trusted or can't continue.
    """

    plan: CopyPlan
    registration: Registration
    progress: CopyProgress | None
    behind: int | None = None
    aborted: tuple[AbortedRecords, ...] = ()
    trouble: SeamarkError | None = None
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> CopyState:
        """The state of the copy."""
        if self.trouble is not None or self.progress is None:
            return CopyState.BROKEN
        if not self.progress.is_complete:
            return CopyState.UNFINISHED
        return CopyState.BEHIND if self.behind else CopyState.COPIED

    @property
    def copied(self) -> int:
        """How many offsets of the plan are copied."""
        done = self.progress.done if self.progress else 0
        return sum(one.size for one in self.plan.slices[:done])

    @property
    def next_step(self) -> str:
        """The command to run next."""
        if self.trouble is not None:
            return self.trouble.hint
        steps = {
            CopyState.UNFINISHED: f"seamark copies run {self.plan.id}",
            CopyState.BEHIND: f"seamark copies run {self.plan.id} --follow",
            CopyState.COPIED: f"seamark copies verify {self.plan.id}",
            CopyState.BROKEN: "create a new plan with a new target",
        }
        return steps[self.state]

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON has it."""
        progress = self.progress
        return {
            "id": self.plan.id,
            "state": self.state.value,
            "source": self.plan.source.to_dict(),
            "target": self.plan.target.to_dict(),
            "generation": self.registration.generation,
            "registered_at": self.registration.registered_at,
            "registered_by": self.registration.by,
            "slices": len(self.plan.slices),
            "slices_done": progress.done if progress else None,
            "offsets": self.plan.size,
            "offsets_copied": self.copied,
            "records": progress.count if progress else None,
            "behind": self.behind,
            "aborted": [[one.target, one.first, one.last] for one in self.aborted],
            "trouble": self.trouble.as_dict() if self.trouble else None,
            "next": self.next_step,
            "notes": list(self.notes),
        }


class CopyStatuses:
    """Reads the status of copies."""

    def __init__(self, endpoints: CopyEndpoints, *, control_topic: str) -> None:
        self._endpoints = endpoints
        self._control_topic = control_topic

    def read(self, registrations: Mapping[str, Registration]) -> tuple[CopyStatus, ...]:
        """Return the status of these plans, the newest first."""
        if not registrations:
            return ()
        read = self._endpoints.target.logs.look_at_records(self._control_topic, jobs=list(registrations))
        ordered = sorted(registrations.values(), key=lambda one: one.registered_at, reverse=True)
        return tuple(self._build(one, read.records[one.plan], is_whole=read.is_whole) for one in ordered)

    def _build(self, registration: Registration, records: tuple[ControlRecord, ...], *, is_whole: bool) -> CopyStatus:
        plan = read_body(registration)
        notes = [] if is_whole else [f"{_HELD} in {self._control_topic}: some finished slices may not be counted"]
        try:
            progress = read_progress(plan.id, plan.slices, records)
        except RefusedError as error:
            trouble = error if is_whole else self._build_held(plan)
            return CopyStatus(plan, registration, None, trouble=trouble)
        behind = self._count_behind(plan, notes)
        try:
            aborted = find_target_aborted(self._endpoints.target.kafka, plan, progress)
        except RefusedError as error:
            return CopyStatus(plan, registration, progress, behind=behind, trouble=error, notes=tuple(notes))
        return CopyStatus(plan, registration, progress, behind=behind, aborted=aborted, notes=tuple(notes))

    def _build_held(self, plan: CopyPlan) -> UnreachableError:
        return UnreachableError(
            f"can't determine the progress of copy {plan.id}",
            cause=f"{_HELD} in {self._control_topic}",
            hint="try again in some minutes: brokers abort open transactions after transaction.timeout.ms",
        )

    def _count_behind(self, plan: CopyPlan, notes: list[str]) -> int | None:
        try:
            ends = read_ends(self._endpoints.source.kafka, plan)
        except SeamarkError as error:
            notes.append(f"the number of new records in the source is unknown: {error.message}")
            return None
        return count_behind(plan, ends)


_MOST_ABORTED = 5
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
        Column("behind", "LAG", lambda copy: copy.behind, text=lambda copy: _number(copy.behind), right=True),
        Column("registered_by", "BY", lambda copy: copy.registration.by, wide=True),
        Column("registered_at", "REGISTERED", lambda copy: copy.registration.registered_at, wide=True),
        Column("next", "", lambda copy: copy.next_step),
    ),
)


def build_statuses_view(reading: Reading[CopyStatus]) -> View[CopyStatus]:
    """Return the view of all copies, and of the plans that can't be read."""
    return View(
        LISTING,
        reading.items,
        body=lambda: {
            "items": [copy.to_dict() for copy in reading.items],
            "failures": build_failures(reading.failures),
        },
        empty="no copies are registered in this control topic",
    )


def build_status_view(copy: CopyStatus) -> View[CopyStatus]:
    """Return the view of one copy, with the next command."""
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
        yield line(f"  source: {render_number(copy.behind)} offsets after the end of the plan")
    yield from _build_aborted(copy)
    yield from (line(Span("  ! ", Style.WARN), note) for note in copy.notes)
    if copy.trouble is not None:
        yield line(Span("  ✗ ", Style.BAD), copy.trouble.message)
        if copy.trouble.cause:
            yield line(f"    {copy.trouble.cause}")
    yield line(f"  next: {copy.next_step}")


def _build_aborted(copy: CopyStatus) -> Iterator[Line]:
    if not copy.aborted:
        return
    count = sum(one.size for one in copy.aborted)
    yield line(
        f"  aborted records: {render_count(count, 'offset')} of the target, from failed or running attempts; consumers "
        "with read_committed skip them"
    )
    for one in copy.aborted[:_MOST_ABORTED]:
        yield line(f"    partition {one.target}: {render_number(one.first)} to {render_number(one.last)}")
    if len(copy.aborted) > _MOST_ABORTED:
        yield line(f"    … {len(copy.aborted) - _MOST_ABORTED} more: -o json")


def _render_share(copy: CopyStatus) -> str:
    # Rounded down, so that 100 % is shown only when everything is copied.
    return f"{100 * copy.copied // copy.plan.size if copy.plan.size else 100} %"


def _number(value: int | None) -> str:
    return "-" if value is None else render_number(value)
