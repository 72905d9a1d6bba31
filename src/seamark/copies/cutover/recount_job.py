"""Questions about the middle of runs, answered by reading those runs of the source again: one job for all."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.recount import Answers, Question, Recount
from seamark.copies.plan.settings import CopyEnds
from seamark.copies.verify.verif_ranges import join_ranges, list_source_ranges
from seamark.copies.verify.verify_places import Columns, RunTable
from seamark.kafka_sink.copy_run import Run
from seamark.spark.source import read_ranges


class SparkRecounter:
    """Counts with Spark. It reads the offsets of the runs that are asked for, and no others."""

    def __init__(self, spark: SparkSession, plan: CopyPlan, ends: CopyEnds) -> None:
        self._spark = spark
        self._plan = plan
        self._options = ends.source
        self._routing = plan.require_accepted()

    def recount(self, questions: Sequence[Question]) -> Answers:
        """Answer them all. Of a run that is gone from the source nothing is found, which is an answer too."""
        cuts = list_cuts(questions)
        if not cuts:
            return {}
        numbers = {run: number for number, run in enumerate(cuts)}
        table = RunTable(self._routing, tuple(enumerate(cuts)), covered={})
        ranges = join_ranges(list_source_ranges(cuts))
        frame = read_ranges(self._spark, self._plan.source.topic, ranges, options=self._options, may_be_gone=True)
        step = _build_step(table, {numbers[run]: offsets for run, offsets in cuts.items()})
        stepped = frame.select(step("key", "partition", "offset").alias("placed")).select("placed.*")
        found = stepped.where("run >= 0").groupBy("run", "step").agg(sf.count("*").alias("total")).collect()
        steps: dict[int, dict[int, int]] = {}
        for row in found:
            steps.setdefault(row["run"], {})[row["step"]] = row["total"]
        return {
            one: build_answer(bisect_left(cuts[one.run], one.source_offset), steps.get(numbers[one.run], {}))
            for one in questions
        }


def list_cuts(questions: Iterable[Question]) -> dict[Run, list[int]]:
    """The offsets that are asked for of each run, in order."""
    asked: dict[Run, set[int]] = {}
    for one in questions:
        asked.setdefault(one.run, set()).add(one.source_offset)
    return {run: sorted(offsets) for run, offsets in asked.items()}


def _build_step(table: RunTable, cuts: Mapping[int, Sequence[int]]) -> Callable[..., Column]:
    """The run of each record, and behind how many of the offsets asked for it lies."""

    def locate(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        place = table.open_source()
        for keys, partitions, column in batches:
            offsets = column.to_pylist()
            _, runs, _ = place(keys, partitions.to_pylist(), offsets)
            steps = [
                bisect_right(cuts[run], offset) if run >= 0 else 0 for run, offset in zip(runs, offsets, strict=True)
            ]
            yield pa.StructArray.from_arrays([pa.array(runs, pa.int32()), pa.array(steps, pa.int32())], ["run", "step"])

    return sf.arrow_udf(locate, "struct<run: int, step: int>").asNondeterministic()  # type: ignore[no-any-return]


def build_answer(place: int, steps: Mapping[int, int]) -> Recount:
    """What lies before the nth offset that was asked for of a run, and what does not."""
    before = sum(total for step, total in steps.items() if step <= place)
    return Recount(before=before, after=sum(steps.values()) - before)
