"""The actions that undo a cutover, and undo that: consumers and producers continue with the other topic again.

A cutover can be undone only as long as no producer has written to the target since. That is checked when the undo is
planned, and again after all connectors have stopped, before a config is switched.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    ConfigWrite,
    Needs,
    Reads,
    StepSeen,
    StepSequence,
    When,
    action_kind,
    is_met,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect
from seamark.changes.locks import base_name, group_lock, topic_lock
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Step
from seamark.connectors.run_state import SetRunState
from seamark.copies.cutover.checks import CheckSourceIdle, CheckTargetUnwritten, CopyCheck
from seamark.copies.cutover.steps import (
    RestoreGroupOffsets,
    SwitchConfig,
    SwitchToSource,
    SwitchToTarget,
    TranslateGroupOffsets,
)
from seamark.copies.plan.plan import parse_copy_name
from seamark.copies.plan.users import say_file
from seamark.core.refs import is_pipeline
from seamark.groups.actions import Positions
from seamark.offsets.port import PLANNING
from seamark.offsets.write.guards import CheckStopped, find_quiet_seconds, find_workers, require_run_state
from seamark.policy.permissions import Permission
from seamark.topics.actions import AlterTopicConfig

if TYPE_CHECKING:
    from seamark.connect.model import Connector

_STOPPED = "STOPPED"
_NOTE = (
    "consumers continue at their previous offsets in the source and reprocess what they have read in the target since"
)


@dataclass(frozen=True, slots=True)
class CutoverConnector(ConnectorSubject):
    """A connector of a cutover: the state that it gets in the end, and the keys of its config that are switched.

    Without a `state` it gets the one that it has when the plan is prepared.
    """

    state: str = ""
    values: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str]:
        """The Connect cluster and the name of the connector."""
        return self.cluster, self.name

    def build_config_write(self, connector: Connector) -> ConfigWrite:
        """Return the config that the connector gets, for the policy check."""
        merged = {**connector.config, **self.values}
        config = {key: value for key, value in merged.items() if value is not None}
        return ConfigWrite(self.cluster, self.name, config, is_validated=False)


@dataclass(frozen=True, slots=True)
class ReturnedGroup:
    """A group that gets its previous offsets in the target, often none. It resumes from its offsets in the source."""

    group: str
    positions: Positions


@dataclass(frozen=True, slots=True)
class SwitchSeen:
    """What an undo reads: the connectors with their states, and what each step that acts finds."""

    connectors: tuple[Connector, ...]
    states: tuple[str, ...]
    switches: tuple[SwitchConfig, ...]
    alters: tuple[tuple[AlterTopicConfig, Intent], ...]
    returns: tuple[tuple[RestoreGroupOffsets, Intent], ...]
    quiet_seconds: float
    locks: frozenset[str]

    @property
    def is_switching(self) -> bool:
        """Whether there is more to do than to restore states."""
        return bool(self.switches or self.alters or self.returns)


@dataclass(frozen=True, slots=True)
class _SwitchTopic(Action):
    """The base of both directions. `configs` are set on the target at the end; None removes a config.

    `copy` is the name that steps give to the copy. Connectors are in the order in which they are stopped, switched and
    started.
    """

    copy: str
    source: str
    target: str
    connectors: tuple[CutoverConnector, ...] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The copy."""
        return build_subject(self.copy)

    @abstractmethod
    def build_switch(self, one: CutoverConnector) -> SwitchConfig:
        """Return the step that switches a connector's config."""

    @abstractmethod
    def build_check(self) -> CopyCheck:
        """Return the step without which no config is switched."""

    def build_returns(self) -> tuple[RestoreGroupOffsets, ...]:
        """Return the steps that give groups their previous offsets."""
        return ()

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[SwitchSeen]:
        """Read the connectors and what is left to do, and check that it may be done.

        Raises:
            RefusedError: records would be lost.
        """
        return [action.read(reads) for action in actions]

    def read(self, reads: Reads) -> SwitchSeen:
        """Read what one action needs."""
        planning, world = reads.use(PLANNING), reads.world
        connectors = tuple(planning.clusters.client(one.cluster).read_connector(one.name) for one in self.connectors)
        switches = [self.build_switch(one) for one in self.connectors if one.values]
        alters = [build_alter(self.target, self.configs)] if self.configs else []
        seen = SwitchSeen(
            connectors,
            tuple(require_run_state(one, world) for one in connectors),
            tuple(step for step in switches if not step.is_made(world)),
            tuple((step, found) for step in alters if not is_met(found := step.intend(world))),
            tuple((step, found) for step in self.build_returns() if not is_met(found := step.intend(world))),
            find_quiet_seconds(planning.context),
            find_locks(self.source, self.target, connectors, [one.group for one in self.build_returns()], reads),
        )
        if seen.is_switching:
            self.build_check().perform(world, Intent(None, None))
        return seen

    def steps(self, seen: SwitchSeen) -> StepSequence:
        """Stop, check, switch, return groups, start."""
        sequence = [(step, When.TURN) for step in self._build_guarded(seen)] if seen.is_switching else []
        return (*sequence, *((step, When.ALWAYS) for step, _ in self._build_starts(seen)))

    def _build_guarded(self, seen: SwitchSeen) -> Iterator[Step]:
        yield from (step for step, _ in self._build_stops(seen))
        for one in seen.connectors:
            yield CheckStopped(one.cluster, one.name, find_workers(one), quiet_seconds=seen.quiet_seconds)
        yield self.build_check()
        yield from self._build_changes(seen)

    def _build_changes(self, seen: SwitchSeen) -> Iterator[Step]:
        yield from seen.switches
        yield from (step for step, _ in seen.alters)
        yield from (step for step, _ in seen.returns)

    def _build_stops(self, seen: SwitchSeen) -> Iterator[tuple[SetRunState, StepSeen]]:
        for connector, state in zip(seen.connectors, seen.states, strict=True):
            if state != _STOPPED:
                yield _build_state(connector, state, wanted=_STOPPED)

    def _build_starts(self, seen: SwitchSeen) -> Iterator[tuple[SetRunState, StepSeen]]:
        for one, connector, state in zip(self.connectors, seen.connectors, seen.states, strict=True):
            wanted = one.state or state
            # A connector that this action doesn't stop doesn't need a start.
            if wanted != state or (seen.is_switching and wanted != _STOPPED):
                yield _build_state(connector, state, wanted=wanted)

    def needs(self, seen: SwitchSeen) -> Needs:
        """The locks of both topics, the connectors and the groups; the right to commit for the groups."""
        rights = frozenset(right for step, _ in seen.returns for right in step.find_rights())
        switched = {step.subject for step in seen.switches}
        configs = tuple(
            one.build_config_write(connector)
            for one, connector in zip(self.connectors, seen.connectors, strict=True)
            if one.subject in switched
        )
        return Needs(seen.locks, rights, configs)

    def effects(self, seen: SwitchSeen) -> tuple[Effect, ...]:
        """One line for each step that changes something."""
        return (
            *(step.build_effect(found) for step, found in self._build_stops(seen) if seen.is_switching),
            *(Effect(ChangeKind.CHANGE, step.subject, step.describe()) for step in seen.switches),
            *(step.build_effect(StepSeen(found)) for step, found in seen.alters),
            *(step.build_effect(StepSeen(found)) for step, found in seen.returns),
            *(step.build_effect(found) for step, found in self._build_starts(seen)),
        )


