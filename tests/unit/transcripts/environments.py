"""The environments in which transcripts are recorded: those of the scenarios, with more in them."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import SimpleNamespace

from seamark.cli.connect_offsets import execute as execute_connect_offsets
from seamark.context.context import LakeSettings
from seamark.copies.verify.report import Compared, Verification
from seamark.core.secrets import PLUGIN_KEYS
from seamark.demo.chapter import Need
from seamark.errors import UnreachableError
from seamark.pipelines.progress import BatchLanded, MemberState, MemberStatus
from seamark.tables.model import LedgerEntry, TableStatus, TableVersion
from tests.fakes.tables.rebuildable import FakeRebuildable
from tests.unit.cli.stubs import NOON, Outcome
from tests.unit.connectors.operating import W1, W2, OperatedConnect
from tests.unit.fleet.builders import StubKafka, topic
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.offsets.ledger_in_memory import MemoryLedger
from tests.unit.offsets.moving import MovingConnect
from tests.unit.scenarios.copies import CopyEnvironment
from tests.unit.scenarios.environment import Environment
from tests.unit.scenarios.imports import FileEnvironment
from tests.unit.scenarios.offsets import OTHER, OffsetEnvironment
from tests.unit.scenarios.recorder import Recorder
from tests.unit.scenarios.recovery import interrupt, read_nonce
from tests.unit.scenarios.specs import PIPELINE, PipelineEnvironment, define
from tests.unit.scenarios.stored_offsets import OddEnvironment, SkipEnvironment

JDBC_CONFIG = {
    "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
    "tasks.max": "1",
    "table.whitelist": "a,b",
    "mode": "timestamp",
}
TABLE = {"protocol": "1", "table": "db.public.a"}
# 2026-01-01T00:00:00.123Z
TABLE_READ_TO = 1_767_225_600_123
LAKE_PIPELINE = """\
pipelines:
  events:
    kind: land
    from: {topic: orders}
    to: {lake: raw, table: events}
    columns: {id: bigint}
"""
LAKE = LakeSettings("raw", "s3://bucket/raw")
RECORDS_AGE_SECONDS = 600.0


class FullConnect(OperatedConnect, MovingConnect):
    """Two workers with plugins and log levels, whose offsets can be moved."""


class FleetEnvironment(OffsetEnvironment):
    """Sources and sinks in several states, a topic without consumers, a group, orphaned offsets, and spec files."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.context = {"urls": (W1, W2), "kafka": StubKafka(topics=[topic("offsets", partitions=5)])}
        self.game.add("X", JDBC_CONFIG)
        self.scan.put(("X", TABLE), {"timestamp": TABLE_READ_TO})
        self.game.add("idle", {**SOURCE_CONFIG, "file": "/idle"}, state="PAUSED")
        self.game.add("halted", {**SINK_CONFIG, "topics": "u"}, state="STOPPED")
        self.game.add("sick", {**SOURCE_CONFIG, "file": "/sick"}, failed=[0])
        self.scan.put(("gone", OTHER), {"position": 7})
        self.brokers.add_topic("u", partitions=1, records=3)
        self.brokers.add_topic("unused", configs={"retention.ms": "1000"})
        self.brokers.add_group("g", {("t", 0): 4, ("t", 1): 10})
        self.write("new.json", {"name": "new", "config": SOURCE_CONFIG})
        define(self, "fs", **{"tasks.max": "2"})
        define(self, "added", SINK_CONFIG, topics="u")
        self.write("fs.json", {"name": "fs", "config": {**SOURCE_CONFIG, "tasks.max": "2"}})
        self.write("broken.json", "{")

    def build_connect(self):
        return FullConnect(scan=self.scan, brokers=self.brokers)


class InterruptedEnvironment(FleetEnvironment):
    """A change that another operator's process has left open."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        interrupt(self, "pause", "lake", "connectors", "pause", "fs", "lake", "--yes")
        self.recorder = Recorder(self.folder)


class CopiesEnvironment(CopyEnvironment):
    """A topic to copy. Verification by Spark finds nothing."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        verify = SimpleNamespace(verify_copy=self.verify_copy)
        # The module imports pyspark, which the unit tier has not.
        self.patch.setitem(sys.modules, "seamark.copies.verify.spark_verify", verify)
        self.patch.setattr("seamark.copies.verify.report.open_spark", self.spark.open)
        self.patch.setattr("seamark.copies.verify.report.build_ends", lambda route, control_topic: None)

    def verify_copy(self, spark, plan, ends, *, level, on_stage, target_source):
        on_stage("control records")
        compared = Compared(control_records=4, runs=4, source_records=400, target_records=400)
        return Verification(plan.id, plan.source.topic, plan.target.topic, level, compared)


