"""The plan that puts many owners, sources and sinks together, where they stood at a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.changes.action import LOCKS
from seamark.changes.effect import Effect
from seamark.changes.plan import PlannedChange
from seamark.connect.model import Connector
from seamark.connectors.model import build_selection, is_pattern
from seamark.core.readings import fan_out
from seamark.core.refs import is_group_owner, read_group_name
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnsupportedError, UsageError
from seamark.groups.targets import OFFSET
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
from seamark.offsets.write.preview import DEFAULT_SAFETY, SafetyOptions
from seamark.offsets.write.rights import SharedGroups, read_shared
from seamark.report.words import render_count, render_time

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort
    from seamark.offsets.port import OffsetDependencies
    from seamark.offsets.semantics import OffsetSemantics

# Whoever has hundreds of partitions looks at the first ones; `-o json` has all.
_SHOWN_PARTITIONS = 5


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """A moment, and what may be taken for evidence of it.

    `exports` are files and folders. With `by_record_time` a sink of which nobody knows more goes to the first record
    of that time or later. With `skip_unknown` those of whom nobody knows anything are left out, and named.
    """

    moment: datetime
    exports: tuple[Path, ...] = ()
    by_record_time: bool = False
    skip_unknown: bool = False

    @property
    def moment_ms(self) -> int:
        """The moment in milliseconds since the epoch."""
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
        """Put these owners, or every connector, where they stood; one plan with a lane for each.

        Raises:
            RefusedError: of some nobody can tell it, and they are not to be left out.
        """
        if self.deps.context.verify == "rest":
            raise UnsupportedError(
                "where owners stood is not known through REST alone",
                cause="the offsets topics and the logs tell it, and the context does not look into them (verify: rest)",
                hint="seamark offsets import FILE puts owners where an export says",
            )
        now_ms = round(self.deps.world.clock.now() * 1000)
        if back.moment_ms > now_ms:
            raise UsageError(f"{render_time(back.moment)} is yet to come", hint="--as-of takes a time that has passed")
        exports, notes = read_exports(back.exports, context=self.deps.context.name)
        asked = self._resolve(owners, everything=everything)
        if partitions and len(asked) > 1:
            raise UsageError("partitions are those of one owner", hint="name one owner, or leave --partition out")
        self.deps.world.use(SNAPSHOTS).expect(one.connector.name for one in asked if one.connector is not None)
        sources = ObservationSources(
            clusters=self.deps.clusters,
            stores=self.deps.world.stores,
            journal=self.deps.open_journal,
            locks=self.deps.planner.open_reads(1).use(LOCKS),
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
            raise UsageError("say who shall go back: some owners, or all connectors", hint="OWNER…, or --all")
        found: dict[str, OwnerRef] = {one: OwnerRef(one) for one in owners if is_group_owner(one)}
        names = [one for one in owners if not is_group_owner(one) and not is_pattern(one)]
        answers = fan_out({name: partial(self.deps.connectors.one, name) for name in dict.fromkeys(names)})
        for error in answers.failures.values():
            raise error
        picked = list(answers.results.values())
        patterns = [one for one in owners if not is_group_owner(one) and is_pattern(one)]
        if patterns or everything:
            reading = self.deps.connectors.all()
            for error in reading.failures.values():
                raise error
            picked += reading.items if everything else build_selection(patterns).pick(reading.items)
        found |= {one.owner: OwnerRef(one.owner, one) for one in picked}
        if not found:
            raise NotFoundError("there is no such connector", hint="seamark connectors list shows all")
        return tuple(found.values())

    def _read_shared(self, asked: Sequence[OwnerRef]) -> SharedGroups | None:
        """Who is in the groups of sinks: read once for all of them."""
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
            # Exports tell the ids of topics of the context's own cluster.
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
            # All of it stays: the reason is in the notes.
            return self.deps.planner.plan(owner, ())
        planned = self.deps.open_groups().place(read_group_name(owner), spots)
        return replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, *way.notes)))

    def _leave_out(self, failures: Mapping[str, SeamarkError], back: RestoreOptions, *, count: int) -> tuple[str, ...]:
        """Name those who are left out, if they may be."""
        for error in failures.values():
            if count == 1 or not isinstance(error, UnsupportedError | NotFoundError):
                raise error
        if failures and (not back.skip_unknown or len(failures) == count):
            said = [f"{error.message} ({error.cause})" if error.cause else error.message for error in failures.values()]
            raise RefusedError(
                f"nobody can tell where {len(failures)} of {count} owners stood; nothing was changed",
                cause="; ".join(said),
                hint="--exports FILE gives what exports have seen, --by-record-time puts sinks at the first record of "
                "that time; --skip-unknown leaves these as they are, or name the others alone",
            )
        return tuple(f"{owner} is left out: {error.message}" for owner, error in failures.items())


def _explain(planned: PlannedChange, owner: str, way: RestoreTargets, meaning: OffsetSemantics) -> PlannedChange:
    """The plan of one owner, with whose word its positions are: in its line, and of several partitions below it."""
    if planned.is_empty:
        there = (f"{owner} stands there already: {format_precision(way.past_offsets)}",) if way.past_offsets else ()
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
    effects = tuple(_add_words(effect, format_precision(way.past_offsets), lines) for effect in planned.effects)
    return replace(planned, effects=effects)


def _add_words(effect: Effect, words: str, lines: Sequence[str]) -> Effect:
    return replace(effect, words=f"{effect.words}; {words}", consequences=(*lines, *effect.consequences))


def _build_title(asked: Sequence[OwnerRef], back: RestoreOptions) -> str:
    who = asked[0].owner if len(asked) == 1 else render_count(len(asked), "owner")
    return f"put {who} back to where {'it' if len(asked) == 1 else 'they'} stood at {render_time(back.moment)}"
