"""`seamark pipelines` and `seamark spark`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.confirm import (
    confirm_by_name,
    confirm_plan,
    consent_options,
    report_unchanged,
    run_change,
    show_plan,
)
from seamark.cli.copy_options import spark_options
from seamark.cli.options import Duration, fail_on_option, global_options, is_failing, option, pass_session
from seamark.cli.session import Session
from seamark.cli.spec_options import file_options
from seamark.cli.tree import command, group
from seamark.cli.watch import watch_command
from seamark.errors import SeamarkError, UsageError
from seamark.pipelines.submission import DEFAULT_IMAGE, SubmitForm
from seamark.report.words import render_count, render_number

if TYPE_CHECKING:
    from seamark.fleet import Fleet
    from seamark.pipelines.declared import PipelineSpec
    from seamark.pipelines.status import LandPlan
    from seamark.spark.settings import SparkOptions


@command("compact", examples=["seamark pipelines compact payments -f config --dry-run"])
@click.argument("name")
@file_options(required=False)
@spark_options
@option("--dry-run", is_flag=True, help="Show the files of each date without changing them.")
@consent_options
@global_options
@pass_session
def compact_landing(
    session: Session,
    *,
    name: str,
    file: tuple[Path, ...],
    allow_python: bool,
    spark: SparkOptions,
    dry_run: bool,
    yes: bool,
) -> None:
    """Compact small files of a Delta table.

    Spark merges files date by date, in one commit; rows and offsets stay as they are. The pipeline may run at the same
    time. The old files are kept until `seamark pipelines vacuum`. A running application compacts its tables every hour,
    or as `maintain.compact` says.
    """
    from seamark.pipelines.service import build_files_view, list_table_files  # noqa: PLC0415

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
        removed, added = fleet.pipelines.compact(declared, spark=spark)
        session.reporter.note(f"{render_number(removed)} files compacted into {render_number(added)}")


@command("vacuum", examples=["seamark pipelines vacuum payments -f config --keep 7d --dry-run"])
@click.argument("name")
@file_options(required=False)
@option(
    "--keep",
    type=Duration(),
    default="7d",
    show_default=True,
    metavar="DURATION",
    help="Keep the files of all versions of so long; at least 1h.",
)
@spark_options
@option("--dry-run", is_flag=True, help="Show how many files would be deleted without deleting them.")
@consent_options
@global_options
@pass_session
def vacuum_landing(
    session: Session,
    *,
    name: str,
    file: tuple[Path, ...],
    allow_python: bool,
    keep: float,
    spark: SparkOptions,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete unneeded files of a Delta table.

    Files that were replaced or never committed, after the time of --keep. Older versions of the table can't be read
    afterwards; rows and offsets of the current version stay as they are. The pipeline may run at the same time.
    """
    with session.fleet() as fleet:
        (declared,) = fleet.pipelines.declared(file, names=[name], allow_python=allow_python)
        found = declared.open_table().list_unneeded(keep_seconds=keep)
        count = render_count(len(found), "file")
        session.reporter.note(f"{count} of {declared.landing.table} can be deleted")
        for path in found[:_SHOWN_FILES]:
            session.reporter.note(f"  {path}")
        if len(found) > _SHOWN_FILES:
            session.reporter.note(f"  … and {render_number(len(found) - _SHOWN_FILES)} more")
        if dry_run or not found:
            report_unchanged(session)
            return
        confirm_by_name(session, fleet, name, yes=yes)
        deleted = fleet.pipelines.vacuum(declared, keep_seconds=keep, spark=spark)
        session.reporter.note(f"{render_count(deleted, 'file')} deleted")


_SHOWN_FILES = 10


