"""Which connectors of a listing are meant: names, globs, regular expressions, states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from seamark.errors import UsageError
from seamark.model.connector import Connector, State
from seamark.model.health import Health, build_health

_GLOB = re.compile(r"[*?\[]")

STATE_WORDS = tuple(dict.fromkeys(word.value.lower() for word in (*Health, *State)))
"""What `--state` takes: every health word and every state of Connect."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for. Nothing asked for selects all.

    A connector is meant if one of the names, globs or expressions fits its name or its
    CLUSTER/NAME, and, where states are given, one of them fits too.
    """

    names: tuple[str, ...] = ()
    expressions: tuple[re.Pattern[str], ...] = ()
    states: tuple[str, ...] = ()

    def pick(self, connectors: Sequence[Connector]) -> tuple[Connector, ...]:
        """The connectors that are meant."""
        return tuple(
            connector for connector in connectors if self._fits_name(connector) and self._fits_state(connector)
        )

    def find_missing(self, connectors: Sequence[Connector]) -> tuple[str, ...]:
        """The plain names that no connector has. A glob or an expression may fit nothing."""
        known = {name for connector in connectors for name in (connector.name, connector.owner)}
        return tuple(name for name in self.names if name not in known and not is_pattern(name))

    def _fits_name(self, connector: Connector) -> bool:
        if not self.names and not self.expressions:
            return True
        both = (connector.name, connector.owner)
        return any(name in both or any(fnmatchcase(text, name) for text in both) for name in self.names) or any(
            expression.search(text) for expression in self.expressions for text in both
        )

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
    names: Sequence[str] = (), *, expressions: Sequence[str] = (), states: Sequence[str] = ()
) -> Selection:
    """A selection from what was typed; a wrong expression is a usage error."""
    return Selection(
        names=tuple(names),
        expressions=tuple(_compile(expression) for expression in expressions),
        states=tuple(state.lower() for state in states),
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
