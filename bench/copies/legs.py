"""Each way to copy a topic with Spark: ours, bare with its defaults, and bare with every setting that makes it fast."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from bench.copies.session import choose_path
from bench.copies.stage import Copied, Kept, Shape, Source, Stage
from seamark.pipelines.copy_plan import CopyPlan, TopicEnd
from seamark.pipelines.cutting import Limits, cut_slices
from seamark.pipelines.routing import Routing, Rule
from seamark.pipelines.slices import OffsetRange

CODEC = "lz4"
# A slice of a million: each of six tasks is one transaction of some seconds.
SLICE = 1_000_000
# What fetches more at once, as Java's consumer names it. Ours takes the same.
READ_TUNED: Mapping[str, str] = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}
# What our own source is set to beside that, and nobody else's: see `seamark.spark.source_options`.
READ_TAUGHT: Mapping[str, str] = {**READ_TUNED, "kafka.fetch.max.wait.ms": "20"}
WRITE_TUNED: Mapping[str, str] = {"kafka.linger.ms": "50", "kafka.batch.size": str(256 << 10)}

EXACT = Kept(timestamps=True, order=True)
# Spark's own sink stamps records anew. A retried batch would break neither order nor counts here: nothing fails.
PLAIN = Kept(timestamps=False, order=False)


def copy_ours(stage: Stage, shape: Shape, *, limits: Limits | None = None) -> Copied:
    """`run_copy`, from the plan to the last control record; in slices of a million where nothing is said."""
    from seamark.spark.copy_job import CopyEnds, run_copy  # noqa: PLC0415 - the list of benches needs no Spark

    choose_path(stage.spark, is_default=False)
    plan = build_plan(stage, shape, limits=limits)
    servers = {"kafka.bootstrap.servers": stage.servers}
    ends = CopyEnds(
        {**servers, **READ_TUNED},
        target={**servers, "kafka.compression.type": CODEC},
        control_topic=stage.control_topic,
    )
    progress = run_copy(stage.spark, plan, ends)
    counted = progress.count if progress.is_complete and not progress.repeats else -1
    return Copied(shape, stage.target, kept=EXACT, counted=counted)


def copy_bare(stage: Stage, shape: Shape) -> Copied:
    """What anybody writes first. The codec is that of the others; all else is Spark's and Kafka's default."""
    choose_path(stage.spark, is_default=True)
    return _copy_plainly(stage, shape, read={}, write={})


def copy_tuned(stage: Stage, shape: Shape) -> Copied:
    """The same by the newer path, with larger fetches and batches."""
    choose_path(stage.spark, is_default=False)
    return _copy_plainly(stage, shape, read=READ_TUNED, write=WRITE_TUNED)


def copy_taught(stage: Stage, shape: Shape) -> Copied:
    """Tuned, and with what we found: Spark waits half a second in each task that reads to the end of a log."""
    choose_path(stage.spark, is_default=False)
    return _copy_plainly(stage, shape, read=READ_TAUGHT, write=WRITE_TUNED)


def _copy_plainly(stage: Stage, shape: Shape, *, read: Mapping[str, str], write: Mapping[str, str]) -> Copied:
    source = stage.find_source(shape)
    reader = stage.spark.read.format("kafka").option("kafka.bootstrap.servers", stage.servers)
    reader = reader.option("subscribe", source.topic).options(**read)
    # The columns of a record alone: with `partition` the rows could not go to fewer partitions.
    writer = reader.load().select("key", "value").write.format("kafka").mode("append")
    writer = writer.option("kafka.bootstrap.servers", stage.servers).option("topic", stage.target)
    writer.option("kafka.compression.type", CODEC).options(**write).save()
    return Copied(shape, stage.target, kept=PLAIN)


def build_plan(stage: Stage, shape: Shape, *, limits: Limits | None = None) -> CopyPlan:
    """The plan of a copy, as the planner would make it of a topic whose keys lie in place."""
    source = stage.find_source(shape)
    ranges = build_ranges(source)
    return CopyPlan(
        id=uuid4().hex,
        made_at="2026-11-16T00:00:00Z",
        source=TopicEnd(stage.cluster_id, source.topic, "", partitions=shape.sources, replication_factor=1),
        target=TopicEnd(stage.cluster_id, stage.target, "", partitions=shape.targets, replication_factor=1),
        routing=Routing(Rule.MURMUR2, shape.sources, shape.targets),
        evidence="the bench filled it",
        ranges=ranges,
        slices=cut_slices(ranges, {}, limits=limits or Limits(SLICE)),
        configs=(),
    )


def build_ranges(source: Source) -> tuple[OffsetRange, ...]:
    """All of a source."""
    return tuple(OffsetRange(partition, 0, source.ends[partition]) for partition in range(source.partitions))
