"""`seamark offsets purge`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.duration import Duration
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.planned import Planned
    from seamark.fleet import Fleet
    from seamark.offsets.offset_export import OffsetExport


@click.command("purge")
@click.argument("owners", nargs=-1, metavar="[OWNER]...")
@option("--all", "everything", is_flag=True, help="Everything that offsets orphans lists.")
@option("--older-than", type=Duration(), metavar="TIME", help="Only what was last written longer ago, as 30d.")
@option(
    "--backup",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write what is taken away to this new file first, as offsets export does. The journal keeps it too.",
)
@change_options
@global_options
@pass_session
def purge(
    session: Session,
    *,
    owners: tuple[str, ...],
    everything: bool,
    older_than: float | None,
    backup: Path | None,
    how: ChangeOptions,
) -> None:
    """Take away offsets whose connector is gone: OWNER is NAME or CLUSTER/NAME, as offsets orphans lists them.

    A connector that is created with such a name later begins at its beginning. The other keys of the topic are not
    touched. seamark journal undo puts every record back as it was.
    """
    from seamark.offsets.read.export_file import refuse_existing  # noqa: PLC0415

    if backup is not None:
        refuse_existing(backup)
    with session.fleet() as fleet:
        planned = fleet.offsets.purge(owners, everything=everything, older_than=older_than)
        if backup is not None and planned.plan.steps:
            _back_up(session, fleet, planned, backup)
        carry_out(session, fleet, planned, how)


def _back_up(session: Session, fleet: Fleet, planned: Planned, file: Path) -> None:
    from seamark.offsets.read.export_file import write_export  # noqa: PLC0415

    names = {effect.subject.removeprefix("offsets/") for effect in planned.effects}
    export = fleet.offsets.export(everything=True)
    kept = replace(export, owners=tuple(one for one in export.owners if one.owner in names), findings=(), failures={})
    write_export(kept, file)
    session.reporter.note(say_written(kept, file))


def say_written(export: OffsetExport, file: Path) -> str:
    """What an export holds, and where it is."""
    verb = "is" if export.count == 1 else "are"
    return f"{render_count(export.count, 'offset')} of {render_count(len(export.owners), 'owner')} {verb} in {file}"
