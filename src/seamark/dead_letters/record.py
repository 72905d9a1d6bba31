"""The record that a sink can't take, and how it is known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seamark.dead_letters.park import Failure
from seamark.kafka.record import Place, RecordSize


class FoundBy(StrEnum):
    """How a poison record is known. The words are those of a plan."""

    DECODING = "the first record that its converters can't read"
    TRACE = "the record that the task's trace names"
    STANDING = "the record at which it stands, taking one by one"
    OPERATOR = "the record that you named"


@dataclass(frozen=True, slots=True)
class Poison:
    """A record, why it is the one, how it fails, and the next offset that the sink has committed in its partition."""

    place: Place
    found_by: FoundBy
    failure: Failure
    size: RecordSize
    position: int
    reason: str = ""
