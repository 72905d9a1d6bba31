"""`seamark offsets move | forget | import | copy`."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.complete import complete_connectors
from seamark.cli.duration import Duration
from seamark.cli.options import F, global_options, option, pass_session, put_options
from seamark.cli.session import Session
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.offsets.write.preview_totals import Tolerance


partition_option = option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME|JSON",
    help="Only this partition: a table, a file, TOPIC[:0,1], or some of its fields as JSON.",
)


option_accept_zombie = option(
    "--accept-zombie",
    is_flag=True,
    help="Go on although a worker that ran it can't be reached. Only if you have ended that worker.",
)
option_wait = option(
    "--wait",
    type=Duration(),
    metavar="TIME",
    help="How long to look for its first new position once it runs again; 0s for not at all. "
    "Without it as long as its workers need to store one, and at most 15s.",
)


def care_options(command: F) -> F:
    """Add `--tolerance`, `--accept-zombie` and `--wait`; the command gets them as one map, `care`."""

    @wraps(command)
    def gather(*args: Any, tolerance: str | None, accept_zombie: bool, wait: float | None, **kwargs: Any) -> Any:
        care = {"tolerance": _parse_tolerance(tolerance), "accept_zombies": accept_zombie, "wait_seconds": wait}
        return command(*args, care=care, **kwargs)

    decorators = (
        option_wait,
        option_accept_zombie,
        option(
            "--tolerance",
            metavar="N|N%",
            help="How much more than the plan says may be read again or skipped once it has stopped. "
            "Without it a tenth, and at least 1 000 rows or records or 1 MiB.",
        ),
    )
    result: F = put_options(gather, decorators)
    return result


@click.command("move")
@click.argument("owners", nargs=-1, metavar="OWNER...", shell_complete=complete_connectors)
@option(
    "--to",
    metavar="PLACE",
    help="beginning, a number, a time as 2026-11-14T12:00:00Z, a JSON map; for sinks and groups earliest, latest too.",
)
@option("--back", metavar="TIME", help="So much earlier, as 90s, 1h or 2d: by the time in the data.")
@option(
    "--as-of",
    metavar="TIME",
    help="Where each of the owners stood at that time, as the offsets topics, the journal and exports tell.",
)
@option("--all", "everything", is_flag=True, help="With --as-of: every connector of the context.")
@option(
    "--exports",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="With --as-of: an export, or a folder of them, that may have seen where they stood.",
)
@option(
    "--by-record-time",
    is_flag=True,
    help="With --as-of: a sink that nobody has seen goes to the first record of that time or later.",
)
@option(
    "--skip-unknown", is_flag=True, help="With --as-of: leave out whoever nobody has seen, instead of refusing all."
)
@option("--shift", type=int, metavar="N", help="N records, bytes or ids on, or back where N is negative.")
@option(
    "--from", "source", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where an export says."
)
@partition_option
@care_options
@change_options
@global_options
@pass_session
def move(
    session: Session,
    /,
    *,
    owners: tuple[str, ...],
    as_of: str | None,
    partitions: tuple[str, ...],
    care: dict[str, Any],
    how: ChangeOptions,
    **rest: Any,
) -> None:
    """Let OWNER go on from another place: a connector NAME or CLUSTER/NAME, group/NAME or pipeline/NAME.

    The plan counts what is read again or skipped. A connector is stopped, proven to stand still, counted again,
    written, verified, and goes on. A group must be empty. With --as-of several owners, globs too, go back together.
    """
    past = {key: rest.pop(key) for key in ("everything", "exports", "by_record_time", "skip_unknown")}
    with session.fleet() as fleet:
        if as_of is not None and all(value is None for value in rest.values()):
            planned = fleet.offsets.back_to(as_of, owners, partitions=partitions, **past, **care)
        else:
            _refuse_many(owners, past)
            planned = fleet.offsets.move(owners[0], as_of=as_of, partitions=partitions, **rest, **care)
        carry_out(session, fleet, planned, how)


def _refuse_many(owners: tuple[str, ...], past: dict[str, Any]) -> None:
    """Only a moment is one place for several owners."""
    if any(past.values()):
        named = ", ".join(f"--{'all' if key == 'everything' else key.replace('_', '-')}" for key in past if past[key])
        raise UsageError(f"{named} goes with --as-of alone")
    if len(owners) != 1:
        raise UsageError("say which owner is moved: exactly one", hint="--as-of alone takes several, or --all")


@click.command("forget")
@click.argument("owner", shell_complete=complete_connectors)
@partition_option
@care_options
@change_options
@global_options
@pass_session
def forget(
    session: Session, *, owner: str, partitions: tuple[str, ...], care: dict[str, Any], how: ChangeOptions
) -> None:
    """Let OWNER forget its offsets, so that it begins at its beginning. Connect calls it reset."""
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.offsets.forget(owner, partitions=partitions, **care), how)


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("owners", nargs=-1, metavar="[OWNER]...")
@care_options
@change_options
@global_options
@pass_session
def import_offsets(
    session: Session, *, file: Path, owners: tuple[str, ...], care: dict[str, Any], how: ChangeOptions
) -> None:
    """Put owners where FILE says: an export of seamark, or the JSON of connect-offsets.

    Without OWNER all of them. Partitions that the file does not name stay as they are.
    """
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.offsets.restore(file, owners=owners, **care), how)


@click.command("copy")
@click.argument("source", metavar="FROM", shell_complete=complete_connectors)
@click.argument("target", metavar="TO", shell_complete=complete_connectors)
@care_options
@change_options
@global_options
@pass_session
def copy(session: Session, *, source: str, target: str, care: dict[str, Any], how: ChangeOptions) -> None:
    """Put TO where FROM stands. A file, an alias or a prefix in the keys becomes that of TO."""
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.offsets.copy(source, target, **care), how)


def _parse_tolerance(text: str | None) -> Tolerance | None:
    if text is None:
        return None
    from seamark.offsets.write.preview_totals import parse_tolerance  # noqa: PLC0415

    try:
        return parse_tolerance(text)
    except ValueError:
        raise UsageError(f"{text!r} is no tolerance", hint="a number, or a share as 10%") from None
