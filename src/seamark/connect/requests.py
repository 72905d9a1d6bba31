"""Every question seamark asks Connect, as a value. Arguments are checked here, before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlencode

from seamark.connect.config import check_config, sensitive_values
from seamark.connect.wire import offset_to_wire
from seamark.core.offsets import Offset, OffsetValue
from seamark.errors import RefusedError, UsageError
from seamark.policy.rules import is_mangled, is_misread_by_connect


class RequestKind(StrEnum):
    """What a path is about. The same status means different things on different paths."""

    ROOT = "root"
    HEALTH = "health"
    FLEET = "fleet"
    CONNECTOR = "connector"
    CONFIG = "config"
    STATUS = "status"
    STATE = "state"
    RESTART = "restart"
    TOPICS = "topics"
    OFFSETS = "offsets"
    PLUGINS = "plugins"
    LOGGERS = "loggers"


# These are answered from a worker's own snapshot. Everything else waits for the herder's one thread.
_SNAPSHOT_KINDS = frozenset(
    {
        RequestKind.ROOT,
        RequestKind.HEALTH,
        RequestKind.FLEET,
        RequestKind.STATUS,
        RequestKind.TOPICS,
        RequestKind.LOGGERS,
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """A method, a path and a body, with the words to speak of it.

    `doing` completes "can't …". `writes` is False for what changes nothing and may be repeated at will; that is not
    the same as GET: a validation is a PUT. `secrets` are values that must not come back in a message.
    """

    kind: RequestKind
    method: str
    path: str
    doing: str
    writes: bool = False
    # Configs hold secrets, and a repr ends up in logs.
    body: bytes | None = field(default=None, repr=False)
    subject: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def queues(self) -> bool:
        """Whether Connect answers it on the herder's thread, where it may wait up to 90 s."""
        return self.writes or self.kind not in _SNAPSHOT_KINDS


def build_path(*segments: str, query: Sequence[tuple[str, str]] = ()) -> str:
    """A path of which every segment is quoted, so that no name can lead to another path.

    Raises:
        UsageError: a segment is empty, `.` or `..`. Quoting does not change those, and every client and server on the
            way would read them as part of the path.
    """
    for segment in segments:
        if segment in ("", ".", ".."):
            raise UsageError(
                f"{segment!r} can't be addressed through Connect's REST API",
                cause="in a URL it means another path",
                hint="use the connector's real name",
            )
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    return f"{path}?{urlencode(query)}" if query else path


def build_body(value: Mapping[str, Any]) -> bytes:
    """JSON as Connect reads it: UTF-8, and no NaN, which is not JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


_INITIAL_STATES = ("RUNNING", "PAUSED", "STOPPED")
_SCOPES = ("worker", "cluster")
# Connect keeps whole numbers as Java longs.
_LARGEST = 2**63 - 1


def root() -> Request:
    """Which version a worker runs."""
    return Request(RequestKind.ROOT, "GET", "/", "read the version")


def health() -> Request:
    """Whether a worker is well."""
    return Request(RequestKind.HEALTH, "GET", "/health", "read a worker's health")


def _get(
    kind: RequestKind, doing: str, *segments: str, subject: str = "", query: Sequence[tuple[str, str]] = ()
) -> Request:
    return Request(kind, "GET", build_path(*segments, query=query), doing, subject=subject)


def fleet() -> Request:
    """Every connector with info and status."""
    query = (("expand", "info"), ("expand", "status"))
    return _get(RequestKind.FLEET, "read the connectors", "connectors", query=query)


def names() -> Request:
    """The names of all connectors."""
    return _get(RequestKind.FLEET, "read the connectors' names", "connectors")


def statuses() -> Request:
    """Every connector's status."""
    return _get(RequestKind.FLEET, "read the connectors' statuses", "connectors", query=(("expand", "status"),))


def configs() -> Request:
    """Every connector's info, of those without a status too."""
    return _get(RequestKind.FLEET, "read the connectors' configs", "connectors", query=(("expand", "info"),))


def info(name: str) -> Request:
    """A connector's info."""
    return _get(RequestKind.CONNECTOR, f"read connector {name}", "connectors", name, subject=name)


def status(name: str) -> Request:
    """A connector's status."""
    return _get(RequestKind.STATUS, f"read the status of connector {name}", "connectors", name, "status", subject=name)


