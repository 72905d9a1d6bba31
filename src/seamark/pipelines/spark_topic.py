"""What a pipeline asks the brokers: its topic and where that begins; and the group that shows its lag and state."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from seamark.errors import RefusedError, SeamarkError
from seamark.groups.lag import read_delays
from seamark.kafka.brokers import Brokers
from seamark.kafka.groups import Committed
from seamark.kafka.model import OffsetSpec, TopicPartition, TopicStatus
from seamark.kafka.records import read_key_samples
from seamark.kafka_sink.routing import Probe, probe_samples
from seamark.pipelines.progress import MemberState, PipelineLag, RunReport
from seamark.tables.definition import Landing
from seamark.tables.model import LedgerEntry

_LOGGER = logging.getLogger("seamark.spark")
# Keys that are looked at to tell the partitioner: of all partitions together, and of each at least.
_SAMPLES, _LEAST_SAMPLES = 2_000, 20

Ends = Mapping[TopicPartition, int]
OnLag = Callable[[str, PipelineLag], None]
"""Takes the name of a pipeline and its lag."""


def read_ends(brokers: Brokers, spots: Iterable[TopicPartition]) -> Ends:
    """Read where committed records end, with one call for all partitions.

    Raises:
        PartialError: A partition could not be read.
    """
    found = brokers.read_log_offsets(spots, at=OffsetSpec.STABLE).require_complete(what="the ends of the topics")
    return {spot: one.offset for spot, one in found.items() if one is not None}


class LandTopic:
    """The topic of one pipeline."""

    def __init__(
        self,
        landing: Landing,
        brokers: Brokers,
        *,
        start: OffsetSpec = OffsetSpec.EARLIEST,
        is_rebuild: bool = False,
        begins: Mapping[int, int] | None = None,
        topic_id: str = "",
    ) -> None:
        """Read nothing yet.

        Args:
            landing: The pipeline.
            brokers: Who is asked.
            start: Where a partition begins that the ledger doesn't have.
            is_rebuild: Whether the table of the pipeline is rebuilt: its group is left as it is.
            begins: By partition, where it begins instead of `start`: the first records when they were last checked.
            topic_id: The topic that is read; by default the one that has the name when the pipeline begins.
        """
        self._landing = landing
        self._is_rebuild = is_rebuild
        self._begins = dict(begins or {})
        self._brokers = brokers
        # What the group was told last. Its lock also keeps an older offset from being committed after a newer one.
        self._told: dict[int, int] = {}
        self._metadata = ""
        self._lock = threading.Lock()
        self._start = start
        self._is_pinned = bool(topic_id)
        self.topic_id = topic_id

    def read_firsts(self, known: Mapping[tuple[str, int], LedgerEntry], *, start: OffsetSpec) -> list[LedgerEntry]:
        """An entry for each partition: the ledger's, or a first one at the edge `start`.

        Raises:
            RefusedError: records after the ledger offset were deleted from the topic.
        """
        topic = self._read()
        if self._is_pinned:
            self._check_id(topic)
        begins = self._read_edge(topic, OffsetSpec.EARLIEST)
        # The newest is what Spark may read: behind an open transaction it would find nothing, and call it lost.
        starts = begins if start is OffsetSpec.EARLIEST else self._read_edge(topic, OffsetSpec.STABLE)
        self._start, self.topic_id = start, topic.topic_id
        with self._lock:
            # Another run may have told the group something else meanwhile.
            self._told = {}
        found = [
            known.get(
                (topic.topic_id, number),
                LedgerEntry(topic.name, topic.topic_id, number, next_offset=self._begins.get(number, starts[number])),
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
                owner = f"the rebuild of {self._landing.owner}" if self._is_rebuild else self._landing.owner
                raise RefusedError(
                    f"{entry} starts at offset {begins[entry.partition]}, and {owner} is at {entry.next_offset}",
                    cause="records were deleted before the pipeline processed them, by retention or by a user",
                    # The offsets of the pipeline itself are not at fault: moved, they would duplicate rows.
                    hint=self._build_discard_hint()
                    if self._is_rebuild
                    else f"accept the loss: seamark offsets move {self._landing.owner} --to earliest",
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
        self._check_id(found)
        return len(found.partitions)

    def _check_id(self, found: TopicStatus) -> None:
        if found.topic_id != self.topic_id:
            raise RefusedError(
                f"topic {found.name} was recreated while {self._landing.owner} ran",
                cause=f"its topic ID is {found.topic_id}, and was {self.topic_id}",
                hint=self._build_restart_hint(),
            )

    def _build_restart_hint(self) -> str:
        """Return how to continue with a recreated topic, of which the ledger has no entry: it starts at `start`."""
        if self._is_rebuild:
            return self._build_discard_hint()
        restart = f"run it again: seamark pipelines run {self._landing.name}"
        if self._start is OffsetSpec.EARLIEST:
            return f"{restart}; it starts at the first record of the new topic"
        return f"{restart}; it starts at the end of the new topic, unless you set from.start to earliest first"

    def _build_discard_hint(self) -> str:
        return f"discard the rebuild, then begin again: seamark pipelines rebuild {self._landing.name} --discard"

    def mirror(self, entries: Iterable[LedgerEntry]) -> None:
        """Commit the ledger's offsets to the group of the pipeline, which shows lag. A failure is logged only."""
        if self._is_rebuild:
            return
        with self._lock:
            moved = {
                one.partition: one.next_offset for one in entries if self._told.get(one.partition) != one.next_offset
            }
            if moved:
                self._commit(moved)

    def report(self, report: RunReport) -> bool:
        """Publish the state of the pipeline with the offsets of its group. Returns whether it succeeded.

        May be called by any thread. A failure is logged only.
        """
        with self._lock:
            self._metadata = report.to_metadata()
            place: dict[int, int] = {}
            reason = ""
            try:
                place = self._find_place(is_running=report.state is MemberState.RUNNING)
            except SeamarkError as error:
                reason = error.message
            if reason:
                self._log_failure(reason)
            return bool(place) and self._commit(place)

    def read_told(self) -> dict[TopicPartition, int]:
        """Return the offsets that were committed to the group last. May be called by any thread."""
        with self._lock:
            return {(self._landing.topic, number): offset for number, offset in self._told.items()}

    def _find_place(self, *, is_running: bool) -> dict[int, int]:
        """Find the partition whose offset carries the state, and that offset.

        The offset must not change by it: if a Delta log has lost the ledger, the group has the only copy of it. A run
        that doesn't hold the partitions doesn't know how far the holder is.
        """
        if not (is_running and self._told):
            committed = self._brokers.read_mirrored_offsets(self._landing.group)
            topic = self._landing.topic
            self._told = {number: found.offset for (name, number), found in committed.items() if name == topic}
        # A group without offsets gets the one where the pipeline begins.
        edge = OffsetSpec.EARLIEST if self._start is OffsetSpec.EARLIEST else OffsetSpec.STABLE
        return dict(sorted((self._told or self._read_edge(self._read(), edge)).items())[:1])

    def _commit(self, moved: Mapping[int, int]) -> bool:
        carrier = min({*moved, *self._told})
        offsets = {
            (self._landing.topic, number): Committed(offset, metadata=self._metadata if number == carrier else "")
            for number, offset in {carrier: self._told.get(carrier, 0), **moved}.items()
        }
        reason = ""
        try:
            self._brokers.mirror_group_offsets(self._landing.group, offsets)
            self._told |= moved
        except SeamarkError as error:
            reason = error.message
        if reason:
            self._log_failure(reason)
        return not reason

    def _log_failure(self, reason: str) -> None:
        text = "could not commit the offsets of group %s, so that its lag and state are out of date: %s"
        _LOGGER.info(text, self._landing.group, reason)
        # If brokers are down, kafka-python drops sockets without closing them. They are freed here, and not before: the
        # traceback of the error refers to them.
        gc.collect()

    def _read(self) -> TopicStatus:
        reading = self._brokers.read_topics([self._landing.topic])
        for error in reading.failures.values():
            raise error
        return reading.items[0]

    def _read_edge(self, topic: TopicStatus, edge: OffsetSpec) -> dict[int, int]:
        found = self._brokers.read_log_offsets(topic.spots, at=edge).require_complete(what=f"the topic {topic.name}")
        return {partition: stamp.offset for (_, partition), stamp in found.items() if stamp is not None}


