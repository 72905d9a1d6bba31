"""`seamark pipelines` and `seamark spark`."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.confirm import confirm_by_name, consent_options, report_unchanged
from seamark.cli.copy_options import spark_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.spec_options import file_options
from seamark.cli.tree import command, group
from seamark.errors import SeamarkError, UsageError
from seamark.pipelines.submission import DEFAULT_IMAGE, SubmitForm
from seamark.report.words import render_count, render_number

if TYPE_CHECKING:
    from seamark.fleet import Fleet
    from seamark.pipelines.binding import RetryWait
    from seamark.pipelines.progress import BatchLanded, LandMetrics
    from seamark.pipelines.status import LandPlan
    from seamark.spark.settings import SparkOptions


@command("compact", examples=["seamark pipelines compact payments -f config --dry-run"])
@click.argument("name")
@file_options(required=False)
@option("--dry-run", is_flag=True, help="Show the files of each date without changing them.")
@consent_options
@global_options
@pass_session
def compact_landing(
    session: Session, *, name: str, file: tuple[Path, ...], allow_python: bool, dry_run: bool, yes: bool
) -> None:
    """Compact small files of a Delta table.

    Files are merged date by date, on this machine, in one commit; rows and offsets stay as they are. The pipeline may
    run at the same time. The old files are kept until Delta's VACUUM.
    """
    from seamark.pipelines.service import build_files_view, compact_table, list_table_files  # noqa: PLC0415

    with session.fleet() as fleet:
        (declared,) = fleet.pipelines.declared(file, names=[name], allow_python=allow_python)
        before = list_table_files(declared)
        session.show(Answer(build_files_view(before)))
        if dry_run:
            report_unchanged(session)
            return
        if all(part.files <= part.fewest for part in before):
            session.reporter.note("nothing to compact")
            return
        confirm_by_name(session, fleet, name, yes=yes)
        removed, added = compact_table(declared, fleet.access)
        session.reporter.note(f"{render_number(removed)} files compacted into {render_number(added)}")


_EVERY_SECONDS = 10.0


class LandLines:
    """Writes the metrics to the terminal."""

    def __init__(self, session: Session, metrics: LandMetrics) -> None:
        self._session = session
        self._metrics = metrics
        self._said_at: float | None = None

    def landed(self, batch: BatchLanded) -> None:
        """Count a batch, and report progress if nothing was reported for some time."""
        self._metrics.landed(batch)
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _EVERY_SECONDS:
            self._said_at = now
            self._session.reporter.note(f"  {self.say()}")

    def waiting(self, wait: RetryWait) -> None:
        """Report that something can't be reached, and when it is retried."""
        self._metrics.waiting(wait)
        self._session.reporter.note(f"  {wait.reason}; next try in {wait.seconds:g} s")

    def close(self) -> None:
        """Report the totals."""
        self._session.reporter.note(self.say())

    def say(self) -> str:
        """Format the line."""
        found = self._metrics
        beside = f", {render_number(found.deleted)} deleted" if found.deleted else ""
        beside += f", {render_number(found.dead)} dead letters" if found.dead else ""
        line = f"batch {found.batches} · {render_number(found.rows)} rows{beside}"
        # Spark reports a batch after it: the previous one is known here. The start-up time of Spark is not included.
        if (last := found.last) is not None:
            line += f" · {render_number(round(last.rate))} records/s · {last.seconds:.1f} s per batch"
            line += "" if last.behind is None else f" · lag {render_number(last.behind)}"
        return line


_FORMS = [form.value for form in SubmitForm]


@command(
    "submit",
    examples=[
        "seamark pipelines submit payments -f config --pack build",
        "seamark pipelines submit payments -f config --pack build --format airflow",
    ],
)
@click.argument("name")
@file_options()
@option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    default=_FORMS[0],
    show_default=True,
    help="For a shell, an Airflow DAG, or Spark's Kubernetes operator.",
)
@option(
    "--pack",
    default=".",
    show_default="this folder",
    metavar="LOCATION",
    help="The folder or URL of the archive of `seamark spark pack`.",
)
@spark_options
@option("--image", default=DEFAULT_IMAGE, show_default=True, metavar="IMAGE", help="Image of a SparkApplication.")
@option("--once", is_flag=True, help="Process the available records once, then end.")
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
    """Print a job definition for a Spark cluster.

    A spark-submit command line, an Airflow task or a SparkApplication, without secrets. Driver and executors get
    seamark from the archive of `seamark spark pack`.
    """
    from seamark.pipelines.submission import SubmitOptions, build_submission  # noqa: PLC0415
    from seamark.pipelines.views import build_submission_view  # noqa: PLC0415

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
        (declared,) = fleet.pipelines.declared(file, names=[name], allow_python=allow_python)
        run = build_submission(fleet.context, declared, options)
    session.show(Answer(build_submission_view(run, options.form)))


@group({"start": "pipelines run", "reset-offsets": "offsets move pipeline/"})
def pipelines() -> None:
    """Write topics to tables, exactly once."""


