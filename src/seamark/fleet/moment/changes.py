"""What the journal tells of a moment: each change of offsets saw what was held before it, and left what came after."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seamark.change.locks import base_name
from seamark.change.plan import Plan
from seamark.change.steps.group import DeleteGroup, MoveGroup
from seamark.change.steps.offsets import WriteOffsets
from seamark.model.entry import Entry, EntryKind
from seamark.model.held_offset import WriteRoute
from seamark.model.offset import Offset
from seamark.model.plan import StepData
from seamark.model.result import Outcome
from seamark.model.standing import Sighting
from seamark.offsets.codec import decode_key, decode_value
from seamark.offsets.meaning.sink import OFFSET, build_partition

if TYPE_CHECKING:
    from seamark.change.journal import Journal

_GROUPS = frozenset({MoveGroup.kind, DeleteGroup.kind})
_KINDS = frozenset({WriteOffsets.kind, *_GROUPS})


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
        if not isinstance(number, int) or plan.steps[number].kind not in _KINDS:
            continue
        step = plan.steps[number]
        if entry.kind is EntryKind.INTENT:
            # One that is written again tells once more what the first one found, not what is there by then.
            is_repeated = number in intents and intents[number]["before"] == entry.body["before"]
            intents[number] = entry.body
            if not is_repeated:
                yield from _see(step, entry.body["before"], entry, word="before")
        elif entry.kind is EntryKind.OUTCOME and entry.body.get("outcome") == Outcome.DONE and number in intents:
            yield from _see(step, _find_left(step, intents[number]), entry, word="after")
        elif entry.kind is EntryKind.OUTCOME and "image" in entry.body:
            yield from _see(step, entry.body["image"], entry, word="in")


def _see(step: StepData, image: Any, entry: Entry, *, word: str) -> Iterator[tuple[str, Sighting]]:
    at_ms = int(datetime.fromisoformat(entry.at).timestamp() * 1000)
    offsets = _read_group(step, image) if step.kind in _GROUPS else _read_connector(step, image)
    for one in offsets:
        yield step.subject, Sighting(one.partition, one.offset, at_ms, at_ms, f"{word} change {entry.change}")


def _find_left(step: StepData, intent: Mapping[str, Any]) -> Any:
    """What a write left. A group that was deleted holds nothing where it held something."""
    if step.kind != DeleteGroup.kind:
        return intent["after"]
    return {topic: dict.fromkeys(partitions) for topic, partitions in (intent["before"] or {}).items()}


def _read_connector(step: StepData, image: Any) -> Iterator[Offset]:
    """The positions of an image. By the route TOPIC it shows bytes, by the places of the records."""
    values: Mapping[str, str | None] = (image or {}).get("offsets", {})
    written = WriteOffsets.from_data(step)
    if written.route is not WriteRoute.TOPIC:
        for identity, spelled in values.items():
            yield Offset(json.loads(identity), None if spelled is None else json.loads(spelled))
        return
    for record in written.records:
        key = decode_key(record.key).key
        value = values.get(record.place)
        if key is not None:
            offset = None if value is None else decode_value(b64decode(value)).offset
            yield Offset(key.partition, offset)


def _read_group(step: StepData, image: Any) -> Iterator[Offset]:
    """The same of a group. Nothing at all is spelled as no image: then nothing is committed where the step acts."""
    commits: Mapping[str, Mapping[str, Any]] = image or step.arguments.get("positions", {})
    for topic, partitions in commits.items():
        for number, commit in partitions.items():
            offset = {OFFSET: commit["offset"]} if image and commit is not None else None
            yield Offset(build_partition((topic, int(number))), offset)
