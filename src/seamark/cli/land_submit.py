"""`seamark land submit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer
from seamark.cli.copy_options import spark_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.spec_options import file_options
from seamark.pipelines.submission import DEFAULT_IMAGE, SubmitForm

if TYPE_CHECKING:
    from seamark.spark.spark_session import SparkOptions

_FORMS = [form.value for form in SubmitForm]


@click.command("submit")
@click.argument("name")
@file_options()
@option(
    "--as",
    "form",
    type=click.Choice(_FORMS),
    default=_FORMS[0],
    show_default=True,
    help="For a shell, for a DAG of Airflow, or for Spark's operator on Kubernetes.",
)
@option(
    "--pack",
    default=".",
    show_default="this folder",
    metavar="PLACE",
    help="The folder that seamark spark pack wrote; for a SparkApplication the URL where it is now.",
)
@spark_options
@option("--image", default=DEFAULT_IMAGE, show_default=True, help="For a SparkApplication: the image of its pods.")
@option("--once", is_flag=True, help="Land what is there, also where the file says how often.")
@global_options
@pass_session
def submit_landing(
    session: Session,
    *,
    name: str,
    file: tuple[Path, ...],
    allow_python: bool,
    form: str,
    pack: str,
    spark: SparkOptions,
    image: str,
    once: bool,
) -> None:
    """Print what runs a landing elsewhere: a line of spark-submit, a task of Airflow, or a SparkApplication.

    No secret stands in it. Driver and executors take seamark from the archive of seamark spark pack.
    """
    from seamark.pipelines.submission_view import build_submission_view  # noqa: PLC0415
    from seamark.pipelines.submitting import SubmitOptions, build_submission  # noqa: PLC0415

    options = SubmitOptions(
        SubmitForm(form),
        file,
        pack=pack,
        spark=spark,
        image=image,
        is_once=once,
        allow_python=allow_python,
    )
    with session.fleet() as fleet:
        (declared,) = fleet.landings.declared(file, names=[name], allow_python=allow_python)
        run = build_submission(fleet.context, declared, options)
    session.give(Answer(build_submission_view(run, options.form)))
