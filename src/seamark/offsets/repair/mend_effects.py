"""The lines of a plan for mended records: what each of them will be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seamark.changes.effect import Effect, FieldChange, Preview, Sign
from seamark.connect.connector import State
from seamark.core.offset import Offset
from seamark.offsets.repair.odd_records import OddOwner, OddPartition
from seamark.offsets.semantics import Meaning
from seamark.offsets.write.effect import build_record_change
from seamark.offsets.write.preview import say_preview, say_total
from seamark.offsets.write.preview_totals import sum_previews
from seamark.report.words import render_count

REMOVAL = "docs/runbooks/offsets-topic-repartitioned.md describes how to remove them"
"""What to say of records that `offsets mend` leaves in the log."""


def build_mend_effect(owner: OddOwner, meaning: Meaning, moved: Sequence[tuple[Offset, Preview]]) -> Effect:
    """One line for the connector, and a field for each record that changes."""
    connector = owner.connector
    status = connector.status
    is_stopped = status is not None and status.state is State.STOPPED
    fields = tuple(field for one in owner.partitions for field in _build_fields(one))
    previews = [preview for _, preview in moved]
    unsure = "it goes on from the record that is taken; from which it would have, nobody can tell"
    means = unsure if any(not one.is_certain for one in owner.partitions) else "nothing is read again or skipped"
    means = say_total(sum_previews(previews), previews) if moved else means
    how = "stays stopped" if is_stopped else "stops, goes on"
    words = f"{how}, {render_count(len(fields), 'record')} put right: {means}"
    places = tuple(_build_moved(owner, meaning, offset, preview) for offset, preview in moved)
    tasks = 0 if is_stopped or status is None else len(status.tasks)
    return Effect(Sign.CHANGE, f"connector/{connector.owner}", words, (*places, *fields), tasks=tasks)


def _build_moved(owner: OddOwner, meaning: Meaning, offset: Offset, preview: Preview) -> FieldChange:
    held = next(one.held for one in owner.partitions if one.offset is offset)
    partition, before = meaning.describe(held.partition, held.offset)
    _, after = meaning.describe(offset.partition, offset.offset)
    return FieldChange(
        partition,
        None if held.offset is None else before,
        None if offset.offset is None else after,
        note=say_preview(preview),
        preview=preview,
    )


def _build_fields(found: OddPartition) -> Iterator[FieldChange]:
    """Every record that changes: where it lies and its key, its value before and after."""
    held = {record.place: record for record in found.records}
    for record in found.build():
        before = held.get(record.place)
        if before is None or before.value != record.value:
            yield build_record_change(before, record)


def say_left(found: Sequence[OddOwner]) -> tuple[str, ...]:
    """Why a plan is empty although something is odd."""
    if not found:
        return ()
    names = ", ".join(owner.connector.owner for owner in found[:10])
    return (f"the records of {names} already hold the same value, and extra records stay in the log: {REMOVAL}",)
