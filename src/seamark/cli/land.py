"""`seamark land`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.confirm import confirm, consent_options
from seamark.cli.copy_options import spark_options
from seamark.cli.land_compact import compact_landing
from seamark.cli.land_lines import LandLines
from seamark.cli.land_submit import submit_landing
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.spec_options import file_options
from seamark.errors import SeamarkError, UsageError
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.pipelines.status import LandPlan
    from seamark.spark.spark_session import SparkOptions


@click.group
def land() -> None:
    """Land a topic in a table of PostgreSQL or of a lake, each record once, on Spark."""


@land.command("plan")
@click.argument("name")
@file_options(required=False)
@global_options
@pass_session
def plan_landing(session: Session, *, name: str, file: tuple[Path, ...], allow_python: bool) -> None:
    """Show what a run would do: the table's new columns, and from where to where each partition is landed."""
    from seamark.pipelines.view import build_landing_view  # noqa: PLC0415

    with session.fleet() as fleet:
        (declared,) = fleet.landings.declared(file, names=[name], allow_python=allow_python)
        session.give(Answer(build_landing_view(fleet.landings.plan(declared))))


@land.command("run")
@click.argument("name")
@file_options(required=False)
@spark_options
@option("--once", is_flag=True, help="Land what is there, also where the file says how often.")
@option(
    "--metrics",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write how it goes there after each batch, as Prometheus reads it.",
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
    """Land what is there; where the file says every: …, go on until Ctrl-C.

    Any machine may run it, and go on where another stopped: the table's own store knows how far it is. Of two runs
    one ends by itself.
    """
    from seamark.pipelines.metrics import LandMetrics  # noqa: PLC0415
    from seamark.pipelines.view import build_landing_view  # noqa: PLC0415

    numbers = LandMetrics(name, file=metrics)
    with session.fleet() as fleet:
        landings = fleet.landings
        (declared,) = landings.declared(file, names=[name], allow_python=allow_python)
        plan = landings.plan(declared)
        _agree(session, plan, yes=yes, is_protected=fleet.context.protected)
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
        session.give(Answer(build_landing_view(landings.plan(declared))))


@land.command("status")
@click.argument("name", required=False)
@file_options(required=False)
@global_options
@pass_session
def show_landings(session: Session, *, name: str | None, file: tuple[Path, ...], allow_python: bool) -> None:
    """Show how far landings are, told by the tables' stores and the brokers; with a NAME one of them."""
    from seamark.pipelines.view import build_landing_view, build_landings_view  # noqa: PLC0415

    with session.fleet() as fleet:
        found = fleet.landings.declared(file, names=[name] if name else (), allow_python=allow_python)
        if name:
            session.give(Answer(build_landing_view(fleet.landings.plan(found[0]))))
            return
        plans, failures = [], {}
        for one in found:
            try:
                plans.append(fleet.landings.plan(one))
            except SeamarkError as error:
                failures[one.landing.name] = error
        session.give(build_answer(build_landings_view(plans, failures), failures, asked=len(found)))


land.add_command(compact_landing)
land.add_command(submit_landing)


def _agree(session: Session, plan: LandPlan, *, yes: bool, is_protected: bool) -> None:
    """Ask before the first run, and before a table is changed; who goes on with a landing was asked already."""
    from seamark.pipelines.status import LandState  # noqa: PLC0415

    landing = plan.declared.landing
    plan.require_whole()
    if plan.state is not LandState.NEW and not plan.statements:
        return
    session.reporter.note(
        f"{landing.topic} ({render_count(len(plan.partitions), 'partition')}, at most "
        f"{render_count(plan.behind, 'record')}) is landed "
        f"in {landing.table} of {plan.declared.where}"
    )
    for statement in plan.statements:
        session.reporter.note(f"  first: {statement}")
    try:
        confirm(session, yes=yes, word=landing.name if is_protected else "yes", is_protected=is_protected)
    except UsageError as error:
        error.hint = "say it with --yes, after a look at: seamark land plan"
        raise


@contextmanager
def _taking_end() -> Iterator[threading.Event]:
    """An event that SIGTERM sets: between two batches the landing ends. Ctrl-C ends it at once, as safely."""
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield stop
    except KeyboardInterrupt:
        stop.set()
    finally:
        signal.signal(signal.SIGTERM, before)
