"""What the journal tells of one connector, and whether it is one line: each change begins where the former ended.

It reads the entries' JSON by itself: what is checked must not check itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from seamark.changes.file_journal import FileJournal
from seamark.changes.kafka_journal.entries import ChunkAssembly
from seamark.kafka.log import PartitionLog

ASPECTS = {"put-config": "config", "set-run-state": "state"}
# What a step may end with if the connector is as its intent says, before or after.
AFTER = {"done", "nothing to do"}
BEFORE = {"did not happen"}


@dataclass(frozen=True)
class Change:
    """One change: its entries, and where its first and its last stand in the journal."""

    id: str
    entries: tuple
    begins: object
    ends: object

    @property
    def is_closed(self):
        return self.entries[-1].kind == "close"

    @property
    def ending(self):
        return self.entries[-1].body.get("ending") if self.is_closed else None

    @property
    def steps(self):
        return self.entries[0].body["plan"]["steps"]

    def acts(self):
        """Aspect, before-image, after-image and outcome of each step that was begun, as it ended at last."""
        intents, outcomes = {}, {}
        for entry in self.entries:
            number = entry.body.get("step")
            if entry.kind == "intent":
                intents[number] = entry.body
                outcomes.pop(number, None)
            elif entry.kind == "outcome":
                outcomes[number] = entry.body["outcome"]
        return [
            (ASPECTS[self.steps[number]["kind"]], body["before"], body["after"], outcomes.get(number))
            for number, body in sorted(intents.items())
        ]


def read_history(rig):
    """The changes of a rig's connector, in the order of the journal."""
    rows = _read_kafka(rig) if rig.journal == "kafka" else _read_files(rig)
    by_change = {}
    for place, entry in rows:
        by_change.setdefault(entry.change, []).append((place, entry))
    changes = [
        Change(change, entries=tuple(entry for _, entry in rows), begins=rows[0][0], ends=rows[-1][0])
        for change, rows in by_change.items()
        if rig.name in rows[0][1].body["title"]
    ]
    return sorted(changes, key=lambda change: change.begins)


def _read_kafka(rig):
    config = {"bootstrap.servers": rig.stack.kafka.bootstrap_servers}
    with PartitionLog(config, rig.topic) as log:
        low, high = log.read_bounds()
        assembly = ChunkAssembly(rig.topic)
        for record in log.read(low, high):
            if (entry := assembly.add(record)) is not None:
                yield record.offset, entry


def _read_files(rig):
    """Files have no common order. The first entry has the time of the wish; the lock is had at the second."""
    journal = FileJournal(rig.folder / "journal")
    for head in journal.heads():
        entries = journal.read(head.change)
        yield entries[min(1, len(entries) - 1)].at, entries[0]
        for entry in entries[1:]:
            yield entry.at, entry


def find_breaks(changes):
    """Where the history is not one line: a sentence for each place. Every change must be closed."""
    breaks = []
    images = {}
    for number, change in enumerate(changes):
        if not change.is_closed:
            breaks.append(f"{change.id} is open")
        if number and changes[number - 1].ends > change.begins:
            breaks.append(f"{change.id} begins at {change.begins}, before {changes[number - 1].id} has ended")
        for aspect, before, after, outcome in change.acts():
            if aspect in images and images[aspect] != before:
                breaks.append(f"{change.id} found the {aspect} {before}, and it had been left as {images[aspect]}")
            if outcome not in AFTER | BEFORE:
                breaks.append(f"{change.id} has a step that ended as {outcome!r}")
            images[aspect] = after if outcome in AFTER else before
    return breaks


def find_last(changes):
    """What the history says that there is now: the newest image of each aspect."""
    images = {}
    for change in changes:
        for aspect, before, after, outcome in change.acts():
            images[aspect] = after if outcome in AFTER else before
    return images
