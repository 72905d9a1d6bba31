"""Tables of a lake: rebuilt by a change, and restored by its undo. Spark's part is left out."""

from __future__ import annotations

from dataclasses import replace

from seamark.context.context import LakeSettings
from seamark.pipelines.rebuild import build_digest
from seamark.pipelines.service import Pipelines
from seamark.tables.delta.technology import DeltaTechnology
from seamark.tables.model import LedgerEntry, TableRebuild, TableVersion
from tests.fakes.tables.rebuildable import FakeRebuildable
from tests.unit.scenarios.environment import Environment
from tests.unit.scenarios.registry import scenario

PIPELINE = """\
pipelines:
  orders:
    kind: land
    from: {topic: orders}
    to: {lake: lake, table: raw/orders}
    columns: {id: bigint}
    every: 10s
"""


class LakeEnvironment(Environment):
    """A context with a lake, and one pipeline whose table is in memory."""

    def open_fleet(self, name=None):
        fleet = super().open_fleet(name)
        object.__setattr__(fleet.context, "lakes", {"lake": LakeSettings("lake", "s3://lake")})
        return fleet

    def prepare(self) -> FakeRebuildable:
        """Register the pipeline; its table has 40 records of each of two partitions."""
        self.brokers.add_topic("orders", partitions=2, records=45)
        self.write("config/pipelines.yaml", PIPELINE)
        self.execute(["apply", "-f", "config", "--yes"])
        columns = {"id": "string"}
        table = FakeRebuildable([TableVersion(0, 0, 4, 80, self.entries(40), columns)])
        self.patch.setattr(DeltaTechnology, "open_rebuildable", lambda *_, **__: table)

        def rebuild(pipelines, plan, swap, **_):
            landing = plan.declared.landing
            new = TableVersion(3, 77, 1, 90, self.entries(45), {"id": "bigint"})
            table.rebuild = TableRebuild("r77", build_digest(landing), new)
            return swap("r77", lambda: table.hold(seconds=60))

        self.patch.setattr(Pipelines, "rebuild", rebuild)
        return table

    def entries(self, offset):
        (topic,) = self.brokers.read_topics(["orders"]).items
        found = [LedgerEntry("orders", topic.topic_id, number, next_offset=offset) for number in range(2)]
        return {entry.key: entry for entry in found}


@scenario(LakeEnvironment)
def pipelines_rebuild(env):
    """Write a table again, swap it in, and restore the previous files."""
    table = env.prepare()
    env.change("pipelines", "rebuild", "orders", undo=False)
    env.note("the pipeline processes 5 records")
    table.commit(rows=95, files=2)
    env.undo()
    env.note("the undo is undone")
    env.undo()


@scenario(LakeEnvironment)
def pipelines_rebuild_behind(env):
    """The pipeline has processed more than the rebuild: nothing is replaced."""
    table = env.prepare()
    table.versions[-1] = replace(table.versions[-1], entries=env.entries(50), rows=100)
    env.run("pipelines", "rebuild", "orders", "--yes")
    env.run("pipelines", "rebuild", "orders", "--discard")