class LagMeter:
    """Measures the lag of the pipelines of an application, with a few requests for all of them."""

    def __init__(
        self,
        brokers: Brokers,
        topics: Mapping[str, LandTopic],
        on_lag: OnLag | None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._brokers = brokers
        self._topics = topics
        self._on_lag = on_lag
        self._now = now

    def measure(self) -> None:
        """Measure the lag of each pipeline whose offsets are known. Brokers that don't answer are asked later."""
        told = {name: offsets for name, topic in list(self._topics.items()) if (offsets := topic.read_told())}
        try:
            spots = {spot for one in told.values() for spot in one}
            found = self._brokers.read_log_offsets(spots, at=OffsetSpec.STABLE).found
            ends = {spot: stamp.offset for spot, stamp in found.items() if stamp is not None}
            behind = [(spot, at) for one in told.values() for spot, at in one.items() if at < ends.get(spot, 0)]
            delays = read_delays(self._brokers, behind, ends, now_ms=round(self._now() * 1000)) if behind else {}
        except SeamarkError as error:
            _LOGGER.info("could not measure the lag of pipelines: %s", error.message)
            return
        for name, offsets in told.items():
            lag = sum(max(0, ends.get(spot, 0) - at) for spot, at in offsets.items())
            known = [delays[one].seconds for one in offsets.items() if one in delays]
            if self._on_lag is not None:
                self._on_lag(name, PipelineLag(lag, max(known, default=None) if lag else 0.0))
