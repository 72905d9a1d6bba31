"""Reading control records for one task: how far it has come, whoever did it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.kafka.reading import ask_until_known
from seamark.kafka.topics import TopicAdmin
from seamark.kafka_sink.control import CONTROL_PARTITIONS, Claim, ControlRecord
from seamark.kafka_sink.control_clients import CLIENTS
from seamark.kafka_sink.control_codec import decode_control
from seamark.kafka_sink.control_topic import read_control_id


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was read of a partition: up to where, and the newest record of each key of one job."""

    position: int | None
    newest: Mapping[bytes, ControlRecord] = field(default_factory=dict)


class _Memory:
    """What this process knows of control topics. Spark's Python processes serve many tasks, one after the other.

    Committed records never change, so that a task only reads what came since the last one.
    """

    # A process works for few jobs at a time.
    _LIMIT = 64

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, ...], _Seen] = {}

    def find(self, name: tuple[str, ...], *, start: int | None) -> _Seen:
        with self._lock:
            return self._seen.get(name) or _Seen(start)

    def keep(self, name: tuple[str, ...], seen: _Seen) -> None:
        with self._lock:
            while len(self._seen) >= self._LIMIT and name not in self._seen:
                del self._seen[next(iter(self._seen))]
            self._seen[name] = seen


_MEMORY = _Memory()


def read_progress(
    config: Mapping[str, str],
    topic: str,
    *,
    claim: Claim,
    patience_seconds: float,
    start: int | None = None,
    topic_id: str = "",
) -> ControlRecord | None:
    """The newest control record of a task, or None. `topic_id` is that of the topic when the job began, if known.

    Everything that was acknowledged before this call is seen: the true end of the partition is asked for first, and
    then committed records are read until it is reached. Where somebody else's transaction is open before that end,
    this waits; the last stable offset alone could hide our own record behind it.
    """
    with CLIENTS.lend(config, topic, partition=claim.partition, patience_seconds=patience_seconds) as (admin, log):
        # A topic that was made anew may have come further than the old one by now: its end does not tell.
        known = read_control_id(admin, topic, expected=topic_id)
        name = (config.get("bootstrap.servers", ""), topic, known, str(claim.partition), claim.family)
        seen = _MEMORY.find(name, start=start)
        low, high = log.read_bounds()
        if seen.position is None or seen.position > high:
            # Behind its end: the partition has lost records.
            seen = _Seen(low)
        # A copy: another thread may be reading for the same job, and be elsewhere.
        newest = dict(seen.newest)
        family = claim.family.encode()
        for record in log.read(max(seen.position or 0, low), high):
            if record.key is not None and record.key.startswith(family) and record.value is not None:
                place = f"{topic}-{claim.partition}@{record.offset}"
                newest[record.key] = decode_control(record.value, place=place)
    _MEMORY.keep(name, _Seen(high, newest))
    return newest.get(claim.key)


def read_ends(admin: TopicAdmin, topic: str) -> dict[int, int]:
    """Where each partition of a control topic ends now. A job that is new has no record before."""
    spots = [(topic, partition) for partition in range(CONTROL_PARTITIONS)]
    found = ask_until_known(lambda: admin.read_end_offsets(spots))
    return {partition: end for (_, partition), end in found.items()}
