"""The steps with which a cutover copies and checks. The copy stores its own progress, so a crash loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from seamark.changes.action import CheckStep, GuardStep
from seamark.changes.environment import Environment
from seamark.changes.step import Intent, Observed, step_kind
from seamark.core.refs import Port
from seamark.errors import RefusedError, SeamarkError
from seamark.groups.actions import read_commits

if TYPE_CHECKING:
    from seamark.copies.cutover.operations import CutoverOperations

COPIES: Port[Callable[[], CutoverOperations]] = Port("copies")
"""Opens the copies of topics."""

COPY_PREVIEW: Port[Callable[[], CutoverOperations]] = Port("copy preview")
"""Opens the copies of topics for reading. Nothing is recounted, so that Spark isn't started."""

_LOOK_SECONDS = 0.5
# A recount or a scan may take as long as the copy did. Its result needs no further wait after it has returned.
_SETTLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CopyCheck(CheckStep):
    """The base of the steps that copy or compare: the copy, and the names of its topics."""

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
    """Copy what has arrived in the source while connectors run, so that little is left to copy after they stop.

    This step also starts Spark, so that the start doesn't prolong the downtime.
    """

    aspect: ClassVar[str] = "approached"
    writes: ClassVar[bool] = True

    def intend(self, world: Environment) -> Intent:
        return Intent(before=None, after=f"the new records of {self.source} are in {self.target}")

    def describe(self) -> str:
        return f"copy the new records of {self.source} to {self.subject} while connectors run"

    def perform(self, world: Environment, intent: Intent) -> str:
        return world.use(COPIES)().approach(self.copy)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BEFORE


@step_kind("catch-up")
@dataclass(frozen=True, slots=True)
class CatchUp(CopyCheck):
    """Copy everything that the source holds, with Spark."""

    writes: ClassVar[bool] = True

    def intend(self, world: Environment) -> Intent:
        return Intent(before=None, after=f"all of {self.source} is in {self.target}")

    def describe(self) -> str:
        return f"copy the rest of {self.source} to {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> str:
        return world.use(COPIES)().catch_up(self.copy)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BEFORE if world.use(COPIES)().count_left(self.copy) else Observed.AFTER


@step_kind("prove-copy")
@dataclass(frozen=True, slots=True)
class VerifyCopy(CopyCheck):
    """Compare source and target, with Spark."""

    aspect: ClassVar[str] = "proven"

    level: str = "standard"

    def describe(self) -> str:
        return f"verify that {self.subject} has all records of {self.source} ({self.level} verification)"

    def perform(self, world: Environment, intent: Intent) -> str:
        return world.use(COPIES)().verify(self.copy, self.level)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BEFORE


@step_kind("prove-quiet")
@dataclass(frozen=True, slots=True)
class CheckSourceIdle(CopyCheck):
    """Check for `quiet_seconds` that no producer writes to the source: all of it is copied, and that stays true."""

    aspect: ClassVar[str] = "still"
    expires: ClassVar[bool] = True

    quiet_seconds: float = 2.0

    @property
    def subject(self) -> str:
        return f"topic/{self.source}"

    def describe(self) -> str:
        return f"verify that no producer writes to {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> None:
        began_at = world.clock.now()
        while True:
            if left := world.use(COPIES)().count_left(self.copy):
                raise RefusedError(
                    f"a producer still writes to {self.source}: {left} offsets were added since it was copied",
                    cause="a producer that is not a connector of this plan, or an open transaction",
                    hint=f"find it with seamark topics show {self.source}, stop it, and repeat the cutover",
                )
            if world.clock.now() - began_at >= self.quiet_seconds:
                return
            world.clock.sleep(min(_LOOK_SECONDS, self.quiet_seconds))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BEFORE if world.use(COPIES)().count_left(self.copy) else Observed.AFTER


@step_kind("prove-untouched")
@dataclass(frozen=True, slots=True)
class CheckTargetUnwritten(GuardStep, CopyCheck):
    """Check that no producer has written to the target since the cutover. Only then can the cutover be undone."""

    aspect: ClassVar[str] = "untouched"
    expires: ClassVar[bool] = True

    ends: Mapping[int, int] = field(default_factory=dict)

    def describe(self) -> str:
        return f"verify that no producer has written to {self.subject} since the cutover"

    def find_refusal(self, world: Environment) -> SeamarkError | None:
        """Count what was written since the cutover."""
        now = world.use(COPIES)().read_target_ends(self.copy)
        new = sum(max(0, now[partition] - end) for partition, end in self.ends.items())
        if not new:
            return None
        return RefusedError(
            f"the cutover can't be undone: {new} offsets were written to {self.target} since",
            cause=f"those records are not in {self.source}, so that its consumers would never read them",
            hint=f"copy them in the other direction: seamark copies plan {self.target} --target TOPIC",
        )


# A run of a pipeline can only commit partitions that it holds in the ledger. So the cutover fences all runs on the
# source and detects a run that starts again: rows that it commits from the source after its offset was translated would
# be written a second time from the target.


@step_kind("fence-pipeline")
@dataclass(frozen=True, slots=True)
class FencePipeline(CheckStep):
    """Fence every run of a pipeline on a topic, and check for `quiet_seconds` that no run starts again."""

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
        return f"fence all runs of {self.owner} on topic/{self.topic}"

    def perform(self, world: Environment, intent: Intent) -> None:
        began_at = world.clock.now()
        taken = world.use(COPIES)().shut_out(self.owner, self.topic)
        while True:
            if world.use(COPIES)().read_epochs(self.owner, self.topic) != taken:
                raise _build_running(self.owner, self.topic, cause="a run has claimed its partitions again")
            if world.clock.now() - began_at >= self.quiet_seconds:
                return
            world.clock.sleep(min(_LOOK_SECONDS, self.quiet_seconds))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BEFORE


@step_kind("prove-translated")
@dataclass(frozen=True, slots=True)
class CheckPipelineMoved(CopyCheck):
    """Check that a pipeline has committed nothing from the source since its offsets were translated, and fence it."""

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
        return f"verify that {self.owner} has written nothing from {self.source} since"

    def perform(self, world: Environment, intent: Intent) -> None:
        # Fence first: the offsets that are read afterwards can't change any more.
        world.use(COPIES)().shut_out(self.owner, self.source)
        found = world.use(COPIES)().translate(self.copy, self.readers or (self.owner,), missing=self.missing)[
            self.owner
        ]
        wanted = {(self.target, partition): offset for partition, offset in found.offsets.items()}
        held = read_commits(world, self.owner, tuple(wanted))
        if {spot: commit.offset for spot, commit in held.items()} != wanted:
            cause = f"its ledger offsets in {self.source} and in {self.target} no longer correspond"
            raise _build_running(self.owner, self.source, cause=cause)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BEFORE


def _intend_fence(world: Environment, owner: str, topic: str) -> Intent:
    """Return the epochs that the fence replaces. The fence takes the partitions from the run that holds them."""
    epochs = world.use(COPIES)().read_epochs(owner, topic)
    return Intent(before={"epochs": {str(number): epoch for number, epoch in epochs.items()}}, after="fenced")


def _build_running(owner: str, topic: str, *, cause: str) -> RefusedError:
    return RefusedError(
        f"{owner} was started on {topic} during the cutover",
        cause=cause,
        hint="disable the scheduler or supervisor that starts it, then repeat the cutover",
    )
