"""Offset records themselves: mend, purge, relocate, and skip of a record."""

from __future__ import annotations

from dataclasses import replace

import seamark.dead_letters.records
from seamark.kafka.model import RecordLocation, WholeRecord
from seamark.offsets.stores.topic import build_home
from tests.unit.dead_letters.test_skip import BAD, CONFIG, IN_CONVERTER, IN_PUT, FakeRecords
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.scenarios.environment import Environment
from tests.unit.scenarios.offsets import FILE, OTHER, OffsetEnvironment
from tests.unit.scenarios.registry import scenario

PARTITIONS = 5
KEY = b'["fs",{"filename":"/in"}]'


class OddEnvironment(Environment):
    """A source whose key has a stray record on another partition."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.game.add("fs", SOURCE_CONFIG)
        self.brokers.add_topic("offsets", partitions=PARTITIONS, configs={"segment.ms": "600000"})

    def put(self, position, *, aside=0, key=KEY):
        """Store a record at home, or so many partitions away."""
        partition = (build_home(PARTITIONS)(key) + aside) % PARTITIONS
        self.scan.put(key, b'{"position":%d}' % position, partition=partition)
        return f"offsets-{partition}@{self.scan.log[-1].offset}"

    def put_records(self, records):
        """Store records; a null record for the connector's key removes the ones before it, as compaction does."""
        super().put_records(records)
        scan = self.scan
        if any(b"seamark" in record.key for record in records):
            newest = {(found.partition, found.key): found for found in scan.log}
            scan.log = [found for found in newest.values() if found.value is not None]


@scenario(OddEnvironment)
def offsets_mend(env):
    """Repair a stray record: it gets the value of the record at home."""
    env.put(5)
    env.put(9, aside=1)
    env.run("offsets", "repair", "fs", "--yes")
    env.change("offsets", "repair", "fs", "--prefer", "newest")


@scenario(OddEnvironment)
def offsets_mend_chosen(env):
    """Repair with the value of a chosen record: bytes are read again."""
    env.put(50)
    stray = env.put(20, aside=1)
    env.change("offsets", "repair", "fs", "--prefer", stray)


@scenario(OddEnvironment)
def offsets_mend_clean(env):
    """Remove a stray record from the log."""
    env.put(5)
    env.put(5, aside=1)
    env.change("offsets", "repair", "fs", "--clean", "--progress-timeout", "0s")


@scenario(OddEnvironment)
def offsets_mend_spellings(env):
    """Keep one of two spellings of a key."""
    for position, spelled in enumerate((b'{"a":1,"b":2}', b'{"b":2,"a":1}')):
        env.put(position, key=b'["fs",' + spelled + b"]")
    env.change("offsets", "repair", "--all", "--clean", "--only", "--prefer", "newest", "--progress-timeout", "0s")


@scenario(OffsetEnvironment)
def offsets_purge(env):
    """Delete the offsets of connectors that are gone, with a backup, and undo it."""
    env.scan.put(("gone", OTHER), {"position": 7}).put(("older", FILE), {"position": 9})
    env.run("offsets", "purge", "fs", "--yes")
    env.change("offsets", "purge", "--all")
    env.run("offsets", "purge", "gone", "--backup", "backup.json", "--yes")
    env.undo()


@scenario(OffsetEnvironment)
def offsets_relocate(env):
    """Give a source its own offsets topic, and undo it after it has progressed."""
    env.change("offsets", "relocate", "fs", "--topic", "mine", undo=False)
    env.note("fs has read up to byte 300")
    env.scans["mine"].put(("fs", FILE), {"position": 300})
    env.undo()


@scenario(OffsetEnvironment)
def offsets_relocate_back(env):
    """Return a source to the offsets topic of its workers."""
    env.execute(["offsets", "relocate", "fs", "--topic", "mine", "--yes"])
    env.change("offsets", "relocate", "fs", "--worker-topic")


class SinkLog(FakeRecords):
    """The log of the sink, with positions in its group and copies of records in memory."""

    def __init__(self, env, **more):
        super().__init__(**more)
        self.env = env
        self.copies = []

    def read_positions(self):
        held = self.env.brokers.groups["connect-lake"].offsets
        return {spot: held[spot].offset if spot in held else 0 for spot in self.logs}

    def read_ends(self):
        return {spot: len(log) for spot, log in self.logs.items()}

    def is_dead_letter(self, topic, place):
        return (topic, place) in self.copies

    def park(self, topic, record, headers):
        assert isinstance(record, WholeRecord)
        self.copies.append((topic, record.place))


class SkipEnvironment(Environment):
    """A sink that fails at the third record."""

    trace = IN_CONVERTER

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.game.add("lake", CONFIG, failed=[0])
        self.brokers.add_topic("t", records=4)
        self.brokers.add_group("connect-lake", {})
        self.log = SinkLog(self)
        built, resume, restart = self.game._build, self.game.resume, self.game.restart

        def build(name):
            found = built(name)
            tasks = tuple(replace(task, trace=self.trace) for task in found.status.tasks)
            return replace(found, status=replace(found.status, tasks=tasks))

        def start(begin):
            def begun(name, **options):
                begin(name, **options)
                self._deliver(name)

            return begun

        self.patch.setattr(self.game, "_build", build)
        self.patch.setattr(self.game, "resume", start(resume))
        self.patch.setattr(self.game, "restart", start(restart))
        self.patch.setattr(seamark.dead_letters.records, "SinkRecords", lambda name, **_: self.log)

    def _deliver(self, name):
        """Take records until one can't be decoded, and commit."""
        (spot, log), position = next(iter(self.log.logs.items())), next(iter(self.log.read_positions().values()))
        while position < len(log) and log[position] != BAD:
            position += 1
        self.game.failed_tasks[name] = {0} if position < len(log) else set()
        self.brokers.add_group("connect-lake", {spot: position})

    def read_state(self):
        return {**super().read_state(), "parked": [f"{topic}: {place}" for topic, place in self.log.copies]}


class SearchEnvironment(SkipEnvironment):
    """The trace of the task does not name the record."""

    trace = IN_PUT


@scenario(SkipEnvironment)
def offsets_skip(env):
    """Skip the record that a sink can't decode, and park it."""
    env.change("offsets", "skip", "lake")


@scenario(SkipEnvironment)
def offsets_skip_shown(env):
    """Skip a named record into a named topic, and show its content."""
    env.brokers.add_topic("parked")
    place = str(RecordLocation("t", 0, 2))
    env.change("offsets", "skip", "lake", "--at", place, "--dlq-topic", "parked", "--show-value", undo=False)


@scenario(SearchEnvironment)
def offsets_skip_searched(env):
    """Search the record first: the sink takes records one by one."""
    env.change("offsets", "skip", "lake")


@scenario(SkipEnvironment)
def offsets_skip_refused(env):
    """Records that can't be skipped."""
    env.game.add("well", SINK_CONFIG)
    env.run("offsets", "skip", "well", "--yes")
    env.run("offsets", "skip", "lake", "--at", "t-0@99", "--yes")
    env.run("offsets", "skip", "lake", "--dlq-topic", "t", "--yes")
