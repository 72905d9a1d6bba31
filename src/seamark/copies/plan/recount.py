"""What the figures of a run can't tell: how many of its records lie before an offset in its middle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seamark.errors import RefusedError
from seamark.kafka_sink.copy_run import Run


@dataclass(frozen=True, slots=True)
class BoundedCount:
    """A number that is known within bounds: exactly, where they are the same."""

    least: int
    most: int

    @property
    def is_exact(self) -> bool:
        """Whether there is only one number that it can be."""
        return self.least == self.most

    def __add__(self, other: BoundedCount) -> BoundedCount:
        """The sum of two."""
        return BoundedCount(self.least + other.least, self.most + other.most)

    def shift(self, by: int) -> BoundedCount:
        """The same, so much further."""
        return BoundedCount(self.least + by, self.most + by)


@dataclass(frozen=True, slots=True)
class Question:
    """How many records of a run lie before a source offset inside it. The run's own figures can't tell."""

    run: Run
    source_offset: int


@dataclass(frozen=True, slots=True)
class Recount:
    """What is found of a run when its offsets are read again and routed again: before the offset, and from it on.

    Compaction and retention may have taken some. Then the two make less than the run had, and the answer is a bound.
    """

    before: int
    after: int


Answers = Mapping[Question, Recount]


Recounter = Callable[[Sequence[Question]], Answers]
"""Reads the source again to answer questions; one that can't be answered is left out of the answers.

The questions of many groups are asked together, so that one job can answer them.
"""


def count_inside(run: Run, source_offset: int, answers: Answers) -> BoundedCount:
    """How many records of a run come before an offset that lies behind its first one.

    The offsets on either side have room for so many only; a recount says more.
    """
    least = max(1, run.count - (run.last_source - source_offset + 1))
    most = min(run.count - 1, source_offset - run.first_source)
    answer = answers.get(Question(run, source_offset)) if least < most else None
    if answer is None:
        return BoundedCount(least, most)
    told = BoundedCount(max(least, answer.before), min(most, run.count - answer.after))
    if told.least > told.most or min(answer.before, answer.after) < 0:
        raise RefusedError(
            f"reading partition {run.source} again gives another count than the copy did",
            cause=f"{answer.before} and {answer.after} records to partition {run.target} around {source_offset}, "
            f"and there were {run.count} from {run.first_source} to {run.last_source}",
            hint="the source is not the topic that was copied, or the routing is another; verify the copy",
        )
    return told
