"""`seamark copy`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.complete import complete_topics
from seamark.cli.confirm import confirm, consent_options
from seamark.cli.copies_cutover import cutover, finish
from seamark.cli.copy_options import control_option, far_option, open_copies, spark_options
from seamark.cli.copy_progress import CopyLines
from seamark.cli.copy_readers import show_readers
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.errors import InterruptedRunError, RefusedError, SeamarkError, UsageError
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.copies.plan.registry import KnownPlan
    from seamark.fleet import Fleet
    from seamark.spark.spark_session import SparkOptions


@click.group
def copy() -> None:
    """Copy a topic to another number of partitions, on Spark."""


@copy.command("plan")
@click.argument("topic", shell_complete=complete_topics)
@option("--partitions", required=True, metavar="[M:]N", help="How many the target has; M is checked against the topic.")
@option("--to", default="", metavar="NAME", help="The target's name; by default TOPIC-N.")
@option("--rule", metavar="RULE", help="How records are placed, if samples don't prove it: murmur2, crc32, partition.")
@option("--from", "since", metavar="PLACE", help="Begin there: an offset, or a time as 2026-11-14T12:00:00Z.")
@option("--until", metavar="PLACE", help="End before there: an offset, or a time. By default where the topic ends now.")
@option("--replication-factor", type=int, metavar="N", help="Copies of each partition; by default as the source has.")
@option("--slice-records", type=int, metavar="N", help="How many records a slice has, about.")
@option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Save the plan for copy run.")
@far_option
@global_options
@pass_session
def plan_copy(
    session: Session,
    *,
    topic: str,
    partitions: str,
    to: str,
    rule: str | None,
    since: str | None,
    until: str | None,
    replication_factor: int | None,
    slice_records: int | None,
    out: Path | None,
    to_context: str | None,
) -> None:
    """Plan a copy: how records are placed, in which slices, and who reads the topic.

    Nothing is changed. Ends with 5 where the copy must not be run; the plan says why.
    """
    with open_copies(session, to_context) as (_, copies):
        draft = copies.plan(
            topic,
            partitions,
            to=to,
            rule=rule,
            since=since,
            until=until,
            replication_factor=replication_factor,
            slice_records=slice_records,
        )
    code = RefusedError.exit_code if draft.plan.is_refused else 0
    session.give(Answer(draft.build_view(), exit_code=code))
    if out is not None:
        from seamark.copies.plan.plan_file import write_copy_plan  # noqa: PLC0415

        write_copy_plan(draft.plan, out)
        session.reporter.note(f"the plan is in {out}; run it: seamark copy run {out}")
    elif not code:
        session.reporter.note("to run it, save it with --out FILE, then: seamark copy run FILE")


@copy.command("run")
@click.argument("plan", metavar="PLANFILE|ID")
@spark_options
@option("--rate", type=click.IntRange(min=1), metavar="N", help="Copy no more than N records a second.")
@option("--follow", is_flag=True, help="Copy also what comes to the source meanwhile, until little is left.")
@option("--lag", type=click.IntRange(min=0), default=10_000, show_default=True, help="With --follow: so little.")
@control_option
@far_option
@consent_options
@global_options
@pass_session
def run_copy(
    session: Session,
    *,
    plan: str,
    spark: SparkOptions,
    rate: int | None,
    follow: bool,
    lag: int,
    control_topic: str,
    to_context: str | None,
    yes: bool,
) -> None:
    """Run a plan, or go on with it: what is done is not done again.

    The first time it makes the target and registers the plan in the control topic; after that its id is enough, on
    any machine.
    """
    from seamark.copies.run.running import CopyRunOptions  # noqa: PLC0415
    from seamark.copies.status_view import build_status_view  # noqa: PLC0415

    with open_copies(session, to_context) as (fleet, copies):
        known = copies.find(plan, control_topic=control_topic)
        _agree(session, fleet, known, yes=yes)
        lines = CopyLines(session)
        try:
            outcome = copies.run(
                known,
                options=CopyRunOptions(rate=rate, follow=follow, lag=lag),
                spark=spark,
                control_topic=control_topic,
                events=lines,
            )
        except KeyboardInterrupt:
            raise _build_stopped(known.plan.id) from None
        except SeamarkError as error:
            error.context.setdefault("copy", known.plan.id)
            raise
        finally:
            lines.close()
        if outcome.is_repeat:
            session.reporter.note("all of it was copied already; nothing was written")
        session.give(Answer(build_status_view(copies.status(known.plan.id, control_topic=control_topic))))


@copy.command("status")
@click.argument("plan", metavar="[PLANFILE|ID]", required=False)
@control_option
@far_option
@global_options
@pass_session
def copy_status(session: Session, *, plan: str | None, control_topic: str, to_context: str | None) -> None:
    """Show how far copies are, told from the control topic alone; with an ID one of them, and its next step."""
    from seamark.copies.status_view import build_status_view, build_statuses_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, copies):
        if plan is None:
            reading = copies.all(control_topic=control_topic)
            asked = len(reading.items) + len(reading.failures)
            session.give(build_answer(build_statuses_view(reading), reading.failures, asked=asked))
        else:
            session.give(Answer(build_status_view(copies.status(plan, control_topic=control_topic))))


@copy.command("verify")
@click.argument("plan", metavar="PLANFILE|ID")
@option(
    "--level",
    type=click.Choice(["quick", "standard", "full"]),
    default="standard",
    show_default=True,
    help="How closely to look.",
)
@spark_options
@control_option
@far_option
@global_options
@pass_session
def verify_copy(
    session: Session, *, plan: str, level: str, spark: SparkOptions, control_topic: str, to_context: str | None
) -> None:
    """Compare the target with the source, and say what differs and where.

    Ends with 1 when something differs.
    """
    from seamark.copies.verify.verify_view import build_verification_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, copies):
        lines = CopyLines(session)
        report = copies.verify(plan, level=level, spark=spark, control_topic=control_topic, on_stage=lines.said)
    session.give(Answer(build_verification_view(report), exit_code=0 if report.is_passed else 1))


copy.add_command(cutover)
copy.add_command(finish)
copy.add_command(show_readers)


def _agree(session: Session, fleet: Fleet, known: KnownPlan, *, yes: bool) -> None:
    """Ask before the first run; who goes on with a copy was asked already."""
    plan = known.plan
    plan.require_accepted()
    if known.registration is not None:
        return
    target = plan.target
    made = "exists already" if target.topic_id else "is made"
    session.reporter.note(
        f"{plan.source.topic} ({plan.source.partitions} partitions) is copied to {target.topic} "
        f"({target.partitions}), which {made}; {render_count(plan.size, 'record')} at most, in "
        f"{render_count(len(plan.slices), 'slice')}"
    )
    try:
        is_protected = fleet.context.protected
        confirm(session, yes=yes, word=target.topic if is_protected else "yes", is_protected=is_protected)
    except UsageError as error:
        error.hint = "say it with --yes, after a look at the plan"
        raise


def _build_stopped(plan: str) -> InterruptedRunError:
    return InterruptedRunError(
        f"the copy {plan} was stopped",
        cause="slices that are done stay done; the one under way is repeated",
        hint=f"seamark copy run {plan} goes on; seamark copy status {plan} says how far it is",
        context={"copy": plan},
    )
