"""The action of a cutover: consumers and producers of a topic continue with its copy.

What has come to the source is copied first, while all connectors run. Sinks stop before sources, so that their offsets
don't change any more; then sources, so that the source topic doesn't. The rest is copied and verified, groups get their
offsets in the target, configs are switched, and sources start last: until they write, all of it can be undone. After a
failure all configs are switched back, and all connectors continue with the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from seamark.changes.action import (
    Action,
    ActionHistory,
    Needs,
    Reads,
    StepSequence,
    When,
    action_kind,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.step import CanNotUndo
from seamark.connectors.run_state import AwaitRunning, SetRunState
from seamark.copies.cutover.checks import (
    COPY_PREVIEW,
    CatchUp,
    CheckPipelineMoved,
    CheckSourceIdle,
    FencePipeline,
    PreCopy,
    VerifyCopy,
)
from seamark.copies.cutover.steps import (
    RegisterCopyBack,
    ResumeOnRecreatedTopic,
    StartSwitched,
    SwitchConfig,
    SwitchToTarget,
    TranslateGroupOffsets,
    TranslateGroupOffsetsBack,
)
from seamark.copies.cutover.undo import CutoverConnector, build_alter, build_cut_back, build_subject, find_locks
from seamark.copies.plan.plan import build_back_name
from seamark.core.refs import build_group_owner, is_pipeline
from seamark.errors import RefusedError, SeamarkError
from seamark.offsets.port import PLANNING
from seamark.offsets.write.guards import CheckStopped, find_quiet_seconds, find_workers
from seamark.policy.permissions import Permission, Right
from seamark.topics.actions import CreateTopic, DeleteTopic

if TYPE_CHECKING:
    from seamark.changes.step import Step
    from seamark.connect.model import Connector
    from seamark.copies.cutover.operations import CutoverOperations

STOPPED, RUNNING = "STOPPED", "RUNNING"


@dataclass(frozen=True, slots=True)
class CutoverGroup:
    """A group that gets offsets in the target. A pipeline is the group `pipeline/NAME`.

    A group with `sees_aborted` also reads records of aborted transactions.
    """

    group: str
    sees_aborted: bool

    @property
    def is_pipeline(self) -> bool:
        """Whether its offsets are in a ledger."""
        return is_pipeline(self.group)


@dataclass(frozen=True, slots=True)
class RecreatedTopic:
    """The source of a cutover in place, which is deleted and recreated: the ID that it has now, and its new shape."""

    topic_id: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CutoverSeen:
    """What `CutOver` reads: the connectors in their order, and the replay that is expected for each group."""

    connectors: tuple[Connector, ...]
    quiet_seconds: float
    locks: frozenset[str]
    consequences: Mapping[str, str]

    def find(self, wanted: CutoverConnector) -> Connector:
        """Return a connector as it was read."""
        return next(one for one in self.connectors if (one.cluster, one.name) == wanted.place)


@action_kind("cutover")
@needs_permission(Permission.ADMINISTER, Permission.CHANGE_CONFIG, Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class CutOver(Action):
    """Move the consumers and producers of a topic to its copy.

    `copy` is the name that steps give to the copy. `configs` are set on the new topic at the end of the cutover, None
    removes a config, and `held` are the configs that the new topic has until then. With `recreated` the target is
    temporary: the source is deleted, recreated and filled from the target, and no connector config changes.
    """

    copy: str
    source: str
    target: str
    sinks: tuple[CutoverConnector, ...]
    sources: tuple[CutoverConnector, ...]
    groups: tuple[CutoverGroup, ...]
    configs: Mapping[str, str | None] = field(default_factory=dict)
    held: Mapping[str, str | None] = field(default_factory=dict)
    missing: str = ""
    level: str = "standard"
    accepts_zombies: bool = False
    recreated: RecreatedTopic | None = None

    def __post_init__(self) -> None:
        if self.held.keys() != self.configs.keys():
            raise RefusedError("the topic configs of this cutover can't be restored", hint="create a new plan")

    @property
    def subject(self) -> str:
        """The copy."""
        return build_subject(self.copy)

    @property
    def connectors(self) -> tuple[CutoverConnector, ...]:
        """Every connector that is stopped."""
        return (*self.sinks, *self.sources)

    @property
    def pipelines(self) -> tuple[str, ...]:
        """Every pipeline that gets offsets in the target: `pipeline/NAME`."""
        return tuple(one.group for one in self.groups if one.is_pipeline)

    @property
    def new_topic(self) -> str:
        """The topic with which consumers and producers continue."""
        return self.source if self.recreated else self.target

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[CutoverSeen]:
        """Read the connectors, and estimate the replay of each group."""
        return [action.read(reads) for action in actions]

    def read(self, reads: Reads) -> CutoverSeen:
        """Read the connectors, and estimate the replay of each group."""
        planning = reads.use(PLANNING)
        connectors = tuple(planning.clusters.client(one.cluster).read_connector(one.name) for one in self.connectors)
        return CutoverSeen(
            connectors,
            find_quiet_seconds(planning.context),
            find_locks(self.source, self.target, connectors, [one.group for one in self.groups], reads),
            self._preview(reads.use(COPY_PREVIEW)()),
        )

    def _preview(self, copies: CutoverOperations) -> dict[str, str]:
        """Return how many records each group reprocesses, as far as that is known before the last catch-up."""
        said: dict[str, str] = {}
        for one in self.groups:
            try:
                found = copies.translate(self.copy, [one.group], missing=self.missing)[one.group]
            except SeamarkError as error:
                said[one.group] = f"the number of reprocessed records is known after the last catch-up: {error.message}"
            else:
                said[one.group] = f"would reprocess {found.replay_words} from its current offsets"
        return said

    def steps(self, seen: CutoverSeen) -> StepSequence:
        """Copy, stop, copy the rest, verify, translate offsets, switch configs, start."""
        turn: list[Step] = [PreCopy(self.copy, self.source, self.target), *self._build_stops(seen)]
        turn += [*self.build_copying(seen), *self._build_fences(seen)]
        turn += [*self.build_translations(), *self._build_translation_checks()]
        insists: list[Step] = []
        if self.recreated:
            turn += [self._build_idle_check(seen), DeleteTopic(self.source)]
            insists += self._build_recreation(self.recreated, seen)
        else:
            turn += [*self._build_switches(seen), *self._build_trial()]
        # Sources last: what they write to the target is what can't be undone.
        start = [step for one in self.connectors for step in self._build_start(one)]
        parts = (
            (When.TURN, turn),
            (When.INSISTS, insists),
            (When.FALLBACK, self._build_fallback(seen)),
            (When.ALWAYS, start),
        )
        return tuple((step, when) for when, steps in parts for step in steps)

    def _build_stops(self, seen: CutoverSeen) -> Iterator[Step]:
        for connectors in (self.sinks, self.sources):
            yield from (SetRunState(*one.place, STOPPED) for one in connectors if one.state != STOPPED)
            yield from (
                CheckStopped(
                    *one.place,
                    find_workers(seen.find(one)),
                    quiet_seconds=seen.quiet_seconds,
                    accepts_zombies=self.accepts_zombies,
                )
                for one in connectors
            )

    def build_copying(self, seen: CutoverSeen) -> Iterator[Step]:
        """Return the steps that copy the rest, and verify it."""
        yield CatchUp(self.copy, self.source, self.target)
        yield VerifyCopy(self.copy, self.source, self.target, level=self.level)
        yield self._build_idle_check(seen)

    def _build_idle_check(self, seen: CutoverSeen) -> CheckSourceIdle:
        return CheckSourceIdle(self.copy, self.source, self.target, quiet_seconds=seen.quiet_seconds)

    def build_translations(self, kind: type[TranslateGroupOffsets] = TranslateGroupOffsets) -> Iterator[Step]:
        """Return the steps that give each group its offsets in the target."""
        groups = tuple(one.group for one in self.groups)
        for one in self.groups:
            yield kind(
                one.group,
                self.copy,
                source=self.source,
                target=self.target,
                readers=groups,
                missing=self.missing,
                sees_aborted=one.sees_aborted,
            )

    def _build_fences(self, seen: CutoverSeen) -> Iterator[Step]:
        """Fence pipelines as late as possible: seamark can't start those again that were running."""
        for owner in self.pipelines:
            yield FencePipeline(owner, self.source, quiet_seconds=seen.quiet_seconds)

    def _build_translation_checks(self) -> Iterator[Step]:
        groups = tuple(one.group for one in self.groups)
        for owner in self.pipelines:
            yield CheckPipelineMoved(self.copy, self.source, self.target, owner, readers=groups, missing=self.missing)

    def _build_switches(self, seen: CutoverSeen) -> Iterator[Step]:
        if self.configs:
            yield build_alter(self.target, self.configs)
        yield self._build_idle_check(seen)
        for one in self.connectors:
            yield SwitchToTarget(*one.place, one.values, self.copy, self.source, self.target)

    def _build_recreation(self, new: RecreatedTopic, seen: CutoverSeen) -> Iterator[Step]:
        """Recreate the source, which is deleted by now, and fill it. From here on, the cutover can't be undone."""
        yield CreateTopic(self.source, new.partitions, new.replication_factor, new.configs)
        yield RegisterCopyBack(self.copy, self.source, self.target)
        back = replace(self, copy=build_back_name(self.copy), source=self.target, target=self.source)
        yield from back.build_copying(seen)
        yield from back.build_translations(TranslateGroupOffsetsBack)
        if self.configs:
            yield build_alter(self.source, self.configs)

    def _build_trial(self) -> Iterator[Step]:
        """Start sinks, and check that they run, before a source starts."""
        for one in self.sinks:
            yield from self._build_start(one)
            if one.state == RUNNING:
                yield AwaitRunning(*one.place)

    def _build_fallback(self, seen: CutoverSeen) -> Iterator[Step]:
        if self.recreated:
            # No config was switched, and a deleted topic can't be restored.
            return
        yield from (SetRunState(*one.place, STOPPED) for one in self.sinks if one.state != STOPPED)
        for one in reversed(self.connectors):
            config = seen.find(one).config
            yield SwitchConfig(*one.place, {key: config.get(key) for key in one.values})
        if self.configs:
            yield build_alter(self.target, self.held)

    def _build_start(self, one: CutoverConnector) -> Iterator[Step]:
        if one.state == STOPPED:
            return
        if self.recreated:
            groups = tuple(one.group for one in self.groups)
            yield ResumeOnRecreatedTopic(*one.place, one.state, self.copy, self.source, self.recreated.topic_id, groups)
        else:
            switches = tuple(SwitchConfig(*other.place, other.values) for other in self.connectors)
            yield StartSwitched(*one.place, one.state, switches)

    def needs(self, seen: CutoverSeen) -> Needs:
        """The locks of both topics, the connectors and the groups; the right to commit for the groups."""
        rights = {
            right
            for one in self.groups
            for right in (
                Right("group", one.group, "READ"),
                Right("topic", self.source, "READ"),
                Right("topic", self.target, "READ"),
            )
        }
        configs = tuple(one.build_config_write(seen.find(one)) for one in self.connectors if one.values)
        return Needs(seen.locks, frozenset(rights), configs)

    def effects(self, seen: CutoverSeen) -> tuple[Effect, ...]:
        """One line for each connector, each group, and each topic that changes."""
        return tuple(self._build_effects(seen))

    def _build_effects(self, seen: CutoverSeen) -> Iterator[Effect]:
        for one in self.connectors:
            config = seen.find(one).config
            fields = tuple(FieldChange(key, config.get(key), value) for key, value in one.values.items())
            yield Effect(ChangeKind.CHANGE, one.subject, self._describe_connector(one), fields)
        for group in self.groups:
            consequences = seen.consequences.get(group.group)
            yield Effect(
                ChangeKind.CHANGE,
                build_group_owner(group.group),
                f"continues in {self.new_topic} at the first record that it has not processed",
                consequences=(consequences,) if consequences else (),
            )
        if self.configs:
            fields = tuple(FieldChange(key, self.held[key], final) for key, final in sorted(self.configs.items()))
            yield Effect(ChangeKind.CHANGE, f"topic/{self.new_topic}", f"gets the configs of {self.source}", fields)
        if self.recreated:
            words = f"is recreated with {self.recreated.partitions} partitions"
            yield Effect(ChangeKind.DELETE, f"topic/{self.source}", words)

    def _describe_connector(self, one: CutoverConnector) -> str:
        switched = "" if self.recreated else ", is switched"
        return f"stays stopped{switched}" if one.state == STOPPED else f"stops{switched} and starts again"

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that moves consumers and producers back to the source, unless the source was deleted."""
        return build_cut_back(past, self.copy, self.source, self.target, self.connectors)
