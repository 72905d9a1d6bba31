"""`seamark copy cutover` and `seamark copy finish`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.copy_options import control_option, spark_options
from seamark.cli.copy_progress import CopyLines
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session

if TYPE_CHECKING:
    from seamark.spark.spark_session import SparkOptions


@click.command("cutover")
@click.argument("plan", metavar="PLANFILE|ID")
@option(
    "--in-place",
    is_flag=True,
    help="Keep the topic's name: it is deleted, made anew, and filled from the copy. Not to be undone.",
)
@option(
    "--missing",
    type=click.Choice(["earliest", "latest"]),
    help="Where a reader starts in a partition that it has no position in.",
)
@option(
    "--level",
    type=click.Choice(["quick", "standard", "full"]),
    default="standard",
    show_default=True,
    help="How closely to compare before anybody is turned over.",
)
@option("--leave", multiple=True, metavar="GROUP", help="A group that stays with the source; may be repeated.")
@option("--source", "sources", multiple=True, metavar="CONNECTOR", help="A source that writes to the topic, too.")
@option("--read-committed", is_flag=True, help="Let sinks read committed records only: debris is nothing to them.")
@option("--accept-debris", is_flag=True, help="Accept that readers see what failed attempts have left.")
@option("--accept-zombie", is_flag=True, help="Go on although a worker that ran a connector can't be reached.")
@spark_options
@control_option
@change_options
@global_options
@pass_session
def cutover(
    session: Session,
    *,
    plan: str,
    in_place: bool,
    missing: str | None,
    level: str,
    leave: tuple[str, ...],
    sources: tuple[str, ...],
    read_committed: bool,
    accept_debris: bool,
    accept_zombie: bool,
    spark: SparkOptions,
    control_topic: str,
    how: ChangeOptions,
) -> None:
    """Turn readers and writers of a copied topic over to the copy, as one change.

    Sinks and sources stop, what is left is copied and compared, every reader gets the place of the first record that
    it has not had, configs are switched, and all start again. A failure puts everybody back. It can be undone until
    somebody writes to the new topic.
    """
    from seamark.copies.cutover.parties import CutoverOptions  # noqa: PLC0415

    options = CutoverOptions(
        missing=missing or "",
        level=level,
        leave=leave,
        sources=sources,
        read_committed=read_committed,
        accept_debris=accept_debris,
        accept_zombies=accept_zombie,
        in_place=in_place,
    )
    with session.fleet() as fleet:
        planned = fleet.copies.cutover(plan, options, control_topic=control_topic)
        lines = CopyLines(session)
        fleet.copies.use_spark(spark, events=lines)
        try:
            carry_out(session, fleet, planned, how)
        finally:
            lines.close()


@click.command("finish")
@click.argument("plan", metavar="PLANFILE|ID")
@option("--abandon", multiple=True, metavar="GROUP", help="A group that nobody misses; may be repeated.")
@control_option
@change_options
@global_options
@pass_session
def finish(session: Session, *, plan: str, abandon: tuple[str, ...], control_topic: str, how: ChangeOptions) -> None:
    """Delete the topic that nobody needs after a cut-over: the source, or the temporary copy of one in place."""
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.copies.finish(plan, abandon=abandon, control_topic=control_topic), how)
