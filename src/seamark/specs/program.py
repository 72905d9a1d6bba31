"""The functions and values of a spec program: `connector(…)`, `topic(…)`, `pipeline(…)` and `env`.

from seamark.specs import connector

def resources(env):
    for table in env.list("TABLES"):
        yield connector(f"log-{table}", {"table.whitelist": table}, base="jdbc")
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.context.yaml import ScalarNode
from seamark.core.files import FileLocation
from seamark.errors import SpecError
from seamark.specs.document import Document, build_spec_error
from seamark.specs.keys import LABELS, check_names, list_sections
from seamark.specs.layers import (
    ConfigLeaf,
    Filler,
    Layer,
    Shared,
    build_connector,
    check_name,
    check_state,
    escape_marks,
    fill_labels,
    fill_layers,
    is_true,
)
from seamark.specs.model import Contents, Definition, Maker
from seamark.specs.sandbox import isolate, run_program


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that a program declares. `line` is where it was declared."""

    kind: str
    name: str
    fields: Mapping[str, Any] = field(repr=False)
    line: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the resource as JSON data."""
        return {"kind": self.kind, "name": self.name, "line": self.line, **self.fields}


def connector(
    name: str,
    config: Mapping[str, Any],
    *,
    base: str | None = None,
    cluster: str | None = None,
    state: str | None = None,
    labels: Mapping[str, Any] | None = None,
) -> Resource:
    """Declare a connector. None as a value removes a key or a label that the base or the defaults have."""
    fields = {
        "config": _build_config(config, what=f"connector {name}"),
        "base": _check_text(base, "base"),
        "cluster": _check_text(cluster, "cluster"),
        "state": _check_text(state, "state"),
        "labels": _build_config(labels or {}, what=f"connector {name}"),
    }
    return Resource("connector", _check_name(name), fields, _find_line())


def topic(
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    config: Mapping[str, Any] | None = None,
) -> Resource:
    """Declare a topic. A value of None is left to the broker, or stays unchanged."""
    for what, number in (("partitions", partitions), ("replication_factor", replication_factor)):
        # Untyped callers may pass any value.
        given: Any = number
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
            raise ValueError(f"{what} of topic {name} must be an integer of 1 or more")
    fields = {
        "partitions": partitions,
        "replication_factor": replication_factor,
        "config": _build_config(config or {}, what=f"topic {name}"),
    }
    return Resource("topic", _check_name(name), fields, _find_line())


def pipeline(name: str, spec: Mapping[str, Any]) -> Resource:
    """Declare a pipeline. `spec` has what the section `pipelines` of a YAML file has below its name."""
    return Resource("pipeline", _check_name(name), {"spec": _build_plain(spec, what=f"pipeline {name}")}, _find_line())


def _build_plain(value: Any, *, what: str) -> Any:
    if isinstance(value, Mapping):
        return {_check_key(key, what): _build_plain(one, what=what) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_build_plain(one, what=what) for one in value]
    return _build_text("a value", value, what)


class SpecEnvironment:
    """The available environment variables, without those that look like secrets."""

    def __init__(self, values: Mapping[str, str], *, withheld: Sequence[str] = ()) -> None:
        self._values = dict(values)
        self._withheld = frozenset(withheld)

    def __getitem__(self, name: str) -> str:
        if name in self._withheld:
            raise KeyError(
                f"{name} appears to be a secret and is not passed to programs; write secret://env/{name} as the value"
            )
        if name not in self._values:
            raise KeyError(f"the environment variable {name} is not set")
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the variable, or `default` if it is not set."""
        return self[name] if name in self._values or name in self._withheld else default

    def list(self, name: str, default: Sequence[str] | None = None) -> list[str]:
        """Return the parts of a variable such as `SHARDS=a,b,c`."""
        if default is not None and name not in self._values and name not in self._withheld:
            return [*default]
        return [part.strip() for part in self[name].split(",") if part.strip()]


def _build_config(config: Mapping[str, Any], *, what: str) -> dict[str, str | None]:
    if not isinstance(config, Mapping):
        raise TypeError(f"the config of {what} must be a dict")
    return {_check_key(key, what): _build_text(key, value, what) for key, value in config.items()}


