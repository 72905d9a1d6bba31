"""Describe the effects of a plan on connectors: where new ones start, what deleted ones leave, what can't be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from seamark.changes.action import Action
from seamark.changes.effect import Effect
from seamark.changes.environment import Environment
from seamark.connect.clusters import Clusters
from seamark.connect.config import find_group
from seamark.connect.model import Connector
from seamark.connectors.actions import ApplyConnector, ConnectorSeen
from seamark.connectors.plans import LeftoverReader
from seamark.core.offsets import Offset
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType, Port, parse_subject
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.groups import GroupStatus, count_members
from seamark.report.words import render_names

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context


class CreateAt(Protocol):
    """Builds the action that creates a connector in a state with offsets, and its notes."""

    def __call__(
        self, connector: Connector, offsets: tuple[Offset, ...], state: str, *, wait_seconds: float
    ) -> tuple[Action, tuple[str, ...]]:
        """Return both. The connector is waited for up to `wait_seconds`, if it should run."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectorSetting:
    """What planning the connectors of a spec needs from a context.

    `leftovers` reads offsets and groups of new and deleted connectors, and `create_at` builds the action that creates a
    connector in a state with offsets, with its notes; they need packages above this one.
    """

    context: Context
    clusters: Clusters
    world: Environment
    leftovers: LeftoverReader
    create_at: CreateAt


CONNECTOR_SETTING: Port[Callable[[], ConnectorSetting]] = Port("connector setting")

# One request reads all groups; a broker returns some hundred of them in well under a second.
_MOST_GROUPS = 500
# Leftovers are read connector by connector. 50 responses, 16 at a time, take less than a second.
_MOST_DELETES = 50
# Kafka's state for a group that never had a member.
_NO_GROUP = "DEAD"


class Consequences:
    """Reads Kafka and Connect for the notes of a plan. What can't be determined becomes a note."""

    def __init__(self, setting: ConnectorSetting) -> None:
        self._clusters = setting.clusters
        self._leftovers = setting.leftovers
        self.notes: list[str] = []

    def build_creates(
        self, lines: Sequence[tuple[ApplyConnector, Sequence[Effect]]], kinds: Mapping[str, ConnectorType]
    ) -> dict[str, tuple[Effect, ...]]:
        """Build the lines of new connectors by subject. `kinds` has the connector type by subject."""
        groups = {
            action.subject: self._find_group(action)
            for action, _ in lines
            if kinds[action.subject] is ConnectorType.SINK
        }
        known = self._read_groups(sorted(set(groups.values())))
        begins = self._leftovers.describe_starts(
            [
                Connector(action.name, action.cluster, kinds[action.subject], action.config or {})
                for action, _ in lines
                if action.subject not in groups
            ]
        )
        return {
            action.subject: tuple(
                _build_create(
                    effect, action, _describe_begin(action.subject, groups=groups, known=known, begins=begins)
                )
                for effect in effects
            )
            for action, effects in lines
        }

    def note_deletes(self, connectors: Sequence[Connector]) -> None:
        """Add notes on what deleted connectors leave behind."""
        if len(connectors) > _MOST_DELETES:
            self.notes.append(f"the offsets and groups of {len(connectors)} deleted connectors are kept")
            return
        calls = {connector.owner: partial(self._read_left, connector) for connector in connectors}
        answers = fan_out(calls)
        for owner in calls:
            if owner in answers.failures:
                self.notes.append(
                    f"{owner}: can't determine which offsets are kept ({answers.failures[owner].message})"
                )
            else:
                self.notes += answers.results[owner]

    def note_undo(self, found: Iterable[tuple[ApplyConnector, ConnectorSeen]]) -> None:
        """Add notes on what can't be undone, before it is done."""
        reasons: dict[str, list[str]] = {}
        for action, seen in found:
            why = action.find_obstacle(seen)
            if why:
                reasons.setdefault(why, []).append(f"{action.cluster}/{action.name}")
        self.notes += [f"can't be undone for {render_names(names)}: {because}" for because, names in reasons.items()]

    def _read_left(self, connector: Connector) -> tuple[str, ...]:
        client, settings = self._clusters.client(connector.cluster), self._clusters.settings(connector.cluster)
        return self._leftovers.after_delete(connector, client=client, settings=settings)

    def _find_group(self, action: ApplyConnector) -> str:
        settings: ConnectSettings = self._clusters.settings(action.cluster)
        return find_group(action.name, action.config or {}, settings)

    def _read_groups(self, names: Sequence[str]) -> Mapping[str, GroupStatus | None] | None:
        """Read the groups that exist, by name; None if one of them, or all, can't be read."""
        if not names:
            return {}
        if len(names) > _MOST_GROUPS:
            self.notes.append(f"{len(names)} sinks are new: seamark did not check which of their groups exist already")
            return None
        try:
            reading = self._leftovers.read_groups(names)
        except SeamarkError as error:
            self.notes.append(f"can't determine which groups of the new sinks exist already ({error.message})")
            return None
        found: dict[str, GroupStatus | None] = {
            name: None for name, error in reading.failures.items() if not isinstance(error, NotFoundError)
        }
        return found | {group.name: group for group in reading.items if group.state != _NO_GROUP}


def _build_create(effect: Effect, action: ApplyConnector, begin: str) -> Effect:
    words = f"{effect.words}: {begin}" if begin else effect.words
    return replace(effect, words=words, tasks=_count_tasks(action))


def _describe_begin(
    subject: str,
    *,
    groups: Mapping[str, str],
    known: Mapping[str, GroupStatus | None] | None,
    begins: Mapping[str, str],
) -> str:
    """Describe where a new connector starts: a sink by its group, a source by the offsets of its name."""
    group = groups.get(subject)
    if group is None:
        return begins.get(parse_subject(subject).owner, "")
    return "" if known is None else _describe(group, known)


def _describe(group: str, known: Mapping[str, GroupStatus | None]) -> str:
    if group not in known:
        return f"starts without committed offsets, no group {group}"
    found = known[group]
    if found is None:
        return f"can't determine whether group {group} exists"
    members = f", {count_members(found.members)}" if found.members else ""
    return f"resumes from the committed offsets of group {group} ({found.state}{members})"


def _count_tasks(action: ApplyConnector) -> int:
    """Return the maximum number of tasks of a new connector; how many its plugin creates is unknown."""
    limit = (action.config or {}).get("tasks.max", "1")
    return int(limit) if action.state == "RUNNING" and limit.isdecimal() else 0
