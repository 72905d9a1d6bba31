"""Find the record that a sink can't process: watch the sink until it fails, restart its failed tasks, watch again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar

from seamark.changes.action import CheckStep
from seamark.changes.codec import Transient
from seamark.changes.environment import Environment
from seamark.changes.step import ConnectorSubject, Intent, Observed, Step, step_kind
from seamark.connect.model import Connector, ConnectorStatus, State, Task
from seamark.connectors.read import read_status
from seamark.connectors.run_state import RestartFailed
from seamark.core.refs import ConnectorType
from seamark.dead_letters.records import build_failure, find_places, find_stage
from seamark.dead_letters.steps import RECORDS, Failure, RecordPort
from seamark.errors import DeadlineError, NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.kafka.model import RecordLocation, RecordSize, TopicPartition, WholeRecord, measure
from seamark.offsets.codec.converter_faults import Decoder, DoubtError, Fault, SinkStage

if TYPE_CHECKING:
    from seamark.dead_letters.records import SinkRecords


_LOOK_SECONDS = 0.5
# If the failing record comes first, a task runs for a few tenths of a second.
_GLANCE_SECONDS = 0.05
# Without any progress or failure. A JDBC sink retries a record ten times, three seconds apart, before it fails.
_IDLE_SECONDS = 120.0
# How often a running sink is compared with the end of its log.
_END_SECONDS = 20.0
# A restart is visible within a rebalance; after this time, a task that looks failed has failed again.
_RESTART_SECONDS = 15.0
# A restart changes the order of the partitions. Five rounds are enough if some hundred records wait in the others.
ROUNDS = 5
_MOST_NAMED = 5


@dataclass(slots=True)
class PoisonSearch:
    """What the rounds of one search have observed: the number of failures, and the records that may be the cause.

    It belongs to one process. A resume in another process starts without observations.
    """

    failures: int = 0
    candidates: Mapping[TopicPartition, RecordLocation] | None = None
    sightings: list[RecordLocation] = field(default_factory=list)


@step_kind("await-failing-record")
@dataclass(frozen=True, slots=True)
class AwaitFailingRecord(ConnectorSubject, CheckStep):
    """Watch a sink with batches of one record until it fails; its committed offset is that of the failing record.

    When a task fails, Connect commits what the previous batches processed: with one record per batch, the committed
    offset is that of the record that failed. If `place` is given, the record must be that one. Otherwise the search
    records the next record of the one partition whose offset stays the same from failure to failure (`sightings`).
    `number` is the round, from 1; each round after the first follows a restart of the failed tasks.
    """

    aspect: ClassVar[str] = "poison"

    place: RecordLocation | None = None
    idle_seconds: float = _IDLE_SECONDS
    number: int = 1
    # State of the process that runs the step; not part of the plan.
    search: Annotated[PoisonSearch, Transient()] = field(default_factory=PoisonSearch, compare=False, repr=False)

    @property
    def settle_seconds(self) -> float:
        return self.idle_seconds

    def describe(self) -> str:
        again = "" if self.number == 1 else f" (round {self.number})"
        if self.place is None:
            return f"wait until {self.subject} fails at a record{again}"
        return f"wait until {self.subject} has delivered all records before {self.place}{again}"

    def perform(self, world: Environment, intent: Intent) -> str | None:
        if self.search.sightings:
            return None
        if self.number > 1:
            self._await_restart(world)
        port, clock = world.use(RECORDS)(self.cluster, self.name), world.clock
        ends = port.read_ends()
        last: Mapping[TopicPartition, int] = {}
        moved_at, looked_at = clock.now(), clock.now()
        while True:
            is_idle = clock.now() - moved_at >= self.idle_seconds
            is_failed, positions = self._look(world, port, last, is_idle=is_idle)
            if positions != last:
                last, moved_at = positions, clock.now()
            self._refuse_passed(positions)
            if is_failed:
                return self._end_round(port.find_next(self._pick(positions)))
            if is_idle:
                raise self._build_late(positions)
            if clock.now() - looked_at >= _END_SECONDS:
                looked_at = clock.now()
                self._refuse_well(port.find_next(self._pick(positions)), ends)
            clock.sleep(_LOOK_SECONDS)

    def _end_round(self, standing: Mapping[TopicPartition, RecordLocation]) -> str:
        """Narrow the candidates after a failure, and return a note on the result.

        Raises:
            RefusedError: this was the last round, and the record isn't found.
        """
        search = self.search
        search.failures += 1
        search.candidates = self._narrow(standing, search.candidates)
        if self._is_found(search.candidates):
            return f"stopped at {search.sightings[0]}"
        if self.number >= ROUNDS:
            raise self._build_lost(search.candidates)
        return f"it failed; {len(search.candidates)} records may be the cause"

    def _await_restart(self, world: Environment) -> None:
        """Wait until the restart is visible, because the status from before it would count as another failure."""
        until = world.clock.now() + _RESTART_SECONDS
        while world.clock.now() < until and _has_failed(read_status(world, self.cluster, self.name)):
            world.clock.sleep(_GLANCE_SECONDS)

    def _look(
        self, world: Environment, port: RecordPort, last: Mapping[TopicPartition, int], *, is_idle: bool
    ) -> tuple[bool, Mapping[TopicPartition, int]]:
        """Return whether a task has failed, and the committed offsets.

        The status is read first: a task that is seen as FAILED has already committed.
        """
        try:
            is_failed = _has_failed(read_status(world, self.cluster, self.name))
            return is_failed, port.read_positions()
        except SeamarkError as error:
            # A rebalance or a restarting broker hides it temporarily.
            if is_idle or not error.retryable:
                raise
            return False, last

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.AFTER if _has_failed(read_status(world, self.cluster, self.name)) else Observed.BEFORE

    def _pick(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the relevant offsets: those of the named partition, or all."""
        if self.place is None:
            return positions
        return {spot: position for spot, position in positions.items() if spot == self.place.spot}

    def _narrow(
        self,
        standing: Mapping[TopicPartition, RecordLocation],
        candidates: Mapping[TopicPartition, RecordLocation] | None,
    ) -> Mapping[TopicPartition, RecordLocation]:
        """Return the candidates that didn't move since the last failure: a record that was passed didn't fail."""
        if candidates is None or self.place is not None:
            return standing
        return {spot: place for spot, place in standing.items() if candidates.get(spot) == place}

    def _is_found(self, candidates: Mapping[TopicPartition, RecordLocation]) -> bool:
        if self.place is not None:
            found = candidates.get(self.place.spot) == self.place
        else:
            # Require two failures at the same record, because a task may have failed once for another reason.
            found = len(candidates) == 1 and self.search.failures > 1
        if found:
            self.search.sightings[:] = [self.place] if self.place is not None else candidates.values()
        return found

    def _refuse_passed(self, positions: Mapping[TopicPartition, int]) -> None:
        if self.place is not None and positions.get(self.place.spot, 0) > self.place.offset:
            raise RefusedError(
                f"{self.subject} has processed {self.place}; no record was skipped",
                cause=f"its committed offset is {positions[self.place.spot]}",
                hint="run seamark offsets skip if it fails again; its config and state are restored",
            )

    def _refuse_well(
        self, following: Mapping[TopicPartition, RecordLocation], ends: Mapping[TopicPartition, int]
    ) -> None:
        """Refuse if the sink has processed all records that existed at the start: it no longer fails.

        Without this check the search would never end.
        """
        if all(place.offset >= ends.get(spot, 0) for spot, place in following.items()):
            raise RefusedError(
                f"{self.subject} has processed all records; no record was skipped",
                cause="the record that failed before does not fail any more",
                hint="check it with seamark connectors show; its config and state are restored, and it continues",
            )

    def _build_lost(self, candidates: Mapping[TopicPartition, RecordLocation]) -> RefusedError:
        named = ", ".join(str(place) for place in sorted(candidates.values())[:_MOST_NAMED])
        if self.place is not None:
            return RefusedError(
                f"{self.subject} fails before {self.place}; no record was skipped",
                cause=f"its next record is {named or 'unknown'}: an earlier record fails, or the sink commits later "
                "than it "
                "processes records",
                hint="skip that record first; for a sink that writes whole files, try smaller ones: "
                "--temporary-config flush.size=1",
            )
        return RefusedError(
            f"can't determine at which record {self.subject} fails; no record was skipped",
            cause=f"it may be one of {named}" if named else "it stops at a different offset each time",
            hint="if you know the record, pass --at TOPIC-PARTITION@OFFSET; its config and state are restored",
        )

    def _build_late(self, positions: Mapping[TopicPartition, int]) -> DeadlineError:
        where = "" if self.place is None else f" at {positions.get(self.place.spot)}"
        return DeadlineError(
            f"{self.subject} did not fail again within {self.idle_seconds:g} s; no record was skipped",
            cause=f"it is RUNNING, and its committed offset does not change{where}",
            hint="check it with seamark connectors show; if it runs now, no record needs to be skipped",
        )


