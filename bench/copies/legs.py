"""Each way to copy a topic with Spark: ours, and Spark's own Kafka source and sink with every setting that helps."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from bench.copies.stage import Copied, Kept, Shape, Stage
from bench.harness.definition import BenchError
from seamark.copies.plan.endpoints import CopyOptions, read_source
from seamark.copies.plan.plan import CopyPlan, TopicEnd, cut_slices
from seamark.copies.plan.planner import choose_limits, read_time_index
from seamark.copies.plan.settings import CopyEnds
from seamark.kafka import Brokers
from seamark.kafka_sink.routing import Partitioner, Routing

CODEC = "lz4"
# What fetches more at once, as Java's consumer names it; and without a wait of half a second in each task that reads to
# the end of a log, which `seamark.spark.settings` explains. Every leg has these.
READ: Mapping[str, str] = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.fetch.max.wait.ms": "20",
}
WRITE: Mapping[str, str] = {"kafka.linger.ms": "50", "kafka.batch.size": str(256 << 10)}

EXACT = Kept(timestamps=True, order=True)
# Spark's own sink stamps records anew. A retried batch would break neither order nor counts here: nothing fails.
PLAIN = Kept(timestamps=False, order=False)


def prepare_ours(stage: Stage, shape: Shape) -> None:
    """Create a new target, and plan the copy to it. Neither is timed."""
    stage.renew_target(shape)
    stage.plan = build_plan(stage, shape)


def copy_ours(stage: Stage, shape: Shape) -> Copied:
    """`run_copy` of the plan, to the last control record."""
    plan = stage.plan
    if plan is None:
        raise BenchError("the copy has no plan")
    from seamark.copies.run.spark_copy import run_copy  # noqa: PLC0415 - the list of benches needs no Spark

    servers = {"kafka.bootstrap.servers": stage.servers}
    ends = CopyEnds(
        {**servers, **READ},
        target={**servers, "kafka.compression.type": CODEC},
        control_topic=stage.control_topic,
    )
    progress = run_copy(stage.spark, plan, ends)
    counted = progress.count if progress.is_complete and not progress.repeats else -1
    return Copied(shape, stage.target, kept=EXACT, counted=counted, slices=len(plan.slices))


def copy_taught(stage: Stage, shape: Shape) -> Copied:
    """Copy with Spark's own source and sink, set as an expert would set them who knows what we know."""
    source = stage.find_source(shape)
    reader = stage.spark.read.format("kafka").option("kafka.bootstrap.servers", stage.servers)
    reader = reader.option("subscribe", source.topic).options(**READ)
    # The columns of a record alone: with `partition` the rows could not go to fewer partitions.
    writer = reader.load().select("key", "value").write.format("kafka").mode("append")
    writer = writer.option("kafka.bootstrap.servers", stage.servers).option("topic", stage.target)
    writer.option("kafka.compression.type", CODEC).options(**WRITE).save()
    return Copied(shape, stage.target, kept=PLAIN)


def build_plan(stage: Stage, shape: Shape) -> CopyPlan:
    """Build the plan of a copy with the planner's own slices; that keys are in place is known, and isn't sampled."""
    topic, targets, copies = stage.find_source(shape).topic, shape.targets, shape.replication_factor
    with Brokers({"bootstrap.servers": stage.servers}) as kafka:
        source = read_source(kafka, CopyOptions(topic, partitions=targets))
        limits = choose_limits(source.ranges, targets=targets, size_bytes=source.wanted_bytes, slice_records=None)
        index = read_time_index(kafka, topic, source.ranges, limits=limits)
    return CopyPlan(
        id=uuid4().hex,
        made_at="2026-11-16T00:00:00Z",
        source=source.end,
        target=TopicEnd(stage.cluster_id, stage.target, "", partitions=targets, replication_factor=copies),
        routing=Routing(Partitioner.MURMUR2, shape.sources, targets),
        evidence="the bench filled it",
        ranges=source.ranges,
        slices=cut_slices(source.ranges, index, limits=limits),
        configs=(),
    )
