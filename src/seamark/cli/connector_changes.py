"""`seamark connectors create|change`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.complete import complete_clusters, complete_connectors
from seamark.cli.confirm import ChangeOptions, change_command, change_options, confirm_and_apply
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.selection import Targets, target_options
from seamark.cli.session import Session
from seamark.core.secrets import is_reference, is_sensitive, mask_text
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.fleet import Fleet

# Connect accepts a request of some megabytes; a config has some kilobytes.
_LARGEST_BYTES = 4 * 1024 * 1024
_FILE_REFERENCE = "secret://file/"
_HOW = 'write {"name": "…", "config": {…}}, or the config alone and --name'


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """A connector in a file. `name` and `state` are empty if the file does not have them."""

    name: str
    config: Mapping[str, Any] = field(repr=False)
    state: str = ""


def read_connector_file(session: Session, place: str) -> ConnectorFile:
    """Read a file, or standard input for `-`."""
    text = session.stdin.read(_LARGEST_BYTES + 1) if place == "-" else _read_text(Path(place))
    if len(text) > _LARGEST_BYTES:
        raise UsageError(f"{place} is too large for a connector's config")
    body = _parse(text, place=place)
    folder = Path.cwd() if place == "-" else Path(place).expanduser().absolute().parent
    if not isinstance(body.get("config"), dict):
        if "config" in body:
            raise UsageError(f"config in {place} is not a JSON object", hint=_HOW)
        return ConnectorFile("", _settle(body, folder))
    unknown = sorted(body.keys() - {"name", "config", "initial_state"})
    if unknown:
        raise UsageError(f"{place} has keys that Connect does not take: {', '.join(unknown)}", hint=_HOW)
    name, state = body.get("name", ""), body.get("initial_state", "")
    if not isinstance(name, str) or not isinstance(state, str):
        raise UsageError(f"name and initial_state in {place} must be texts", hint=_HOW)
    return ConnectorFile(name, _settle(body["config"], folder), state)


def _settle(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the config with resolved paths in seamark's own references: they are relative to the file."""
    return {key: _settle_value(value, folder) for key, value in config.items()}


def _settle_value(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or not value.startswith(_FILE_REFERENCE):
        return value
    path = value.removeprefix(_FILE_REFERENCE)
    return value if path.startswith(("/", "~/")) else f"{_FILE_REFERENCE}{folder}/{path}"


def _read_text(path: Path) -> str:
    try:
        with path.expanduser().open(encoding="utf-8") as file:
            return file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise UsageError(f"{path} can't be read", cause=cause, hint="give the path of a JSON file, or -") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text in UTF-8", hint=_HOW) from None


def _parse(text: str, *, place: str) -> dict[str, Any]:
    """Parse the JSON object. Numbers keep their notation: Connect converts them to text in the same way."""
    problem = ""
    body: Any = None
    try:
        body = json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_refuse_twice)
    except json.JSONDecodeError as error:
        # The parser's own error contains the whole document, including secrets.
        problem = f"line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, _TwiceError) else "it can't be read"
    if not problem and not isinstance(body, dict):
        problem = "it is not a JSON object"
    if problem:
        raise UsageError(f"{place} is not a connector's file", cause=problem, hint=_HOW)
    found: dict[str, Any] = body
    return found


class _TwiceError(ValueError):
    """A duplicate key."""


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(f"the key {key} stands twice")
        found[key] = value
    return found


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
        confirm_and_apply(session, fleet, planned, how)


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
            confirm_and_apply(session, fleet, fleet.connectors.set(connector, changes), how)
            return
        _agree(found.name, connector.name, what="name")
        confirm_and_apply(session, fleet, fleet.connectors.change(connector, found.config), how)


def build_changes(settings: Iterable[str], unset: Iterable[str]) -> dict[str, str | None]:
    """Build the changed keys. A secret must be a reference: every user of the machine can see a command line."""
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


@click.command("pause")
@target_options
@change_command
def pause(fleet: Fleet, *, targets: Targets) -> PlannedChange:
    """Let connectors wait; their tasks stay where they are."""
    return fleet.connectors.pause(targets.find(fleet))


@click.command("resume")
@target_options
@change_command
def resume(fleet: Fleet, *, targets: Targets) -> PlannedChange:
    """Let connectors run that are paused or stopped."""
    return fleet.connectors.resume(targets.find(fleet))


@click.command("stop")
@target_options
@change_command
def stop(fleet: Fleet, *, targets: Targets) -> PlannedChange:
    """Stop connectors; their tasks end. Needs Connect 3.5."""
    return fleet.connectors.stop(targets.find(fleet))


@click.command("restart")
@target_options
@change_command
def restart(fleet: Fleet, *, targets: Targets) -> PlannedChange:
    """Start failed connectors and failed tasks again; what runs is left alone."""
    return fleet.connectors.restart(targets.find(fleet))


@click.command("delete")
@target_options
@change_command
def delete(fleet: Fleet, *, targets: Targets) -> PlannedChange:
    """Delete connectors, and say what stays behind of them."""
    return fleet.connectors.delete(targets.find(fleet))


@click.command("rename")
@click.argument("old", shell_complete=complete_connectors)
@click.argument("new")
@option("--accept-loss", is_flag=True, help="Rename it even where its positions are not found under the new name.")
@change_options
@global_options
@pass_session
def rename(session: Session, *, old: str, new: str, accept_loss: bool, how: ChangeOptions) -> None:
    """Give a connector another name: NEW is created with OLD's config, then OLD is deleted.

    From Connect 3.7 on the offsets of OLD go along. Where they can't, it is refused without --accept-loss.
    """
    with session.fleet() as fleet:
        # With --dry-run nothing is lost: the plan itself states what would be.
        planned = fleet.connectors.rename(old, new, accept_loss=accept_loss or how.dry_run)
        confirm_and_apply(session, fleet, planned, how)
