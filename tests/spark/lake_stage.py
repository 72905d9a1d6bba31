"""A topic and a table of a lake for landings, and everything that is to be compared afterwards."""

from __future__ import annotations

import pickle
import shutil
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable

from seamark.pipelines.spark_job import LandEnds, run_landing
from seamark.tables.definition import LandColumn, Landing
from seamark.tables.delta.files import make_fit
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.maintenance import compact_files
from seamark.tables.delta.table import LakeTable
from tests.spark.land_stage import TopicStage

COLUMNS = (
    LandColumn("part", "int", "kafka.partition"),
    LandColumn("place", "bigint", "kafka.offset"),
    LandColumn("number", "bigint"),
    LandColumn("words", "text"),
)
LAKES = ("folder", "s3")


def compact_here(table):
    """Merge small files without Spark."""
    return compact_files(table, run_here)


def run_here(count, writer):
    """Do what Spark's tasks would do: in two tasks, with writers that were pickled."""
    numbers = [pa.array(range(first, count, 2), pa.int64()) for first in range(2)]
    batches = [pa.record_batch({"id": one}) for one in numbers if len(one)]
    return [pickle.loads(pickle.dumps(writer)).write(iter([batch])) for batch in batches]


def build_lake(stack, kind):
    """A place of its own, in a folder or on S3."""
    name = f"lake-{uuid4().hex[:8]}"
    if kind == "folder":
        return TableLocation(f"{stack.folder}/{name}")
    return TableLocation(
        f"s3://lake/{name}",
        endpoint=stack.s3.endpoint,
        access_key=stack.s3.access_key,
        secret_key=stack.s3.secret_key,
    )


class LakeStage(TopicStage):
    def __init__(self, stack, kafka, *, kind="folder", partitions=3, lake=None):
        super().__init__(kafka, partitions=partitions)
        self.stack = stack
        self.lake = lake or build_lake(stack, kind)
        self.ends = LandEnds({"kafka.bootstrap.servers": kafka.servers}, target=self.lake)

    def build(self, columns=COLUMNS, **more):
        return Landing(self.name, topic=self.topic, table="raw/events", columns=columns, **{"store": "delta", **more})

    def open(self, landing=None):
        landing = landing or self.build()
        return LakeTable(self.lake.below(landing.table), owner=landing.owner)

    def make(self, landing=None):
        """Make the table, as `pipelines run` does before it runs."""
        landing = landing or self.build()
        make_fit(self.open(landing), landing)
        return landing

    def run(self, spark, landing=None, **more):
        return run_landing(spark, self.make(landing), self.ends, **more)

    def table(self):
        place = self.lake.below("raw/events")
        return DeltaTable(place.table_url, storage_options=place.build_options())

    def read(self, *columns):
        """All rows, in the order of these columns."""
        found = self.table().to_pyarrow_table(columns=list(columns))
        return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))

    def read_ledger(self):
        return {number: entry.next_offset for (_, number), entry in self.open().read().items()}

    def remove(self):
        where = self.lake.path
        folder = Path(self.stack.s3.data) / where if self.lake.is_s3 else Path(where)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_lake_stage(stack, kafka, **more):
    stage = LakeStage(stack, kafka, **more)
    try:
        yield stage
    finally:
        stage.remove()
