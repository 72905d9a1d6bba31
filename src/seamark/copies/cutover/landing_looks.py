"""What a cut-over makes sure of with landings: nobody can stop their runs from here, or see one that only waits.

But a run can't land what it does not hold in the ledger. So all are shut out of the source, and whoever comes back is
found: what it lands there after its place was told would be landed again from the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.look import Look
from seamark.changes.step import Intent, Observed, step_kind
from seamark.changes.world import World
from seamark.copies.cutover.copy_looks import CopyLook
from seamark.copies.cutover.copy_port import COPIES
from seamark.errors import RefusedError
from seamark.groups.group_image import read_commits

_LOOK_SECONDS = 0.5
# A run that is in the middle of a transaction is waited for.
_SETTLE_SECONDS = 60.0


@step_kind("shut-out-landing")
@dataclass(frozen=True, slots=True)
class FencePipeline(Look):
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

    def intend(self, world: World) -> Intent:
        return _intend_fence(world, self.owner, self.topic)

    def describe(self) -> str:
        return f"shut out whoever lands topic/{self.topic} as {self.owner}"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        began_at = world.clock.now()
        taken = world.use(COPIES)().shut_out(self.owner, self.topic)
        while True:
            if world.use(COPIES)().read_epochs(self.owner, self.topic) != taken:
                raise _build_running(self.owner, self.topic, cause="a run has taken its partitions again")
            if world.clock.now() - began_at >= self.quiet_seconds:
                return
            world.clock.sleep(min(_LOOK_SECONDS, self.quiet_seconds))

    def observe(self, world: World, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


@step_kind("prove-carried")
@dataclass(frozen=True, slots=True)
class ProveCarried(CopyLook):
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

    def intend(self, world: World) -> Intent:
        return _intend_fence(world, self.owner, self.source)

    def describe(self) -> str:
        return f"make sure that {self.owner} has landed nothing from {self.source} since"

    def perform(self, world: World, intent: Intent) -> None:
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

    def observe(self, world: World, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


def _intend_fence(world: World, owner: str, topic: str) -> Intent:
    """Return the epochs that the fence replaces: their partitions are taken from the run that has them."""
    epochs = world.use(COPIES)().read_epochs(owner, topic)
    return Intent(before={"epochs": {str(number): epoch for number, epoch in epochs.items()}}, after="fenced")


def _build_running(owner: str, topic: str, *, cause: str) -> RefusedError:
    return RefusedError(
        f"somebody has started {owner} on {topic} while it was carried over",
        cause=cause,
        hint="stop whoever starts it, a timer or a supervisor; then repeat the cut-over",
    )
