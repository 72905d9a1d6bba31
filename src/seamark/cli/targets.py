"""Which connectors a changing command is for. Unlike a list, it must be certain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from seamark.cli.options import F
from seamark.cli.selection import Selection, selection_options
from seamark.connect.connector import Connector
from seamark.errors import NotFoundError, UnreachableError, UsageError

if TYPE_CHECKING:
    from seamark.core.reading import Reading
    from seamark.fleet import Fleet


# Each plain name costs a request to every cluster; from here on one listing is cheaper than the names one by one.
_MOST_SINGLE_READS = 16


@dataclass(frozen=True, slots=True)
class Targets:
    """What was asked for."""

    selection: Selection
    cluster: str | None = None

    def find(self, fleet: Fleet) -> tuple[Connector, ...]:
        """The connectors that are meant; an error where nobody can be sure, or where there are none."""
        chosen = self.selection
        if chosen.is_empty:
            raise UsageError("no connector is named", hint="give NAME or a glob; all of them are '*'")
        if chosen.is_plain and 0 < len(chosen.plain_names) <= _MOST_SINGLE_READS:
            return tuple(fleet.connectors.one(self._qualify(name)) for name in chosen.plain_names)
        found = self.pick(fleet, fleet.connectors.all(cluster=self.cluster))
        if not found:
            raise NotFoundError("no connector fits", hint="try the same words with seamark connectors list")
        return found

    def _qualify(self, name: str) -> str:
        if self.cluster is None or name.startswith(f"{self.cluster}/"):
            return name
        return f"{self.cluster}/{name}"

    def pick(self, fleet: Fleet, reading: Reading[Connector]) -> tuple[Connector, ...]:
        """The connectors of a reading that are meant, which may be none; an error where nobody can be sure."""
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
        return self.selection.pick(reading.items)

    def _refuse_ambiguous(self, connectors: tuple[Connector, ...]) -> None:
        """A plain name must stand for one connector; a pattern may stand for several."""
        plain = frozenset(self.selection.plain_names)
        owners: dict[str, list[str]] = {}
        for found in connectors:
            if found.name in plain:
                owners.setdefault(found.name, []).append(found.owner)
        for name, clusters in owners.items():
            if len(clusters) > 1:
                raise UsageError(
                    f"connector {name} stands in {len(clusters)} clusters",
                    cause=", ".join(clusters),
                    hint=f"say which one, as in {clusters[0]}",
                )


def target_options(command: F) -> F:
    """Add `NAME…`, `-e`, `--state`, `-f`, `--names-from` and `--cluster`; the command gets one value, `targets`."""

    @wraps(command)
    def gather(*args: Any, selection: Selection, cluster: str | None, **kwargs: Any) -> Any:
        return command(*args, targets=Targets(selection, cluster), **kwargs)

    return selection_options(metavar="[NAME|GLOB]...")(gather)  # type: ignore[return-value]
