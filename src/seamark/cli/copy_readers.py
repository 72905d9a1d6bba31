"""`seamark copy readers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer
from seamark.cli.copy_options import control_option, far_option, open_copies, spark_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session

if TYPE_CHECKING:
    from seamark.spark.spark_session import SparkOptions


@click.command("readers")
@click.argument("plan", metavar="PLANFILE|ID")
@option("--group", "groups", multiple=True, metavar="GROUP", help="This group only; may be repeated.")
@option(
    "--missing",
    type=click.Choice(["earliest", "latest"]),
    help="Where a reader starts in a partition that it has no position in.",
)
@option("--exact", is_flag=True, help="Count with Spark where the control records give bounds only.")
@spark_options
@control_option
@far_option
@global_options
@pass_session
def show_readers(
    session: Session,
    *,
    plan: str,
    groups: tuple[str, ...],
    missing: str | None,
    exact: bool,
    spark: SparkOptions,
    control_topic: str,
    to_context: str | None,
) -> None:
    """Show where each reader of the source goes on in the target, and how much it reads again.

    Nothing is changed. With -o csv it is what `seamark groups move GROUP --from FILE` takes, in the context of the
    target too.
    """
    from seamark.copies.readers_view import build_readers_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, copies):
        found = copies.readers(
            plan,
            missing=missing or "",
            groups=groups,
            spark=spark if exact else None,
            control_topic=control_topic,
        )
        topic = copies.find(plan, control_topic=control_topic).plan.target.topic
    session.give(Answer(build_readers_view(found, topic)))