@step_kind("restart-search")
@dataclass(frozen=True, slots=True)
class RestartSearch(RestartFailed):
    """Restart the failed tasks of a sink for another round of a search, unless the record is found.

    It is a separate step, so that each restart has its intent in the journal.
    """

    place: RecordLocation | None = None
    search: Annotated[PoisonSearch, Transient()] = field(default_factory=PoisonSearch, compare=False, repr=False)

    def intend(self, world: Environment) -> Intent:
        intent = RestartFailed.intend(self, world)
        return Intent(before=intent.before, after=intent.before) if self._is_over(world) else intent

    def observe(self, world: Environment, intent: Intent) -> Observed:
        # The task may already have failed again at the same record, so the status can't show whether it was restarted.
        # The next round doesn't depend on it.
        return Observed.AFTER

    def _is_over(self, world: Environment) -> bool:
        if self.search.sightings or self.place is None:
            return bool(self.search.sightings)
        port = world.use(RECORDS)(self.cluster, self.name)
        positions = {spot: found for spot, found in port.read_positions().items() if spot == self.place.spot}
        return port.find_next(positions).get(self.place.spot) == self.place


def build_search(cluster: str, name: str, place: RecordLocation | None = None) -> Iterator[Step]:
    """Build the steps that find the record at which a sink fails, or that wait until it fails at `place`."""
    search = PoisonSearch()
    yield AwaitFailingRecord(cluster, name, place, search=search)
    for number in range(2, ROUNDS + 1):
        yield RestartSearch(cluster, name, place, search=search)
        yield AwaitFailingRecord(cluster, name, place, number=number, search=search)


