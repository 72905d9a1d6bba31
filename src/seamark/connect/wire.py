"""Connect's JSON as seamark's values.

Bodies are checked by pydantic against typed dicts, not models: fields we do not know are dropped, and the fleet read of
200 connectors costs about one and a half times the bare `json.loads`; with models it is well over two.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, NotRequired, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from seamark.connect.model import (
    ConfigKey,
    Connector,
    ConnectorStatus,
    LoggerLevel,
    OffsetsChange,
    Plugin,
    State,
    Task,
    Validation,
    Worker,
    WorkerHealth,
)
from seamark.core.offsets import Offset, OffsetValue
from seamark.core.refs import ConnectorType

T = TypeVar("T")


class MalformedBodyError(ValueError):
    """A body that is not what Connect sends. Callers turn it into an error of seamark's tree."""


class _Info(TypedDict):
    name: str
    # Strings, but checked by `_strings`: a union with null for every value would double the cost of a fleet read.
    config: dict[str, Any]
    type: NotRequired[str | None]


class _ConnectorState(TypedDict):
    state: str
    worker_id: NotRequired[str | None]
    trace: NotRequired[str | None]
    version: NotRequired[str | None]


class _TaskState(_ConnectorState):
    id: int


class _Status(TypedDict):
    connector: _ConnectorState
    tasks: NotRequired[list[_TaskState]]
    type: NotRequired[str | None]


class _Expanded(TypedDict):
    info: NotRequired[_Info | None]
    status: NotRequired[_Status | None]


class _Root(TypedDict):
    version: NotRequired[str | None]
    commit: NotRequired[str | None]
    kafka_cluster_id: NotRequired[str | None]


# Offsets hold what a plugin put there; a nested value is shown, not refused.
class _Offset(TypedDict):
    partition: dict[str, Any]
    offset: NotRequired[dict[str, Any] | None]


class _Offsets(TypedDict):
    offsets: list[_Offset]


_Plugin = TypedDict("_Plugin", {"class": str, "type": NotRequired[str | None], "version": NotRequired[str | None]})


class _Topics(TypedDict):
    topics: list[str]


class _Logger(TypedDict):
    level: str
    last_modified: NotRequired[int | None]


class _ConfigValue(TypedDict):
    name: str
    errors: NotRequired[list[str]]


class _ConfigDefinition(TypedDict):
    type: NotRequired[str | None]


class _ConfigEntry(TypedDict):
    value: _ConfigValue
    # Null for a key that the plugin does not know.
    definition: NotRequired[_ConfigDefinition | None]


class _Validation(TypedDict):
    name: str
    error_count: Annotated[int, Field(ge=0)]
    configs: NotRequired[list[_ConfigEntry]]


class _ConfigKey(TypedDict):
    name: str
    type: NotRequired[str | None]
    required: NotRequired[bool | None]
    default_value: NotRequired[str | None]
    importance: NotRequired[str | None]
    documentation: NotRequired[str | None]
    group: NotRequired[str | None]


class _Message(TypedDict):
    message: str


class _Health(TypedDict):
    status: str
    message: NotRequired[str | None]


_FLEET = TypeAdapter(dict[str, _Expanded])
_INFO = TypeAdapter(_Info)
_STATUS = TypeAdapter(_Status)
_CONFIG = TypeAdapter(dict[str, Any])
_ROOT = TypeAdapter(_Root)
_OFFSETS = TypeAdapter(_Offsets)
_PLUGINS = TypeAdapter(list[_Plugin])
_TOPICS = TypeAdapter(dict[str, _Topics])
_LOGGERS = TypeAdapter(dict[str, _Logger])
_LOGGER = TypeAdapter(_Logger)
_NAMES = TypeAdapter(list[str])
_VALIDATION = TypeAdapter(_Validation)
_CONFIG_KEYS = TypeAdapter(list[_ConfigKey])
_MESSAGE = TypeAdapter(_Message)
_HEALTH = TypeAdapter(_Health)

# The name of a type of `ConfigDef.Type`.
_PASSWORD = "PASSWORD"  # noqa: S105
_STRING_ONLY = {str}
# A lookup is three times as fast as the enum's constructor, which counts at ten thousand connectors.
_STATES = {state.value: state for state in State}
_TYPES = {kind.value: kind for kind in ConnectorType}


def build_fleet(body: bytes, *, cluster: str) -> tuple[Connector, ...]:
    """Every connector of `GET /connectors?expand=info&expand=status`, by name.

    A connector whose info is null was deleted while Connect wrote the answer, and is left out. Connect itself
    leaves out a connector that has no status yet.
    """
    fleet = _decode(_FLEET, body)
    return tuple(
        _build_connector(name, info, status=fleet[name].get("status"), cluster=cluster)
        for name in sorted(fleet)
        if (info := fleet[name].get("info")) is not None
    )


def build_statuses(body: bytes) -> dict[str, ConnectorStatus]:
    """Every status of `GET /connectors?expand=status`, by the connector's name."""
    fleet = _decode(_FLEET, body)
    return {name: _build_status(status) for name, found in fleet.items() if (status := found.get("status")) is not None}


def build_configs(body: bytes) -> dict[str, dict[str, str]]:
    """Every config of `GET /connectors?expand=info`, by the connector's name."""
    fleet = _decode(_FLEET, body)
    return {name: _strings(info["config"]) for name, found in fleet.items() if (info := found.get("info")) is not None}


def build_connector(body: bytes, *, cluster: str, status: ConnectorStatus | None = None) -> Connector:
    """One connector from its info, as GET, POST and PUT tell it."""
    info = _decode(_INFO, body)
    return Connector(info["name"], cluster, _type_of(info.get("type")), _strings(info["config"]), status)


