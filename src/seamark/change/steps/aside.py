"""A connector is deleted for a while, and brought back as it was: for workers that know no stop.

What it was is in the step, so it is in the journal before anything is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from seamark.change.image import find_sealed
from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.steps.config import SETTLE_SECONDS, compare_image, read_config_image
from seamark.change.steps.last_look import take_last_look
from seamark.change.steps.read import read_run_state, read_status
from seamark.change.steps.stillness import Kept, build_kept_image
from seamark.change.world import World
from seamark.errors import RefusedError
from seamark.model.plan import StepData


@dataclass(frozen=True, slots=True)
class SetAside:
    """A connector is deleted, to be brought back by the same change. Its offsets or its group stay behind.

    `state` is the run state that it is brought back in; one that has another by now is not touched.
    """

    kind: ClassVar[str] = "set-aside"
    aspect: ClassVar[str] = "config"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    cluster: str
    name: str
    kept: Kept
    state: str = ""

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"delete {self.subject} for a while: its config is in the journal"

    def intend(self, world: World) -> Intent:
        image = build_kept_image(self.kept, world, self.subject)
        if lost := find_sealed(image["config"]):
            raise build_unkept(self.subject, lost)
        before = read_config_image(world, self.cluster, self.name, secret=())
        if before is not None and self.state:
            self._refuse_other_state(world)
        return Intent(before=before, after=None)

    def perform(self, world: World, intent: Intent) -> None:
        self._refuse_other_config(intent.before, world, "somebody else changed it")
        # What somebody put since the entry was written would be lost with the delete.
        self._refuse_other_config(_read_last(self, world), world, "somebody else changed it a moment ago")
        world.connect(self.cluster).delete_connector(self.name)

    def observe(self, world: World, intent: Intent) -> Observed:
        seen = compare_image(read_config_image(world, self.cluster, self.name, secret=()), intent)
        if seen is Observed.AFTER and read_status(world, self.cluster, self.name) is not None:
            # The status outlives the config for a moment.
            return Observed.BETWEEN
        return seen

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None if intent.before is None else BringBack(self.cluster, self.name, self.kept)

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"cluster": self.cluster, "name": self.name, "kept": self.kept.to_dict(), "state": self.state}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**{**data.arguments, "kept": Kept.from_dict(data.arguments["kept"])})

    def _refuse_other_config(self, image: Any, world: World, cause: str) -> None:
        if image != build_kept_image(self.kept, world, self.subject):
            raise RefusedError(
                f"the config of {self.subject} is not the one that would be brought back; nothing was changed",
                cause="it is not there" if image is None else cause,
                hint="make the plan anew",
            )

    def _refuse_other_state(self, world: World) -> None:
        now = read_run_state(world, self.cluster, self.name)
        if now is not None and now != self.state:
            raise RefusedError(
                f"{self.subject} is {now}, and would be brought back {self.state}; nothing was changed",
                hint="make the plan anew",
            )


@dataclass(frozen=True, slots=True)
class BringBack:
    """A connector that was set aside is created again. One that is there is left alone, whatever its config.

    It is put, not created: where nobody knows whether a delete has happened, it may be sent in any case. Only over
    another config it never is: that one is somebody else's.
    """

    kind: ClassVar[str] = "bring-back"
    aspect: ClassVar[str] = "config"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    cluster: str
    name: str
    kept: Kept

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"create {self.subject} again with the config that it had"

    def intend(self, world: World) -> Intent:
        after = build_kept_image(self.kept, world, self.subject)
        return Intent(before=read_config_image(world, self.cluster, self.name, secret=()), after=after)

    def perform(self, world: World, intent: Intent) -> None:
        if any(image not in (None, intent.after) for image in (intent.before, _read_last(self, world))):
            raise RefusedError(
                f"{self.subject} is there with another config: somebody else created it; it is left as it is",
                cause="what it was is in the plan of this change: seamark journal show",
                hint=f"see whose it is: seamark connectors show {self.cluster}/{self.name}",
            )
        world.connect(self.cluster).put_config(self.name, dict(self.kept.config))

    def observe(self, world: World, intent: Intent) -> Observed:
        seen = compare_image(read_config_image(world, self.cluster, self.name, secret=()), intent)
        # Until the status is there, nobody could tell what state a step after this one finds.
        is_early = seen is Observed.AFTER and read_status(world, self.cluster, self.name) is None
        return Observed.BETWEEN if is_early else seen

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return SetAside(self.cluster, self.name, self.kept)

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"cluster": self.cluster, "name": self.name, "kept": self.kept.to_dict()}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**{**data.arguments, "kept": Kept.from_dict(data.arguments["kept"])})


def _read_last(step: SetAside | BringBack, world: World) -> dict[str, Any] | None:
    """The config that is there right before the act."""
    return take_last_look(world, step.subject, lambda: read_config_image(world, step.cluster, step.name, secret=()))


def build_unkept(subject: str, keys: tuple[str, ...]) -> RefusedError:
    """Why a connector with secrets in its config is not deleted, not even for a while."""
    return RefusedError(
        f"{subject} would have to be deleted for a while, and could not be brought back; nothing was changed",
        cause=f"{', '.join(keys)}: literal secrets, and the journal holds no secrets",
        hint="let Connect look them up (a config provider: ${file:PATH:KEY}), then repeat it",
    )
