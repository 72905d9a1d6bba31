"""What every action on one connector shares: its locks, and how many tasks it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from seamark.changes.action import LOCKS, Reads, StandaloneStep, StepSeen
from seamark.changes.effect import FieldChange
from seamark.changes.images import is_sealed
from seamark.changes.step import Intent
from seamark.connect.connector import Connector
from seamark.connect.ports import CONNECT
from seamark.connectors.port import PLUGIN_TYPES
from seamark.core.fanout import read_all
from seamark.core.refs import ConnectorType
from seamark.core.sensitive import MASK, is_sensitive, mask_value
from seamark.errors import NotFoundError
from seamark.report.words import render_count


@dataclass(frozen=True, slots=True)
class ConnectorAction(StandaloneStep):
    """A step on one connector."""

    cluster: str
    name: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[StepSeen]:
        return read_all((action.subject, partial(action.see, reads)) for action in actions)

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        return [
            find_locks(
                reads,
                action.cluster,
                action.name,
                find_connector(reads, action.cluster, action.name),
                action.list_configs(),
            )
            for action in actions
        ]

    def list_configs(self) -> tuple[Mapping[str, str], ...]:
        """Return the configs that the step writes: they may name other topics and groups."""
        return ()

    def see(self, reads: Reads) -> StepSeen:
        """Return what the step finds, the connector's locks and its tasks."""
        found = find_connector(reads, self.cluster, self.name)
        tasks = 0 if found is None or found.status is None else len(found.status.tasks)
        return StepSeen(
            self.intend(reads.world), find_locks(reads, self.cluster, self.name, found, self.list_configs()), tasks
        )


def find_locks(
    reads: Reads, cluster: str, name: str, present: Connector | None, written: Sequence[Mapping[str, str]]
) -> frozenset[str]:
    """Return the locks of a connector with the config that it has and those that are written."""
    configs = [*([] if present is None else [present.config]), *written]
    if present is not None:
        kind = present.type
    else:
        plugins = [config["connector.class"] for config in configs if "connector.class" in config]
        kind = reads.use(PLUGIN_TYPES)(cluster, plugins[0]) if plugins else ConnectorType.UNKNOWN
    return reads.use(LOCKS).find_connector(cluster, name, configs or [{}], kind=kind)


def find_connector(reads: Reads, cluster: str, name: str) -> Connector | None:
    """Return a connector with its status; None where there is none of that name."""
    try:
        return reads.world.use(CONNECT)(cluster).read_connector(name)
    except NotFoundError:
        return None


def say_tasks(tasks: int, one: str, many: str) -> str:
    """Return what becomes of running tasks: `3 tasks end`."""
    return f"{render_count(tasks, 'task')} {one if tasks == 1 else many}" if tasks else "no task runs now"


def build_config_fields(intent: Intent) -> tuple[FieldChange, ...]:
    """Return the keys of a config that change, with secrets masked."""
    before, after = _find_config(intent.before), _find_config(intent.after)
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


def show_value(key: str, value: Any) -> str | None:
    """A value of an image as people may see it; None where there is none."""
    if value is None:
        return None
    return MASK if is_sealed(value) else mask_value(key, str(value))


def is_hidden(key: str, value: Any) -> bool:
    """Whether people may not see a value of an image."""
    return is_sealed(value) or (value is not None and is_sensitive(key) and mask_value(key, str(value)) == MASK)


def _find_config(image: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = image["config"] if image else {}
    return found
