"""`seamark spark`."""

from __future__ import annotations

from pathlib import Path

import click

from seamark.cli.answer import Answer
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session


@click.group
def spark() -> None:
    """Bring seamark to a Spark cluster."""


@spark.command("pack")
@option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default="this folder",
    help="Write the archive there.",
)
@option(
    "--jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Name the jars of this folder too, for Spark's own Kafka source.",
)
@global_options
@pass_session
def pack(session: Session, *, folder: Path, jars: Path | None) -> None:
    """Write an archive of what executors need, and the options of spark-submit for it.

    The executors' Python must be of the same version and platform as this one; nothing need be installed there.
    """
    from seamark.pipelines.pack_view import build_pack_view  # noqa: PLC0415
    from seamark.spark.spark_pack import pack_for_spark  # noqa: PLC0415

    session.give(Answer(build_pack_view(pack_for_spark(folder, jars=jars))))
