"""`seamark copies`."""

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
from seamark.cli.offset_changes import assume_down_option
from seamark.cli.options import Number, global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.tree import command, group
from seamark.errors import InterruptedRunError, RefusedError, SeamarkError, UsageError
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.copies.plan.registry import KnownPlan
    from seamark.fleet import Fleet
    from seamark.spark.settings import SparkOptions


@command(
    "cutover",
    examples=[
        "seamark copies cutover 01JCQ8 --dry-run",
        "seamark copies cutover plan.json --read-committed --exclude-group audit",
    ],
)
@click.argument("plan", metavar="PLANFILE|ID")
@option(
    "--in-place",
    is_flag=True,
    help="Recreate the source topic from the copy. Can't be undone.",
)
@option(
    "--default-offset",
    type=click.Choice(["earliest", "latest"]),
    help="Where a consumer starts in a partition without a committed offset.",
)
@option(
    "--level",
    type=click.Choice(["quick", "standard", "full"]),
    default="standard",
    show_default=True,
    help="How to compare the copy before the cutover.",
)
@option("--exclude-group", multiple=True, metavar="GROUP", help="Keep this group on the source; repeatable.")
@option(
    "--source-connector",
    multiple=True,
    metavar="CONNECTOR",
    help="Another source that writes to the topic; repeatable.",
)
@option("--read-committed", is_flag=True, help="Set sinks to read_committed, so that they omit aborted records.")
@option("--allow-aborted-records", is_flag=True, help="Allow consumers that read aborted records.")
@assume_down_option
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
    default_offset: str | None,
    level: str,
    exclude_group: tuple[str, ...],
    source_connector: tuple[str, ...],
    read_committed: bool,
    allow_aborted_records: bool,
    assume_worker_down: bool,
    spark: SparkOptions,
    control_topic: str,
    how: ChangeOptions,
) -> None:
    """Switch consumers and producers to the copy.

    One change: connectors stop, the remaining records are copied and compared, every consumer gets the offset of its
    next record, configs are switched, and connectors restart. If a step fails, seamark switches every connector back.
    It can be undone until a producer writes to the copy.
    """
    from seamark.copies.cutover.planner import CutoverOptions  # noqa: PLC0415

    options = CutoverOptions(
        missing=default_offset or "",
        level=level,
        leave=exclude_group,
        sources=source_connector,
        read_committed=read_committed,
        allow_aborted_records=allow_aborted_records,
        assume_worker_down=assume_worker_down,
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


@command("cleanup", examples=["seamark copies cleanup 01JCQ8 --dry-run"])
@click.argument("plan", metavar="PLANFILE|ID")
@option("--ignore-group", multiple=True, metavar="GROUP", help="Allow this group to lose its topic; repeatable.")
@control_option
@change_command
def cleanup(fleet: Fleet, *, plan: str, ignore_group: tuple[str, ...], control_topic: str) -> PlannedChange:
    """Delete the unused topic after a cutover.

    That is the source topic, or the temporary copy if the cutover was in place.
    """
    return fleet.copies.cleanup(plan, abandon=ignore_group, control_topic=control_topic)


@command(
    "consumers",
    examples=["seamark copies consumers 01JCQ8", "seamark copies consumers 01JCQ8 --group billing -o csv"],
)
@click.argument("plan", metavar="PLANFILE|ID")
@option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; repeatable.")
@option(
    "--default-offset",
    type=click.Choice(["earliest", "latest"]),
    help="Where a consumer starts in a partition without a committed offset.",
)
@option("--exact", is_flag=True, help="Count with Spark if the control records give bounds only.")
@spark_options
@control_option
@far_option
@global_options
@pass_session
def show_consumers(
    session: Session,
    *,
    plan: str,
    groups: tuple[str, ...],
    default_offset: str | None,
    exact: bool,
    spark: SparkOptions,
    control_topic: str,
    to_context: str | None,
) -> None:
    """Show the offsets of consumers in the target.

    For each consumer of the source: the offset it would resume from, and how much it would reprocess. The output of
    -o csv is a file for `seamark groups move GROUP --from-file FILE`.
    """
    from seamark.copies.status import build_readers_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, service):
        found = service.consumers(
            plan,
            missing=default_offset or "",
            groups=groups,
            spark=spark if exact else None,
            control_topic=control_topic,
        )
        topic = service.find(plan, control_topic=control_topic).plan.target.topic
    session.show(Answer(build_readers_view(found, topic)))


@group({"readers": "copies consumers", "finish": "copies cleanup", "create": "copies plan"})
def copies() -> None:
    """Copy a topic to another partition count."""


