"""`seamark connectors create|update|pause|resume|stop|restart|delete|rename`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.complete import complete_clusters, complete_connectors
from seamark.cli.confirm import ChangeOptions, change_command, change_options, confirm_and_apply
from seamark.cli.options import Duration, Number, build_options, global_options, option, pass_session
from seamark.cli.selection import Targets, target_options
from seamark.cli.session import Session
from seamark.cli.tree import command
from seamark.core.secrets import is_reference, is_sensitive, mask_text
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.fleet import Fleet

# Connect accepts a request of some megabytes; a config has some kilobytes.
_LARGEST_BYTES = 4 * 1024 * 1024
_FILE_REFERENCE = "secret://file/"
_SPEC_SUFFIXES = frozenset({".yaml", ".yml", ".properties"})
_MOST_NAMED = 10
_HOW = 'write {"name": "…", "config": {…}}, or the config alone and --name'


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """A connector in a file. `name`, `state` and `cluster` are empty if the file does not have them."""

    name: str
    config: Mapping[str, Any] = field(repr=False)
    state: str = ""
    cluster: str = ""


def read_connector_file(session: Session, place: str, *, wanted: str = "") -> ConnectorFile:
    """Read a connector from JSON, YAML or properties, or JSON from standard input for `-`.

    A YAML file is a spec file: `wanted` selects one of its connectors, and defaults of its folder apply.
    """
    if Path(place).suffix.lower() in _SPEC_SUFFIXES:
        return _read_spec_file(session, place, name=wanted)
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
        raise UsageError(f"{place} has keys that Connect does not accept: {', '.join(unknown)}", hint=_HOW)
    name, state = body.get("name", ""), body.get("initial_state", "")
    if not isinstance(name, str) or not isinstance(state, str):
        raise UsageError(f"name and initial_state in {place} must be strings", hint=_HOW)
    return ConnectorFile(name, _settle(body["config"], folder), state)


def _read_spec_file(session: Session, place: str, *, name: str) -> ConnectorFile:
    from seamark.specs import load_spec  # noqa: PLC0415

    spec = load_spec([Path(place).expanduser()], environ=os.environ, context=session.read_context)
    found = [one for one in spec.connectors if name in ("", one.name)]
    if len(found) != 1:
        names = ", ".join(one.owner for one in spec.connectors[:_MOST_NAMED]) or "none"
        raise UsageError(
            f"{place} has {len(found)} connectors{f' named {name}' if name else ''}; expected one",
            cause=f"its connectors: {names}",
            hint=f"use a name of the file, or apply the whole file: seamark apply -f {place}",
        )
    (only,) = found
    return ConnectorFile(only.name, only.config, only.state, only.cluster or "")


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
        raise UsageError(f"{path} can't be read", cause=cause, hint="pass the path of a JSON file, or -") from None
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
        raise UsageError(f"{place} is not a valid connector file", cause=problem, hint=_HOW)
    found: dict[str, Any] = body
    return found


class _TwiceError(ValueError):
    """A duplicate key."""


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(f"duplicate key {key}")
        found[key] = value
    return found


_STATES = ("running", "paused", "stopped")


def _choose_wait(wait: float, *, no_wait: bool) -> float:
    return 0.0 if no_wait else wait


# The command gets them as one value, `wait_seconds`; with 0, it does not wait.
wait_options = build_options(
    option(
        "--wait",
        type=Duration(minimum_seconds=1.0),
        default=60.0,
        show_default="60s",
        metavar="DURATION",
        help="Wait until RUNNING; otherwise restore what was there.",
    ),
    option("--no-wait", is_flag=True, help="Don't wait, and restore nothing."),
    into="wait_seconds",
    build=_choose_wait,
)


@command(
    "create",
    examples=[
        "seamark connectors create -f log-guild.json --dry-run",
        "seamark connectors create -f log-guild.json --initial-state stopped",
    ],
)
@option(
    "-f",
    "--file",
    "file",
    required=True,
    metavar="FILE",
    help="The connector in JSON, YAML or properties; - is JSON from standard input.",
)
@option("--name", metavar="NAME", help="Its name, if the file has the config only or several connectors.")
@option(
    "--cluster",
    metavar="NAME",
    help="The Connect cluster, if the context has several.",
    shell_complete=complete_clusters,
)
@option(
    "--initial-state",
    type=click.Choice(_STATES, case_sensitive=False),
    metavar="STATE",
    help=f"Initial state: {', '.join(_STATES)}. Default: running.",
)
@option(
    "--offsets-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Start from the offsets of this export.",
)
@option("--fresh", is_flag=True, help="Start without offsets; delete those that exist for its name.")
@wait_options
@option("--delete-on-failure", is_flag=True, help="Delete it if it doesn't run, instead of stopping it.")
@change_options
@global_options
@pass_session
def create(
    session: Session,
    *,
    file: str,
    name: str | None,
    cluster: str | None,
    initial_state: str | None,
    offsets_file: Path | None,
    fresh: bool,
    wait_seconds: float,
    delete_on_failure: bool,
    how: ChangeOptions,
) -> None:
    """Create a connector.

    The plan lists offsets that exist for its name. A paused or stopped initial state needs Connect 3.7. With
    --offsets-file the connector starts after its offsets are written and verified. With --fresh the offsets that exist
    for its name are deleted in the same change, before it starts; an undo restores them. A connector that
    doesn't run is stopped, and its error is shown.
    """
    found = read_connector_file(session, file, wanted=name or "")
    own = found.name or str(found.config.get("name", ""))
    chosen = _agree(own, name, what="name")
    if not chosen:
        raise UsageError(f"{file} has no connector name", hint="pass --name NAME")
    cluster = _agree(found.cluster, cluster, what="cluster") or None
    begins = _agree(found.state.upper(), initial_state.upper() if initial_state else None, what="state") or "RUNNING"
    with session.fleet() as fleet:
        planned = fleet.connectors.create(
            chosen,
            found.config,
            cluster=cluster,
            state=begins,
            offsets_file=offsets_file,
            fresh=fresh,
            wait_seconds=wait_seconds,
            delete_on_failure=delete_on_failure,
        )
        confirm_and_apply(session, fleet, planned, how)


@command(
    "update",
    examples=[
        "seamark connectors update log-guild --set tasks.max=4 --dry-run",
        "seamark connectors update log-guild -f log-guild.json",
    ],
)
@click.argument("name", shell_complete=complete_connectors)
@option("-f", "--file", "file", metavar="FILE", help="The whole config in JSON, YAML or properties; - is JSON.")
@option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a key; repeatable.")
@option("--unset", multiple=True, metavar="KEY", help="Remove a key; repeatable.")
@wait_options
@change_options
@global_options
@pass_session
def update(
    session: Session,
    *,
    name: str,
    file: str | None,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    wait_seconds: float,
    how: ChangeOptions,
) -> None:
    """Change the config of a connector and restart it.

    If the connector ran and then doesn't run, its previous config is restored.
    """
    if bool(file) == bool(settings or unset):
        raise UsageError("nothing to change", hint="pass a file with -f, or --set KEY=VALUE and --unset KEY")
    changes = {} if file else build_changes(settings, unset)
    with session.fleet() as fleet:
        connector = fleet.connectors.get(name)
        found = read_connector_file(session, file, wanted=connector.name) if file else None
        if found is None:
            planned = fleet.connectors.set(connector, changes, wait_seconds=wait_seconds)
        else:
            config = {**found.config, "name": found.name} if found.name else found.config
            planned = fleet.connectors.update(connector, config, wait_seconds=wait_seconds)
        confirm_and_apply(session, fleet, planned, how)


def build_changes(settings: Iterable[str], unset: Iterable[str]) -> dict[str, str | None]:
    """Build the changed keys. A secret must be a reference: every user of the machine can see a command line."""
    changes: dict[str, str | None] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{mask_text(text)!r} is not KEY=VALUE", hint="such as --set tasks.max=4")
        if is_sensitive(key) and not is_reference(value):
            raise UsageError(
                f"{key} is a secret, and --set accepts only a reference to it",
                hint=f"pass --set {key}=secret://env/NAME",
            )
        changes[key] = value
    for key in unset:
        if key in changes:
            raise UsageError(f"{key} is both set and unset", hint="pass either --set or --unset for it")
        changes[key] = None
    return changes


def _agree(own: str, given: str | None, *, what: str) -> str:
    if own and given and own != given:
        raise UsageError(f"{what} is {own} in the file and {given} in the command", hint="pass only one of them")
    return given or own


@command("pause", examples=["seamark connectors pause log-guild", "seamark connectors pause 'log-*' --dry-run"])
@target_options
@change_command
def pause(fleet: Fleet, *, targets: Targets) -> PlannedChange:
    """Pause connectors.

    Their tasks stay assigned and stop processing records.
    """
    return fleet.connectors.pause(targets.find(fleet))


@command("resume", examples=["seamark connectors resume log-guild"])
@target_options
@wait_options
@change_command
def resume(fleet: Fleet, *, targets: Targets, wait_seconds: float) -> PlannedChange:
    """Resume paused or stopped connectors.

    A connector that doesn't run is paused or stopped again.
    """
    return fleet.connectors.resume(targets.find(fleet), wait_seconds=wait_seconds)


@command("stop", examples=["seamark connectors stop log-guild"])
@target_options
@change_command
def stop(fleet: Fleet, *, targets: Targets) -> PlannedChange:
    """Stop connectors.

    Their tasks end. Needs Connect 3.5.
    """
    return fleet.connectors.stop(targets.find(fleet))


@command(
    "restart",
    examples=[
        "seamark connectors restart log-guild",
        "seamark connectors restart --state failed --yes",
        "seamark connectors restart 'log-*' --all --pace 2",
    ],
)
@target_options
@option("--all", "include_running", is_flag=True, help="Restart the connector and all its tasks.")
@option("--task", type=Number(minimum=0), metavar="N", help="Restart task N of each connector.")
@option(
    "--pace",
    type=Number(minimum=1),
    metavar="N",
    help="Restart N connectors at once. Default: 1 with --all or --task.",
)
@wait_options
@change_command
def restart(
    fleet: Fleet, *, targets: Targets, include_running: bool, task: int | None, pace: int | None, wait_seconds: float
) -> PlannedChange:
    """Restart failed tasks, or chosen ones.

    With a pace, the next connector restarts when the one before it runs; the first that doesn't run stops the rest.
    """
    chosen = targets.find(fleet)
    return fleet.connectors.restart(
        chosen, include_running=include_running, task=task, pace=pace, wait_seconds=wait_seconds
    )


@command(
    "delete",
    examples=["seamark connectors delete log-guild --dry-run", "seamark connectors delete 'test-*' --with-offsets"],
)
@target_options
@option("--with-offsets", is_flag=True, help="Also delete their offsets.")
@change_command
def delete(fleet: Fleet, *, targets: Targets, with_offsets: bool) -> PlannedChange:
    """Delete connectors.

    The plan lists the offsets and groups that stay. With --with-offsets the source offsets, or the committed offsets
    of the sinks' groups, are deleted in the same change: each connector is stopped, its offsets are deleted, then the
    connector. Needs Connect 3.5. An undo restores both.
    """
    return fleet.connectors.delete(targets.find(fleet), with_offsets=with_offsets)


@command("rename", examples=["seamark connectors rename log-guild log-guilds --dry-run"])
@click.argument("old", shell_complete=complete_connectors)
@click.argument("new")
@option("--allow-offset-loss", is_flag=True, help="Rename it even if its offsets can't be copied.")
@change_options
@global_options
@pass_session
def rename(session: Session, *, old: str, new: str, allow_offset_loss: bool, how: ChangeOptions) -> None:
    """Rename a connector.

    NEW is created with the config of OLD, then OLD is deleted. Since Connect 3.7 the offsets of OLD are copied. If that
    isn't possible, the plan is refused without --allow-offset-loss.
    """
    with session.fleet() as fleet:
        # With --dry-run nothing is lost: the plan itself states what would be.
        planned = fleet.connectors.rename(old, new, allow_offset_loss=allow_offset_loss or how.dry_run)
        confirm_and_apply(session, fleet, planned, how)
