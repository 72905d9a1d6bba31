"""The rows of a task of a copy, compared with the runs of an attempt that has finished it.

A source with gaps may have more of them when it is read again: compaction takes records away, and none ever comes to
offsets that were there. So what a task finds may be less than what was written, and must be within it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from seamark.errors import RejectedError
from seamark.kafka_sink.control import ControlRecord
from seamark.kafka_sink.copy_run import Run
from seamark.kafka_sink.task_input import TaskInput


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """So many records of one source partition for one target, and the first and the last of their offsets."""

    source: int
    target: int
    count: int
    first: int
    last: int

    def join(self, other: SourceSpan) -> SourceSpan:
        """Both together."""
        first, last = min(self.first, other.first), max(self.last, other.last)
        return SourceSpan(self.source, self.target, self.count + other.count, first=first, last=last)

    def is_within(self, runs: Iterable[Run]) -> bool:
        """Whether its records can be among those of the runs."""
        own = [run for run in runs if (run.source, run.target) == (self.source, self.target)]
        return (
            bool(own)
            and own[0].first_source <= self.first <= self.last <= own[-1].last_source
            and self.count <= sum(run.count for run in own)
        )


class CopyInput(TaskInput):
    """What is left of a copying task's rows. Its pieces have `spans`."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        super().__init__(pieces)
        self._spans: dict[tuple[int, int], SourceSpan] = {}

    def note(self, piece: Any) -> None:
        """A piece is passing."""
        spans: Iterable[SourceSpan] = piece.spans()
        for span in spans:
            pair = (span.source, span.target)
            self._spans[pair] = self._spans[pair].join(span) if pair in self._spans else span

    def expect_same(self, found: ControlRecord) -> None:
        """Make sure that nothing passed which is not in the runs of the record."""
        for span in self._spans.values():
            if not span.is_within(found.runs):
                raise RejectedError(
                    f"{found.claim} has other rows than when it was written: {span.count} records at {span.first} to "
                    f"{span.last} of partition {span.source} are not all among those that went to partition "
                    f"{span.target}",
                    cause="Spark split its rows among several tasks, or the source is not the topic that it was",
                    hint="the target can't be trusted: delete it and make a new plan; the source is as it was",
                )