def config(name: str) -> Request:
    """A connector's config."""
    return _get(RequestKind.CONFIG, f"read the config of connector {name}", "connectors", name, "config", subject=name)


def topics(name: str) -> Request:
    """The topics a connector used."""
    return _get(RequestKind.TOPICS, f"read the topics of connector {name}", "connectors", name, "topics", subject=name)


def offsets(name: str) -> Request:
    """A connector's offsets."""
    return _get(
        RequestKind.OFFSETS, f"read the offsets of connector {name}", "connectors", name, "offsets", subject=name
    )


def plugins(*, connectors_only: bool = True) -> Request:
    """What a worker can load. Workers older than 3.2 ignore the parameter and return connectors only (KIP-769)."""
    query = () if connectors_only else (("connectorsOnly", "false"),)
    return _get(RequestKind.PLUGINS, "read the plugins", "connector-plugins", query=query)


def plugin_config(plugin: str) -> Request:
    """Build the request for the config keys of a plugin."""
    doing = f"read the config keys of plugin {plugin}"
    return _get(RequestKind.PLUGINS, doing, "connector-plugins", plugin, "config", subject=plugin)


def loggers() -> Request:
    """A worker's loggers."""
    return _get(RequestKind.LOGGERS, "read the loggers", "admin", "loggers")


def logger(name: str) -> Request:
    """One logger of a worker."""
    return _get(RequestKind.LOGGERS, f"read logger {name}", "admin", "loggers", name, subject=name)


def validate(plugin: str, config: Mapping[str, str]) -> Request:
    """What a plugin says of a config: a PUT that changes nothing."""
    wanted = check_config(config.get("name", plugin), config)
    return Request(
        RequestKind.PLUGINS,
        "PUT",
        build_path("connector-plugins", plugin, "config", "validate"),
        f"validate a config for {plugin}",
        # Connect looks for the class in the config, not in the path.
        body=build_body({"connector.class": plugin} | wanted),
        subject=plugin,
        secrets=sensitive_values(wanted),
    )


def create(name: str, config: Mapping[str, str], *, initial_state: str | None) -> Request:
    """A new connector."""
    if name != name.strip():
        raise UsageError(
            f"invalid connector name {name!r}: it starts or ends with a space",
            cause="Connect would remove the space and create a connector of another name",
            hint="remove the space",
        )
    build_path("connectors", name)  # refuses what could be created and never be addressed again
    _check_written_name(name)
    wanted = check_config(name, config)
    body: dict[str, object] = {"name": name, "config": wanted}
    if initial_state is not None:
        if initial_state.upper() not in _INITIAL_STATES:
            raise UsageError(
                f"invalid initial state {initial_state!r}", hint=f"use one of {', '.join(_INITIAL_STATES)}"
            )
        body["initial_state"] = initial_state.upper()
    return Request(
        RequestKind.CONNECTOR,
        "POST",
        build_path("connectors"),
        f"create connector {name}",
        writes=True,
        body=build_body(body),
        subject=name,
        secrets=sensitive_values(wanted),
    )


def put_config(name: str, config: Mapping[str, str]) -> Request:
    """A whole config."""
    _check_written_name(name)
    wanted = check_config(name, config)
    return Request(
        RequestKind.CONFIG,
        "PUT",
        _write_path("connectors", name, "config"),
        f"write the config of connector {name}",
        writes=True,
        body=build_body(wanted),
        subject=name,
        secrets=sensitive_values(wanted),
    )


def patch_config(name: str, changes: Mapping[str, str | None]) -> Request:
    """Some keys of a config."""
    _check_written_name(name)
    kept = check_config(name, {key: value for key, value in changes.items() if value is not None})
    return Request(
        RequestKind.CONFIG,
        "PATCH",
        _write_path("connectors", name, "config"),
        f"change the config of connector {name}",
        writes=True,
        body=build_body(dict(changes)),
        subject=name,
        secrets=sensitive_values(kept),
    )


def delete(name: str) -> Request:
    """The end of a connector."""
    path = _write_path("connectors", name)
    return Request(RequestKind.CONNECTOR, "DELETE", path, f"delete connector {name}", writes=True, subject=name)


