"""Which connectors are meant: names, globs, regular expressions, states, and the names that files hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from seamark.connect.model import Connector, ConnectorStatus, State
from seamark.errors import UsageError


class Health(StrEnum):
    """How a connector is, as an operator would say it."""

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
    """Fold a status into one word.

    | connector   | tasks                         | word        |
    |-------------|-------------------------------|-------------|
    | none told   |                               | UNKNOWN     |
    | FAILED      | any                           | UNHEALTHY   |
    | RUNNING     | none                          | UNHEALTHY   |
    | RUNNING     | all RUNNING                   | HEALTHY     |
    | RUNNING     | all FAILED                    | UNHEALTHY   |
    | RUNNING     | some FAILED                   | DEGRADED    |
    | RUNNING     | none FAILED, some RESTARTING  | RESTARTING  |
    | RUNNING     | none FAILED, some UNASSIGNED  | UNASSIGNED  |
    | RUNNING     | anything else                 | DEGRADED    |
    | PAUSED      | some FAILED                   | DEGRADED    |
    | other words | any                           | that word   |

    A connector that says RUNNING while its tasks do not run is the commonest lie of Connect,
    so RUNNING is judged by the tasks. A RUNNING connector without tasks moves no data.
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
        # Also the case of no task at all.
        return Health.UNHEALTHY
    if failed:
        return Health.DEGRADED
    if all(state is State.RUNNING for state in tasks):
        return Health.HEALTHY
    for state, word in ((State.RESTARTING, Health.RESTARTING), (State.UNASSIGNED, Health.UNASSIGNED)):
        if state in tasks:
            return word
    return Health.DEGRADED


_GLOB = re.compile(r"[*?\[]")

STATE_WORDS = tuple(dict.fromkeys(word.value.lower() for word in (*Health, *State)))
"""What `--state` takes: every health word and every state of Connect."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for. Nothing asked for selects all.

    A connector is meant if one of the names, globs or expressions fits its name or its CLUSTER/NAME, and, where states
    are given, one of them fits too. `listed` are names that a file holds: nothing in them is a glob. None means that no
    file was given; an empty file means nothing.
    """

    names: tuple[str, ...] = ()
    expressions: tuple[re.Pattern[str], ...] = ()
    states: tuple[str, ...] = ()
    listed: tuple[str, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked for."""
        return not self.names and not self.expressions and not self.states and self.listed is None

    @property
    def plain_names(self) -> tuple[str, ...]:
        """The names that stand for one connector each, in the order they were given."""
        return (*(name for name in self.names if not is_pattern(name)), *(self.listed or ()))

    @property
    def is_plain(self) -> bool:
        """Whether it is made of plain names alone, so that nothing else has to be read."""
        return not self.expressions and not self.states and not any(map(is_pattern, self.names))

    def pick(self, connectors: Sequence[Connector]) -> tuple[Connector, ...]:
        """The connectors that are meant."""
        plain = frozenset(self.plain_names)
        globs = tuple(name for name in self.names if is_pattern(name))
        return tuple(found for found in connectors if self._fits_name(found, plain, globs) and self._fits_state(found))

    def find_missing(self, connectors: Sequence[Connector]) -> tuple[str, ...]:
        """The plain names that no connector has. A glob or an expression may fit nothing."""
        known = {name for connector in connectors for name in (connector.name, connector.owner)}
        return tuple(name for name in self.plain_names if name not in known)

    def _fits_name(self, connector: Connector, plain: frozenset[str], globs: Sequence[str]) -> bool:
        both = (connector.name, connector.owner)
        if not self.names and not self.expressions and self.listed is None:
            return True
        if not plain.isdisjoint(both):
            return True
        # A name that looks like a glob may be a name after all.
        if any(name in both or any(fnmatchcase(text, name) for text in both) for name in globs):
            return True
        return any(expression.search(text) for expression in self.expressions for text in both)

    def _fits_state(self, connector: Connector) -> bool:
        if not self.states:
            return True
        words = {build_health(connector.status).lower()}
        if connector.status is not None:
            words.add(connector.status.state.lower())
            words.update(task.state.lower() for task in connector.status.tasks)
        return not words.isdisjoint(self.states)


def is_pattern(name: str) -> bool:
    """Whether a name is a glob, which may fit any number of connectors."""
    return _GLOB.search(name) is not None


def build_selection(
    names: Sequence[str] = (),
    *,
    expressions: Sequence[str] = (),
    states: Sequence[str] = (),
    listed: Sequence[str] | None = None,
) -> Selection:
    """A selection from what was typed; a wrong expression is a usage error."""
    return Selection(
        names=tuple(names),
        expressions=tuple(_compile(expression) for expression in expressions),
        states=tuple(state.lower() for state in states),
        listed=None if listed is None else tuple(dict.fromkeys(listed)),
    )


def _compile(expression: str) -> re.Pattern[str]:
    try:
        return re.compile(expression)
    except re.error as error:
        raise UsageError(
            f"{expression!r} is not a regular expression",
            cause=str(error),
            hint="for * and ? give the pattern without -e",
        ) from error