def find_sightings(steps: Iterable[Step]) -> list[RecordLocation]:
    """Return the list to which the search among these steps adds the record that it finds."""
    return next(step.search.sightings for step in steps if isinstance(step, AwaitFailingRecord))


def _has_failed(status: ConnectorStatus | None) -> bool:
    return status is not None and any(task.state is State.FAILED for task in status.tasks)


class FoundBy(StrEnum):
    """How the failing record was identified."""

    DECODING = "decoding"
    TRACE = "trace"
    SINGLE_RECORDS = "single-records"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Poison:
    """A failing record, how it was identified, its failure, and the sink's committed offset in its partition."""

    place: RecordLocation
    found_by: FoundBy
    failure: Failure
    size: RecordSize
    position: int
    reason: str = ""


# A batch has 500 records by default (`max.poll.records`). A sink that writes whole files may have read many batches
# since its last commit; files of more records than this are rare, and reading them takes a few seconds.
_MOST_LOOKED_AT = 20_000


def find_failed_task(connector: Connector) -> Task:
    """Return the first failed task of a sink.

    Raises:
        RefusedError: there is nothing to skip.
    """
    if connector.type is not ConnectorType.SINK:
        raise RefusedError(
            f"{connector.owner} is not a sink",
            hint=f"change the offsets of a source with seamark offsets move {connector.owner}",
        )
    status = connector.status
    if status is not None and status.state is State.PAUSED:
        raise RefusedError(f"{connector.owner} is paused", hint=f"run seamark connectors resume {connector.owner}")
    failed = [task for task in (status.tasks if status else ()) if task.state is State.FAILED]
    if not failed:
        raise RefusedError(
            f"no task of {connector.owner} has failed; no record was skipped",
            cause=f"the connector is {status.state}" if status else "Connect has no status for it",
            hint="wait until it fails at the record; to skip records on purpose, use seamark offsets move",
        )
    return failed[0]


