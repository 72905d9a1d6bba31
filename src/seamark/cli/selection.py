"""The options that select connectors, the same for all commands: names, `-e`, `--state`, `-l`, `-f`, `--names-from`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.complete import complete_clusters, complete_connectors
from seamark.cli.options import build_options, option
from seamark.cli.session import Session
from seamark.connect.model import Connector
from seamark.connectors.model import STATE_WORDS, Selection, build_selection
from seamark.core.refs import ConnectorType, qualify_connector
from seamark.errors import NotFoundError, UnreachableError, UsageError

if TYPE_CHECKING:
    from seamark.core.readings import Reading
    from seamark.fleet import Fleet

# A list of a million names of 60 characters: more than any fleet has.
_LARGEST_CHARACTERS = 64 * 1024 * 1024


label_option = option(
    "-l",
    "--label",
    multiple=True,
    metavar="LABEL",
    help="Only connectors with KEY=VALUE, KEY!=VALUE or KEY; repeatable, all must match.",
)


def _build_selection(
    *,
    names: tuple[str, ...],
    regex: tuple[str, ...],
    state: tuple[str, ...],
    label: tuple[str, ...],
    file: tuple[str, ...],
    names_from: tuple[str, ...],
    allow_python: bool,
) -> Selection:
    # An invalid expression is reported before any file is read.
    selection = build_selection(names, expressions=regex, states=state, labels=label)
    if file or names_from:
        session = click.get_current_context().find_object(Session) or Session()
        listed = (*read_spec_names(session, file, allow_python=allow_python), *read_names(session, names_from))
        selection = build_selection(names, expressions=regex, states=state, labels=label, listed=listed)
    return selection


# The command gets them as two values, `selection` and `cluster`.
selection_options = build_options(
    click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_connectors),
    option("-e", "--regex", multiple=True, metavar="REGEX", help="Only names that match REGEX; repeatable."),
    option(
        "--state",
        multiple=True,
        type=click.Choice(STATE_WORDS, case_sensitive=False),
        metavar="STATE",
        help=f"Only this health or state: {', '.join(STATE_WORDS)}.",
    ),
    label_option,
    option(
        "-f",
        "--file",
        multiple=True,
        type=click.Path(),
        metavar="PATH",
        help="The connectors of this spec file or folder.",
    ),
    option(
        "--names-from",
        multiple=True,
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="Read names from FILE, one per line; - is standard input.",
    ),
    option("--allow-python", is_flag=True, help="Allow -f to run spec files that are Python programs."),
    option(
        "--cluster",
        metavar="NAME",
        help="Only connectors of this Connect cluster.",
        shell_complete=complete_clusters,
    ),
    into="selection",
    build=_build_selection,
)


def read_spec_names(session: Session, paths: Sequence[str], *, allow_python: bool = False) -> tuple[str, ...]:
    """Return the connectors that spec files define, each as NAME or CLUSTER/NAME."""
    if not paths:
        return ()
    from seamark.specs import load_spec  # noqa: PLC0415

    files = [Path(path).expanduser() for path in paths]
    spec = load_spec(files, environ=os.environ, allow_python=allow_python, context=session.read_context)
    return tuple(connector.owner for connector in spec.connectors)


def read_names(session: Session, places: Sequence[str]) -> tuple[str, ...]:
    """Read names from plain lists, one per line. Empty lines and lines that begin with # are ignored."""
    texts = [_read_list(session, place) for place in places]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return tuple(line for line in lines if line and not line.startswith("#"))


def _read_list(session: Session, place: str) -> str:
    hint = "give a file with one name a line, or - for standard input"
    try:
        if place == "-":
            text = session.stdin.read(_LARGEST_CHARACTERS + 1)
        else:
            with Path(place).expanduser().open(encoding="utf-8") as file:
                text = file.read(_LARGEST_CHARACTERS + 1)
    except OSError as error:
        raise UsageError(f"{place} can't be read", cause=error.strerror or type(error).__name__, hint=hint) from None
    except UnicodeDecodeError:
        raise UsageError(f"{place} is not text in UTF-8", hint=hint) from None
    if len(text) > _LARGEST_CHARACTERS:
        raise UsageError(f"{place} is too large for a list of names", hint=hint)
    return text


