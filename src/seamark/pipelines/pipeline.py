"""A pipeline is declared in the journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from seamark.changes.action import Reads, StandaloneStep, StepSeen, action_kind, needs_permission
from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.changes.locks import pipeline_lock
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.core.ports import Port
from seamark.policy.permission import Permission

REGISTERED: Port[Callable[[str], Any]] = Port("registered")
"""Reads what the journal says that a pipeline is; None where it has none of that name."""


@action_kind("register-pipeline")
@needs_permission(Permission.CHANGE_CONFIG)
@step_kind("register-pipeline")
@dataclass(frozen=True, slots=True)
class RegisterPipeline(StandaloneStep):
    """A pipeline is registered as its spec has it, or anew; without a `body` it is forgotten.

    The journal is where that stands: from the intent on it is so, and there is nothing else to do or to be seen. What
    the pipeline has landed, and how far it is, is not touched.
    """

    aspect: ClassVar[str] = "declaration"
    declares: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = 1.0

    name: str
    body: Mapping[str, Any] | None

    @property
    def subject(self) -> str:
        return f"pipeline/{self.name}"

    def describe(self) -> str:
        return f"{'register' if self.body is not None else 'forget'} {self.subject}"

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        del reads
        return [frozenset({pipeline_lock(action.name)}) for action in actions]

    def build_effect(self, seen: StepSeen) -> Effect:
        before, after = seen.intent.before or {}, seen.intent.after or {}
        if not after:
            return Effect(Sign.DELETE, self.subject, "forget: its table and its offsets stay")
        words = f"register: {after.get('topic')} → {after.get('table')}"
        if not before:
            return Effect(Sign.CREATE, self.subject, words)
        changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        fields = tuple(FieldChange(key, _spell(before.get(key)), _spell(after.get(key))) for key in changed)
        return Effect(Sign.CHANGE, self.subject, f"{words}; a run takes it when it begins", fields)

    def intend(self, world: World) -> Intent:
        return Intent(before=world.use(REGISTERED)(self.name), after=self.body)

    def perform(self, world: World, intent: Intent) -> None:
        del world, intent

    def observe(self, world: World, intent: Intent) -> Observed:
        del world, intent
        return Observed.AFTER

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None if intent.before == intent.after else RegisterPipeline(self.name, intent.before)


def _spell(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
