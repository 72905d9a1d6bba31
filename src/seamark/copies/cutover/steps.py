"""The steps of a cutover that change groups and connectors.

A group's offset in a partition of the target is that of the first record that the group has not processed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from seamark.changes.environment import Environment
from seamark.changes.preconditions import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.connectors.read import read_config
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import EditConfig
from seamark.copies.cutover.checks import COPIES, CopyCheck
from seamark.copies.cutover.translation import TranslatedGroup
from seamark.copies.plan.plan import build_back_name
from seamark.core.refs import build_group_owner
from seamark.core.secrets import is_sensitive
from seamark.errors import RefusedError
from seamark.groups.actions import MoveGroup, load_positions, read_commits
from seamark.kafka.api import BROKERS
from seamark.kafka.groups import Committed
from seamark.topics.actions import read_topic, require_topic


@step_kind("restore-group")
@dataclass(frozen=True, slots=True)
class RestoreGroupOffsets(MoveGroup):
    """Restore the offsets that a group had in the target. Its offsets in the source were never changed.

    `copy` is the copy whose cutover is undone, and `ends` are the end offsets of its target at the cutover.
    """

    # The sink or the consumer has committed since, so its current offset can't be predicted.
    aspect: ClassVar[str] = POSITION

    copy: str = ""
    source: str = ""
    target: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)

    def describe(self) -> str:
        return f"continue {self.subject} in {self.source} at its previous offsets"

    def undo(self, intent: Intent) -> CanNotUndo:
        return CanNotUndo(f"{self.source} may have new records by then; repeat the cutover with seamark copies cutover")


@step_kind("translate-group")
@dataclass(frozen=True, slots=True)
class TranslateGroupOffsets(Step):
    """Commit the offsets of an empty group in the target, translated by the control records of the copy.

    `readers` are all groups of the cutover, because one recount serves all of them. A group with `sees_aborted` reads
    aborted records; the step refuses if there are aborted records after its offset.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True
    # The step itself checks, right before it commits, that the group has no members.
    proves: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = MoveGroup.settle_seconds

    group: str
    copy: str
    source: str
    target: str
    readers: tuple[str, ...] = ()
    missing: str = ""
    sees_aborted: bool = False

    @property
    def subject(self) -> str:
        return build_group_owner(self.group)

    def describe(self) -> str:
        return f"commit offsets of {self.subject} in {self.target}, at the first record that it has not processed"

    def intend(self, world: Environment) -> Intent:
        readers = self.readers or (self.group,)
        found = world.use(COPIES)().translate(self.copy, readers, missing=self.missing)[self.group]
        self._refuse_aborted(found)
        move = MoveGroup(self.group, {self.target: {at: Committed(to) for at, to in found.offsets.items()}})
        seen = move.intend(world)
        ends = world.use(COPIES)().read_target_ends(self.copy)
        extra = {**found.to_dict(), "ends": {str(partition): end for partition, end in sorted(ends.items())}}
        return Intent(before=seen.before, after=seen.after, extra=extra)

    def perform(self, world: Environment, intent: Intent) -> str:
        self._read_move(intent).perform(world, intent)
        least, most = intent.extra["replayed"]
        carried = TranslatedGroup({}, replayed_least=least, replayed_most=most)
        return f"{intent.extra['to_read']} records to read, {carried.replay_words} to reprocess"

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return self._read_move(intent).observe(world, intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        back = self._read_move(intent).undo(intent)
        if isinstance(back, CanNotUndo):
            return back
        ends = {int(partition): end for partition, end in intent.extra["ends"].items()}
        return RestoreGroupOffsets(back.group, back.positions, self.copy, self.source, self.target, ends)

    def _read_move(self, intent: Intent) -> MoveGroup:
        return MoveGroup(self.group, load_positions(intent.after))

    def _refuse_aborted(self, found: TranslatedGroup) -> None:
        if self.sees_aborted and found.aborted:
            raise RefusedError(
                f"{self.subject} would reprocess up to {found.aborted} aborted records of failed attempts in "
                f"{self.target}",
                cause="it reads with isolation.level=read_uncommitted",
                hint="set isolation.level=read_committed, for sinks with --read-committed; or pass "
                "--allow-aborted-records",
            )


@step_kind("translate-group-back")
@dataclass(frozen=True, slots=True)
class TranslateGroupOffsetsBack(TranslateGroupOffsets):
    """Commit offsets for the second copy of a cutover in place, back to the original name.

    It changes another aspect of the same group.
    """

    aspect: ClassVar[str] = f"{POSITION} back"


@step_kind("register-copy-back")
@dataclass(frozen=True, slots=True)
class RegisterCopyBack(CopyCheck):
    """Register the copy from the target back to the original name. Its offsets are known at this point."""

    aspect: ClassVar[str] = "back"
    writes: ClassVar[bool] = True

    @property
    def subject(self) -> str:
        return f"topic/{self.source}"

    def intend(self, world: Environment) -> Intent:
        return Intent(before=None, after=f"copy {build_back_name(self.copy)} is registered")

    def describe(self) -> str:
        return f"plan the copy of {self.target} back to {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> str:
        return world.use(COPIES)().begin_back(self.copy)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BEFORE


@step_kind("start-restored")
@dataclass(frozen=True, slots=True)
class ResumeOnRecreatedTopic(SetRunState):
    """Start a connector of a cutover in place, unless the topic is incomplete.

    The topic is complete while it has its original topic ID, and again when the new topic has all records of the copy
    and each of `groups` has its offsets there. A connector started earlier would find an empty topic, or create another
    one.
    """

    copy: str = ""
    topic: str = ""
    topic_id: str = ""
    groups: tuple[str, ...] = ()

    def intend(self, world: Environment) -> Intent:
        if reason := self._find_reason(world):
            raise RefusedError(
                f"{self.subject} was not started: {self.topic} is incomplete",
                cause=reason,
                hint="finish the cutover: seamark journal resume; the copy still has every record",
            )
        return SetRunState.intend(self, world)

    def _find_reason(self, world: Environment) -> str:
        topic = read_topic(world, self.topic)
        if topic is None:
            return "it was deleted and is not recreated yet"
        if topic.topic_id == self.topic_id:
            return ""
        if left := world.use(COPIES)().count_left(build_back_name(self.copy)):
            return f"{left} offsets of the copy are not in it yet"
        missing = [group for group in self.groups if len(read_commits(world, group, topic.spots)) < len(topic.spots)]
        return f"{', '.join(missing)} has no offsets in it yet" if missing else ""


@step_kind("switch-config")
@dataclass(frozen=True, slots=True)
class SwitchConfig(EditConfig):
    """Set the config keys of a stopped connector that name the topic it reads or writes."""

    def describe(self) -> str:
        return f"switch {self.subject} to {self.say_values()}"

    def refuse_keys(self) -> None:
        if found := [key for key in self.values if is_sensitive(key)]:
            raise RefusedError(f"{', '.join(found)} of {self.subject} is a secret, and plans can't contain secrets")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        former = self.find_previous_values(intent)
        return former if isinstance(former, CanNotUndo) else SwitchConfig(self.cluster, self.name, former)

    def is_made(self, world: Environment) -> bool:
        """Return whether the connector has these values now."""
        config = read_config(world, self.cluster, self.name) or {}
        return all(config.get(key) == value for key, value in self.values.items())


@step_kind("start-switched")
@dataclass(frozen=True, slots=True)
class StartSwitched(SetRunState):
    """Start a connector of a cutover, unless some connectors are switched to the other topic and some are not.

    `switches` are those of all connectors, each with the step that undoes it: a start after a failure needs all of them
    undone.
    """

    switches: tuple[SwitchConfig, ...] = ()

    def intend(self, world: Environment) -> Intent:
        made = [one.subject for one in self.switches if one.is_made(world)]
        if made and len(made) < len(self.switches):
            rest = [one.subject for one in self.switches if one.subject not in made]
            raise RefusedError(
                f"{self.subject} was not started: the cutover is incomplete",
                cause=f"{', '.join(made)} is switched to the new topic, and {', '.join(rest)} is not",
                hint="finish the cutover: seamark journal resume; until then, connectors stay stopped",
            )
        return SetRunState.intend(self, world)


@step_kind("switch-connector")
@dataclass(frozen=True, slots=True)
class SwitchToTarget(SwitchConfig):
    """Set the config keys with which a connector of a cutover reads or writes the target.

    The intent records the end offsets of the target: no connector of the cutover writes there before all are switched.
    """

    copy: str = ""
    source: str = ""
    target: str = ""

    def intend(self, world: Environment) -> Intent:
        seen = SwitchConfig.intend(self, world)
        # Read from the brokers instead of the copy: each connector of a cutover needs it while all connectors are
        # stopped.
        spots = require_topic(world, self.target).spots
        bounds = world.use(BROKERS)().read_bounds(spots).require_complete(what=f"the bounds of {self.target}")
        return replace(seen, extra={"ends": {str(spot[1]): found.latest for spot, found in sorted(bounds.items())}})

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        back = SwitchConfig.undo(self, intent)
        if not isinstance(back, SwitchConfig):
            return back
        ends = {int(partition): end for partition, end in intent.extra["ends"].items()}
        return SwitchToSource(self.cluster, self.name, back.values, self.copy, self.source, self.target, ends)


@step_kind("switch-connector-back")
@dataclass(frozen=True, slots=True)
class SwitchToSource(SwitchConfig):
    """Restore the previous keys of a switched connector. `ends` are the end offsets of the target at the cutover."""

    copy: str = ""
    source: str = ""
    target: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        over = SwitchConfig.undo(self, intent)
        if not isinstance(over, SwitchConfig):
            return over
        return SwitchToTarget(self.cluster, self.name, over.values, self.copy, self.source, self.target)
