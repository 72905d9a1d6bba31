"""`seamark connectors create|change`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.complete import complete_clusters, complete_connectors
from seamark.cli.connector_file import read_connector_file
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.core.sensitive import is_reference, is_sensitive, mask_text
from seamark.errors import UsageError

_STATES = ("running", "paused", "stopped")


@click.command("create")
@option("-f", "--file", "file", required=True, metavar="FILE", help="The connector as JSON, as Connect takes it; or -.")
@option("--name", metavar="NAME", help="Its name, where the file holds the config alone.")
@option(
    "--cluster",
    metavar="NAME",
    help="The Connect cluster, where the context has several.",
    shell_complete=complete_clusters,
)
@option(
    "--state",
    type=click.Choice(_STATES, case_sensitive=False),
    metavar="STATE",
    help=f"How it begins: {', '.join(_STATES)}. All but running need Connect 3.7.",
)
@option(
    "--offsets",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Begin where this export says: it runs only when its offsets are written and verified.",
)
@change_options
@global_options
@pass_session
def create(
    session: Session,
    *,
    file: str,
    name: str | None,
    cluster: str | None,
    state: str | None,
    offsets: Path | None,
    how: ChangeOptions,
) -> None:
    """Create a connector, and say which positions of that name exist already."""
    found = read_connector_file(session, file)
    own = found.name or str(found.config.get("name", ""))
    chosen = _agree(own, name, what="name")
    if not chosen:
        raise UsageError(f"{file} does not name the connector", hint="give --name NAME")
    begins = _agree(found.state.upper(), state.upper() if state else None, what="state") or "RUNNING"
    with session.fleet() as fleet:
        planned = fleet.connectors.create(chosen, found.config, cluster=cluster, state=begins, offsets=offsets)
        carry_out(session, fleet, planned, how)


@click.command("change")
@click.argument("name", shell_complete=complete_connectors)
@option("-f", "--file", "file", metavar="FILE", help="The whole new config as JSON, as Connect takes it; or -.")
@option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one key; repeat for more.")
@option("--unset", multiple=True, metavar="KEY", help="Take one key out; repeat for more.")
@change_options
@global_options
@pass_session
def change(
    session: Session,
    *,
    name: str,
    file: str | None,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    how: ChangeOptions,
) -> None:
    """Change the config of a connector, which restarts it."""
    if bool(file) == bool(settings or unset):
        raise UsageError("what shall be changed?", hint="give a file with -f, or --set KEY=VALUE and --unset KEY")
    changes = {} if file else build_changes(settings, unset)
    found = read_connector_file(session, file) if file else None
    with session.fleet() as fleet:
        connector = fleet.connectors.one(name)
        if found is None:
            carry_out(session, fleet, fleet.connectors.set(connector, changes), how)
            return
        _agree(found.name, connector.name, what="name")
        carry_out(session, fleet, fleet.connectors.change(connector, found.config), how)


def build_changes(settings: Iterable[str], unset: Iterable[str]) -> dict[str, str | None]:
    """The changed keys. A secret must be a reference: a command line is seen by every user of the machine."""
    changes: dict[str, str | None] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{mask_text(text)!r} is not KEY=VALUE", hint="such as --set tasks.max=4")
        if is_sensitive(key) and not is_reference(value):
            raise UsageError(f"--set does not take the secret itself: {key}", hint=f"--set {key}=secret://env/NAME")
        changes[key] = value
    for key in unset:
        if key in changes:
            raise UsageError(f"{key} is both set and unset", hint="decide")
        changes[key] = None
    return changes


def _agree(own: str, given: str | None, *, what: str) -> str:
    if own and given and own != given:
        raise UsageError(f"the file says {what} {own}, and the command {given}", hint="leave one of them out")
    return given or own
