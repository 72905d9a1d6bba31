"""What the group of a sink has committed, and whether somebody had ordered each of it (I3 of sinks).

A sink begins where its group stands, and nowhere else. So three things together say that nothing was lost and nothing
came again that nobody ordered: every commit is the progress of the sink or the write of a change; what the sink
committed as its progress it had delivered, as often as it committed it; and where its numbers jump, its group stood.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
# Keys of later versions are of members and assignments, not of offsets.
_NEWEST_OFFSET_KEY = 1


@dataclass(frozen=True)
class Commit:
    """A committed offset of one partition; None where it was deleted."""

    at: float
    offset: int | None


@dataclass(frozen=True)
class Write:
    """An offset that a change wrote, or None where it deleted one, between its intent and the end of the change."""

    begins: float
    ends: float
    offset: int | None


def parse_key(key):
    """Return group and `topic:0` of a key of `__consumer_offsets`; None for one of something else."""
    version = _SHORT.unpack_from(key)[0]
    if version > _NEWEST_OFFSET_KEY:
        return None
    group, at = _read_text(key, _SHORT.size)
    topic, at = _read_text(key, at)
    return group, f"{topic}:{_INT.unpack_from(key, at)[0]}"


def parse_value(value):
    """Return the committed offset, which is the first field in every version; None for a tombstone."""
    return None if value is None else _LONG.unpack_from(value, _SHORT.size)[0]


def _read_text(data, at):
    length = _SHORT.unpack_from(data, at)[0]
    begin = at + _SHORT.size
    return data[begin : begin + length].decode(), begin + length


def check_commits(
    commits: Sequence[Commit], writes: Sequence[Write], delivered: Sequence[int], *, end: int
) -> tuple[list[str], Counter]:
    """Return sentences for what nobody ordered in one partition of a sink, and a count of commits and jumps.

    Args:
        commits: All commits of the partition, in their order.
        writes: What changes wrote, in their order. Each explains one commit.
        delivered: The numbers that the sink delivered, in their order; the number of a record is its offset.
        end: The end of the partition, to which the sink has read by now.
    """
    wrong, counts = [], Counter()
    stood, progress, left = [0], Counter(), list(writes)
    for commit in commits:
        # A group without an offset begins with the first record.
        base, now = stood[-1], commit.offset or 0
        write = next((one for one in left if _explains(one, commit)), None)
        if write is not None:
            left.remove(write)
            counts["commits: moved"] += 1
        elif commit.offset is None or now < base:
            wrong.append(f"{commit.offset} was committed at {commit.at:.3f} behind {base}, and no change had said so")
        else:
            counts["commits: progress"] += 1
            progress.update(range(base, now))
        stood.append(now)
    wrong += _find_undelivered(progress, Counter(delivered))
    wrong += _find_jumps(delivered, stood, counts)
    if stood[-1] != end:
        wrong.append(f"the group stands at {stood[-1]}, and there are {end}")
    if not delivered or delivered[-1] != end - 1:
        wrong.append(f"the last one is {delivered[-1] if delivered else 'none'}, and there are {end}")
    return wrong, counts


def _explains(write, commit):
    return write.begins <= commit.at <= write.ends and write.offset == commit.offset


def _find_undelivered(progress, delivered):
    """What the sink left behind it more often than it delivered it; one sentence for neighbours."""
    missing = sorted(number for number, times in progress.items() if delivered[number] < times)
    runs = [[number for _, number in run] for _, run in groupby(enumerate(missing), key=lambda pair: pair[1] - pair[0])]
    return [
        f"{run[0]} to {run[-1]} were committed as read {progress[run[0]]} times and delivered {delivered[run[0]]} times"
        for run in runs
    ]


def _find_jumps(delivered, stood, counts):
    """Where the numbers jump to what the group was not at, then or since."""
    wrong, reached, last = [], 0, -1
    for number in delivered:
        if number != last + 1:
            found = next((at for at in range(reached, len(stood)) if stood[at] == number), None)
            if found is None:
                wrong.append(f"after {last} came {number}, and the group had not stood there")
            else:
                counts["forward" if number > last else "back"] += 1
                reached = found
        last = number
    return wrong
