"""Plan the restore of many owners, sources and sinks together, to their offsets at a point in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.changes.action import LOCKS
from seamark.changes.plan import PlannedChange
from seamark.connect.model import Connector
from seamark.connectors.model import build_selection, is_pattern
from seamark.core.readings import fan_out
from seamark.core.refs import is_group_owner, read_group_name
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnsupportedError, UsageError
from seamark.groups.targets import OFFSET
from seamark.offsets.model import DEFAULT_SAFETY, SafetyOptions
from seamark.offsets.port import SNAPSHOTS
from seamark.offsets.restore.observations import (
    Observations,
    ObservationSources,
    OwnerRef,
    find_topic_ids,
    read_exports,
)
from seamark.offsets.restore.targets import (
    Log,
    RestoreTargetFinder,
    RestoreTargets,
    TopicIds,
    format_past_offset,
    format_precision,
)
from seamark.offsets.semantics.sinks import SinkMeaning, find_spot, read_number
from seamark.offsets.stores.stores import reads_elsewhere
from seamark.offsets.write.plans import merge, plan_write
from seamark.offsets.write.rights import SharedGroups, read_shared
from seamark.report.words import render_count, render_time

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort
    from seamark.offsets.port import OffsetDependencies
    from seamark.offsets.semantics import OffsetSemantics

# Of an owner with hundreds of partitions only the first ones are shown; `-o json` has all.
_SHOWN_PARTITIONS = 5


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """A point in time, and the evidence that may be used for it.

    `exports` are files and folders. With `by_record_time`, a sink without better evidence is set to the first record of
    that time or later. With `skip_unknown`, owners without evidence are skipped and listed.
    """

    moment: datetime
    exports: tuple[Path, ...] = ()
    by_record_time: bool = False
    skip_unknown: bool = False

    @property
    def moment_ms(self) -> int:
        """Return the point in time in milliseconds since the epoch."""
        return round(self.moment.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class RestorePlanner:
    """Plans restores to a point in time. Nothing is changed here."""

    deps: OffsetDependencies

    def plan(
        self,
        owners: Sequence[str],
        back: RestoreOptions,
        *,
        everything: bool = False,
        partitions: Sequence[str] = (),
        safety: SafetyOptions = DEFAULT_SAFETY,
    ) -> PlannedChange:
        """Plan to restore these owners, or every connector; one plan with a step sequence for each.

        Raises:
            RefusedError: Some owners have no evidence, and `skip_unknown` is not set.
        """
        if self.deps.context.verify == "rest":
            raise UnsupportedError(
                "past offsets are unknown through REST",
                cause="they are read from the offsets topics and logs, which offset_verification: rest excludes",
                hint="use seamark offsets import FILE to restore the offsets of an export",
            )
        now_ms = round(self.deps.world.clock.now() * 1000)
        if back.moment_ms > now_ms:
            raise UsageError(f"{render_time(back.moment)} is in the future", hint="pass --at with a time in the past")
        exports, notes = read_exports(back.exports, context=self.deps.context.name)
        asked = self._resolve(owners, everything=everything)
        if partitions and len(asked) > 1:
            raise UsageError(
                "--partition and --topic apply to one owner", hint="pass one owner, or omit --partition and --topic"
            )
        self.deps.world.use(SNAPSHOTS).expect(one.connector.name for one in asked if one.connector is not None)
        sources = ObservationSources(
            clusters=self.deps.clusters,
            stores=self.deps.world.stores,
            journal=self.deps.open_journal,
            locks=self.deps.planner.build_reads(self.deps.world).use(LOCKS),
            exports=exports,
            now_ms=now_ms,
        )
        observed = sources.collect(asked)
        ids = find_topic_ids(exports, back.moment_ms)
        plan = partial(
            self._plan_one, back=back, ids=ids, partitions=partitions, safety=safety, shared=self._read_shared(asked)
        )
        answers = fan_out({one.owner: partial(plan, one, observed[one.owner]) for one in asked})
        left = self._leave_out(answers.failures, back, count=len(asked))
        going = [one for one in asked if one.owner in answers.results]
        merged = merge(_build_title(going, back), list(answers.results.values()))
        return replace(merged, plan=replace(merged.plan, notes=(*merged.plan.notes, *left, *sources.notes, *notes)))

    def _resolve(self, owners: Sequence[str], *, everything: bool) -> tuple[OwnerRef, ...]:
        if everything == bool(owners):
            raise UsageError("no owner given", hint="pass OWNER…, or --all")
        found: dict[str, OwnerRef] = {one: OwnerRef(one) for one in owners if is_group_owner(one)}
        names = [one for one in owners if not is_group_owner(one) and not is_pattern(one)]
        answers = fan_out({name: partial(self.deps.connectors.get, name) for name in dict.fromkeys(names)})
        for error in answers.failures.values():
            raise error
        picked = list(answers.results.values())
        patterns = [one for one in owners if not is_group_owner(one) and is_pattern(one)]
        if patterns or everything:
            reading = self.deps.connectors.list()
            for error in reading.failures.values():
                raise error
            picked += reading.items if everything else build_selection(patterns).pick(reading.items)
        found |= {one.owner: OwnerRef(one.owner, one) for one in picked}
        if not found:
            raise NotFoundError("no such connector", hint="list connectors with seamark connectors list")
        return tuple(found.values())

    def _read_shared(self, asked: Sequence[OwnerRef]) -> SharedGroups | None:
        """Read the sinks that share consumer groups, once for all owners."""
        has_sink = any(one.connector is not None and one.is_reader for one in asked)
        return read_shared(self.deps.clusters) if has_sink else None

    def _plan_one(
        self,
        asked: OwnerRef,
        observations: Observations,
        *,
        back: RestoreOptions,
        ids: TopicIds,
        partitions: Sequence[str],
        safety: SafetyOptions,
        shared: SharedGroups | None,
    ) -> PlannedChange:
        connector = asked.connector
        if connector is not None and reads_elsewhere(connector):
            # Exports contain the topic IDs of the context's own Kafka cluster only.
            ids = {}
        meaning: OffsetSemantics = SinkMeaning("", {})
        if connector is not None:
            meaning = self.deps.open_snapshot(connector).meaning
        log = Log(self._find_brokers(connector), ids, back.by_record_time) if asked.is_reader else None
        way = RestoreTargetFinder(asked.owner, observations, meaning=meaning, log=log).find(back.moment_ms, partitions)
        title = _build_title([asked], back)
        if connector is not None:
            planned = plan_write(
                self.deps, connector, way.offsets, title=title, safety=safety, notes=way.notes, shared=shared
            )
        else:
            planned = self._place_group(asked.owner, way)
        return _explain(planned, asked.owner, way, meaning)

    def _find_brokers(self, connector: Connector | None) -> BrokersPort:
        return self.deps.world.kafka() if connector is None else self.deps.world.stores.find_brokers(connector)

    def _place_group(self, owner: str, way: RestoreTargets) -> PlannedChange:
        spots = {spot: read_number(one.offset, OFFSET) for one in way.offsets if (spot := find_spot(one.partition))}
        if not spots:
            # All offsets stay unchanged; the notes have the reason.
            return self.deps.planner.plan(owner, ())
        planned = self.deps.open_groups().place(read_group_name(owner), spots)
        return replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, *way.notes)))

    def _leave_out(self, failures: Mapping[str, SeamarkError], back: RestoreOptions, *, count: int) -> tuple[str, ...]:
        """Return notes that name the skipped owners, if skipping is allowed."""
        for error in failures.values():
            if count == 1 or not isinstance(error, UnsupportedError | NotFoundError):
                raise error
        if failures and (not back.skip_unknown or len(failures) == count):
            said = [f"{error.message} ({error.cause})" if error.cause else error.message for error in failures.values()]
            raise RefusedError(
                f"no evidence for the past offsets of {len(failures)} of {count} owners; no changes were made",
                cause="; ".join(said),
                hint="pass exports with --exports FILE, use --by-record-time to move sinks to the first record of "
                "that time, "
                "use --skip-unknown to keep these owners unchanged, or pass only the other owners",
            )
        return tuple(f"{owner} is not changed: {error.message}" for owner, error in failures.items())


def _explain(planned: PlannedChange, owner: str, way: RestoreTargets, meaning: OffsetSemantics) -> PlannedChange:
    """Add the evidence of the offsets to an owner's plan: on its line, and for several partitions below it."""
    if planned.is_empty:
        there = (
            (f"{owner} already has these offsets: {format_precision(way.past_offsets)}",) if way.past_offsets else ()
        )
        return replace(planned, plan=replace(planned.plan, notes=(*way.notes, *there)))
    changed = {field.key for effect in planned.effects for field in effect.fields}
    said = {
        name: format_past_offset(one)
        for one in way.past_offsets
        if (name := meaning.describe(one.partition, None)[0]) in changed
    }
    lines = [f"{name}: {words}" for name, words in said.items()] if len(set(said.values())) > 1 else []
    if len(lines) > _SHOWN_PARTITIONS:
        more = f"… {render_count(len(lines) - _SHOWN_PARTITIONS, 'partition')} more"
        lines = [*lines[:_SHOWN_PARTITIONS], more]
    words = format_precision(way.past_offsets)
    effects = tuple(
        replace(effect, words=f"{effect.words}; {words}", consequences=(*lines, *effect.consequences))
        for effect in planned.effects
    )
    return replace(planned, effects=effects)


def _build_title(asked: Sequence[OwnerRef], back: RestoreOptions) -> str:
    who = asked[0].owner if len(asked) == 1 else render_count(len(asked), "owner")
    return f"restore the offsets of {who} at {render_time(back.moment)}"
