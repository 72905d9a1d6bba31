"""Which connectors a changing command is for. Unlike a list, it must be certain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from seamark.cli.complete import complete_connectors
from seamark.cli.options import option
from seamark.cli.selection import STATE_WORDS, Selection, build_selection, is_pattern
from seamark.errors import NotFoundError, UnreachableError, UsageError
from seamark.model.connector import Connector

if TYPE_CHECKING:
    from seamark.fleet import Fleet

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Targets:
    """What was asked for."""

    selection: Selection
    cluster: str | None = None

    def find(self, fleet: Fleet) -> tuple[Connector, ...]:
        """The connectors that are meant; an error where nobody can be sure, or where there are none."""
        chosen = self.selection
        if not chosen.names and not chosen.expressions and not chosen.states:
            raise UsageError("no connector is named", hint="give NAME or a glob; all of them are '*'")
        if not chosen.expressions and not chosen.states and not any(map(is_pattern, chosen.names)):
            return tuple(fleet.connectors.one(self._qualify(name)) for name in chosen.names)
        return self._pick(fleet)

    def _qualify(self, name: str) -> str:
        if self.cluster is None or name.startswith(f"{self.cluster}/"):
            return name
        return f"{self.cluster}/{name}"

    def _pick(self, fleet: Fleet) -> tuple[Connector, ...]:
        reading = fleet.connectors.all(cluster=self.cluster)
        if len(reading.failures) == 1 and len(fleet.context.connect) == 1:
            raise next(iter(reading.failures.values()))
        if reading.failures:
            raise UnreachableError(
                f"can't tell which connectors are meant: {', '.join(reading.failures)} did not answer",
                cause="; ".join(error.message for error in reading.failures.values()),
                hint="take the connectors of one cluster: --cluster NAME",
            )
        missing = self.selection.find_missing(reading.items)
        if missing:
            raise NotFoundError(
                f"there is no connector {', '.join(missing)}", hint="seamark connectors list shows all of them"
            )
        self._refuse_ambiguous(reading.items)
        found = self.selection.pick(reading.items)
        if not found:
            raise NotFoundError("no connector fits", hint="try the same words with seamark connectors list")
        return found

    def _refuse_ambiguous(self, connectors: tuple[Connector, ...]) -> None:
        """A plain name must stand for one connector; a pattern may stand for several."""
        for name in self.selection.names:
            owners = [found.owner for found in connectors if found.name == name and not is_pattern(name)]
            if len(owners) > 1:
                raise UsageError(
                    f"connector {name} stands in {len(owners)} clusters",
                    cause=", ".join(owners),
                    hint=f"say which one, as in {owners[0]}",
                )


def target_options(command: F) -> F:
    """Add NAME…, `--regex`, `--state` and `--cluster`; the command gets them as one value, `targets`."""

    @wraps(command)
    def gather(
        *args: Any,
        names: tuple[str, ...],
        regex: tuple[str, ...],
        state: tuple[str, ...],
        cluster: str | None,
        **kwargs: Any,
    ) -> Any:
        selection = build_selection(names, expressions=regex, states=state)
        return command(*args, targets=Targets(selection, cluster), **kwargs)

    decorators = (
        click.argument("names", nargs=-1, metavar="NAME|GLOB...", shell_complete=complete_connectors),
        option("-e", "--regex", multiple=True, metavar="REGEX", help="Names in which this is found."),
        option(
            "--state",
            multiple=True,
            type=click.Choice(STATE_WORDS, case_sensitive=False),
            metavar="WORD",
            help="Only those in this health, or with this state of connector or task.",
        ),
        option("--cluster", metavar="NAME", help="Only connectors of this Connect cluster."),
    )
    decorated: Any = gather
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    result: F = decorated
    return result