@command(
    "rebuild",
    examples=[
        "seamark pipelines rebuild payments -f config --dry-run",
        "seamark pipelines rebuild payments -f config",
        "seamark pipelines rebuild payments -f config --discard",
    ],
)
@click.argument("name")
@file_options(required=False)
@spark_options
@option("--allow-row-loss", is_flag=True, help="Rebuild even if the topic no longer has the records of all rows.")
@option("--discard", is_flag=True, help="Discard an unfinished rebuild instead.")
@option("--dry-run", is_flag=True, help="Show which records would be read without reading them.")
@consent_options
@global_options
@pass_session
def rebuild_landing(
    session: Session,
    *,
    name: str,
    file: tuple[Path, ...],
    allow_python: bool,
    spark: SparkOptions,
    allow_row_loss: bool,
    discard: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Write a Delta table again from its topic.

    For changed types, expressions, or a table that was damaged. Spark reads the topic from its first record into new
    files, which no query sees. Then one commit replaces all files of the table, with the offsets of the pipeline. The
    pipeline may run at the same time. `seamark journal undo` restores the previous files and offsets, until vacuum
    deletes those files.

    An interrupted rebuild continues where it was.
    """
    from seamark.pipelines.progress import LandMetrics  # noqa: PLC0415
    from seamark.pipelines.rebuild import build_rebuild_view, describe_rebuild  # noqa: PLC0415
    from seamark.pipelines.views import LandLines  # noqa: PLC0415

    with session.fleet() as fleet:
        (declared,) = fleet.pipelines.declared(file, names=[name], allow_python=allow_python)
        if discard:
            is_found = fleet.pipelines.discard_rebuild(declared)
            session.reporter.note("rebuild discarded" if is_found else f"{name} has no unfinished rebuild")
            return
        plan = fleet.pipelines.plan_rebuild(declared)
        for line in describe_rebuild(plan):
            session.reporter.note(line)
        if dry_run:
            session.show(Answer(build_rebuild_view(plan)))
            report_unchanged(session)
            return
        plan.check_losses(allow_row_loss=allow_row_loss)

        def swap(rebuild: str, catch_up: Callable[[], None]) -> None:
            planned = fleet.pipelines.plan_swap(declared, rebuild=rebuild)
            show_plan(session, planned, is_preview=False)
            word = confirm_plan(session, fleet, planned, yes=yes)
            catch_up()
            run_change(
                session,
                lambda progress: fleet.apply(
                    fleet.pipelines.plan_swap(declared, rebuild=rebuild), progress, confirm=word
                ),
            )

        lines = LandLines(session.reporter.note, LandMetrics(name, file=None))
        with _taking_end() as stop:
            fleet.pipelines.rebuild(
                plan,
                swap,
                allow_row_loss=allow_row_loss,
                spark=spark,
                on_batch=lines.landed,
                on_wait=lines.waiting,
                stop=stop,
            )


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


@group(
    {
        "start": "pipelines run",
        "reset-offsets": "offsets move pipeline/",
        **dict.fromkeys(("describe", "get", "info", "inspect", "show"), "pipelines status"),
    }
)
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
    examples=[
        "seamark pipelines run payments -f config --once",
        "seamark pipelines run 'pay*' -f config --yes",
        "seamark pipelines run --application lake -f config --yes",
    ],
)
@click.argument("name", nargs=-1)
@file_options(required=False)
@option("--application", metavar="NAME", default="", help="Run the pipelines with this `application` in their spec.")
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
    name: tuple[str, ...],
    file: tuple[Path, ...],
    allow_python: bool,
    application: str,
    spark: SparkOptions,
    once: bool,
    metrics: Path | None,
    yes: bool,
) -> None:
    """Run pipelines in one Spark application.

    All pipelines, or those of these names and patterns. They process the available records; those with `every` continue
    until Ctrl-C. Any machine can resume them, because the ledgers of the tables have the offsets.

    One pipeline by its name ends with its first error. Of several, one that fails is suspended and retried while the
    others continue, and without -f a running application follows `seamark apply`.
    """
    from seamark.pipelines.views import ApplicationLines, build_landings_view  # noqa: PLC0415

    with session.fleet() as fleet:
        if len(name) == 1 and not application and not set("*?[") & set(name[0]):
            (declared,) = fleet.pipelines.declared(file, names=name, allow_python=allow_python)
            _run_one(session, fleet, declared, spark=spark, once=once, metrics=metrics, yes=yes)
            return
        choose = partial(fleet.pipelines.choose, file, patterns=name, application=application)
        specs = choose(allow_python=allow_python)
        if not specs:
            raise UsageError(
                f"no pipeline has application: {application}" if application else "no pipeline was found",
                hint="apply spec files with pipelines, or pass them with -f PATH",
            )
        plans = _agree_all(session, fleet, specs, yes=yes)
        behind = {one.landing.name: 0 for one in specs} | {one.declared.landing.name: one.behind for one in plans}
        lines = ApplicationLines(session.reporter.note, behind, file=metrics)
        with _taking_end() as stop:
            errors = fleet.pipelines.run_all(
                specs,
                spark=spark,
                name=application,
                is_endless=not once,
                follow=None if file or once else partial(choose, must_match=False),
                on_batch=lines.landed,
                on_progress=lines.progressed,
                on_status=lines.changed,
                on_lag=lines.measured if metrics is not None else None,
                stop=stop,
            )
        lines.close()
        plans, failures = fleet.pipelines.plan_all(specs)
        failures |= {one: error for one, error in errors.items() if isinstance(error, SeamarkError)}
        session.show(build_answer(build_landings_view(plans, failures), failures, asked=len(specs)))


def _run_one(
    session: Session,
    fleet: Fleet,
    declared: PipelineSpec,
    *,
    spark: SparkOptions,
    once: bool,
    metrics: Path | None,
    yes: bool,
) -> None:
    from seamark.pipelines.progress import LandMetrics  # noqa: PLC0415
    from seamark.pipelines.views import LandLines, build_landing_view  # noqa: PLC0415

    numbers = LandMetrics(declared.landing.name, file=metrics)
    plan = fleet.pipelines.plan(declared)
    _agree(session, fleet, plan, yes=yes)
    lines = LandLines(session.reporter.note, numbers)
    with _taking_end() as stop:
        fleet.pipelines.run(
            plan,
            spark=spark,
            is_endless=not once,
            on_batch=lines.landed,
            on_progress=numbers.progressed,
            on_wait=lines.waiting,
            on_lag=(lambda _, lag: numbers.measured(lag)) if metrics is not None else None,
            stop=stop,
        )
    lines.close()
    session.show(Answer(build_landing_view(fleet.pipelines.plan(declared))))


@pipelines.command("list", examples=["seamark pipelines list", "seamark pipelines list 'pay*' -f config"])
@click.argument("name", nargs=-1)
@file_options(required=False)
@watch_command
def list_pipelines(fleet: Fleet, *, name: tuple[str, ...], file: tuple[Path, ...], allow_python: bool) -> Answer:
    """List pipelines with rows, lag and state.

    All that are registered, those of spec files, or those of these names and patterns.
    """
    return _read_statuses(fleet, name, file, allow_python=allow_python)


@pipelines.command(
    "status",
    examples=[
        "seamark pipelines status -f config",
        "seamark pipelines status payments",
        "seamark pipelines status --fail-on error",
    ],
)
@click.argument("name", nargs=-1)
@file_options(required=False)
@fail_on_option("a pipeline has a problem")
@watch_command
def show_landings(
    fleet: Fleet, *, name: tuple[str, ...], file: tuple[Path, ...], allow_python: bool, fail_on: str | None
) -> Answer:
    """Show rows, lag and state of pipelines.

    Read from the tables, the brokers, and what running applications publish. With the name of one pipeline, its
    partitions and how to fix its problems.
    """
    return _read_statuses(fleet, name, file, allow_python=allow_python, fail_on=fail_on)


def _read_statuses(
    fleet: Fleet,
    names: tuple[str, ...],
    files: tuple[Path, ...],
    *,
    allow_python: bool,
    fail_on: str | None = None,
) -> Answer:
    from seamark.pipelines.views import build_status_view, build_statuses_view  # noqa: PLC0415

    specs = fleet.pipelines.choose(files, patterns=names, allow_python=allow_python)
    found = fleet.pipelines.read_status(specs)
    is_one = len(names) == len(found) == 1 and names[0] == found[0].name
    view = build_status_view(found[0]) if is_one else build_statuses_view(found)
    answer = build_answer(view, {one.name: one.error for one in found if one.error is not None}, asked=len(found))
    if fail_on is None:
        return answer
    return replace(answer, exit_code=int(is_failing((one.severity for one in found), fail_on)))


for found in (submit_landing, compact_landing, vacuum_landing, rebuild_landing):
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


# Of hundreds of tables the first ones are shown; `seamark pipelines plan` has each.
_SHOWN_TABLES = 10


def _agree_all(session: Session, fleet: Fleet, specs: Sequence[PipelineSpec], *, yes: bool) -> tuple[LandPlan, ...]:
    """Show which tables are created or changed, and ask. Resuming pipelines needs no second confirmation.

    Returns:
        The plans of those that can be planned.
    """
    from seamark.pipelines.status import LandState  # noqa: PLC0415

    plans, failures = fleet.pipelines.plan_all(specs)
    for name, error in failures.items():
        session.reporter.note(f"  {name}: {error.message}; it is tried again while the others run")
    new = [one for one in plans if one.state is LandState.NEW or one.statements]
    count = render_count(len(specs), "pipeline")
    behind = render_count(sum(one.behind for one in plans), "record")
    session.reporter.note(f"{count} in one application, at most {behind} to process")
    if not new:
        return plans
    for one in new[:_SHOWN_TABLES]:
        landing = one.declared.landing
        session.reporter.note(f"  {landing.name}: {landing.topic} → {landing.table} of {one.declared.where}")
        for statement in one.statements:
            session.reporter.note(f"    first: {statement}")
    if len(new) > _SHOWN_TABLES:
        session.reporter.note(f"  and {len(new) - _SHOWN_TABLES} more; see seamark pipelines plan NAME")
    try:
        confirm_by_name(session, fleet, new[0].declared.landing.name if len(new) == 1 else fleet.context.name, yes=yes)
    except UsageError as error:
        error.hint = "review them with seamark pipelines plan NAME, then pass --yes"
        raise
    return plans


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