@pipelines.command("plan", examples=["seamark pipelines plan payments -f config"])
@click.argument("name")
@file_options(required=False)
@global_options
@pass_session
def plan_landing(session: Session, *, name: str, file: tuple[Path, ...], allow_python: bool) -> None:
    """Preview a run of a pipeline.

    Shows new columns of the table, and the start and end offset of each partition.
    """
    from seamark.pipelines.views import build_landing_view  # noqa: PLC0415

    with session.fleet() as fleet:
        (declared,) = fleet.pipelines.declared(file, names=[name], allow_python=allow_python)
        session.show(Answer(build_landing_view(fleet.pipelines.plan(declared))))
        report_unchanged(session)


@pipelines.command(
    "run",
    examples=["seamark pipelines run payments -f config --once", "seamark pipelines run payments -f config --yes"],
)
@click.argument("name")
@file_options(required=False)
@spark_options
@option("--once", is_flag=True, help="Process the available records once, then end.")
@option(
    "--metrics",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write Prometheus metrics to FILE after each batch.",
)
@consent_options
@global_options
@pass_session
def run_landing(
    session: Session,
    *,
    name: str,
    file: tuple[Path, ...],
    allow_python: bool,
    spark: SparkOptions,
    once: bool,
    metrics: Path | None,
    yes: bool,
) -> None:
    """Run a pipeline.

    Processes the available records; if the file has `every`, it continues until Ctrl-C. Any machine can resume it,
    because the ledger of the table has the offsets. Of two concurrent runs, one ends automatically.
    """
    from seamark.pipelines.progress import LandMetrics  # noqa: PLC0415
    from seamark.pipelines.views import build_landing_view  # noqa: PLC0415

    numbers = LandMetrics(name, file=metrics)
    with session.fleet() as fleet:
        landings = fleet.pipelines
        (declared,) = landings.declared(file, names=[name], allow_python=allow_python)
        plan = landings.plan(declared)
        _agree(session, fleet, plan, yes=yes)
        lines = LandLines(session, numbers)
        with _taking_end() as stop:
            landings.run(
                plan,
                spark=spark,
                is_endless=not once,
                on_batch=lines.landed,
                on_progress=numbers.progressed,
                on_wait=lines.waiting,
                stop=stop,
            )
        lines.close()
        session.show(Answer(build_landing_view(landings.plan(declared))))


@pipelines.command("status", examples=["seamark pipelines status -f config", "seamark pipelines status payments"])
@click.argument("name", required=False)
@file_options(required=False)
@global_options
@pass_session
def show_landings(session: Session, *, name: str | None, file: tuple[Path, ...], allow_python: bool) -> None:
    """Show the progress of pipelines.

    Read from the ledgers of the tables and the brokers. With NAME, the partitions of one pipeline.
    """
    from seamark.pipelines.views import build_landing_view, build_landings_view  # noqa: PLC0415

    with session.fleet() as fleet:
        found = fleet.pipelines.declared(file, names=[name] if name else (), allow_python=allow_python)
        if name:
            session.show(Answer(build_landing_view(fleet.pipelines.plan(found[0]))))
            return
        plans, failures = [], {}
        for one in found:
            try:
                plans.append(fleet.pipelines.plan(one))
            except SeamarkError as error:
                failures[one.landing.name] = error
        session.show(build_answer(build_landings_view(plans, failures), failures, asked=len(found)))


for found in (submit_landing, compact_landing):
    pipelines.add_command(found)


def _agree(session: Session, fleet: Fleet, plan: LandPlan, *, yes: bool) -> None:
    """Ask before the first run, and before a table is changed; resuming a pipeline needs no second confirmation."""
    from seamark.pipelines.status import LandState  # noqa: PLC0415

    landing = plan.declared.landing
    plan.require_whole()
    if plan.state is not LandState.NEW and not plan.statements:
        return
    session.reporter.note(
        f"{landing.topic} ({render_count(len(plan.partitions), 'partition')}, at most "
        f"{render_count(plan.behind, 'record')}) is written "
        f"to {landing.table} of {plan.declared.where}"
    )
    for statement in plan.statements:
        session.reporter.note(f"  first: {statement}")
    try:
        confirm_by_name(session, fleet, landing.name, yes=yes)
    except UsageError as error:
        error.hint = "review it with seamark pipelines plan, then pass --yes"
        raise


@contextmanager
def _taking_end() -> Iterator[threading.Event]:
    """Return an event that SIGTERM sets: the pipeline ends between two batches. Ctrl-C ends it at once, as safely."""
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield stop
    except KeyboardInterrupt:
        stop.set()
    finally:
        signal.signal(signal.SIGTERM, before)


@group()
def spark() -> None:
    """Prepare seamark for a Spark cluster."""


@spark.command("pack", examples=["seamark spark pack --dir build"])
@option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default="this folder",
    metavar="DIR",
    help="Folder for the archive.",
)
@option(
    "--jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Add the jars of this folder, for Spark's Kafka source.",
)
@global_options
@pass_session
def pack(session: Session, *, folder: Path, jars: Path | None) -> None:
    """Write an archive of seamark for Spark executors.

    Also prints the options of spark-submit for it. The executors need the same Python version and platform as this
    machine, and no further installation.
    """
    from seamark.pipelines.views import build_pack_view  # noqa: PLC0415
    from seamark.spark.packing import pack_for_spark  # noqa: PLC0415

    session.show(Answer(build_pack_view(pack_for_spark(folder, jars=jars))))