class PoisonFinder:
    """Finds the failing record of one sink. Makes no changes."""

    def __init__(self, connector: Connector, records: SinkRecords) -> None:
        self._connector = connector
        self._records = records
        self._task = find_failed_task(connector)

    def find(self) -> Poison | None:
        """Return the record if its bytes or the trace identify it; None if only trying can find it."""
        positions = self._records.read_positions()
        stage = find_stage(self._task.trace)
        # A record that failed in a transformation or in put() was converted successfully before.
        if stage.is_converter or stage is SinkStage.UNKNOWN:
            found = self._decode(positions)
            if found is not None:
                return found
        return self._read_trace(positions)

    def confirm(self, place: RecordLocation, found_by: FoundBy) -> Poison:
        """Check a location that the user named, or at which the sink stopped, and return its record.

        Raises:
            NotFoundError: the sink doesn't read that partition, or there is no such record.
            UsageError: the sink has already passed that offset.
        """
        positions = self._records.read_positions()
        if place.spot not in positions:
            raise NotFoundError(
                f"{self._connector.owner} does not read {place.topic}-{place.partition}",
                cause=f"it reads {', '.join(sorted({topic for topic, _ in positions})[:10]) or 'no topics'}",
            )
        if positions[place.spot] > place.offset:
            raise UsageError(
                f"{self._connector.owner} has already processed {place}",
                cause=f"its committed offset is {positions[place.spot]}",
            )
        record = self._records.read(place)
        if record is None:
            raise NotFoundError(
                f"no record at {place}",
                cause="it was compacted or deleted, or the offset is a transaction marker",
                hint="pass the offset of an existing record",
            )
        return self._build(record, found_by, positions)

    def _decode(self, positions: Mapping[TopicPartition, int]) -> Poison | None:
        """Return the undecodable record that the sink reads first, over all partitions."""
        decoder = Decoder(self._connector.config, self._records.worker)
        found: tuple[WholeRecord, Fault] | None = None
        most = _MOST_LOOKED_AT
        for spot, start in sorted(positions.items()):
            try:
                for number, record in enumerate(islice(self._records.read_from(spot, start), most)):
                    if fault := decoder.find_fault(record):
                        # In the other partitions, only earlier records matter.
                        found, most = (record, fault), number
                        break
            except DoubtError:
                # With a converter that seamark doesn't know, no record can be identified as the first.
                return None
        return None if found is None else self._build(found[0], FoundBy.DECODING, positions, fault=found[1])

    def _read_trace(self, positions: Mapping[TopicPartition, int]) -> Poison | None:
        """Return the record that the trace names, if it names exactly one that wasn't processed yet."""
        named = {
            place
            for place in find_places(self._task.trace)
            if place.spot in positions and positions[place.spot] <= place.offset
        }
        record = self._records.read(named.pop()) if len(named) == 1 else None
        return None if record is None else self._build(record, FoundBy.TRACE, positions)

    def _build(
        self,
        record: WholeRecord,
        found_by: FoundBy,
        positions: Mapping[TopicPartition, int],
        *,
        fault: Fault | None = None,
    ) -> Poison:
        failure = build_failure(
            self._task,
            class_name=fault.converter if fault else self._connector.plugin,
            stage=fault.stage if fault else None,
        )
        return Poison(
            record.place,
            found_by,
            failure,
            measure(record),
            positions[record.place.spot],
            reason=f"{fault.stage.lower().replace('_', ' ')}: {fault.reason}" if fault else "",
        )
