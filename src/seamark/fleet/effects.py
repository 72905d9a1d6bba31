"""What each step means in operation, told from what it found and what it wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.change.image import is_sealed
from seamark.change.step import Intent, Step
from seamark.change.steps.connector import CreateConnector, DeleteConnector, PutConfig
from seamark.change.steps.copy_offsets import CopyOffsets
from seamark.change.steps.logger import SetLogger
from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.pipeline import RegisterPipeline
from seamark.change.steps.run_state import RestartFailed, SetRunState
from seamark.change.world import World
from seamark.errors import NotFoundError
from seamark.fleet.brokers.effects import build_broker_effect
from seamark.model.effect import Effect, FieldChange, Sign
from seamark.model.logger import expect_level
from seamark.model.sensitive import MASK, is_sensitive, mask_value
from seamark.report.words import render_count


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a step's subject: the step's intent, and how many tasks there are now."""

    step: Step
    intent: Intent
    tasks: int = 0

    @property
    def is_needed(self) -> bool:
        """Whether the step has anything to do."""
        return bool(self.intent.before != self.intent.after)


def read_look(step: Step, world: World) -> Look:
    """Look at a step's subject. Changes nothing."""
    try:
        intent = step.intend(world)
    except NotFoundError:
        # A connector that the plan itself creates holds nothing yet.
        if not isinstance(step, WriteOffsets | CopyOffsets):
            raise
        intent = Intent(before=None, after={})
    tasks = 0
    if isinstance(step, CreateConnector | PutConfig | DeleteConnector | SetRunState | RestartFailed):
        try:
            tasks = len(world.connect(step.cluster).read_status(step.name).tasks)
        except NotFoundError:
            tasks = 0
    return Look(step, intent, tasks)


def build_effect(look: Look) -> Effect:
    """The line of a plan for one step."""
    build = _BUILDERS.get(type(look.step))
    if build:
        return build(look)
    found = build_broker_effect(look.step, look.intent)
    return found or Effect(Sign.CHANGE, look.step.subject, look.step.describe())


def _create(look: Look) -> Effect:
    step = look.step
    state = step.state if isinstance(step, CreateConnector) else ""
    return Effect(Sign.CREATE, step.subject, f"create, {state}", _config_fields(look.intent))


def _put_config(look: Look) -> Effect:
    words = f"restarts {render_count(look.tasks, 'task')}" if look.tasks else "no task runs now"
    return Effect(Sign.CHANGE, look.step.subject, words, _config_fields(look.intent), tasks=look.tasks)


def _delete(look: Look) -> Effect:
    return Effect(Sign.DELETE, look.step.subject, f"delete: {_say(look.tasks, 'ends', 'end')}")


def _set_run_state(look: Look) -> Effect:
    state = look.intent.after["state"]
    words = {
        "RUNNING": f"resume: {_say(look.tasks, 'runs again', 'run again')}"
        if look.tasks
        else "resume: its tasks start",
        "PAUSED": f"pause: {_say(look.tasks, 'stays and waits', 'stay and wait')}",
        "STOPPED": f"stop: {_say(look.tasks, 'ends', 'end')}",
    }.get(state, state)
    before = None if look.intent.before is None else look.intent.before["state"]
    fields = (FieldChange("state", before, state),)
    return Effect(Sign.CHANGE, look.step.subject, words, fields, tasks=look.tasks if state == "RUNNING" else 0)


def _say(tasks: int, one: str, many: str) -> str:
    return f"{render_count(tasks, 'task')} {one if tasks == 1 else many}" if tasks else "no task runs now"


def _restart_failed(look: Look) -> Effect:
    failed = look.intent.before["failed"]
    return Effect(Sign.CHANGE, look.step.subject, f"restarts {', '.join(failed)}", tasks=len(failed))


def _set_logger(look: Look) -> Effect:
    before, after = look.intent.before, look.intent.after
    workers = [url for url in after if before[url] != after[url]]
    fields = tuple(
        FieldChange(f"{name} on {url}", expect_level(name, before[url]), expect_level(name, after[url]))
        for url in workers
        for name in sorted(before[url].keys() | after[url].keys())
    )
    return Effect(
        Sign.CHANGE,
        look.step.subject,
        f"changes what {render_count(len(workers), 'worker')} log{'s' if len(workers) == 1 else ''}",
        fields,
    )


def _register(look: Look) -> Effect:
    before, after = look.intent.before or {}, look.intent.after or {}
    if not after:
        return Effect(Sign.DELETE, look.step.subject, "forget: its table and its offsets stay")
    words = f"register: {after.get('topic')} → {after.get('table')}"
    if not before:
        return Effect(Sign.CREATE, look.step.subject, words)
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    fields = tuple(FieldChange(key, _spell(before.get(key)), _spell(after.get(key))) for key in changed)
    return Effect(Sign.CHANGE, look.step.subject, f"{words}; a run takes it when it begins", fields)


def _spell(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_BUILDERS: Mapping[type, Callable[[Look], Effect]] = {
    CreateConnector: _create,
    PutConfig: _put_config,
    DeleteConnector: _delete,
    SetRunState: _set_run_state,
    RestartFailed: _restart_failed,
    SetLogger: _set_logger,
    RegisterPipeline: _register,
}


def _config_fields(intent: Intent) -> tuple[FieldChange, ...]:
    before = _config_of(intent.before)
    after = _config_of(intent.after)
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return tuple(
        FieldChange(
            key,
            before=show_value(key, before.get(key)),
            after=show_value(key, after.get(key)),
            is_sensitive=is_hidden(key, before.get(key)) or is_hidden(key, after.get(key)),
        )
        for key in changed
    )


def _config_of(image: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = image["config"] if image else {}
    return found


def show_value(key: str, value: Any) -> str | None:
    """A value of an image as people may see it; None where there is none."""
    if value is None:
        return None
    return MASK if is_sealed(value) else mask_value(key, str(value))


def is_hidden(key: str, value: Any) -> bool:
    """Whether people may not see a value of an image."""
    return is_sealed(value) or (value is not None and is_sensitive(key) and mask_value(key, str(value)) == MASK)