@action_kind("cut-back")
@needs_permission(Permission.ADMINISTER, Permission.CHANGE_CONFIG, Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class CutBack(_SwitchTopic):
    """Undo a cutover. `ends` are those of the target's partitions at the cutover: it must end there still."""

    ends: Mapping[int, int] = field(default_factory=dict)
    groups: tuple[ReturnedGroup, ...] = ()

    def build_switch(self, one: CutoverConnector) -> SwitchConfig:
        """Return the step that gives a connector its previous config."""
        return SwitchToSource(*one.place, one.values, self.copy, self.source, self.target, self.ends)

    def build_check(self) -> CopyCheck:
        """Return the check that no producer has written to the target."""
        return CheckTargetUnwritten(self.copy, self.source, self.target, self.ends)

    def build_returns(self) -> tuple[RestoreGroupOffsets, ...]:
        """Return the steps that give groups their previous offsets."""
        return tuple(
            RestoreGroupOffsets(one.group, one.positions, self.copy, self.source, self.target, self.ends)
            for one in self.groups
        )

    def undo_notes(self, seen: SwitchSeen) -> tuple[str, ...]:
        """Describe what is reprocessed, and which pipeline files must be changed."""
        returned = [step for step, _ in seen.returns]
        return (
            *((_NOTE,) if returned or seen.switches else ()),
            *(say_file(step.group, self.target, target=self.source) for step in returned if is_pipeline(step.group)),
        )

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that switches all to the target again, unless a group has lost its offsets there."""
        if refusal := past.find_refusal():
            return refusal
        switched = {one.subject: one.values for one in past.undo_all(SwitchToSource, SwitchToTarget)}
        return CutOverAgain(
            self.copy,
            self.source,
            self.target,
            build_undo_connectors(past, self.connectors, switched),
            find_undo_configs(past),
        )


@action_kind("cutover-again")
@needs_permission(Permission.ADMINISTER, Permission.CHANGE_CONFIG, Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class CutOverAgain(_SwitchTopic):
    """Undo the undo of a cutover: the target must have all that the source has."""

    def build_switch(self, one: CutoverConnector) -> SwitchConfig:
        """Return the step that switches a connector to the target."""
        return SwitchToTarget(*one.place, one.values, self.copy, self.source, self.target)

    def build_check(self) -> CopyCheck:
        """Return the check that nothing is left to copy."""
        return CheckSourceIdle(self.copy, self.source, self.target)

    def _build_changes(self, seen: SwitchSeen) -> Iterator[Step]:
        yield from (step for step, _ in seen.alters)
        yield from seen.switches

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that switches all to the source."""
        return build_cut_back(past, self.copy, self.source, self.target, self.connectors)


def build_cut_back(
    past: ActionHistory, copy: str, source: str, target: str, connectors: Sequence[CutoverConnector]
) -> CutBack | CanNotUndo:
    """Return the action that undoes the completed part of a cutover."""
    if refusal := past.find_refusal():
        return refusal
    switched = past.undo_all(SwitchToTarget, SwitchToSource)
    returned = past.undo_all(TranslateGroupOffsets, RestoreGroupOffsets)
    # Groups get their offsets before a config is switched, so the first group has the earliest end offsets.
    earliest: Sequence[SwitchToSource | RestoreGroupOffsets] = returned or switched
    return CutBack(
        copy,
        source,
        target,
        build_undo_connectors(past, connectors, {one.subject: one.values for one in switched}),
        find_undo_configs(past),
        earliest[-1].ends if earliest else {},
        tuple(ReturnedGroup(one.group, one.positions) for one in returned),
    )


def build_undo_connectors(
    past: ActionHistory, connectors: Sequence[CutoverConnector], switched: Mapping[str, Mapping[str, str | None]]
) -> tuple[CutoverConnector, ...]:
    """Return connectors in reverse order, each with the state that it had before the change."""
    # The history is in reverse order, so the first step of each connector determines its state.
    states = {one.subject: one.state for one in past.undo_all(SetRunState, SetRunState)}
    return tuple(
        CutoverConnector(*one.place, states.get(one.subject, ""), switched.get(one.subject, {}))
        for one in reversed(connectors)
    )


def find_undo_configs(past: ActionHistory) -> Mapping[str, str | None]:
    """Return the configs that the target had before the change."""
    altered = past.undo_all(AlterTopicConfig, AlterTopicConfig)
    return {**altered[-1].values, **dict.fromkeys(altered[-1].remove)} if altered else {}


def build_subject(copy: str) -> str:
    """Return the name of a copy for users, without the control topic after `@`."""
    return f"copy/{parse_copy_name(copy)[0]}"


def build_alter(topic: str, configs: Mapping[str, str | None]) -> AlterTopicConfig:
    """Return the step that gives a topic these configs, and removes those that are None."""
    values = {key: value for key, value in configs.items() if value is not None}
    return AlterTopicConfig(topic, values, tuple(key for key in configs if key not in values))


def find_locks(
    source: str, target: str, connectors: Iterable[Connector], groups: Iterable[str], reads: Reads
) -> frozenset[str]:
    """Return the locks of both topics, of connectors, and of groups that aren't those of the connectors."""
    locks = {topic_lock(source), topic_lock(target)}
    for one in connectors:
        locks |= reads.use(LOCKS).find_connector(one.cluster, one.name, [one.config], kind=one.type)
    held = {base_name(lock) for lock in locks}
    return frozenset(locks | {group_lock(one) for one in groups if group_lock(one) not in held})


def _build_state(connector: Connector, state: str, *, wanted: str) -> tuple[SetRunState, StepSeen]:
    tasks = len(connector.status.tasks) if connector.status is not None else 0
    seen = StepSeen(Intent({"state": state}, {"state": wanted}), tasks=tasks)
    return SetRunState(connector.cluster, connector.name, wanted), seen