def build_status(body: bytes) -> ConnectorStatus:
    """A connector's status."""
    return _build_status(_decode(_STATUS, body))


def build_config(body: bytes) -> dict[str, str]:
    """A connector's config. A null value is left out."""
    return _strings(_decode(_CONFIG, body))


def build_worker(body: bytes, *, cluster: str, url: str, clock_skew_seconds: float | None = None) -> Worker:
    """A worker from its root."""
    root = _decode(_ROOT, body)
    return Worker(
        cluster=cluster,
        url=url,
        version=root.get("version") or "",
        commit=root.get("commit") or "",
        kafka_cluster_id=root.get("kafka_cluster_id") or "",
        clock_skew_seconds=clock_skew_seconds,
    )


def build_offsets(body: bytes) -> tuple[Offset, ...]:
    """A connector's offsets, in Connect's order, which means nothing."""
    return tuple(Offset(entry["partition"], entry.get("offset")) for entry in _decode(_OFFSETS, body)["offsets"])


def build_plugins(body: bytes) -> tuple[Plugin, ...]:
    """What a worker can load."""
    return tuple(
        Plugin(entry["class"], entry.get("type") or "", entry.get("version") or "") for entry in _decode(_PLUGINS, body)
    )


def build_topics(body: bytes) -> tuple[str, ...]:
    """The topics a connector has used."""
    return tuple(sorted(topic for entry in _decode(_TOPICS, body).values() for topic in entry["topics"]))


def build_loggers(body: bytes) -> tuple[LoggerLevel, ...]:
    """The loggers of a worker, by name."""
    loggers = sorted(_decode(_LOGGERS, body).items())
    return tuple(LoggerLevel(name, entry["level"], entry.get("last_modified")) for name, entry in loggers)


def build_level(body: bytes) -> str:
    """The level of one logger."""
    return _decode(_LOGGER, body)["level"]


def build_names(body: bytes) -> tuple[str, ...]:
    """A list of names."""
    names = _decode(_NAMES, body)
    return tuple(names)


def build_validation(body: bytes) -> Validation:
    """What a plugin says of a config."""
    found = _decode(_VALIDATION, body)
    entries = found.get("configs", ())
    values = [entry["value"] for entry in entries]
    errors = {value["name"]: tuple(value["errors"]) for value in values if value.get("errors")}
    secret = {entry["value"]["name"] for entry in entries if (entry.get("definition") or {}).get("type") == _PASSWORD}
    return Validation(found["name"], found["error_count"], errors, frozenset(secret))


def build_password_keys(body: bytes) -> frozenset[str]:
    """Return the keys of a plugin whose type is PASSWORD."""
    return frozenset(entry["name"] for entry in _decode(_CONFIG_KEYS, body) if entry.get("type") == _PASSWORD)


def build_config_keys(body: bytes) -> tuple[ConfigKey, ...]:
    """Return the keys that a plugin defines, in the order of the answer: its own first, then Connect's."""
    return tuple(
        ConfigKey(
            entry["name"],
            entry.get("type") or "",
            is_required=bool(entry.get("required")),
            default=entry.get("default_value"),
            importance=entry.get("importance") or "",
            documentation=entry.get("documentation") or "",
            group=entry.get("group") or "",
        )
        for entry in _decode(_CONFIG_KEYS, body)
    )


def build_offsets_change(body: bytes) -> OffsetsChange:
    """The answer to a change of offsets, with the warning that hides in its text."""
    message = _decode(_MESSAGE, body)["message"]
    return OffsetsChange(message, may_be_external="manages offsets externally" in message)


def build_health(body: bytes) -> WorkerHealth:
    """What a worker says of itself."""
    found = _decode(_HEALTH, body)
    return WorkerHealth(found["status"], found.get("message") or "")


def offset_to_wire(offset: Offset) -> dict[str, dict[str, OffsetValue] | None]:
    """An offset as Connect takes it. `offset` is always written: Connect reads a missing one as a reset."""
    return {
        "partition": dict(offset.partition),
        "offset": None if offset.offset is None else dict(offset.offset),
    }


def _build_connector(name: str, info: _Info, *, status: _Status | None, cluster: str) -> Connector:
    kind = _type_of(info.get("type") or (status["type"] if status and "type" in status else None))
    return Connector(name, cluster, kind, _strings(info["config"]), None if status is None else _build_status(status))


def _build_status(status: _Status) -> ConnectorStatus:
    connector = status["connector"]
    tasks = tuple(
        Task(task["id"], _state_of(task["state"]), task.get("worker_id") or "", task.get("trace") or "")
        for task in status.get("tasks", ())
    )
    return ConnectorStatus(
        _state_of(connector["state"]),
        connector.get("worker_id") or "",
        connector.get("trace") or "",
        tasks,
        connector.get("version") or "",
    )


def _state_of(word: str) -> State:
    return _STATES.get(word) or State.of(word)


def _type_of(word: str | None) -> ConnectorType:
    return _TYPES.get(word or "") or ConnectorType.of(word or "")


def _strings(config: dict[str, Any]) -> dict[str, str]:
    """A config as strings. Connect writes nothing else but null; some of what imitates it writes numbers too."""
    if set(map(type, config.values())) <= _STRING_ONLY:
        return config
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in config.items()
        if value is not None
    }


def _decode(adapter: TypeAdapter[T], body: bytes) -> T:
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise MalformedBodyError(f"{place}: {first['msg']}") from None
