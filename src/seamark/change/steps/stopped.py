"""What is made sure of around a write of offsets: nobody else writes them, and they stay as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from seamark.change.step import Intent, Observed, Step
from seamark.change.steps.look import Look
from seamark.change.steps.offsets import QUIET_SECONDS, WriteOffsets, require_stopped
from seamark.change.steps.read import read_status
from seamark.change.world import World
from seamark.errors import DeadlineError, RefusedError, SeamarkError
from seamark.model.plan import StepData

# A worker hears of a stop with its next heartbeat; a sink's group is empty when its last member has left or timed out,
# which is a minute at most by default (`rebalance.timeout.ms`).
_DEADLINE_SECONDS = 90.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ProveStopped(Look):
    """A connector that was stopped is watched until it has stood still for `quiet_seconds`.

    Its status says so without a task, a sink's group is empty, both on two looks, and each of `workers`, which ran it,
    is alive to know that it must not write any more. One that vanished may come back as a zombie and write: that is a
    refusal, unless `accepts_zombies`.
    """

    kind: ClassVar[str] = "prove-stopped"
    aspect: ClassVar[str] = "quiet"
    settle_seconds: ClassVar[float] = _DEADLINE_SECONDS

    cluster: str
    name: str
    workers: tuple[str, ...] = ()
    quiet_seconds: float = QUIET_SECONDS
    accepts_zombies: bool = False

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"make sure that {self.subject} has stopped"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        clock = world.clock
        deadline = clock.now() + _DEADLINE_SECONDS
        quiet_since: float | None = None
        while True:
            now = clock.now()
            trouble = self._find_trouble(world)
            quiet_since = None if trouble else (quiet_since if quiet_since is not None else now)
            if quiet_since is not None and now > quiet_since and now - quiet_since >= self.quiet_seconds:
                break
            if now >= deadline:
                raise _build_late(self.subject, trouble)
            clock.sleep(min(_LOOK_SECONDS, self.quiet_seconds / 2))
        self._refuse_zombies(world)

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_trouble(world) else Observed.AFTER

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {
            "cluster": self.cluster,
            "name": self.name,
            "workers": list(self.workers),
            "quiet_seconds": self.quiet_seconds,
            "accepts_zombies": self.accepts_zombies,
        }
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**{**data.arguments, "workers": tuple(data.arguments["workers"])})

    def _find_trouble(self, world: World) -> SeamarkError | None:
        """Why it has not stopped yet, or why nobody can tell."""
        try:
            require_stopped(read_status(world, self.cluster, self.name), self.subject)
            group = world.offsets(self.cluster, self.name).read_members()
            if group is not None and not group.is_quiet:
                raise RefusedError(
                    f"somebody is still in the group {group.name}",
                    cause=f"it is {group.state}, {group.members} members",
                )
        except SeamarkError as error:
            return error
        return None

    def _refuse_zombies(self, world: World) -> None:
        silent = world.offsets(self.cluster, self.name).find_silent(self.workers)
        if silent and not self.accepts_zombies:
            raise RefusedError(
                f"{', '.join(silent)} ran {self.subject} and can't be reached: it may still write its offsets",
                cause="a worker that stands still does not know of the stop, and writes when it goes on",
                hint="end that worker for certain, then repeat it with --accept-zombie",
            )


@dataclass(frozen=True, slots=True)
class VerifyOffsets(Look):
    """What was written is looked at again, right before the connector may run: somebody may have written since."""

    kind: ClassVar[str] = "verify-offsets"
    aspect: ClassVar[str] = "verified"
    settle_seconds: ClassVar[float] = 60.0

    written: WriteOffsets

    @property
    def subject(self) -> str:
        return self.written.subject

    def describe(self) -> str:
        return f"verify the offsets of {self.subject} in the store"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        found, wanted = self.written.read_image(world), self.written.build_after()
        if found != wanted:
            raise RefusedError(
                f"the offsets of {self.subject} are not what was written: somebody else writes them",
                cause=_describe_difference(found, wanted),
                hint=f"find out who; then: seamark offsets show {self.written.cluster}/{self.written.name}",
            )

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.AFTER if self.written.read_image(world) == self.written.build_after() else Observed.BEFORE

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        return StepData(self.kind, self.subject, self.written.to_data().arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(WriteOffsets.from_data(data))


def surround(step: Step, *, quiet_seconds: float = QUIET_SECONDS, accepts_zombies: bool = False) -> tuple[Step, ...]:
    """A step with what is made sure of before and after it. Only writes of offsets need that."""
    if not isinstance(step, WriteOffsets):
        return (step,)
    proof = ProveStopped(step.cluster, step.name, quiet_seconds=quiet_seconds, accepts_zombies=accepts_zombies)
    return proof, step, VerifyOffsets(step)


def name_workers(steps: Sequence[Step], workers: dict[str, tuple[str, ...]]) -> tuple[Step, ...]:
    """The steps with the workers that run each subject now: a plan may be older than they are."""
    return tuple(
        replace(step, workers=tuple(sorted({*step.workers, *workers.get(step.subject, ())})))
        if isinstance(step, ProveStopped)
        else step
        for step in steps
    )


def _build_late(subject: str, trouble: SeamarkError | None) -> SeamarkError:
    return DeadlineError(
        f"{subject} did not stop within {_DEADLINE_SECONDS:g} s",
        cause=f"{trouble.message}: {trouble.cause}" if trouble else "it has not stood still for long enough",
        hint="its run state is restored; see what keeps its tasks: seamark connectors show",
    )


def _describe_difference(found: Any, wanted: Any) -> str:
    old, new = found["offsets"], wanted["offsets"]
    wrong = [place for place in new if old.get(place) != new[place]]
    return "; ".join(f"{place} holds {old.get(place)}, not {new[place]}" for place in wrong[:5])
