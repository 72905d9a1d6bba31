"""A pipeline is declared in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.world import World
from seamark.model.plan import StepData


@dataclass(frozen=True, slots=True)
class RegisterPipeline:
    """A pipeline is registered as its spec has it, or anew; without a `body` it is forgotten.

    The journal is where that stands: from the intent on it is so, and there is nothing else to do or to be seen. What
    the pipeline has landed, and how far it is, is not touched.
    """

    kind: ClassVar[str] = "register-pipeline"
    aspect: ClassVar[str] = "declaration"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = 1.0

    name: str
    body: Mapping[str, Any] | None

    @property
    def subject(self) -> str:
        return f"pipeline/{self.name}"

    def describe(self) -> str:
        return f"{'register' if self.body is not None else 'forget'} {self.subject}"

    def intend(self, world: World) -> Intent:
        return Intent(before=world.registered(self.name), after=self.body)

    def perform(self, world: World, intent: Intent) -> None:
        del world, intent

    def observe(self, world: World, intent: Intent) -> Observed:
        del world, intent
        return Observed.AFTER

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None if intent.before == intent.after else RegisterPipeline(self.name, intent.before)

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        return StepData(self.kind, self.subject, {"name": self.name, "body": self.body}, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)
