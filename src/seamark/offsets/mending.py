"""What the records of one partition will be when nothing about them is odd any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seamark.model.held_offset import HeldRecord
from seamark.model.offset import Offset
from seamark.model.stored_offset import Evidence, StoredOffset, StoreReading
from seamark.offsets.codec import encode_rest_key
from seamark.offsets.grouping import Home, build_home, is_task_key
from seamark.offsets.verdict import ValueVerdict

NEWEST = "newest"
"""Takes the record that was written last, where several differ."""


@dataclass(frozen=True, slots=True)
class Mended:
    """One partition: the record whose value is taken, and every record that is not yet what it will be."""

    offset: Offset
    taken: Evidence
    records: tuple[HeldRecord, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """One partition whose records differ, so that a person must say which one is taken."""

    offset: Offset
    candidates: tuple[Evidence, ...]


def build_mended(reading: StoreReading, *, take: str = "") -> Iterator[Mended | Undecided]:
    """What is to be written, for each partition about which something is odd.

    Every spelling that a task may look for gets the same value at its home. Copies elsewhere on the topic, and keys
    that no task spells so, get a tombstone. `take` says whose value, where they differ: `newest`, or a record's place.
    """
    home = build_home(reading.partitions)
    for stored in (*reading.offsets, *reading.forgotten):
        taken = _choose(stored, take)
        if taken is None:
            every = (stored.evidence, *stored.others)
            yield Undecided(stored.as_offset(), tuple(found for found in every if is_task_key(found.key)))
            continue
        records = tuple(_build_records(stored, taken, home))
        if records:
            yield Mended(Offset(stored.key.partition, taken.offset), taken, records)


def _choose(stored: StoredOffset, take: str) -> Evidence | None:
    """The record whose value counts; None where nobody can tell and nobody said."""
    every = (stored.evidence, *stored.others)
    readable = [found for found in every if found.value_verdict in (ValueVerdict.GOOD, ValueVerdict.TOMBSTONE)]
    named = [found for found in readable if found.place == take]
    if named:
        return named[0]
    return stored.evidence if stored.evidence in readable and (stored.is_certain or take == NEWEST) else None


def _build_records(stored: StoredOffset, taken: Evidence, home: Home) -> Iterator[HeldRecord]:
    """What will be, of all that is not so already. What is written comes before what is taken away."""
    every = [found for found in (stored.evidence, *stored.others) if found.key is not None]
    topic = stored.evidence.store.removeprefix("topic ")
    wanted: dict[tuple[int, bytes], bytes | None] = {}
    keys = dict.fromkeys(found.key for found in every if found.key is not None and is_task_key(found.key))
    # Where no task reads any of them, the spelling that REST and most tasks use is the best there is.
    for key in keys or (encode_rest_key(stored.key.connector, stored.key.partition),):
        place = home(key)
        if place is not None:
            wanted[place, key] = taken.value
    for found in every:
        if found.key is not None and found.partition is not None:
            wanted.setdefault((found.partition, found.key), None if home(found.key) is not None else found.value)
    held = {(found.partition, found.key): found.value for found in every}
    changed = [
        HeldRecord(topic, where, key, value)
        for (where, key), value in wanted.items()
        if held.get((where, key)) != value
    ]
    yield from sorted(changed, key=lambda record: record.value is None)
