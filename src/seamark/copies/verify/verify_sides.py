"""Both sides of a copy as Spark reads them for a verification: as far as they are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.progress import Progress
from seamark.copies.verify.verif_ranges import clip_ranges, join_ranges
from seamark.copies.verify.verify_topics import TargetFound
from seamark.spark.slices import OffsetRange
from seamark.spark.source import read_ranges


@dataclass(frozen=True, slots=True)
class Sides:
    """What to read, and how. `begins` are those of the source; options are of Spark's Kafka source, for each side."""

    spark: SparkSession
    plan: CopyPlan
    begins: Mapping[int, int]
    target: TargetFound
    source_options: Mapping[str, str] = field(repr=False)
    target_options: Mapping[str, str] = field(repr=False)

    def read_source(self, ranges: Sequence[OffsetRange]) -> DataFrame | None:
        """What is left of offsets of the source; None if nothing is."""
        left = clip_ranges(join_ranges(ranges), self.begins, {})
        return self._read(self.plan.source.topic, left, self.source_options)

    def read_target(self, ranges: Sequence[OffsetRange]) -> DataFrame | None:
        """What there is of offsets of the target; None if nothing is."""
        left = clip_ranges(join_ranges(ranges), self.target.begins, self.target.ends)
        return self._read(self.plan.target.topic, left, self.target_options)

    def read_whole_target(self) -> DataFrame | None:
        """All of the target."""
        return self.read_target([OffsetRange(partition, 0, end) for partition, end in self.target.ends.items()])

    def _read(self, topic: str, ranges: Sequence[OffsetRange], options: Mapping[str, str]) -> DataFrame | None:
        if not ranges:
            return None
        # What retention takes while this reads is missed by its count.
        return read_ranges(self.spark, topic, ranges, options=options, may_be_gone=True)


def list_begun(plan: CopyPlan, known: Progress) -> tuple[OffsetRange, ...]:
    """The offsets of the source that any control record may tell of."""
    begun = {one.claim.part for one in known.records}
    return tuple(part for one in plan.slices if one.id in begun for part in one.ranges)
