"""What the steps on topics and groups mean in operation, told from what they found and what they want."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seamark.change.step import Intent, Step
from seamark.change.steps.group import DeleteGroup, MoveGroup
from seamark.change.steps.topic import CreateTopic, DeleteNewTopic, DeleteTopic
from seamark.change.steps.topic_change import AlterTopicConfig, GrowTopic
from seamark.model.effect import Effect, FieldChange, Sign
from seamark.report.words import render_count

_ABSENT_AFTER = "group forgets its position"


def build_broker_effect(step: Step, intent: Intent) -> Effect | None:
    """The line of a plan for a step on the brokers; None for any other step."""
    if isinstance(step, MoveGroup | DeleteGroup):
        return _build_move(step, intent) if isinstance(step, MoveGroup) else _build_group_end(step, intent)
    if isinstance(step, CreateTopic | DeleteNewTopic):
        return _build_new_topic(step, intent)
    if isinstance(step, DeleteTopic):
        return Effect(Sign.DELETE, step.subject, _say_delete(intent))
    if isinstance(step, GrowTopic):
        return _build_grow(step, intent)
    return _build_alter(step, intent) if isinstance(step, AlterTopicConfig) else None


def _build_alter(step: AlterTopicConfig, intent: Intent) -> Effect:
    fields = _compare(intent.before["configs"], intent.after["configs"])
    return Effect(Sign.CHANGE, step.subject, f"change {render_count(len(fields), 'config')}", fields)


def _build_group_end(step: DeleteGroup, intent: Intent) -> Effect:
    spots = _flatten(intent.before)
    words = f"delete: what it committed on {render_count(len(spots), 'partition')} goes"
    return Effect(Sign.DELETE, step.subject, words if spots else "delete: it has committed nothing")


def count_moved(before: int | None, after: int | None) -> tuple[int, int]:
    """How many records are read again, and how many are skipped; none where a position is not known."""
    if before is None or after is None:
        return 0, 0
    return max(0, before - after), max(0, after - before)


def _build_new_topic(step: CreateTopic | DeleteNewTopic, intent: Intent) -> Effect:
    if isinstance(step, DeleteNewTopic):
        return Effect(Sign.DELETE, step.subject, "delete, if it is still empty")
    copies = step.replication_factor
    parts = [
        "the brokers' number of partitions" if step.partitions is None else render_count(step.partitions, "partition"),
        "the brokers' replication" if copies is None else f"replication {copies}",
    ]
    configs = _compare({}, intent.after["configs"])
    # A new topic has few configs, and whoever reviews it wants to see them.
    told = " ".join(f"{found.key}={found.after}" for found in configs)
    words = f"create: {', '.join(parts)}" + (f" with {told}" if told else "")
    return Effect(Sign.CREATE, step.subject, words, configs)


def _say_delete(intent: Intent) -> str:
    export = intent.extra or {}
    bounds: Mapping[str, Any] = export.get("bounds", {})
    records = sum(max(0, latest - earliest) for earliest, latest in bounds.values())
    what = f"{render_count(records, 'record')} in {render_count(int(export.get('partitions', 0)), 'partition')}"
    return f"delete: {what}, for good"


def _build_grow(step: GrowTopic, intent: Intent) -> Effect:
    have = int(intent.before["partitions"])
    more = render_count(step.partitions - have, "partition")
    fields = (FieldChange("partitions", str(have), str(step.partitions)),)
    return Effect(Sign.CHANGE, step.subject, f"grow by {more}, for good", fields)


def _build_move(step: MoveGroup, intent: Intent) -> Effect:
    before, after = _flatten(intent.before), _flatten(intent.after)
    fields, again, skipped = [], 0, 0
    for spot in sorted(before.keys() | after.keys()):
        old, new = before.get(spot), after.get(spot)
        if old == new:
            continue
        back, ahead = count_moved(old, new)
        again, skipped = again + back, skipped + ahead
        fields.append(
            FieldChange(
                f"{spot[0]}-{spot[1]}",
                None if old is None else str(old),
                None if new is None else str(new),
                note=_say_spot(old, new, back=back, ahead=ahead),
            )
        )
    where = render_count(len(fields), "partition")
    total = f"{render_count(again, 'record')} read again, {render_count(skipped, 'record')} skipped"
    return Effect(Sign.CHANGE, step.subject, f"move on {where}: {total}", tuple(fields))


def _say_spot(old: int | None, new: int | None, *, back: int, ahead: int) -> str:
    if new is None:
        return _ABSENT_AFTER
    if old is None:
        return "nothing was committed"
    return f"{render_count(back, 'record')} read again" if back else f"{render_count(ahead, 'record')} skipped"


def _flatten(image: Any) -> dict[tuple[str, int], int | None]:
    return {
        (topic, int(number)): None if commit is None else commit["offset"]
        for topic, partitions in (image or {}).items()
        for number, commit in partitions.items()
    }


def _compare(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> tuple[FieldChange, ...]:
    keys = sorted(before.keys() | after.keys())
    return tuple(FieldChange(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key))
