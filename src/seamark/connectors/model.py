"""Connector health, and the selection of connectors by names, globs, regular expressions, states and name files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from seamark.connect.model import Connector, ConnectorStatus, State
from seamark.errors import UsageError
from seamark.policy.rules import LABEL_KEY, LABEL_VALUE


class Health(StrEnum):
    """The health of a connector, derived from the states of the connector and its tasks."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"
    UNASSIGNED = "UNASSIGNED"
    DESTROYED = "DESTROYED"
    UNKNOWN = "UNKNOWN"


def build_health(status: ConnectorStatus | None) -> Health:
    """Derive one health value from a status.

    | connector   | tasks                         | health      |
    |-------------|-------------------------------|-------------|
    | no status   |                               | UNKNOWN     |
    | FAILED      | any                           | UNHEALTHY   |
    | RUNNING     | none                          | UNHEALTHY   |
    | RUNNING     | all RUNNING                   | HEALTHY     |
    | RUNNING     | all FAILED                    | UNHEALTHY   |
    | RUNNING     | some FAILED                   | DEGRADED    |
    | RUNNING     | none FAILED, some RESTARTING  | RESTARTING  |
    | RUNNING     | none FAILED, some UNASSIGNED  | UNASSIGNED  |
    | RUNNING     | anything else                 | DEGRADED    |
    | PAUSED      | some FAILED                   | DEGRADED    |
    | other state | any                           | that state  |

    Connect often shows a connector as RUNNING although its tasks do not run, so a RUNNING connector is judged by its
    tasks. A RUNNING connector without tasks moves no data.
    """
    if status is None:
        return Health.UNKNOWN
    if status.state is State.FAILED:
        return Health.UNHEALTHY
    if status.state is State.RUNNING:
        return _running_health([task.state for task in status.tasks])
    if status.state is State.PAUSED and any(task.state is State.FAILED for task in status.tasks):
        return Health.DEGRADED
    return Health(status.state.value)


def _running_health(tasks: list[State]) -> Health:
    failed = tasks.count(State.FAILED)
    if failed == len(tasks):
        # Also if there is no task at all.
        return Health.UNHEALTHY
    if failed:
        return Health.DEGRADED
    if all(state is State.RUNNING for state in tasks):
        return Health.HEALTHY
    for state, word in ((State.RESTARTING, Health.RESTARTING), (State.UNASSIGNED, Health.UNASSIGNED)):
        if state in tasks:
            return word
    return Health.DEGRADED


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """One condition on labels: `KEY=VALUE`, `KEY!=VALUE`, or `KEY`, which any value meets."""

    key: str
    value: str | None = None
    is_negated: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the condition. Labels without the key meet `KEY!=VALUE`."""
        if self.value is None:
            return self.key in labels
        return (labels.get(self.key) == self.value) is not self.is_negated


def parse_label_term(text: str) -> LabelTerm:
    """Parse one condition.

    Raises:
        UsageError: it is invalid.
    """
    key, equals, value = text.partition("=")
    is_negated = bool(equals) and key.endswith("!")
    key = key.removesuffix("!") if is_negated else key
    if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
        raise UsageError(
            f"invalid value {text!r} for --label: expected KEY=VALUE, KEY!=VALUE or KEY",
            hint="pass one label with each -l; several must all match",
        )
    return LabelTerm(key, value if equals else None, is_negated)


_GLOB = re.compile(r"[*?\[]")

STATE_WORDS = tuple(dict.fromkeys(word.value.lower() for word in (*Health, *State)))
"""The values of `--state`: every health value and every state of Connect."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested connectors. An empty selection selects all.

    A connector is selected if one of the names, globs or expressions matches its name or its CLUSTER/NAME and, if
    states are given, one of them matches too, and all conditions on `labels` match. `listed` are the names in a file,
    which are never globs. None means that no file was given; an empty file selects nothing.
    """

    names: tuple[str, ...] = ()
    expressions: tuple[re.Pattern[str], ...] = ()
    states: tuple[str, ...] = ()
    listed: tuple[str, ...] | None = None
    labels: tuple[LabelTerm, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was requested."""
        return not (self.names or self.expressions or self.states or self.labels) and self.listed is None

    @property
    def plain_names(self) -> tuple[str, ...]:
        """Return the names that stand for one connector each, in the given order."""
        return (*(name for name in self.names if not is_pattern(name)), *(self.listed or ()))

    @property
    def is_plain(self) -> bool:
        """Return whether it has only plain names, so that nothing else has to be read."""
        return not (self.expressions or self.states or self.labels) and not any(map(is_pattern, self.names))

    def pick(self, connectors: Sequence[Connector]) -> tuple[Connector, ...]:
        """Return the selected connectors. Their labels must have been read if labels are selected."""
        plain = frozenset(self.plain_names)
        globs = tuple(name for name in self.names if is_pattern(name))
        return tuple(
            found
            for found in connectors
            if self._fits_name(found, plain, globs) and self._fits_state(found) and self._fits_labels(found)
        )

    def find_missing(self, connectors: Sequence[Connector]) -> tuple[str, ...]:
        """Return the plain names that no connector has. A glob or an expression may match nothing."""
        known = {name for connector in connectors for name in (connector.name, connector.owner)}
        return tuple(name for name in self.plain_names if name not in known)

    def _fits_name(self, connector: Connector, plain: frozenset[str], globs: Sequence[str]) -> bool:
        both = (connector.name, connector.owner)
        if not self.names and not self.expressions and self.listed is None:
            return True
        if not plain.isdisjoint(both):
            return True
        # A name that looks like a glob may be a literal name.
        if any(name in both or any(fnmatchcase(text, name) for text in both) for name in globs):
            return True
        return any(expression.search(text) for expression in self.expressions for text in both)

    def _fits_labels(self, connector: Connector) -> bool:
        if not self.labels:
            return True
        if connector.labels is None:
            raise ValueError(f"the labels of {connector.owner} were not read")
        return all(term.matches(connector.labels) for term in self.labels)

    def _fits_state(self, connector: Connector) -> bool:
        if not self.states:
            return True
        words = {build_health(connector.status).lower()}
        if connector.status is not None:
            words.add(connector.status.state.lower())
            words.update(task.state.lower() for task in connector.status.tasks)
        return not words.isdisjoint(self.states)


def is_pattern(name: str) -> bool:
    """Return whether a name is a glob, which may match any number of connectors."""
    return _GLOB.search(name) is not None


def build_selection(
    names: Sequence[str] = (),
    *,
    expressions: Sequence[str] = (),
    states: Sequence[str] = (),
    listed: Sequence[str] | None = None,
    labels: Sequence[str] = (),
) -> Selection:
    """Build a selection from command-line values. Raises UsageError for an invalid expression or label."""
    return Selection(
        names=tuple(names),
        expressions=tuple(_compile(expression) for expression in expressions),
        states=tuple(state.lower() for state in states),
        listed=None if listed is None else tuple(dict.fromkeys(listed)),
        labels=tuple(parse_label_term(text) for text in labels),
    )


def _compile(expression: str) -> re.Pattern[str]:
    try:
        return re.compile(expression)
    except re.error as error:
        raise UsageError(
            f"invalid regular expression {expression!r}",
            cause=str(error),
            hint="pass patterns with * and ? without -e",
        ) from error