@dataclass(frozen=True)
class FakeFiles:
    """The files of one date of a table in a lake."""

    date: str
    files: int
    size: int
    fewest: int = 1


class FakeDatabase:
    """A landing's table and its ledger in memory."""

    def __init__(self):
        self.ledger = MemoryLedger()
        self.columns = None

    def read_if_any(self):
        return self.ledger.read()

    def read_status(self):
        entries = self.ledger.read()
        return TableStatus(entries, rows=sum(entry.next_offset for entry in entries.values()), is_estimate=True)

    def read_columns(self):
        return self.columns

    def change_table(self, statements):
        self.columns = ("id",)


class LandEnvironment(PipelineEnvironment):
    """A topic with a pipeline into a database and another into a lake. Spark is one call that lands everything."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.brokers.add_topic("orders", partitions=2, records=10)
        self.database = FakeDatabase()
        self.write("config/pipelines.yaml", f"{PIPELINE}    application: lake\n")
        self.write("lake/pipelines.yaml", LAKE_PIPELINE)
        for name in ("seamark-env.tar.gz", "seamark-main.py"):
            self.write(f"pack/{name}", "")
        self.patch.setattr("seamark.tables.postgres.technology.open_landing_database", lambda *_: self.database)
        self.patch.setattr(
            "seamark.tables.postgres.technology.PlannedPostgresTable.read_status", lambda _: self.database.read_status()
        )
        self.patch.setattr("seamark.pipelines.service.require_spark", lambda: None)
        self.patch.setattr("seamark.pipelines.service.open_spark", lambda wish, work: nullcontext())
        self.patch.setattr(
            "seamark.tables.delta.technology.open_lake_table", lambda settings, definition: definition.table
        )
        # Both modules import what the unit tier has not: pyspark, and pyarrow.
        job = SimpleNamespace(
            DEFAULT_RECORDS=600_000, LandEnds=lambda *_, **__: None, run_landing=self.land, run_rebuild=self.fill
        )
        self.patch.setitem(sys.modules, "seamark.pipelines.spark_job", job)
        application = SimpleNamespace(run_application=self.land_all)
        self.patch.setitem(sys.modules, "seamark.pipelines.spark_application", application)
        unneeded = [f"part-{number:032x}.parquet" for number in range(12)]
        files = SimpleNamespace(list_files=self.list_files, plan_vacuum=lambda table, **_: unneeded)
        self.patch.setitem(sys.modules, "seamark.tables.delta.maintenance", files)
        target = SimpleNamespace(compact=lambda spark: (12, 1), vacuum=lambda spark, **_: 12)
        driver = SimpleNamespace(open_lake_target=lambda *_: target)
        self.patch.setitem(sys.modules, "seamark.pipelines.spark_delta_upsert", driver)
        self.patch.setattr("seamark.tables.delta.technology.open_lake", lambda settings: None)
        self.events = FakeRebuildable([self.build_version(8, {"id": "string"}, files=12)], owner="pipeline/events")
        self.patch.setattr(
            "seamark.tables.delta.technology.DeltaTechnology.open_rebuildable", lambda *_, **__: self.events
        )

    def open_fleet(self, name=None):
        fleet = super().open_fleet(name)
        object.__setattr__(fleet.context, "lakes", {"raw": LAKE})
        # The first record of a fake topic is of the time 0.
        fleet.pipelines._now = lambda: RECORDS_AGE_SECONDS
        return fleet

    def build_version(self, offset, columns, **more):
        (topic,) = self.brokers.read_topics(["orders"]).items
        entries = [LedgerEntry("orders", topic.topic_id, number, next_offset=offset) for number in range(2)]
        return TableVersion(0, 0, rows=2 * offset, entries={one.key: one for one in entries}, columns=columns, **more)

    def fill(self, *_, on_batch, **__):
        """The rebuild of the lake's table gets all records."""
        contents = self.build_version(10, {"id": "bigint"}, files=1)
        self.events.rebuild = replace(self.events.rebuild, contents=replace(contents, generation=77))
        on_batch(BatchLanded(0, rows=20, deleted=0, dead=0))

    def list_files(self, table):
        return [FakeFiles("2026-01-01", 12, 48_000), FakeFiles("2026-01-02", 1, 4_000)]

    def land_all(self, session, specs, source, *, on_batch, on_status, **_):
        for spec in specs:
            on_status(MemberStatus(spec.landing.name, MemberState.RUNNING))
            self.land(session, spec.landing, None, on_batch=partial(on_batch, spec.landing.name))
            on_status(MemberStatus(spec.landing.name, MemberState.ENDED))
        return {}

    def land(self, session, landing, ends, *, on_batch, **_):
        found = self.brokers.topics[landing.topic]
        entries = [LedgerEntry(landing.topic, found.id, number, len(log)) for number, log in enumerate(found.logs)]
        self.database.ledger.claim(entries)
        on_batch(BatchLanded(0, sum(entry.next_offset for entry in entries), 0, 0))
        return tuple(entries)


