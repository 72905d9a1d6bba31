"""Find the offset semantics of a connector: built-in ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from seamark.connect.model import Connector
from seamark.connect.plugins import find_class
from seamark.core.offsets import Offset
from seamark.offsets.semantics.debezium_postgres import DebeziumPostgresMeaning
from seamark.offsets.semantics.file_stream import FileStreamMeaning
from seamark.offsets.semantics.jdbc_source import JdbcSourceMeaning
from seamark.offsets.semantics.mirror import MirrorCheckpointMeaning, MirrorHeartbeatMeaning, MirrorSourceMeaning
from seamark.offsets.semantics.semantics import GenericMeaning, OffsetSemantics
from seamark.offsets.semantics.sinks import FileSinkMeaning, JdbcSinkMeaning, S3SinkMeaning, SinkMeaning

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort


GROUP = "seamark.semantics"
OWN: tuple[type[OffsetSemantics], ...] = (
    JdbcSourceMeaning,
    DebeziumPostgresMeaning,
    FileStreamMeaning,
    MirrorSourceMeaning,
    MirrorCheckpointMeaning,
    MirrorHeartbeatMeaning,
    S3SinkMeaning,
    JdbcSinkMeaning,
    FileSinkMeaning,
    SinkMeaning,
    GenericMeaning,
)


class Registry:
    """The connector families in the order of matching. `failures` lists unusable third-party ones, and why."""

    def __init__(self, others: Sequence[type[OffsetSemantics]] = (), failures: Mapping[str, str] | None = None) -> None:
        """Create the registry. Third-party families come first, because they are more specific to their classes."""
        self.families: tuple[type[OffsetSemantics], ...] = (*others, *OWN)
        self.failures: dict[str, str] = dict(failures or {})
        self._others = len(others)

    def find(self, connector_class: str, config: Mapping[str, str]) -> OffsetSemantics:
        """Return the semantics of a connector. There is always one."""
        for place, family in enumerate(self.families):
            try:
                if family.matches(connector_class, config):
                    return family(connector_class, config)
            except Exception as error:
                # A built-in family must not fail; a failing third-party one must not make the whole fleet fail.
                if place >= self._others:
                    raise
                self.failures[family.__qualname__] = f"{type(error).__name__}: {error}"
        raise AssertionError("the generic semantics match every connector")


def load_registry() -> Registry:
    """Load the built-in families and the entry points of the group `seamark.semantics` of installed packages."""
    others: list[type[OffsetSemantics]] = []
    failures: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found = point.load()
            _check_family(found)
        except Exception as error:  # noqa: BLE001 - a broken package must not break every other command
            failures[point.name] = f"{type(error).__name__}: {error}"
        else:
            others.append(found)
    return Registry(others, failures)


@cache
def open_registry() -> Registry:
    """Return the registry of this process."""
    return load_registry()


def find_meaning(connector_class: str, config: Mapping[str, str]) -> OffsetSemantics:
    """Return the semantics of a connector by its class and config."""
    return open_registry().find(connector_class, config)


def find_times(connector: Connector, offset: Offset) -> Mapping[str, datetime]:
    """Return the points in time that an offset of a connector contains, by the names of their fields.

    A short class name isn't resolved, because that needs a request. Third-party families need no `find_times`.
    """
    find = getattr(find_meaning(connector.plugin, connector.config), "find_times", None)
    times: Mapping[str, datetime] = {}
    if callable(find) and offset.offset is not None:
        times = find(offset.partition, offset.offset)
    return times


_NEEDED = ("check", "compare", "describe", "explain_rewind", "explain_skip", "build_distance", "matches")


def _check_family(found: object) -> None:
    missing = [name for name in _NEEDED if not callable(getattr(found, name, None))]
    if not isinstance(found, type) or missing or not isinstance(getattr(found, "family", None), str):
        raise TypeError(f"invalid offset semantics: {', '.join(missing) or 'expected a class with the string family'}")


def read_meaning(connector: Connector, client: ConnectPort) -> OffsetSemantics:
    """Return the semantics. Connect also accepts short class names (`FileStreamSource`); then the workers are asked."""
    name = connector.plugin
    if "." not in name:
        name = find_class(client.read_plugins(), name)
    return find_meaning(name, connector.config)
