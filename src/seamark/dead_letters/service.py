"""Plans for a record that a sink can't process: find it by trying, then send it to a dead letter queue and skip it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seamark.changes.plan import PlannedChange
from seamark.connect.capability import Capability
from seamark.connect.config import find_group
from seamark.connectors.policy import check_config_writes
from seamark.dead_letters.action import FindFailingRecord, SkipRecord
from seamark.dead_letters.overrides import (
    BATCH,
    DEAD_LETTERS,
    Lent,
    choose_lent,
    find_refusal,
    lend_tasks,
    refuse_own_positions,
    tells_truth,
)
from seamark.dead_letters.records import SinkRecords, matches_topics
from seamark.dead_letters.search import FoundBy, Poison, PoisonFinder, find_sightings
from seamark.errors import RefusedError, UsageError
from seamark.kafka.model import RecordLocation

if TYPE_CHECKING:
    from seamark.changes.planner import Planner
    from seamark.connect.clusters import Clusters
    from seamark.connect.model import Connector
    from seamark.connectors.service import Connectors
    from seamark.context import Context


@dataclass(frozen=True, slots=True)
class Search:
    """A plan that makes a sink stop at its failing record. After it is applied, the record can be read."""

    planned: PlannedChange
    owner: str
    sightings: list[RecordLocation]
    is_sure: bool
    finder: PoisonFinder

    def read_poison(self) -> Poison:
        """Return the record that was found.

        Raises:
            RefusedError: it wasn't found, or seamark can't determine whether it is the failing one.
        """
        if not self.sightings:
            raise RefusedError(f"the failing record of {self.owner} was not found; no record was skipped")
        if not self.is_sure:
            raise RefusedError(
                f"{self.owner} stops at {self.sightings[0]}; no record was skipped",
                cause="seamark doesn't know whether this connector class commits each processed record: some sinks "
                "buffer "
                "records",
                hint=f"if that is the record, pass --at {self.sightings[0]}; for a sink that writes whole files, "
                "try smaller "
                "ones: --temporary-config KEY=VALUE",
            )
        return self.finder.confirm(self.sightings[0], FoundBy.SINGLE_RECORDS)


class Skips:
    """Operations on a record that a sink can't process: find it, search for it by trying, plan to skip it."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        connectors: Connectors,
        open_records: Callable[[str, str], SinkRecords],
        planner: Callable[[], Planner],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._connectors = connectors
        self._open_records = open_records
        self._planner = planner

    def find(self, owner: str, *, at: RecordLocation | None = None) -> Poison | None:
        """Return the failing record of a sink; None if only trying can find it. `at` names it, if it is known.

        Raises:
            RefusedError: the connector isn't a sink, or none of its tasks has failed.
        """
        connector = self._read(owner)
        finder = PoisonFinder(connector, self._records(connector))
        return finder.find() if at is None else finder.confirm(at, FoundBy.OPERATOR)

    def search(self, owner: str, *, lend: Mapping[str, str] | None = None) -> Search:
        """Plan to make a failed sink process record by record until it stops at the one that it can't process."""
        connector = self._read(owner)
        records = self._records(connector)
        finder = PoisonFinder(connector, records)
        lent = lend_tasks(connector, choose_lent(connector, lend or {}), partitions=len(records.read_positions()))
        if refusal := find_refusal(connector, lent, self._clusters.client(connector.cluster)):
            raise RefusedError(
                f"can't determine at which record {connector.owner} fails; no changes were made",
                cause="neither the bytes nor the trace identify it, and Connect doesn't allow it to process single "
                "records: "
                f"{refusal}",
                hint=f"allow {BATCH} with connector.client.config.override.policy of the workers, or pass the "
                "record with "
                "--at TOPIC-PARTITION@OFFSET",
            )
        action = FindFailingRecord(connector.cluster, connector.name, lent)
        reads = self._planner().open_reads(1)
        (seen,) = FindFailingRecord.inspect([action], reads)
        check_config_writes(action.needs(seen).configs, self._clusters, self._context)
        planned = self._planner().plan(
            f"find the record at which {connector.owner} fails",
            [action],
            notes=self._build_notes(connector),
            reads=reads,
            known={0: seen},
        )
        return Search(planned, connector.owner, find_sightings(planned.steps), tells_truth(connector, lent), finder)

    def plan(
        self,
        owner: str,
        poison: Poison,
        *,
        park: str | None = None,
        lend: Mapping[str, str] | None = None,
        assume_worker_down: bool = False,
        show: bool = False,
    ) -> PlannedChange:
        """Plan to deliver all records before one, send that one to the dead letter queue, and continue after it."""
        connector = self._read(owner)
        records = self._records(connector)
        topic = self._choose_topic(connector, park)
        lent = choose_lent(connector, lend or {})
        is_delivering, notes = self._choose_delivery(connector, poison, lent, records)
        action = SkipRecord(
            connector.cluster,
            connector.name,
            poison,
            topic,
            lent if is_delivering else {},
            accepts_zombies=assume_worker_down,
        )
        reads = self._planner().open_reads(1)
        seen = action.read(reads)
        check_config_writes(action.needs(seen).configs, self._clusters, self._context)
        planned = self._planner().plan(
            f"skip {poison.place} of {connector.owner}",
            [action],
            notes=(
                *notes,
                "an undo restores the offset of the record; its copy stays in the dead letter queue",
                *self._build_notes(connector),
            ),
            reads=reads,
            known={0: seen},
        )
        record = records.read(poison.place) if show else None
        if record is None:
            return planned
        # The record's content is only for the user who requested it, and not part of the plan.
        return replace(planned, effects=(action.build_effect(seen, shown=record.value),))

    def _choose_delivery(
        self, connector: Connector, poison: Poison, lent: Lent, records: SinkRecords
    ) -> tuple[bool, tuple[str, ...]]:
        """Choose whether the records before it are delivered one by one. A failure at the record also confirms it."""
        refusal = find_refusal(connector, lent, self._clusters.client(connector.cluster))
        if not refusal:
            return True, ()
        following = records.find_next({poison.place.spot: poison.position})
        if following.get(poison.place.spot) == poison.place:
            return False, (
                f"the record was not confirmed by processing single records: Connect does not allow it ({refusal})",
            )
        raise RefusedError(
            f"the records before {poison.place} can't be delivered without it; no changes were made",
            cause=f"the committed offset of {connector.owner} is {poison.position}, and Connect doesn't allow it to "
            "process "
            f"single records: {refusal}",
            hint=f"allow {BATCH} with connector.client.config.override.policy of the workers",
        )

    def _choose_topic(self, connector: Connector, park: str | None) -> str:
        topic = park or connector.config.get(DEAD_LETTERS, "").strip() or f"{connector.name}-dlq"
        if matches_topics(connector.config, topic):
            raise UsageError(
                f"{connector.owner} reads {topic}, so it would process the record again from this dead letter queue",
                hint="pass another topic: --dlq-topic TOPIC",
            )
        return topic

    def _build_notes(self, connector: Connector) -> tuple[str, ...]:
        settings = self._clusters.settings(connector.cluster)
        shared = settings.consumer_group_id
        is_shared = shared is not None and find_group(connector.name, connector.config, settings) == shared
        note = f"all sinks of {connector.cluster} share group {shared}: they skip the record too"
        return (note,) if is_shared else ()

    def _read(self, owner: str) -> Connector:
        connector = self._connectors.get(owner)
        capabilities = self._clusters.client(connector.cluster).read_capabilities()
        capabilities.require(Capability.WRITE_OFFSETS, doing=f"skip a record of {connector.owner}")
        refuse_own_positions(connector)
        return connector

    def _records(self, connector: Connector) -> SinkRecords:
        return self._open_records(connector.cluster, connector.name)
