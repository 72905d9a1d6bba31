"""Topic copies: cutover, its undo, and finish. Spark is the fake of the unit tier."""

from __future__ import annotations

import json

import seamark.copies.cutover.operations
from seamark.copies.cutover.operations import CutoverOperations
from seamark.errors import RefusedError
from seamark.tables.model import LedgerEntry
from tests.unit.copies.copying import FakeLogs, plant, sample_keys
from tests.unit.fleet.living import SINK_CONFIG, SOURCE
from tests.unit.offsets.ledger_in_memory import MemoryLedger, route
from tests.unit.scenarios.environment import Environment
from tests.unit.scenarios.registry import scenario

SOURCE_CONFIG = {"connector.class": SOURCE, "topic": "t"}
PIPELINE = "pipeline/sales"


class CopyEnvironment(Environment):
    """A topic of four partitions with a sink, a source and a group, and its finished copy with two partitions."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.logs = FakeLogs()
        self.spark = plant(self.patch, self.brokers, self.logs)
        self.patch.setattr(seamark.copies.cutover.operations, "open_spark", self.spark.open)
        # Both read records, which the fakes do not hold.
        self.patch.setattr(CutoverOperations, "verify", lambda _, copy, level: f"control records compared ({level})")
        self.patch.setattr(CutoverOperations, "recount", lambda _, plan, questions: {})
        self.ledgers = {}
        self.patch.setattr("seamark.fleet.environment.route_ledgers", lambda brokers, _: route(brokers, self.ledgers))
        self.brokers.add_topic("t", partitions=4, records=100, configs={"min.insync.replicas": "1"})
        self.logs.keys["t"] = sample_keys(4)
        self.game.add("lake", SINK_CONFIG)
        self.game.add("shop", SOURCE_CONFIG)
        self.brokers.add_group("connect-lake", {("t", n): 99 for n in range(4)})
        self.brokers.add_group("report", {("t", n): 10 for n in range(4)})

    def copy(self):
        """Copy the topic, and return the ID of the copy."""
        for argv in (
            ["copies", "plan", "t", "--partitions", "4:2", "--out", "copy.json"],
            ["copies", "run", "copy.json", "-y"],
        ):
            ended = self.execute(argv)
            assert ended.code == 0, ended.err
        return json.loads((self.folder / "copy.json").read_text())["id"]

    def read_state(self):
        state = super().read_state()
        for name, topic in self.brokers.topics.items():
            state["topics"][name]["ends"] = [len(log) for log in topic.logs]
        ledgers = {
            owner: {f"{topic}-{number}": at for (topic, _, number), at in sorted(ledger.offsets.items())}
            for owner, ledger in self.ledgers.items()
        }
        return {**state, "ledgers": ledgers}


@scenario(CopyEnvironment)
def copy_run(env):
    """Plan a copy, and run it: the target topic is created by a change of its own."""
    env.run("copies", "plan", "t", "--partitions", "4:2", "--out", "copy.json")
    env.run("copies", "run", "copy.json", "--yes")
    env.show_state("state after the copy")
    env.show_journal()
    env.run("copies", "status")


@scenario(CopyEnvironment)
def copy_cutover(env):
    """Cut over to the copy, and undo it."""
    env.change("copies", "cutover", env.copy(), "--allow-aborted-records")


@scenario(CopyEnvironment)
def copy_cutover_written_since(env):
    """A cutover is not undone after a producer has written to the target."""
    env.change("copies", "cutover", env.copy(), "--allow-aborted-records", undo=False)
    env.note("a producer writes one record to t-2")
    env.brokers.topics["t-2"].logs[0].append(0)
    env.undo()


@scenario(CopyEnvironment)
def copy_cutover_undone_twice(env):
    """The undo of a cutover can't be undone itself."""
    env.run("copies", "cutover", env.copy(), "--allow-aborted-records", "--yes")
    env.undo()
    env.undo()


@scenario(CopyEnvironment)
def copy_cutover_read_committed(env):
    """Sinks read committed records only after the cutover; one group stays with the source."""
    env.change("copies", "cutover", env.copy(), "--read-committed", "--exclude-group", "report")


@scenario(CopyEnvironment)
def copy_cutover_in_place(env):
    """Cut over in place: the topic is deleted, recreated and filled from the copy."""
    env.change("copies", "cutover", env.copy(), "--in-place", "--allow-aborted-records")


@scenario(CopyEnvironment)
def copy_cutover_fails(env):
    """Source and target differ, so that all connectors continue with the source."""

    def refuse(_, copy, level):
        raise RefusedError(
            "source and target differ; no consumer or producer was switched", cause=f"3 records are lost ({level})"
        )

    env.patch.setattr(CutoverOperations, "verify", refuse)
    env.change("copies", "cutover", env.copy(), "--allow-aborted-records")


@scenario(CopyEnvironment)
def copy_cutover_config_rejected(env):
    """Connect rejects the new config of the source, and the sink gets its previous config back."""
    copy = env.copy()
    env.game.failing["put_config", "shop"] = RefusedError("Connect answers 400: topic is not allowed")
    env.change("copies", "cutover", copy, "--allow-aborted-records")


@scenario(CopyEnvironment)
def copy_cutover_pipeline(env):
    """A pipeline that reads the topic is fenced, and its ledger gets offsets of the target."""
    topic_id = env.brokers.topics["t"].id
    env.ledgers[PIPELINE] = MemoryLedger(*(LedgerEntry("t", topic_id, n, next_offset=90) for n in range(4)))
    env.change("copies", "cutover", env.copy(), "--allow-aborted-records")


@scenario(CopyEnvironment)
def copy_finish(env):
    """Delete the source after the cutover; before it, that is refused."""
    copy = env.copy()
    env.run("copies", "cleanup", copy, "--yes")
    env.execute(["copies", "cutover", copy, "--allow-aborted-records", "--yes"])
    env.change("copies", "cleanup", copy)


@scenario(CopyEnvironment)
def copy_finish_in_place(env):
    """Delete the temporary copy after a cutover in place."""
    copy = env.copy()
    env.execute(["copies", "cutover", copy, "--in-place", "--allow-aborted-records", "--yes"])
    env.change("copies", "cleanup", copy)
