"""A topic copied by Spark: each slice is one job, from the source's offsets to the sink of copies.

Where each target has one source nothing is shuffled: a source partition is one task. Otherwise records are shuffled to
the task of their target, and sorted by where they come from. Either way the target's order is that of the sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.progress import Progress, read_progress
from seamark.copies.plan.settings import CopyEnds
from seamark.copies.plan.tasks import build_tasks
from seamark.copies.plan.topics import check_topic
from seamark.copies.run.copy_sink import HASH, HEADERS, SOURCE_OFFSET, SOURCE_PARTITION, TARGET, CopySink
from seamark.errors import RefusedError
from seamark.kafka.log import PartitionLog
from seamark.kafka.topics import TopicAdmin
from seamark.kafka_sink.batch_limit import BatchLimit
from seamark.kafka_sink.control_scan import read_known, read_records
from seamark.kafka_sink.control_topic import ensure_control_topic
from seamark.kafka_sink.options import SinkOptions
from seamark.kafka_sink.placing import build_target_column
from seamark.kafka_sink.routing import Routing
from seamark.kafka_sink.takeover import take_over
from seamark.spark.session import active_session, branch, register_sink
from seamark.spark.slices import Slice
from seamark.spark.source import build_hash, read_ranges
from seamark.spark.source_options import build_source_options

# A transaction whose owner died is ended by the brokers at their next look after its time, which is 10 s away at most.
_SLACK_SECONDS = 30.0

OnSlice = Callable[[Slice, int, int], None]
"""Called after each slice: the slice, how many are done now, and how many there are."""


def run_copy(spark: SparkSession, plan: CopyPlan, ends: CopyEnds, *, on_slice: OnSlice | None = None) -> Progress:
    """Copy what is left of a plan. What an earlier run has done is not done again.

    `on_slice` may wait, to leave the brokers to others, and may raise, to end the run between two slices.

    Raises:
        RefusedError: the plan can't be run, its topics are not those that it was made for, or its control records
            contradict each other or the target.
    """
    routing = plan.require_accepted()
    # Refused before anything is made, and not by the first slice.
    build_source_options(ends.source)
    options = ends.read_sink_options(plan.target.topic)
    control_id = _prepare(plan, ends, options)
    register_sink(spark, CopySink)
    ends_before = _read_ends(plan, options)
    if any(ends_before.values()):
        # Control records of another format version are refused before the process that wrote them is fenced.
        read_known(options.build_settings().reader, options.control_topic, job=plan.id)
        take_over(plan.id, options.build_settings(), tasks=len(build_tasks(routing)))
    before = _read_progress(plan, options)
    _check_target(plan, before, options)
    left = before.slices[before.done :]
    if left:
        # The limit of bytes per batch is changed while slices are copied: the caller's session keeps its own.
        spark = branch(spark, {})
    limit = BatchLimit(spark)
    if left:
        begins = {one.partition: one.begin for one in left[0].ranges}
        limit.look(ends.find_source_client(plan, options), plan.source.topic, begins=begins)
    for done, part in enumerate(left, start=before.done + 1):
        limit.run(partial(write_slice, spark, plan, part, ends=ends, routing=routing, control_id=control_id))
        if on_slice is not None:
            on_slice(part, done, len(before.slices))
    return _read_progress(plan, options)


def write_slice(
    spark: SparkSession, plan: CopyPlan, part: Slice, *, ends: CopyEnds, routing: Routing, control_id: str = ""
) -> None:
    """Copy one slice. `control_id` is what the control topic was when the run began."""
    frame = build_frame(spark, plan.source.topic, part, options=ends.source, routing=routing)
    writer = frame.write.format(CopySink.name()).mode("append").options(**ends.target)
    writer = writer.option("topic", plan.target.topic).option("control.topic", ends.control_topic)
    writer = writer.option("plan", plan.id).option("slice", part.id)
    writer = writer.option("control.id", control_id)
    writer = writer.option("routing", json.dumps(routing.to_dict()))
    with active_session(spark):
        writer.save()


def build_frame(
    spark: SparkSession, topic: str, part: Slice, *, options: Mapping[str, str], routing: Routing
) -> DataFrame:
    """The records of a slice, in the tasks that are to write them."""
    chosen = read_ranges(spark, topic, part.ranges, options=options).select(
        "key",
        "value",
        # As text: most records have none. Where a list is null, Spark counts the bytes of its batch anew for each row.
        sf.to_json("headers").alias(HEADERS),
        "timestamp",
        sf.col("partition").alias(SOURCE_PARTITION),
        sf.col("offset").alias(SOURCE_OFFSET),
        build_hash().alias(HASH),
    )
    if not routing.needs_shuffle:
        return chosen
    if routing.is_told_by_source:
        # The sink looks at the keys, as it does without a shuffle: one process of Python less for each task.
        shuffled = chosen.repartitionById(routing.targets, sf.col(SOURCE_PARTITION) % routing.targets)
    else:
        target = build_target_column(sf.col("key"), sf.col(SOURCE_PARTITION), routing=routing)
        shuffled = chosen.withColumn(TARGET, target).repartitionById(routing.targets, TARGET)
    return shuffled.sortWithinPartitions(SOURCE_PARTITION, SOURCE_OFFSET)


def _prepare(plan: CopyPlan, ends: CopyEnds, options: SinkOptions) -> str:
    """Check both topics before a task starts. Gives the id of the control topic."""
    with TopicAdmin(ends.find_source_client(plan, options)) as admin:
        check_topic(admin, plan.source, role="source")
    with TopicAdmin(options.build_settings().reader) as admin:
        check_topic(admin, plan.target, role="target")
        return ensure_control_topic(admin, options.control_topic)


def _read_progress(plan: CopyPlan, options: SinkOptions) -> Progress:
    settings = options.build_settings()
    patience = settings.transaction_seconds + _SLACK_SECONDS
    records = read_records(settings.reader, options.control_topic, job=plan.id, patience_seconds=patience)
    return read_progress(plan.id, plan.slices, records)


def _read_ends(plan: CopyPlan, options: SinkOptions) -> dict[int, int]:
    """Where each partition of the target ends now."""
    with TopicAdmin(options.build_settings().reader) as admin:
        found = admin.read_end_offsets((plan.target.topic, number) for number in range(plan.target.partitions))
    return {partition: end for (_, partition), end in found.items()}


def _check_target(plan: CopyPlan, progress: Progress, options: SinkOptions) -> None:
    """Make sure that the target is the one that the control records tell of, before more is written to it."""
    settings, topic = options.build_settings(), plan.target.topic
    ends = _read_ends(plan, options)
    progress.check_target(ends)
    if progress.records:
        return
    patience = settings.transaction_seconds + _SLACK_SECONDS
    for partition in (partition for partition, end in ends.items() if end):
        # What was aborted has offsets too.
        with PartitionLog(settings.reader, topic, partition=partition, patience_seconds=patience) as log:
            if next(iter(log.read()), None) is None:
                continue
        if _read_progress(plan, options).records:
            # A task of an earlier run, which nobody has ended, has just been committed.
            return
        raise RefusedError(
            f"the topic {topic} has records, and the control topic {options.control_topic} tells of none of this copy",
            cause="the copy was begun with another control topic, or somebody else writes to the target",
            hint="name the control topic that it was begun with; or make a new plan, with a new target",
        )