class MisplacedEnvironment(OddEnvironment):
    """A source whose key has a record on a wrong partition."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.put(5)
        self.put(9, aside=1)


class ConnectOffsetsEnvironment(FileEnvironment):
    """A standalone worker that is down, for the program `connect-offsets`."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.write("wanted.json", {"orders": [{"partition": {"filename": "/o"}, "offset": {"position": 11}}]})
        self.write("fs.json", {"name": "fs", "config": {**SOURCE_CONFIG, "tasks.max": "2"}})
        self.write("broken.json", "{")

    def execute(self, argv, *, typed=None):
        if argv[:1] == ["journal"]:
            return super().execute(argv, typed=typed)
        out, err = io.StringIO(), io.StringIO()
        code = execute_connect_offsets(argv, session=self._build_session(out, err))
        return Outcome(code, out.getvalue(), err.getvalue())


ENVIRONMENTS: dict[str, type[Environment]] = {
    "fleet": FleetEnvironment,
    "interrupted": InterruptedEnvironment,
    "copies": CopiesEnvironment,
    "pipelines": LandEnvironment,
    "skip": SkipEnvironment,
    "misplaced": MisplacedEnvironment,
    "connect-offsets": ConnectOffsetsEnvironment,
}


class Unreachable:
    """Stands before a fake, and every call fails."""

    def __init__(self, fake, address, *, keep=()):
        self._fake = fake
        self._address = address
        self._keep = {"cluster", "close", "waits", *keep}

    def __getattr__(self, name):
        if name in self._keep:
            return getattr(self._fake, name)
        return self._refuse

    def _refuse(self, *_, **__):
        raise UnreachableError(f"can't reach {self._address}", cause="connection refused", hint="start it")


def cut_off(env, server):
    """Make the workers or the brokers of an environment unreachable."""
    if server == "connect":
        env.game = Unreachable(env.game, W1)
        return
    env.brokers = Unreachable(env.brokers, "b:1")
    env.patch.setattr("seamark.kafka.worker_group.read_members", env.brokers._refuse)
    env.context = {**env.context, "kafka": Unreachable(StubKafka(), "b:1")}
    env.scans = {name: Unreachable(scan, "b:1", keep=("topic", "partitions")) for name, scan in env.scans.items()}
    if isinstance(env, CopiesEnvironment):
        logs = Unreachable(env.logs, "b:1")
        env.patch.setattr("seamark.copies.plan.endpoints.KafkaLogs", lambda build_config: logs)


class Noon(datetime):
    """The time of the session, for modules that read the clock of the machine."""

    @classmethod
    def now(cls, tz=None):
        return NOON.astimezone(tz)


def prepare(env):
    """Remove what differs between machines, and what an earlier transcript has left in this process."""
    env.patch.setattr("seamark.offsets.service.datetime", Noon)
    env.patch.setattr("seamark.offsets.service.datetime", Noon)
    env.patch.setattr("seamark.offsets.views.datetime", Noon)
    env.patch.setattr("seamark.offsets.list_views.datetime", Noon)
    env.patch.setattr("seamark.demo.servers._CHECKS", {need: lambda: None for need in Need})
    # What is known of a plugin hides values.
    PLUGIN_KEYS.forget()


def find_value(env, name):
    """Return what a placeholder of a command line stands for."""
    if name == "copy":
        return env.copy()
    return env.newest() if name == "change" else read_nonce(env, env.newest())
