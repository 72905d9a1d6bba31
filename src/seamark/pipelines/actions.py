"""A pipeline is declared in the journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from seamark.changes.action import Reads, StandaloneStep, StepSeen, action_kind, needs_permission
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.history import find_acts, read_past
from seamark.changes.journal import JournalPort
from seamark.changes.locks import find_pipeline, pipeline_lock
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.core.files import FileLocation
from seamark.core.refs import Port, build_pipeline_owner
from seamark.core.strict_json import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import JournalError
from seamark.pipelines.declared import ColumnSource, DesiredColumn, DesiredDeadLetters, DesiredLanding, TargetRef
from seamark.policy.permissions import Permission
from seamark.tables.registry import open_registry

_COLUMNS = "columns"
REGISTERED: Port[Callable[[], Mapping[str, Any]]] = Port("registered")
"""Reads the pipelines that are registered in the journal, by name."""


@action_kind("register-pipeline")
@needs_permission(Permission.CHANGE_CONFIG)
@step_kind("register-pipeline")
@dataclass(frozen=True, slots=True)
class RegisterPipeline(StandaloneStep):
    """A pipeline is registered as its spec has it, or updated; without a `body` it is removed.

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
        return f"{'register' if self.body is not None else 'unregister'} {self.subject}"

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        return [frozenset({pipeline_lock(action.name)}) for action in actions]

    def build_effect(self, seen: StepSeen) -> Effect:
        before, after = seen.intent.before or {}, seen.intent.after or {}
        if not after:
            return Effect(ChangeKind.DELETE, self.subject, "unregister; its table and its offsets are kept")
        words = f"register: {after.get('topic')} → {after.get('table')}"
        if not before:
            return Effect(ChangeKind.CREATE, self.subject, words, consequences=tuple(_list_pinned(after)))
        fields = tuple(_list_changes(before, after))
        return Effect(ChangeKind.CHANGE, self.subject, f"{words}; a running application uses it within 30 s", fields)

    def intend(self, world: Environment) -> Intent:
        return Intent(before=world.use(REGISTERED)().get(self.name), after=self.body)

    def perform(self, world: Environment, intent: Intent) -> None:
        del world, intent

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.AFTER

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None if intent.before == intent.after else RegisterPipeline(self.name, intent.before)


def _list_pinned(body: Mapping[str, Any]) -> Iterator[str]:
    """List the columns that were read from the source: the file doesn't have them."""
    columns = _find_columns(body) or {}
    if pinned := [f"{name} {one['type']}" for name, one in columns.items() if one.get("from_source")]:
        yield f"columns of the source: {', '.join(pinned)}"


def _list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    """List what changes, key by key, and of columns each one by its name."""
    for key in sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)):
        was, will = (_find_columns(body) if key == _COLUMNS else None for body in (before, after))
        if was is None or will is None:
            yield FieldChange(key, _spell(before.get(key)), _spell(after.get(key)))
        else:
            yield from _list_column_changes(was, will)


def _list_column_changes(was: Mapping[str, Any], will: Mapping[str, Any]) -> Iterator[FieldChange]:
    changed = [name for name in dict.fromkeys([*was, *will]) if was.get(name) != will.get(name)]
    if not changed:
        # Only their sequence is another one.
        yield FieldChange(_COLUMNS, ", ".join(was), ", ".join(will))
    for name in changed:
        old, new = (_spell_column(columns.get(name)) for columns in (was, will))
        if old == new:
            # An edited plan may differ in what no words are for.
            old, new = (_spell(columns.get(name)) for columns in (was, will))
        yield FieldChange(f"{_COLUMNS}.{name}", old, new)


def _find_columns(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]] | None:
    """Find the columns by name; None if a plan was edited so that they are none, and must be shown as they are."""
    given = body.get(_COLUMNS)
    if not isinstance(given, list):
        return None
    found: dict[str, Mapping[str, Any]] = {
        one["name"]: one
        for one in given
        if isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("name", "type"))
    }
    return found if len(found) == len(given) else None


def _spell_column(column: Mapping[str, Any] | None) -> str | None:
    if column is None:
        return None
    details = {key: value for key, value in column.items() if value and key not in {"name", "type", "from_source"}}
    more = "".join(f", {'from' if key == 'source' else key} {value}" for key, value in details.items())
    return f"{column['type']}{more}{' (from the source)' if column.get('from_source') else ''}"


def _spell(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


FORMAT = StoredFormat("registered pipeline", 5)
# The format has a field for each of these keys of `to:`, also where another one is used.
_PLACES = ("database", "lake")
_OF_THE_PLAN = ("place", "is_resolved", "notes")


def read_registered(journal: Callable[[], JournalPort]) -> dict[str, Any]:
    """What is registered, by name. The newest change of a pipeline counts, whichever spec it came from.

    Only changes that held the lock of a pipeline are read.
    """
    opened = journal()
    found: dict[str, Any] = {}
    for head in opened.heads():
        locked = {name for lock in head.locks if (name := find_pipeline(lock)) is not None}
        if not (unknown := locked - found.keys()):
            continue
        acts = find_acts(read_past(opened.read(head.change)))
        found |= {
            name: acts[build_pipeline_owner(name)][-1].after for name in unknown if build_pipeline_owner(name) in acts
        }
    registered = {name: body for name, body in found.items() if body is not None}
    for name, body in registered.items():
        check_format(FORMAT, body, where=_describe(name))
    return registered


def build_body(landing: DesiredLanding) -> dict[str, Any]:
    """Return a pipeline as the journal stores it, without its location in a file."""
    body = FORMAT.field
    for key, value in json.loads(json.dumps(asdict(landing))).items():
        if key == "target":
            body |= dict.fromkeys(_PLACES, "") | {value["place"]: value["name"]}
        elif key not in _OF_THE_PLAN:
            body[key] = value
    return body


def read_body(name: str, body: Mapping[str, Any]) -> DesiredLanding:
    """Read what `build_body` gave."""
    check_format(FORMAT, body, where=_describe(name))
    try:
        columns = tuple(DesiredColumn(**column) for column in body["columns"])
        target = _read_target(body)
        read = {VERSION_FIELD, *_PLACES, target.place}
        fields = {key: value for key, value in body.items() if key not in read}
        place = FileLocation(_describe(name))
        names = {key: tuple(body[key]) for key in ("key", "order")}
        letters = None if body["dead_letters"] is None else DesiredDeadLetters(**body["dead_letters"])
        source = None if body["column_source"] is None else ColumnSource(**body["column_source"])
        more = {
            "place": place,
            "columns": columns,
            "dead_letters": letters,
            "target": target,
            "column_source": source,
            "is_resolved": True,
        }
        return DesiredLanding(**{**fields, **names, **more})
    except (TypeError, KeyError) as error:
        raise JournalError(
            f"this version of seamark can't read pipeline {name} in the journal",
            cause=f"{type(error).__name__}: {error}",
            hint="apply its spec files again, or use the version that registered it",
        ) from None


def _read_target(body: Mapping[str, Any]) -> TargetRef:
    places = dict.fromkeys([*_PLACES, *(one.place for one in open_registry().tables)])
    used = [place for place in places if body.get(place)]
    return TargetRef(used[0], body[used[0]]) if len(used) == 1 else TargetRef(_PLACES[0], "")


def _describe(name: str) -> str:
    return f"{build_pipeline_owner(name)} in the journal"
