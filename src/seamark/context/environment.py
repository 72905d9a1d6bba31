"""Settings from `SEAMARK_CONTEXTS__…` variables and from flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from seamark.context.kafka_keys import KAFKA_KEYS, REFUSED_KEYS
from seamark.context.layer import VALUES, KeyPath, Layer, Leaf, Origin, OriginKind, Trust
from seamark.context.schema import (
    CONNECT_KEYS,
    CONTEXT_KEYS,
    PACE,
    PACE_KEYS,
    PART_KEYS,
    SECTION_KEYS,
    check_kafka_key,
    check_key,
    check_name,
)
from seamark.errors import ConfigurationError, UsageError

PREFIX = "SEAMARK_CONTEXTS__"
CONTEXT_VARIABLE = "SEAMARK_CONTEXT"
CONFIG_VARIABLE = "SEAMARK_CONFIG"

# Sections with a name between their own and the key: what the name is called, and the keys.
_NAMED = {"connect": ("Connect cluster", CONNECT_KEYS), **PART_KEYS}
_SEPARATORS = re.compile(r"[._-]")


def build_variable(path: KeyPath) -> str:
    """The variable that sets a value: ('contexts', 'dev', 'kafka', 'sasl.password') is SEAMARK_CONTEXTS__DEV__KAFKA__SASL_PASSWORD."""  # noqa: E501
    return "SEAMARK_" + "__".join(_fold(part).upper() for part in path)


def build_environment_layer(environ: Mapping[str, str], below: Sequence[Layer], *, cwd: Path) -> Layer:
    """The layer of the environment.

    A variable can't hold dots or dashes, so names are compared without regard to case, with `_` for
    `.` and `-`; `below` are the layers whose names they may mean. An empty variable counts as not set.
    """
    values: dict[KeyPath, Leaf] = {}
    sections: dict[KeyPath, Origin] = {}
    for variable in sorted(environ):
        if not variable.upper().startswith(PREFIX) or not environ[variable].strip():
            continue
        origin = Origin(OriginKind.ENVIRONMENT, variable, trust=Trust.ENVIRONMENT)
        path = _find_path(variable, below)
        if path in values:
            raise ConfigurationError(
                f"{variable} and {values[path].origin} set the same value",
                hint="unset one of them",
                context={"setting": ".".join(path)},
            )
        values[path] = Leaf(_split(path, environ[variable]), origin, cwd)
        for section in _sections_of(path):
            sections.setdefault(section, origin)
    return Layer("environment", values, sections)


def build_override_layer(overrides: Mapping[str, str], context: str, *, cwd: Path) -> Layer:
    """The layer of flags: `kafka.bootstrap.servers` or `connect.game.urls` of the chosen context."""
    values: dict[KeyPath, Leaf] = {}
    sections: dict[KeyPath, Origin] = {}
    for key, text in overrides.items():
        origin = Origin(OriginKind.OVERRIDE, "flag")
        path = _read_override(key, context)
        values[path] = Leaf(_split(path, text), origin, cwd)
        for section in _sections_of(path):
            sections.setdefault(section, origin)
    return Layer("flags", values, sections)


def _read_override(key: str, context: str) -> KeyPath:
    head, _, rest = key.partition(".")
    path: KeyPath = ("contexts", context)
    where = "the flag"
    if head == "kafka" and rest:
        check_kafka_key(rest, path="kafka.", where=where)
        return (*path, head, rest)
    if head == "connect" and "." in rest:
        cluster, _, last = rest.rpartition(".")
        check_name(cluster, what="Connect cluster", where=where)
        check_key(last, CONNECT_KEYS, path=f"connect.{cluster}.", where=where)
        return (*path, head, cluster, last)
    if rest or head in SECTION_KEYS:
        raise UsageError(f"unknown setting {key}", hint="write kafka.KEY, connect.CLUSTER.KEY, protected or insecure")
    check_key(head, CONTEXT_KEYS, path="", where=where)
    return (*path, head)


def _find_path(variable: str, below: Sequence[Layer]) -> KeyPath:
    parts = variable[len(PREFIX) :].split("__")
    known = [path for layer in below for path in layer.sections]
    context = _match(parts[0], (path[1] for path in known), variable=variable, what="context")
    path: KeyPath = ("contexts", context)
    if len(parts) == 2 and parts[1].lower() not in SECTION_KEYS:
        return (*path, _pick_key(parts[1], CONTEXT_KEYS, path=path, variable=variable))
    if len(parts) == 3 and parts[1].lower() == "kafka":
        key = _by_fold(KAFKA_KEYS | REFUSED_KEYS.keys()).get(_fold(parts[2]), parts[2].lower().replace("_", "."))
        check_kafka_key(key, path=".".join(path) + ".kafka.", where=variable)
        return (*path, "kafka", key)
    if len(parts) == 3 and parts[1].lower() == PACE:
        return (*path, PACE, _pick_key(parts[2], PACE_KEYS, path=(*path, PACE), variable=variable))
    if len(parts) == 3 and parts[1].lower() == VALUES:
        names = (found[3] for layer in below for found in layer.values if found[:-1] == (*path, VALUES))
        return (*path, VALUES, _match(parts[2], names, variable=variable, what="value"))
    if len(parts) == 4 and (section := parts[1].lower()) in _NAMED:
        what, keys = _NAMED[section]
        names = (found[3] for found in known if found[:3] == (*path, section) and len(found) == 4)
        path = (*path, section, _match(parts[2], names, variable=variable, what=what))
        return (*path, _pick_key(parts[3], keys, path=path, variable=variable))
    raise ConfigurationError(
        f"{variable} does not name a setting",
        cause="names are nested by two underscores",
        hint=f"write {PREFIX}NAME__KAFKA__KEY, {PREFIX}NAME__CONNECT__CLUSTER__KEY, {PREFIX}NAME__VALUES__KEY or "
        f"{PREFIX}NAME__PROTECTED",
        context={"variable": variable},
    )


def _match(part: str, names: Iterable[str], *, variable: str, what: str) -> str:
    found = sorted({name for name in names if _fold(name) == _fold(part)})
    if len(found) > 1:
        raise ConfigurationError(
            f"{variable} could mean more than one {what}: {', '.join(found)}",
            cause="names of variables don't distinguish capitals, dots and dashes",
            hint=f"rename one {what}, or set the value in a contexts file",
            context={"variable": variable},
        )
    name = found[0] if found else part.lower()
    check_name(name, what=what, where=variable)
    return name


def _pick_key(part: str, known: Iterable[str], *, path: KeyPath, variable: str) -> str:
    check_key(part.lower(), known, path=".".join(path) + ".", where=variable)
    return part.lower()


def _split(path: KeyPath, text: str) -> tuple[str, ...]:
    """The items of a list, which has commas between them in a variable; else the text whole."""
    if path[-1] == "urls" and len(path) == 5:
        return tuple(item.strip() for item in text.split(",") if item.strip())
    return (text,)


def _sections_of(path: KeyPath) -> list[KeyPath]:
    return [path[:2], path[:4]] if path[2] in _NAMED else [path[:2]]


def _by_fold(names: Iterable[str]) -> dict[str, str]:
    return {_fold(name): name for name in names}


def _fold(name: str) -> str:
    return _SEPARATORS.sub("_", name).lower()
