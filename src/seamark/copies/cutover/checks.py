"""What a cut-over waits for and makes sure of. The copy keeps its own memory: a crash in one of these loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from seamark.changes.action import CheckStep
from seamark.changes.environment import Environment
from seamark.changes.step import Intent, Observed, step_kind
from seamark.copies.cutover.port import COPIES
from seamark.errors import RefusedError
from seamark.groups.actions import read_commits

_LOOK_SECONDS = 0.5
# A recount or a scan may take as long as the copy did; nobody waits for it to show after it came back.
_SETTLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CopyCheck(CheckStep):
    """What these looks share: the copy, and what people call it."""

    aspect: ClassVar[str] = "copied"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    copy: str
    source: str
    target: str

    @property
    def subject(self) -> str:
        return f"topic/{self.target}"


@step_kind("approach")
@dataclass(frozen=True, slots=True)
class PreCopy(CopyCheck):
    """What has come to the source is copied while everybody goes on: so little is left when they stop.

    It also starts Spark, for which nobody has to stand still.
    """

    aspect: ClassVar[str] = "approached"
    writes: ClassVar[bool] = True

    def intend(self, world: Environment) -> Intent:
        del world
        return Intent(before=None, after=f"what has come to {self.source} is in {self.target}")

    def describe(self) -> str:
        return f"copy what has come to {self.source} to {self.subject}, while everybody goes on"

    def perform(self, world: Environment, intent: Intent) -> str:
        del intent
        return world.use(COPIES)().approach(self.copy)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


@step_kind("catch-up")
@dataclass(frozen=True, slots=True)
class CatchUp(CopyCheck):
    """All that the source holds is copied, by Spark."""

    writes: ClassVar[bool] = True

    def intend(self, world: Environment) -> Intent:
        del world
        return Intent(before=None, after=f"all of {self.source} is in {self.target}")

    def describe(self) -> str:
        return f"copy the rest of {self.source} to {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> str:
        del intent
        return world.use(COPIES)().catch_up(self.copy)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if world.use(COPIES)().count_left(self.copy) else Observed.AFTER


@step_kind("prove-copy")
@dataclass(frozen=True, slots=True)
class VerifyCopy(CopyCheck):
    """Source and target are compared, by Spark."""

    aspect: ClassVar[str] = "proven"

    level: str = "standard"

    def describe(self) -> str:
        return f"make sure that all of {self.source} is in {self.subject} ({self.level} verification)"

    def perform(self, world: Environment, intent: Intent) -> str:
        del intent
        return world.use(COPIES)().verify(self.copy, self.level)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


@step_kind("prove-still")
@dataclass(frozen=True, slots=True)
class CheckSourceIdle(CopyCheck):
    """Nobody writes to the source for so long: everything that it holds is copied, and stays so."""

    aspect: ClassVar[str] = "still"
    expires: ClassVar[bool] = True

    quiet_seconds: float = 2.0

    @property
    def subject(self) -> str:
        return f"topic/{self.source}"

    def describe(self) -> str:
        return f"make sure that nobody writes to {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        began_at = world.clock.now()
        while True:
            if left := world.use(COPIES)().count_left(self.copy):
                raise RefusedError(
                    f"somebody still writes to {self.source}: {left} offsets came since it was copied",
                    cause="a producer that is no connector of this plan, or a transaction that nobody has ended",
                    hint="stop it, then repeat the cut-over; seamark topics show names who writes",
                )
            if world.clock.now() - began_at >= self.quiet_seconds:
                return
            world.clock.sleep(min(_LOOK_SECONDS, self.quiet_seconds))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if world.use(COPIES)().count_left(self.copy) else Observed.AFTER


@step_kind("prove-untouched")
@dataclass(frozen=True, slots=True)
class CheckTargetUnwritten(CopyCheck):
    """Nobody has written to the target since the cut-over: then, and only then, it can be taken back."""

    aspect: ClassVar[str] = "untouched"
    expires: ClassVar[bool] = True

    ends: Mapping[int, int] = field(default_factory=dict)

    def describe(self) -> str:
        return f"make sure that nobody has written to {self.subject} since"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        if new := self._count_new(world):
            raise RefusedError(
                f"{new} offsets were written to {self.target} since the cut-over; it can't be taken back",
                cause=f"those records are not in {self.source}: whoever reads that would never see them",
                hint=f"copy them back the other way: seamark copy plan {self.target} --to …",
            )

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._count_new(world) else Observed.AFTER

    def _count_new(self, world: Environment) -> int:
        now = world.use(COPIES)().read_target_ends(self.copy)
        return sum(max(0, now[partition] - end) for partition, end in self.ends.items())


# But a run can't land what it does not hold in the ledger. So all are shut out of the source, and whoever comes back
# is found: what it lands there after its place was told would be landed again from the target.


@step_kind("shut-out-landing")
@dataclass(frozen=True, slots=True)
class FencePipeline(CheckStep):
    """Every run of a landing is shut out of a topic, and for `quiet_seconds` nobody begins another."""

    aspect: ClassVar[str] = "shut out"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS
    expires: ClassVar[bool] = True
    writes: ClassVar[bool] = True

    owner: str
    topic: str
    quiet_seconds: float = 2.0

    @property
    def subject(self) -> str:
        return self.owner

    def intend(self, world: Environment) -> Intent:
        return _intend_fence(world, self.owner, self.topic)

    def describe(self) -> str:
        return f"shut out whoever lands topic/{self.topic} as {self.owner}"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        began_at = world.clock.now()
        taken = world.use(COPIES)().shut_out(self.owner, self.topic)
        while True:
            if world.use(COPIES)().read_epochs(self.owner, self.topic) != taken:
                raise _build_running(self.owner, self.topic, cause="a run has taken its partitions again")
            if world.clock.now() - began_at >= self.quiet_seconds:
                return
            world.clock.sleep(min(_LOOK_SECONDS, self.quiet_seconds))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


@step_kind("prove-carried")
@dataclass(frozen=True, slots=True)
class CheckPipelineMoved(CopyCheck):
    """A landing has landed nothing from the source since it got its places in the target, and can't any more."""

    aspect: ClassVar[str] = "carried"
    expires: ClassVar[bool] = True
    writes: ClassVar[bool] = True

    owner: str
    readers: tuple[str, ...] = ()
    missing: str = ""

    @property
    def subject(self) -> str:
        return self.owner

    def intend(self, world: Environment) -> Intent:
        return _intend_fence(world, self.owner, self.source)

    def describe(self) -> str:
        return f"make sure that {self.owner} has landed nothing from {self.source} since"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        # First this: what is seen then stays so.
        world.use(COPIES)().shut_out(self.owner, self.source)
        found = world.use(COPIES)().translate(self.copy, self.readers or (self.owner,), missing=self.missing)[
            self.owner
        ]
        wanted = {(self.target, partition): offset for partition, offset in found.offsets.items()}
        held = read_commits(world, self.owner, tuple(wanted))
        if {spot: commit.offset for spot, commit in held.items()} != wanted:
            cause = f"its places in {self.source} and in {self.target} are not the same any more"
            raise _build_running(self.owner, self.source, cause=cause)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


def _intend_fence(world: Environment, owner: str, topic: str) -> Intent:
    """Return the epochs that the fence replaces: their partitions are taken from the run that has them."""
    epochs = world.use(COPIES)().read_epochs(owner, topic)
    return Intent(before={"epochs": {str(number): epoch for number, epoch in epochs.items()}}, after="fenced")


def _build_running(owner: str, topic: str, *, cause: str) -> RefusedError:
    return RefusedError(
        f"somebody has started {owner} on {topic} while it was carried over",
        cause=cause,
        hint="stop whoever starts it, a timer or a supervisor; then repeat the cut-over",
    )
