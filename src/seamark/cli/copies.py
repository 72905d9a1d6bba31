"""`seamark copy`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.complete import complete_topics
from seamark.cli.confirm import (
    ChangeOptions,
    change_command,
    change_options,
    confirm_and_apply,
    confirm_by_name,
    consent_options,
)
from seamark.cli.copy_options import CopyLines, control_option, far_option, open_copies, spark_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.errors import InterruptedRunError, RefusedError, SeamarkError, UsageError
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.copies.plan.registry import KnownPlan
    from seamark.fleet import Fleet
    from seamark.spark.settings import SparkOptions


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
    from seamark.copies.cutover.planner import CutoverOptions  # noqa: PLC0415

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
            confirm_and_apply(session, fleet, planned, how)
        finally:
            lines.close()


@click.command("finish")
@click.argument("plan", metavar="PLANFILE|ID")
@option("--abandon", multiple=True, metavar="GROUP", help="A group that nobody misses; may be repeated.")
@control_option
@change_command
def finish(fleet: Fleet, *, plan: str, abandon: tuple[str, ...], control_topic: str) -> PlannedChange:
    """Delete the topic that nobody needs after a cut-over: the source, or the temporary copy of one in place."""
    return fleet.copies.finish(plan, abandon=abandon, control_topic=control_topic)


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
    from seamark.copies.status import build_readers_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, copies):
        found = copies.readers(
            plan,
            missing=missing or "",
            groups=groups,
            spark=spark if exact else None,
            control_topic=control_topic,
        )
        topic = copies.find(plan, control_topic=control_topic).plan.target.topic
    session.show(Answer(build_readers_view(found, topic)))


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
    session.show(Answer(draft.build_view(), exit_code=code))
    if out is not None:
        from seamark.copies.plan.registry import write_copy_plan  # noqa: PLC0415

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
    from seamark.copies.run.runner import CopyRunOptions  # noqa: PLC0415
    from seamark.copies.status import build_status_view  # noqa: PLC0415

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
        session.show(Answer(build_status_view(copies.status(known.plan.id, control_topic=control_topic))))


@copy.command("status")
@click.argument("plan", metavar="[PLANFILE|ID]", required=False)
@control_option
@far_option
@global_options
@pass_session
def copy_status(session: Session, *, plan: str | None, control_topic: str, to_context: str | None) -> None:
    """Show how far copies are, told from the control topic alone; with an ID one of them, and its next step."""
    from seamark.copies.status import build_status_view, build_statuses_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, copies):
        if plan is None:
            reading = copies.all(control_topic=control_topic)
            asked = len(reading.items) + len(reading.failures)
            session.show(build_answer(build_statuses_view(reading), reading.failures, asked=asked))
        else:
            session.show(Answer(build_status_view(copies.status(plan, control_topic=control_topic))))


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
    from seamark.copies.verify.report import build_verification_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, copies):
        lines = CopyLines(session)
        report = copies.verify(plan, level=level, spark=spark, control_topic=control_topic, on_stage=lines.said)
    session.show(Answer(build_verification_view(report), exit_code=0 if report.is_passed else 1))


copy.add_command(cutover)
copy.add_command(finish)
copy.add_command(show_readers)


def _agree(session: Session, fleet: Fleet, known: KnownPlan, *, yes: bool) -> None:
    """Ask before the first run; resuming a copy needs no second confirmation."""
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
        confirm_by_name(session, fleet, target.topic, yes=yes)
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