def change_state(name: str, verb: str) -> Request:
    """`pause`, `resume` or `stop`."""
    path = _write_path("connectors", name, verb) if verb == "stop" else build_path("connectors", name, verb)
    return Request(RequestKind.STATE, "PUT", path, f"{verb} connector {name}", writes=True, subject=name)


def restart(name: str, *, include_tasks: bool, only_failed: bool) -> Request:
    """A restart of a connector, with or without its tasks."""
    query = [("includeTasks", "true")] if include_tasks else []
    query += [("onlyFailed", "true")] if only_failed else []
    path = _write_path("connectors", name, "restart", query=query)
    return Request(RequestKind.RESTART, "POST", path, f"restart connector {name}", writes=True, subject=name)


def restart_task(name: str, task: int) -> Request:
    """A restart of one task."""
    path = _write_path("connectors", name, "tasks", str(task), "restart")
    return Request(
        RequestKind.RESTART, "POST", path, f"restart task {task} of connector {name}", writes=True, subject=name
    )


def patch_offsets(name: str, offsets: Sequence[Offset]) -> Request:
    """New offsets for some partitions."""
    _check_offsets(name, offsets)
    return Request(
        RequestKind.OFFSETS,
        "PATCH",
        _write_path("connectors", name, "offsets"),
        f"change the offsets of connector {name}",
        writes=True,
        body=build_body({"offsets": [offset_to_wire(offset) for offset in offsets]}),
        subject=name,
    )


def delete_offsets(name: str) -> Request:
    """No offsets any more."""
    path = _write_path("connectors", name, "offsets")
    return Request(
        RequestKind.OFFSETS, "DELETE", path, f"delete the offsets of connector {name}", writes=True, subject=name
    )


def set_logger(name: str, level: str, *, scope: str) -> Request:
    """A log level for a logger and those below it."""
    if scope not in _SCOPES:
        raise UsageError(f"invalid scope {scope!r} of a log level", hint=f"use one of {', '.join(_SCOPES)}")
    path = build_path("admin", "loggers", name, query=[("scope", scope)] if scope == "cluster" else [])
    body = build_body({"level": level})
    return Request(
        RequestKind.LOGGERS, "PUT", path, f"set logger {name} to {level}", writes=True, body=body, subject=name
    )


def _check_written_name(name: str) -> None:
    """Refuse names under which Connect itself goes wrong."""
    if not is_misread_by_connect(name):
        return
    raise RefusedError(
        f"refusing the connector name {name!r}: Connect would misread it",
        cause="workers don't escape ; % { } / when they forward a request, so that it reaches another connector; "
        "from 4.0 "
        "on, Connect rejects requests for a name with a slash, a percent sign, a backslash or a control character",
        hint="choose a name of letters, digits, dots, dashes and underscores",
        context={"connector": name},
    )


def _write_path(*segments: str, query: Sequence[tuple[str, str]] = ()) -> str:
    """The path of a write that only one worker can do, with the connector's name as the second segment.

    If a follower would mangle the name, the request forbids it to forward. The follower then answers 409 and the next
    worker is asked, until it is the right one.
    """
    return build_path(*segments, query=[*query, ("forward", "false")] if is_mangled(segments[1]) else query)


def _check_offsets(name: str, offsets: Sequence[Offset]) -> None:
    """Refuse what Connect would take in silence, or answer with a 500 that leaves the outcome open."""
    if not offsets:
        raise UsageError(f"no offsets are given for connector {name}", hint="call delete_offsets to delete all of them")
    seen: set[str] = set()
    for offset in offsets:
        key = json.dumps(dict(offset.partition), sort_keys=True, default=repr)
        if key in seen:
            raise UsageError(
                f"a partition of connector {name} is given twice: {key}",
                cause="Connect would silently use the last one",
            )
        seen.add(key)
        for values in (offset.partition, offset.offset or {}):
            for part, value in values.items():
                _check_value(name, part, value)


def _check_value(name: str, field: str, value: OffsetValue) -> None:
    if value is not None and not isinstance(value, (str, int, float, bool)):
        raise UsageError(f"{field} in an offset of connector {name} is not a string, number or boolean")
    if isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
        raise UsageError(f"{field} in an offset of connector {name} exceeds Connect's 64-bit integers: {value}")