@copies.command(
    "plan",
    examples=[
        "seamark copies plan orders --partitions 24 --out plan.json",
        "seamark copies plan orders --partitions 12:24 --target orders-v2",
    ],
)
@click.argument("topic", shell_complete=complete_topics)
@option(
    "--partitions", required=True, metavar="[M:]N", help="Partition count of the target; M must be that of the source."
)
@option("--target", default="", metavar="NAME", help="Name of the target. Default: TOPIC-N.")
@option("--partitioner", metavar="NAME", help="murmur2, crc32 or partition, if samples don't prove one.")
@option("--start", metavar="OFFSET|TIME", help="Start there: an offset, or a time such as 2026-11-14T12:00:00Z.")
@option("--end", metavar="OFFSET|TIME", help="End before it: an offset or a time. Default: the current end.")
@option(
    "--replication-factor",
    type=Number(minimum=1),
    metavar="N",
    help="Replicas of each partition. Default: as the source.",
)
@option("--slice-records", type=Number(minimum=1), metavar="N", help="Approximate records per slice.")
@option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Save the plan for `copies run`."
)
@far_option
@global_options
@pass_session
def plan_copy(
    session: Session,
    *,
    topic: str,
    partitions: str,
    target: str,
    partitioner: str | None,
    start: str | None,
    end: str | None,
    replication_factor: int | None,
    slice_records: int | None,
    out: Path | None,
    to_context: str | None,
) -> None:
    """Plan a copy of a topic.

    Shows the partitioner, the slices and the consumers of the topic, and changes nothing. Ends with exit code 5 if the
    copy would be refused; the plan gives the reason.
    """
    with open_copies(session, to_context) as (_, service):
        draft = service.plan(
            topic,
            partitions,
            to=target,
            rule=partitioner,
            since=start,
            until=end,
            replication_factor=replication_factor,
            slice_records=slice_records,
        )
    code = RefusedError.exit_code if draft.plan.is_refused else 0
    session.show(Answer(draft.build_view(), exit_code=code))
    if out is not None:
        from seamark.copies.plan.registry import write_copy_plan  # noqa: PLC0415

        write_copy_plan(draft.plan, out)
        session.reporter.note(f"plan saved to {out}; run it: seamark copies run {out}")
    elif not code:
        session.reporter.note("to run it, save it with --out FILE, then: seamark copies run FILE")


@copies.command(
    "run",
    examples=["seamark copies run plan.json", "seamark copies run 01JCQ8 --follow --max-lag 1,000"],
)
@click.argument("plan", metavar="PLANFILE|ID")
@spark_options
@option("--rate", type=Number(minimum=1), metavar="N", help="Copy at most N records per second.")
@option("--follow", is_flag=True, help="Copy new records too, until the lag is at most --max-lag.")
@option(
    "--max-lag",
    type=Number(minimum=0),
    default=10_000,
    show_default="10,000",
    metavar="N",
    help="Lag at which --follow ends.",
)
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
    max_lag: int,
    control_topic: str,
    to_context: str | None,
    yes: bool,
) -> None:
    """Run or resume a copy.

    The first run creates the target and registers the plan in the control topic. After that its ID is enough, on any
    machine; slices that are done are not repeated.
    """
    from seamark.copies.run.runner import CopyRunOptions  # noqa: PLC0415
    from seamark.copies.status import build_status_view  # noqa: PLC0415

    with open_copies(session, to_context) as (fleet, service):
        known = service.find(plan, control_topic=control_topic)
        _agree(session, fleet, known, yes=yes)
        lines = CopyLines(session)
        try:
            outcome = service.run(
                known,
                options=CopyRunOptions(rate=rate, follow=follow, lag=max_lag),
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
            session.reporter.note("everything was copied before; nothing was written")
        session.show(Answer(build_status_view(service.status(known.plan.id, control_topic=control_topic))))


@copies.command("status", examples=["seamark copies status", "seamark copies status 01JCQ8"])
@click.argument("plan", metavar="[PLANFILE|ID]", required=False)
@control_option
@far_option
@global_options
@pass_session
def copy_status(session: Session, *, plan: str | None, control_topic: str, to_context: str | None) -> None:
    """Show the progress of copies.

    Read from the control topic. With an ID, the progress of one copy and its next step.
    """
    from seamark.copies.status import build_status_view, build_statuses_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, service):
        if plan is None:
            reading = service.list(control_topic=control_topic)
            asked = len(reading.items) + len(reading.failures)
            session.show(build_answer(build_statuses_view(reading), reading.failures, asked=asked))
        else:
            session.show(Answer(build_status_view(service.status(plan, control_topic=control_topic))))


@copies.command("verify", examples=["seamark copies verify 01JCQ8", "seamark copies verify plan.json --level full"])
@click.argument("plan", metavar="PLANFILE|ID")
@option(
    "--level",
    type=click.Choice(["quick", "standard", "full"]),
    default="standard",
    show_default=True,
    help="How to compare.",
)
@spark_options
@control_option
@far_option
@global_options
@pass_session
def verify_copy(
    session: Session, *, plan: str, level: str, spark: SparkOptions, control_topic: str, to_context: str | None
) -> None:
    """Compare the target with the source.

    Ends with exit code 1 if they differ.
    """
    from seamark.copies.verify.report import build_verification_view  # noqa: PLC0415

    with open_copies(session, to_context) as (_, service):
        lines = CopyLines(session)
        report = service.verify(plan, level=level, spark=spark, control_topic=control_topic, on_stage=lines.said)
    session.show(Answer(build_verification_view(report), exit_code=0 if report.is_passed else 1))


for found in (show_consumers, cutover, cleanup):
    copies.add_command(found)


def _agree(session: Session, fleet: Fleet, known: KnownPlan, *, yes: bool) -> None:
    """Ask before the first run; resuming a copy needs no second confirmation."""
    plan = known.plan
    plan.require_accepted()
    if known.registration is not None:
        return
    target = plan.target
    made = "exists already" if target.topic_id else "is created"
    session.reporter.note(
        f"{plan.source.topic} ({plan.source.partitions:,} partitions) is copied to {target.topic} "
        f"({target.partitions:,}), which {made}; {render_count(plan.size, 'record')} at most, in "
        f"{render_count(len(plan.slices), 'slice')}"
    )
    try:
        confirm_by_name(session, fleet, target.topic, yes=yes)
    except UsageError as error:
        error.hint = "review the plan, then pass --yes"
        raise


def _build_stopped(plan: str) -> InterruptedRunError:
    return InterruptedRunError(
        f"the copy {plan} was stopped",
        cause="completed slices are kept; the current one is repeated",
        hint=f"continue: seamark copies run {plan}; show progress: seamark copies status {plan}",
        context={"copy": plan},
    )
