"""Which record it is that a failed sink can't take: from its bytes, from the trace, or from whoever knows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from seamark.connect.connector import Connector, State, Task
from seamark.core.refs import ConnectorType
from seamark.dead_letters.record import FoundBy, Poison
from seamark.dead_letters.trace import build_failure, find_places, find_stage
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.kafka.record import Place, WholeRecord, measure
from seamark.offsets.codec.decoding import Decoder, DoubtError, Fault, SinkStage

if TYPE_CHECKING:
    from seamark.dead_letters.records import SinkRecords
    from seamark.kafka.spot import Spot

# A batch is 500 records by default (`max.poll.records`). A sink that writes whole files may have taken many batches
# since it last committed; files of more records than this are rare, and looking takes a few seconds.
_MOST_LOOKED_AT = 20_000


def find_failed_task(connector: Connector) -> Task:
    """The first task of a sink that has failed; a refusal where there is nothing to skip."""
    if connector.type is not ConnectorType.SINK:
        raise RefusedError(
            f"{connector.owner} is no sink: only a sink can stand at a record",
            hint=f"a source goes on from another place by: seamark offsets move {connector.owner}",
        )
    status = connector.status
    if status is not None and status.state is State.PAUSED:
        raise RefusedError(f"{connector.owner} is paused", hint=f"seamark connectors resume {connector.owner}")
    failed = [task for task in (status.tasks if status else ()) if task.state is State.FAILED]
    if not failed:
        raise RefusedError(
            f"no task of {connector.owner} has failed: there is nothing to skip",
            cause=f"the connector is {status.state}" if status else "Connect has no status of it",
            hint="let it run into the record first; to leave records out on purpose: seamark offsets move",
        )
    return failed[0]


class PoisonFinder:
    """Looks for the record of one failed sink. Changes nothing."""

    def __init__(self, connector: Connector, records: SinkRecords) -> None:
        self._connector = connector
        self._records = records
        self._task = find_failed_task(connector)

    def find(self) -> Poison | None:
        """The record, where its bytes or the trace tell it; None where only trying can."""
        positions = self._records.read_positions()
        stage = find_stage(self._task.trace)
        # What failed in a transformation or in put() was read well before.
        if stage.is_converter or stage is SinkStage.UNKNOWN:
            found = self._decode(positions)
            if found is not None:
                return found
        return self._read_trace(positions)

    def confirm(self, place: Place, found_by: FoundBy) -> Poison:
        """A place that somebody named, or where the sink stood."""
        positions = self._records.read_positions()
        if place.spot not in positions:
            raise NotFoundError(
                f"{self._connector.owner} does not read {place.topic}-{place.partition}",
                cause=f"it reads {', '.join(sorted({topic for topic, _ in positions})[:10]) or 'nothing'}",
            )
        if positions[place.spot] > place.offset:
            raise UsageError(
                f"{self._connector.owner} is behind {place} already: it stands at {positions[place.spot]}",
                hint="there is nothing to skip there",
            )
        record = self._records.read(place)
        if record is None:
            raise NotFoundError(
                f"no record lies at {place}",
                hint="its topic may be compacted or have deleted it, or the number is that of a transaction's marker",
            )
        return self._build(record, found_by, positions)

    def _decode(self, positions: Mapping[Spot, int]) -> Poison | None:
        """Of the first undecodable records of all partitions, the one that is met the soonest."""
        decoder = Decoder(self._connector.config, self._records.worker)
        found: tuple[WholeRecord, Fault] | None = None
        most = _MOST_LOOKED_AT
        for spot, start in sorted(positions.items()):
            try:
                for number, record in enumerate(islice(self._records.read_from(spot, start), most)):
                    if fault := decoder.find_fault(record):
                        # In the other partitions only what comes sooner is of interest.
                        found, most = (record, fault), number
                        break
            except DoubtError:
                # One converter that is not known here: no record could be called the first.
                return None
        return None if found is None else self._build(found[0], FoundBy.DECODING, positions, fault=found[1])

    def _read_trace(self, positions: Mapping[Spot, int]) -> Poison | None:
        """The record that the trace names, where it is one alone and still to come."""
        named = {
            place
            for place in find_places(self._task.trace)
            if place.spot in positions and positions[place.spot] <= place.offset
        }
        record = self._records.read(named.pop()) if len(named) == 1 else None
        return None if record is None else self._build(record, FoundBy.TRACE, positions)

    def _build(
        self, record: WholeRecord, found_by: FoundBy, positions: Mapping[Spot, int], *, fault: Fault | None = None
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