# Each plain name costs a request to every Connect cluster; for more names than this, one list request is cheaper.
_MOST_SINGLE_READS = 16


@dataclass(frozen=True, slots=True)
class Targets:
    """The requested connectors."""

    selection: Selection
    cluster: str | None = None

    def find(self, fleet: Fleet) -> tuple[Connector, ...]:
        """Return the selected connectors. Raises if the selection is ambiguous or empty."""
        chosen = self.selection
        if chosen.is_empty:
            raise UsageError("no connector was passed", hint="pass a NAME or a glob; '*' selects all connectors")
        if chosen.is_plain and 0 < len(chosen.plain_names) <= _MOST_SINGLE_READS:
            return tuple(fleet.connectors.get(self._qualify(name)) for name in chosen.plain_names)
        found = self.pick(fleet, fleet.connectors.list(cluster=self.cluster))
        if not found:
            raise NotFoundError("no connector matches", hint="run: seamark connectors list")
        return found

    def _qualify(self, name: str) -> str:
        return name if self.cluster is None else qualify_connector(name, self.cluster)

    def pick(self, fleet: Fleet, reading: Reading[Connector]) -> tuple[Connector, ...]:
        """Return the selected connectors of a reading, possibly none. Raises if the selection is ambiguous."""
        if len(reading.failures) == 1 and len(fleet.context.connect) == 1:
            raise next(iter(reading.failures.values()))
        if reading.failures:
            raise UnreachableError(
                f"can't select connectors: {', '.join(reading.failures)} did not respond",
                cause="; ".join(error.message for error in reading.failures.values()),
                hint="select the connectors of one Connect cluster: --cluster NAME",
            )
        missing = self.selection.find_missing(reading.items)
        if missing:
            raise NotFoundError(f"connector {', '.join(missing)} does not exist", hint="run: seamark connectors list")
        self._refuse_ambiguous(reading.items)
        return select_connectors(fleet, self.selection, reading.items)

    def _refuse_ambiguous(self, connectors: tuple[Connector, ...]) -> None:
        """Raise if a plain name matches several connectors; a pattern may match several."""
        plain = frozenset(self.selection.plain_names)
        owners: dict[str, list[str]] = {}
        for found in connectors:
            if found.name in plain:
                owners.setdefault(found.name, []).append(found.owner)
        for name, clusters in owners.items():
            if len(clusters) > 1:
                raise UsageError(
                    f"connector {name} exists in {len(clusters)} Connect clusters",
                    cause=", ".join(clusters),
                    hint=f"pass CLUSTER/NAME, such as {clusters[0]}",
                )


def select_connectors(fleet: Fleet, selection: Selection, connectors: Sequence[Connector]) -> tuple[Connector, ...]:
    """Return the selected connectors. Their labels are read from the journal if labels are selected."""
    return selection.pick(fleet.connectors.read_labels(connectors) if selection.labels else connectors)


def find_labeled_owners(
    fleet: Fleet,
    owners: Sequence[str],
    labels: Sequence[str],
    *,
    without: ConnectorType | None = None,
    everything: bool = False,
) -> tuple[str, ...]:
    """Return CLUSTER/NAME of the connectors that match names or globs, if there are any, and all labels.

    Connectors of the type `without` are omitted. Without labels, the owners are returned as they are. `everything`
    is the option --all.

    Raises:
        UsageError: Labels and --all are combined.
        NotFoundError: No connector matches.
        UnreachableError: A Connect cluster or the journal could not be read, so that one may be missing.
    """
    if not labels:
        return tuple(owners)
    if everything:
        raise UsageError("pass --all or --label, not both", hint="-l alone selects all connectors with the label")
    found = Targets(build_selection(owners, labels=labels)).find(fleet)
    chosen = tuple(connector.owner for connector in found if connector.type is not without)
    if not chosen:
        raise NotFoundError(f"only {without} connectors match", hint="list them: seamark connectors list -l KEY=VALUE")
    return chosen


target_options = build_options(selection_options, into="targets", build=Targets)