def _check_key(key: Any, what: str) -> str:
    if not isinstance(key, str) or not key:
        raise TypeError(f"a key in the config of {what} is not a string")
    return key


def _build_text(key: str, value: Any, what: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"{key} of {what} is a {type(value).__name__}; Connect accepts only strings")


def _check_text(value: Any, what: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{what} must be a string")
    return value


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError("a name must be a string that is not empty")
    return name


def _find_line() -> int:
    """Return the line that called connector() or topic(); 0 outside of a spec program."""
    frame = sys._getframe(2)  # noqa: SLF001 - no public function finds the caller as cheaply
    return frame.f_lineno if frame.f_globals.get("__name__") == "seamark_spec" else 0


# The program to run comes through standard input, and its result goes to a separate pipe, so that the program may
# print.

MODULE = "seamark_spec"
"""The module name under which a program runs."""

_OURS = str(Path(__file__).parent)


def main() -> None:
    """Run the program and send its result, or why it failed."""
    descriptor = int(sys.argv[1])
    # The program's own child processes must not keep the pipe open.
    os.set_inheritable(descriptor, False)
    order = json.load(sys.stdin)
    refusal = isolate(os.getppid(), order["withheld"])
    if refusal:
        _send(descriptor, {"refused": refusal})
        return
    # At the end of the path: a file beside the program can be imported, but can't replace a library.
    sys.path.append(str(Path(order["path"]).parent))
    try:
        answer: dict[str, Any] = {"resources": _run(order)}
    except BaseException as error:  # noqa: BLE001 - whatever a program raises is reported, including sys.exit
        answer = {"error": _describe(error, order["path"])}
    _send(descriptor, answer)


def _send(descriptor: int, answer: dict[str, Any]) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8") as pipe:
        json.dump(answer, pipe)


def _run(order: dict[str, Any]) -> list[dict[str, Any]]:
    path = order["path"]
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    scope: dict[str, Any] = {"__name__": MODULE, "__file__": path}
    exec(code, scope)  # noqa: S102 - running the program is the purpose, and was allowed
    resources = scope.get("resources")
    if not callable(resources):
        raise TypeError("the program has no function resources(env)")
    found = []
    for resource in resources(SpecEnvironment(order["environ"], withheld=order["withheld"])):
        if not isinstance(resource, Resource):
            raise TypeError(
                f"resources(env) returned a {type(resource).__name__}; expected connector(…), topic(…) or pipeline(…)"
            )
        found.append(resource.to_dict())
    return found


def _describe(error: BaseException, path: str) -> dict[str, Any]:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    line, column = 0, 0
    if isinstance(error, SyntaxError) and error.filename == path:
        line, column = error.lineno or 0, error.offset or 0
    else:
        line = next((frame.lineno or 0 for frame in reversed(frames) if frame.filename == path), 0)
    text = "".join(traceback.format_exception_only(error)[-1:]).strip()
    trace = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return {"text": text[-2000:], "line": line, "column": column, "trace": trace[-20:]}


def read_py_file(path: Path, *, shared: Shared, filler: Filler) -> Contents:
    """Run the program and read its result. Defaults and bases of its folder apply, filled by `filler`."""
    document = Document(str(path), "", folder=str(path.parent.resolve()))
    kinds = {kind.noun: kind for kind in list_sections()}
    definitions: list[Definition] = []
    sections: dict[str, list[Any]] = {}
    for given in run_program(path, environ=filler.environ):
        place = _check(given, path)
        kind = kinds.get(given["kind"])
        if kind is None:
            _check_connector(given, path)
            definitions.append(_build(given, place, document, shared=shared, filler=filler))
            continue
        if kind.has_templates and isinstance(given.get("spec"), dict):
            table = ProgramTable(given["spec"], place)
            sections.setdefault(kind.section, []).append(kind.read_entry(given["name"], table, place))
            continue
        made = kind.build_from_program(given["name"], place, given)
        if made is None:
            raise _build_invalid(path)
        sections.setdefault(kind.section, []).append(made)
    return Contents(tuple(definitions), {section: tuple(made) for section, made in sections.items()})


@dataclass(frozen=True, slots=True)
class ProgramTable:
    """A `SpecTable` over the values of a program. Its shape is checked, because the program can write to the pipe."""

    values: Mapping[str, Any] = field(repr=False)
    place: FileLocation

    def __contains__(self, key: object) -> bool:
        return key in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def check_keys(self, known: Mapping[str, str], *, what: str) -> None:
        check_names(self.values, self.place, known, what=what)

    def read_name(self, key: str) -> str:
        return key

    def find_place(self, key: str) -> FileLocation:
        del key
        return self.place

    def is_null(self, key: str) -> bool:
        return self.values[key] is None

    def is_table(self, key: str) -> bool:
        return isinstance(self.values[key], dict)

    def is_list(self, key: str) -> bool:
        return isinstance(self.values[key], list)

    def read_table(self, key: str, *, what: str = "") -> ProgramTable:
        found = self.values[key]
        if not isinstance(found, dict):
            raise self.build_error(f"{what or key} must be a table")
        return ProgramTable(found, self.place)

    def read_text(self, key: str, *, what: str = "") -> str:
        return self._read(self.values[key], what or key)

    def read_texts(self, key: str, *, what: str) -> tuple[str, ...]:
        found = self.values[key]
        if not isinstance(found, list):
            raise self.build_error(f"{key} must be a list")
        return tuple(self._read(one, what) for one in found)

    def read_config(self, key: str) -> dict[str, str]:
        table = self.read_table(key) if key in self else ProgramTable({}, self.place)
        return {name: table.read_text(name) for name in table}

    def find_text(self, key: str) -> str:
        found = self.values[key]
        return found if isinstance(found, str) else ""

    def build_error(self, problem: str, *, key: str = "", at_key: bool = False, hint: str = "") -> SpecError:
        del key, at_key
        return build_spec_error(self.place, problem, hint=hint)

    def _read(self, found: Any, what: str) -> str:
        if not isinstance(found, str) or not found:
            raise self.build_error(f"{what} must be a string that is not empty")
        return found


def _build(
    given: dict[str, Any], place: FileLocation, document: Document, *, shared: Shared, filler: Filler
) -> Definition:
    # A program fills in its values itself: Connect gets its result unchanged.
    own, labels = (_build_layer(given[key], document) for key in ("config", LABELS))
    base, cluster = given["base"], given["cluster"]
    if base is not None and base not in shared.bases:
        known = ", ".join(shared.bases) or "none"
        raise build_spec_error(place, f"unknown base {base}", hint=f"use one of the known bases: {known}")
    if cluster is None and shared.cluster is not None:
        cluster = filler.fill(shared.cluster.scalar, shared.cluster.document)
    inherited = {**shared.defaults, **shared.bases.get(base or "", {})}
    connector = build_connector(
        check_name(given["name"], place),
        fill_layers(inherited, own, filler=filler),
        place=place,
        cluster=cluster,
        state=check_state(given["state"] or "", place),
        manage_state=is_true(shared.manage_state, filler),
        labels=fill_labels(shared.find_labels(base or ""), labels, filler=filler, place=place),
    )
    return Definition(connector, Maker.PY, document)


def _build_layer(values: Mapping[str, str | None], document: Document) -> Layer:
    return {
        key: ConfigLeaf(ScalarNode(escape_marks(value or ""), 0, 0, is_null=value is None), document)
        for key, value in values.items()
    }


def _check(given: Any, path: Path) -> FileLocation:
    """Return the location of a resource. Its shape is checked again, because the program can write to the pipe."""
    good = (
        isinstance(given, dict)
        and isinstance(given.get("kind"), str)
        and isinstance(given.get("name"), str)
        and isinstance(given.get("line"), int)
    )
    if not good:
        raise _build_invalid(path)
    return FileLocation(str(path), given["line"])


def _check_connector(given: Mapping[str, Any], path: Path) -> None:
    tables = [given.get(key) for key in ("config", LABELS)]
    good = (
        given["kind"] == "connector"
        and all(isinstance(table, dict) for table in tables)
        and all(value is None or isinstance(value, str) for table in tables for value in (table or {}).values())
        and all(isinstance(given.get(key, 0), str | None) for key in ("base", "cluster", "state"))
    )
    if not good:
        raise _build_invalid(path)


def _build_invalid(path: Path) -> SpecError:
    return build_spec_error(FileLocation(str(path)), "the program returned an invalid resource")


if __name__ == "__main__":
    main()
