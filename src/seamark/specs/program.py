"""What a spec program uses: `connector(…)`, `topic(…)` and `env`.

from seamark.specs import connector

def resources(env):
    for table in env.list("TABLES"):
        yield connector(f"log-{table}", {"table.whitelist": table}, base="jdbc")
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that a program wants to be there. `line` is where it was made."""

    kind: str
    name: str
    fields: Mapping[str, Any] = field(repr=False)
    line: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON takes it."""
        return {"kind": self.kind, "name": self.name, "line": self.line, **self.fields}


def connector(
    name: str,
    config: Mapping[str, Any],
    *,
    base: str | None = None,
    cluster: str | None = None,
    state: str | None = None,
) -> Resource:
    """A connector that should be. None as a value takes out a key that the base or the defaults have."""
    fields = {
        "config": _build_config(config, what=f"connector {name}"),
        "base": _check_text(base, "base"),
        "cluster": _check_text(cluster, "cluster"),
        "state": _check_text(state, "state"),
    }
    return Resource("connector", _check_name(name), fields, _find_line())


def topic(
    name: str,
    *,
    partitions: int | None = None,
    replication: int | None = None,
    config: Mapping[str, Any] | None = None,
) -> Resource:
    """A topic that should be. What is None is left to the broker, or as it is."""
    for what, number in (("partitions", partitions), ("replication", replication)):
        # Untyped callers give what they like.
        given: Any = number
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
            raise ValueError(f"{what} of topic {name} must be a whole number above 0")
    fields = {
        "partitions": partitions,
        "replication": replication,
        "config": _build_config(config or {}, what=f"topic {name}"),
    }
    return Resource("topic", _check_name(name), fields, _find_line())


class Environment:
    """The environment variables at hand, without those that look like secrets."""

    def __init__(self, values: Mapping[str, str], *, withheld: Sequence[str] = ()) -> None:
        self._values = dict(values)
        self._withheld = frozenset(withheld)

    def __getitem__(self, name: str) -> str:
        if name in self._withheld:
            raise KeyError(f"{name} looks like a secret and is held back; write secret://env/{name} as the value")
        if name not in self._values:
            raise KeyError(f"the environment variable {name} is not set")
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The variable, or `default` where it is not set."""
        return self[name] if name in self._values or name in self._withheld else default

    def list(self, name: str, default: Sequence[str] | None = None) -> list[str]:
        """The parts of a variable such as `SHARDS=a,b,c`."""
        if default is not None and name not in self._values and name not in self._withheld:
            return [*default]
        return [part.strip() for part in self[name].split(",") if part.strip()]


def _build_config(config: Mapping[str, Any], *, what: str) -> dict[str, str | None]:
    if not isinstance(config, Mapping):
        raise TypeError(f"the config of {what} must be a dict")
    return {_check_key(key, what): _build_text(key, value, what) for key, value in config.items()}


def _check_key(key: Any, what: str) -> str:
    if not isinstance(key, str) or not key:
        raise TypeError(f"a key in the config of {what} is not a text")
    return key


def _build_text(key: str, value: Any, what: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"{key} of {what} is a {type(value).__name__}; Connect takes texts")


def _check_text(value: Any, what: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{what} must be a text")
    return value


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError("a name must be a text that is not empty")
    return name


def _find_line() -> int:
    """The line that called connector() or topic(); 0 outside of a spec program."""
    frame = sys._getframe(2)  # noqa: SLF001 - nothing public tells the caller as cheaply
    return frame.f_lineno if frame.f_globals.get("__name__") == "seamark_spec" else 0
