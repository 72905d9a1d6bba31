"""What a landing asks the brokers: its topic and where that begins; and the group that shows its lag."""

from __future__ import annotations

import gc
import logging
from collections.abc import Collection, Iterable, Mapping

from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.brokers import Brokers
from seamark.kafka.groups import Committed
from seamark.kafka.model import OffsetSpec, TopicStatus
from seamark.kafka.records import read_key_samples
from seamark.kafka_sink.routing import Probe, probe_samples
from seamark.tables.definition import Landing
from seamark.tables.model import LedgerEntry

_LOGGER = logging.getLogger("seamark.spark")
# Keys that are looked at to tell the partitioner: of all partitions together, and of each at least.
_SAMPLES, _LEAST_SAMPLES = 2_000, 20


class LandTopic:
    """The topic of one pipeline."""

    def __init__(self, landing: Landing, brokers: Brokers) -> None:
        self._landing = landing
        self._brokers = brokers
        self._told: dict[int, int] = {}
        self._start = OffsetSpec.EARLIEST
        self.topic_id = ""

    def read_firsts(self, known: Mapping[tuple[str, int], LedgerEntry], *, start: OffsetSpec) -> list[LedgerEntry]:
        """An entry for each partition: the ledger's, or a first one at the edge `start`.

        Raises:
            RefusedError: records after the ledger offset were deleted from the topic.
        """
        topic = self._read()
        begins = self._read_edge(topic, OffsetSpec.EARLIEST)
        # The newest is what Spark may read: behind an open transaction it would find nothing, and call it lost.
        starts = begins if start is OffsetSpec.EARLIEST else self._read_edge(topic, OffsetSpec.STABLE)
        self._start, self.topic_id = start, topic.topic_id
        found = [
            known.get(
                (topic.topic_id, number), LedgerEntry(topic.name, topic.topic_id, number, next_offset=starts[number])
            )
            for number in sorted(starts)
        ]
        self._check_begins(found, begins)
        return found

    def check_kept(self, entries: Iterable[LedgerEntry]) -> None:
        """Check that the records after these entries are still there.

        Raises:
            RefusedError: Some were deleted.
        """
        try:
            begins = self._read_edge(self._read(), OffsetSpec.EARLIEST)
        except SeamarkError:
            # It is called for the reason of another error, which is more than none.
            return
        self._check_begins(entries, begins)

    def _check_begins(self, entries: Iterable[LedgerEntry], begins: Mapping[int, int]) -> None:
        for entry in entries:
            if entry.next_offset < begins[entry.partition]:
                raise RefusedError(
                    f"{entry} starts at offset {begins[entry.partition]}, and {self._landing.owner} is at "
                    f"{entry.next_offset}",
                    cause="records were deleted before the pipeline processed them, by retention or by a user",
                    hint=f"accept the loss: seamark offsets move {self._landing.owner} --to earliest",
                )

    def check_same(self, known: Iterable[tuple[str, int]]) -> None:
        """Check that offsets can be compared with those of the rows.

        Raises:
            RefusedError: Rows are ordered by offset, and come from a topic that was deleted since.
        """
        if self._landing.order and any(topic_id != self.topic_id for topic_id, _ in known):
            raise RefusedError(
                f"{self._landing.owner} orders rows by kafka.offset, but its topic was recreated",
                cause=f"the topic ID of {self._landing.topic} is {self.topic_id}, and the ledger has entries of "
                "another ID",
                hint="set another to.order, or define a pipeline of another name with a new table",
            )

    def probe(self, client: Mapping[str, str]) -> Probe:
        """Sample the keys of the topic, to tell the partitioner of its producers."""
        topic = self._read()
        begins, ends = self._read_edge(topic, OffsetSpec.EARLIEST), self._read_edge(topic, OffsetSpec.STABLE)
        count = len(topic.partitions)
        ranges = {number: (begins[number], ends[number]) for number in begins}
        samples = read_key_samples(client, topic.name, ranges=ranges, most=max(_LEAST_SAMPLES, _SAMPLES // (2 * count)))
        return probe_samples(samples, partitions=count)

    def read_ends(self, partitions: Collection[int]) -> dict[int, int]:
        """Read where these partitions end now, including uncommitted records."""
        found = self._read_edge(self._read(), OffsetSpec.LATEST)
        return {number: found[number] for number in partitions}

    def count_partitions(self) -> int:
        """Return how many partitions it has now. A recreated topic is another one, and refused."""
        found = self._read()
        if found.topic_id != self.topic_id:
            raise RefusedError(
                f"topic {found.name} was recreated while {self._landing.owner} ran",
                cause=f"its topic ID is {found.topic_id}, and was {self.topic_id}",
                hint=self._build_restart_hint(),
            )
        return len(found.partitions)

    def _build_restart_hint(self) -> str:
        """Return how to continue with a recreated topic, of which the ledger has no entry: it starts at `start`."""
        restart = f"run it again: seamark pipelines run {self._landing.name}"
        if self._start is OffsetSpec.EARLIEST:
            return f"{restart}; it starts at the first record of the new topic"
        return f"{restart}; it starts at the end of the new topic, unless you set from.start to earliest first"

    def mirror(self, entries: Iterable[LedgerEntry]) -> None:
        """Commit the ledger's offsets to the group of the pipeline, which shows lag. A failure is logged only."""
        moved = {one.partition: one.next_offset for one in entries if self._told.get(one.partition) != one.next_offset}
        if not moved:
            return
        offsets = {(self._landing.topic, number): Committed(offset) for number, offset in moved.items()}
        reason = ""
        try:
            self._brokers.mirror_group_offsets(self._landing.group, offsets)
            self._told |= moved
        except SeamarkError as error:
            reason = error.message
        if reason:
            _LOGGER.info(
                "could not commit the offsets of group %s, so that its lag is out of date: %s",
                self._landing.group,
                reason,
            )
            # If brokers are down, kafka-python drops sockets without closing them. They are freed here, and not before:
            # the traceback of the error refers to them.
            gc.collect()

    def _read(self) -> TopicStatus:
        reading = self._brokers.read_topics([self._landing.topic])
        for error in reading.failures.values():
            raise error
        return reading.items[0]

    def _read_edge(self, topic: TopicStatus, edge: OffsetSpec) -> dict[int, int]:
        found = self._brokers.read_log_offsets(topic.spots, at=edge).require_complete(what=f"the topic {topic.name}")
        return {partition: stamp.offset for (_, partition), stamp in found.items() if stamp is not None}
