"""The offsets of a landing in the metadata of a commit: how far each partition has come with that commit's rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.core.format_version import StoredFormat, check_format
from seamark.errors import RefusedError
from seamark.tables.ledger_entry import Entry

FORMAT = StoredFormat("Delta commit", 1)

_OWNER, _RUN, _OFFSETS, _TOPIC, _NEXT = "owner", "run", "offsets", "topic", "next"


@dataclass(frozen=True, slots=True)
class Vector:
    """What a commit says of its landing. `run` tells the commit from every other one: each try has its own."""

    owner: str
    run: str
    entries: tuple[Entry, ...] = ()

    def by_key(self) -> dict[tuple[str, int], Entry]:
        """The entries by the topic's id and the partition."""
        return {entry.key: entry for entry in self.entries}

    def to_json(self) -> str:
        """As it stands in `userMetadata`, where DESCRIBE HISTORY shows it."""
        topics: dict[str, dict[str, Any]] = {}
        for entry in self.entries:
            topic = topics.setdefault(entry.topic_id, {_TOPIC: entry.topic, _NEXT: {}})
            topic[_NEXT][str(entry.partition)] = entry.next_offset
        return json.dumps({**FORMAT.field, _OWNER: self.owner, _RUN: self.run, _OFFSETS: topics})


def read_vector(text: object, *, place: str) -> Vector:
    """Read what `to_json` gave.

    Raises:
        FormatVersionError: it has another format version, or none.
        RefusedError: it is nothing of ours.
    """
    try:
        found = json.loads(text) if isinstance(text, str) else {}
        check_format(FORMAT, found, where=f"the commit {place}")
        return Vector(str(found[_OWNER]), str(found[_RUN]), tuple(_read_entries(found[_OFFSETS])))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(
            f"the commit {place} can't be read",
            cause=f"its userMetadata should hold the offsets of a landing: {error}",
            hint="nobody but seamark may commit with the application id of a landing",
        ) from None


def _read_entries(topics: Mapping[str, Mapping[str, Any]]) -> Iterable[Entry]:
    for topic_id, topic in topics.items():
        for number, offset in topic[_NEXT].items():
            _check(isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0, f"{offset!r} is no offset")
            yield Entry(str(topic[_TOPIC]), topic_id, int(number), next_offset=offset)


def _check(is_so: bool, problem: str) -> None:
    if not is_so:
        raise ValueError(problem)
