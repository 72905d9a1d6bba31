"""Pipelines that were applied, as the journal has them: any machine may run them without their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from seamark.changes.history import find_acts, read_past
from seamark.changes.journal import Journal
from seamark.changes.locks import find_pipeline
from seamark.core.files import Place
from seamark.core.format_version import VERSION_FIELD, StoredFormat, check_format
from seamark.core.refs import build_pipeline_owner
from seamark.errors import JournalError
from seamark.pipelines.spec import DesiredColumn, DesiredDeadLetters, DesiredLanding

FORMAT = StoredFormat("registered pipeline", 3)


def read_registered(journal: Callable[[], Journal]) -> dict[str, Any]:
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
    """A pipeline as the journal takes it. Where it stood in a file is no part of it."""
    body: dict[str, Any] = json.loads(json.dumps(asdict(landing)))
    del body["place"]
    return FORMAT.field | body


def read_body(name: str, body: Mapping[str, Any]) -> DesiredLanding:
    """Read what `build_body` gave."""
    check_format(FORMAT, body, where=_describe(name))
    try:
        columns = tuple(DesiredColumn(**column) for column in body["columns"])
        fields = {key: value for key, value in body.items() if key != VERSION_FIELD}
        place = Place(_describe(name))
        names = {key: tuple(body[key]) for key in ("key", "order")}
        letters = None if body["dead_letters"] is None else DesiredDeadLetters(**body["dead_letters"])
        more = {"place": place, "columns": columns, "dead_letters": letters}
        return DesiredLanding(**{**fields, **names, **more})
    except (TypeError, KeyError) as error:
        raise JournalError(
            f"this seamark can't read the pipeline {name} of the journal",
            cause=f"{type(error).__name__}: {error}",
            hint="apply its files again, or use the version that registered it",
        ) from None


def _describe(name: str) -> str:
    return f"{build_pipeline_owner(name)} in the journal"
