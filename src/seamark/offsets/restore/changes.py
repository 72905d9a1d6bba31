"""What the journal tells of a moment: each change of offsets saw what was held before it, and left what came after."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seamark.changes.entry import Entry, EntryKind
from seamark.changes.locks import base_name
from seamark.changes.plan import Plan
from seamark.changes.result import Outcome
from seamark.changes.step import STEPS, Intent, Step, build_step
from seamark.offsets.past_offsets import Sighting

if TYPE_CHECKING:
    from seamark.changes.journal import Journal


def read_change_sightings(journal: Journal, locks: Collection[str]) -> dict[str, list[Sighting]]:
    """By subject, what the changes that took one of these locks saw and left, in the order of their times."""
    names = {base_name(lock) for lock in locks}
    found: dict[str, list[Sighting]] = {}
    for head in journal.heads():
        if names.isdisjoint(base_name(lock) for lock in head.locks):
            continue
        for subject, sighting in build_sightings(journal.read(head.change)):
            found.setdefault(subject, []).append(sighting)
    return {subject: sorted(seen, key=lambda one: one.at_ms) for subject, seen in found.items()}


def build_sightings(entries: Sequence[Entry]) -> Iterator[tuple[str, Sighting]]:
    """What the entries of one change tell of positions: by subject, before each write and after it was done."""
    plan = Plan.from_dict(entries[0].body["plan"])
    intents: dict[int, Mapping[str, Any]] = {}
    for entry in entries:
        number = entry.body.get("step")
        if not isinstance(number, int) or not STEPS[plan.steps[number].kind].shows_positions:
            continue
        step = build_step(plan.steps[number])
        if entry.kind is EntryKind.INTENT:
            # One that is written again tells once more what the first one found, not what is there by then.
            is_repeated = number in intents and intents[number]["before"] == entry.body["before"]
            intents[number] = entry.body
            if not is_repeated:
                yield from _see(step, entry.body["before"], entry, word="before")
        elif entry.kind is EntryKind.OUTCOME and entry.body.get("outcome") == Outcome.DONE and number in intents:
            yield from _see(step, step.build_left(Intent.from_dict(intents[number])), entry, word="after")
        elif entry.kind is EntryKind.OUTCOME and "image" in entry.body:
            yield from _see(step, entry.body["image"], entry, word="in")


def _see(step: Step, image: Any, entry: Entry, *, word: str) -> Iterator[tuple[str, Sighting]]:
    at_ms = int(datetime.fromisoformat(entry.at).timestamp() * 1000)
    for one in step.read_positions(image):
        yield step.subject, Sighting(one.partition, one.offset, at_ms, at_ms, f"{word} change {entry.change}")
