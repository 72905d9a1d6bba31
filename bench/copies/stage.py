"""Where the legs run: a broker, filled sources, one Spark session, and a fresh target for each run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from bench.copies.session import open_spark, read_jvm_pid
from bench.copies.sums import Sums, count_disorder, read_sums
from bench.copies.topics import Topics
from bench.harness.definition import BenchError, Prepared, WrongResultError
from seamark.devstack import Stack, StackSpec, load_stack, start_stack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.copies.plan.plan import CopyPlan


@dataclass(frozen=True, slots=True)
class Shape:
    """Record size, partitions of the source and of the target, and replication factor of the target."""

    size: int
    sources: int = 6
    targets: int = 6
    replication_factor: int = 1

    def __str__(self) -> str:
        """Return the shape as it is part of the names of legs."""
        size = f"{self.size} B" if self.size < 1024 else f"{self.size // 1024} KiB"
        counts = f", {self.sources} to {self.targets}" if self.sources != self.targets else ""
        replicas = f", RF {self.replication_factor}" if self.replication_factor > 1 else ""
        return size + counts + replicas


@dataclass(frozen=True, slots=True)
class Source:
    """A filled topic, and what a copy of it must have."""

    topic: str
    partitions: int
    ends: Mapping[int, int]
    sums: Sums


@dataclass(frozen=True, slots=True)
class Kept:
    """What a way to copy keeps. All keep each record once."""

    timestamps: bool
    order: bool


@dataclass(frozen=True, slots=True)
class Copied:
    """What a leg did. `counted` is what it says itself; None where it says nothing.

    `slices` is how many slices its plan has; 0 for a leg without a plan.

    `read_gauges` is asked when the run was checked, and takes none of its time.
    """

    shape: Shape
    target: str
    kept: Kept
    counted: int | None = None
    slices: int = 0
    read_gauges: Callable[[], Mapping[str, float]] = dict


@dataclass(slots=True)
class Stage:
    """What the legs share."""

    servers: str
    cluster_id: str
    control_topic: str
    worker: str
    spark: SparkSession
    topics: Topics
    sources: Mapping[tuple[int, int], Source]
    target: str = ""
    # The plan of the next copy by `run_copy`.
    plan: CopyPlan | None = None
    # What goes on beside the bench until its run is over.
    endings: list[Callable[[], None]] = field(default_factory=list)

    def find_source(self, shape: Shape) -> Source:
        """What is copied."""
        return self.sources[shape.size, shape.sources]

    def renew_target(self, shape: Shape, *, name: str = "") -> str:
        """Delete the target of the last run, and make one for the next."""
        self.end_others()
        self.topics.delete([self.target])
        self.target = self.topics.make(shape.targets, name=name, replication_factor=shape.replication_factor)
        return self.target

    def end_others(self) -> None:
        """End what a leg left running."""
        while self.endings:
            self.endings.pop()()


def check_copy(stage: Stage, copied: Copied) -> None:
    """Every record once, with its timestamp where those are kept, and in order where that is kept."""
    stage.end_others()
    wanted = stage.find_source(copied.shape).sums
    if copied.counted is not None and copied.counted != wanted.records:
        raise WrongResultError(f"{copied.counted} records are said to be copied, and there are {wanted.records}")
    found = read_sums(stage.spark, stage.servers, copied.target)
    compare_sums(found, wanted, kept=copied.kept)
    if copied.kept.order and (late := count_disorder(stage.spark, stage.servers, copied.target)):
        raise WrongResultError(f"{late} records of {copied.target} come after later ones of their source partition")


def compare_sums(found: Sums, wanted: Sums, *, kept: Kept) -> None:
    """Refuse a copy that has other records than its source."""
    if found.records != wanted.records:
        raise WrongResultError(f"{found.records} records were copied, and there are {wanted.records}")
    if found.plain != wanted.plain:
        raise WrongResultError("keys or values are not those of the source")
    if kept.timestamps and found.stamped != wanted.stamped:
        raise WrongResultError("timestamps are not those of the source")


@contextmanager
def open_stage(records: Mapping[tuple[int, int], int], *, workers: int, brokers: int = 1) -> Iterator[Prepared[Stage]]:
    """Fill a source for each pair of record size and partitions. With SEAMARK_DEVSTACK, on a running stack."""
    path = os.environ.get("SEAMARK_DEVSTACK")
    if path:
        stack = load_stack(Path(path))
        if (found := sum(server.kind == "broker" for server in stack.servers)) < brokers:
            raise BenchError(f"the stack has {found} brokers, and the bench needs {brokers}")
        with _fill(stack, records) as prepared:
            yield prepared
        return
    spec = StackSpec(brokers=brokers, workers=workers, exactly_once=True, full_jit=True)
    with start_stack(spec, name="copies") as stack, _fill(stack, records) as prepared:
        yield prepared


@contextmanager
def _fill(stack: Stack, records: Mapping[tuple[int, int], int]) -> Iterator[Prepared[Stage]]:
    servers = stack.kafka.bootstrap_servers
    with Topics(servers) as topics, open_spark() as spark:
        stage = Stage(
            servers,
            cluster_id=stack.kafka.cluster_id,
            control_topic=topics.keep(f"bench-control-{uuid4().hex[:8]}"),
            worker=stack.connect["connect"].urls[0] if stack.connect else "",
            spark=spark,
            topics=topics,
            sources={
                (size, partitions): _make_source(spark, topics, partitions=partitions, records=count, size=size)
                for (size, partitions), count in records.items()
            },
        )
        jvm = read_jvm_pid(spark)
        pids = {server.name: server.pid for server in stack.servers if server.kind in {"broker", "connect"}}
        versions = {"kafka": stack.kafka.version, "spark": spark.version}
        try:
            yield Prepared(stage, pids={**pids, "Spark JVM": jvm}, families={"Spark Python": jvm}, versions=versions)
        finally:
            stage.end_others()


def _make_source(spark: SparkSession, topics: Topics, *, partitions: int, records: int, size: int) -> Source:
    topic = topics.fill(partitions, records=records, size=size)
    sums = read_sums(spark, topics.servers, topic)
    if sums.records != records:
        raise WrongResultError(f"the source has {sums.records} records instead of {records}")
    ends = topics.read_ends(topic, partitions=partitions)
    return Source(topic, partitions, ends=ends, sums=sums)
