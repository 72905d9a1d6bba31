"""What a cut-over waits for and makes sure of. The copy keeps its own memory: a crash in one of these loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from seamark.changes.look import Look
from seamark.changes.step import Intent, Observed, step_kind
from seamark.changes.world import World
from seamark.copies.cutover.copy_port import COPIES
from seamark.errors import RefusedError

_LOOK_SECONDS = 0.5
# A recount or a scan may take as long as the copy did; nobody waits for it to show after it came back.
_SETTLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CopyLook(Look):
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
class PreCopy(CopyLook):
    """What has come to the source is copied while everybody goes on: so little is left when they stop.

    It also starts Spark, for which nobody has to stand still.
    """

    aspect: ClassVar[str] = "approached"
    writes: ClassVar[bool] = True

    def intend(self, world: World) -> Intent:
        del world
        return Intent(before=None, after=f"what has come to {self.source} is in {self.target}")

    def describe(self) -> str:
        return f"copy what has come to {self.source} to {self.subject}, while everybody goes on"

    def perform(self, world: World, intent: Intent) -> str:
        del intent
        return world.use(COPIES)().approach(self.copy)

    def observe(self, world: World, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


@step_kind("catch-up")
@dataclass(frozen=True, slots=True)
class CatchUp(CopyLook):
    """All that the source holds is copied, by Spark."""

    writes: ClassVar[bool] = True

    def intend(self, world: World) -> Intent:
        del world
        return Intent(before=None, after=f"all of {self.source} is in {self.target}")

    def describe(self) -> str:
        return f"copy the rest of {self.source} to {self.subject}"

    def perform(self, world: World, intent: Intent) -> str:
        del intent
        return world.use(COPIES)().catch_up(self.copy)

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if world.use(COPIES)().count_left(self.copy) else Observed.AFTER


@step_kind("prove-copy")
@dataclass(frozen=True, slots=True)
class VerifyCopy(CopyLook):
    """Source and target are compared, by Spark."""

    aspect: ClassVar[str] = "proven"

    level: str = "standard"

    def describe(self) -> str:
        return f"make sure that all of {self.source} is in {self.subject} ({self.level} verification)"

    def perform(self, world: World, intent: Intent) -> str:
        del intent
        return world.use(COPIES)().verify(self.copy, self.level)

    def observe(self, world: World, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


@step_kind("prove-still")
@dataclass(frozen=True, slots=True)
class CheckSourceIdle(CopyLook):
    """Nobody writes to the source for so long: everything that it holds is copied, and stays so."""

    aspect: ClassVar[str] = "still"
    expires: ClassVar[bool] = True

    quiet_seconds: float = 2.0

    @property
    def subject(self) -> str:
        return f"topic/{self.source}"

    def describe(self) -> str:
        return f"make sure that nobody writes to {self.subject}"

    def perform(self, world: World, intent: Intent) -> None:
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

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if world.use(COPIES)().count_left(self.copy) else Observed.AFTER


@step_kind("prove-untouched")
@dataclass(frozen=True, slots=True)
class CheckTargetUnwritten(CopyLook):
    """Nobody has written to the target since the cut-over: then, and only then, it can be taken back."""

    aspect: ClassVar[str] = "untouched"
    expires: ClassVar[bool] = True

    ends: Mapping[int, int] = field(default_factory=dict)

    def describe(self) -> str:
        return f"make sure that nobody has written to {self.subject} since"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        if new := self._count_new(world):
            raise RefusedError(
                f"{new} offsets were written to {self.target} since the cut-over; it can't be taken back",
                cause=f"those records are not in {self.source}: whoever reads that would never see them",
                hint=f"copy them back the other way: seamark copy plan {self.target} --to …",
            )

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._count_new(world) else Observed.AFTER

    def _count_new(self, world: World) -> int:
        now = world.use(COPIES)().read_target_ends(self.copy)
        return sum(max(0, now[partition] - end) for partition, end in self.ends.items())
