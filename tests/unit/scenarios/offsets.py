"""Offsets: move, forget, copy, import and as-of, of sources and sinks."""

from __future__ import annotations

from seamark.kafka import transaction as exact_writer
from seamark.kafka import worker_group
from tests.unit.connectors.operating import W1
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.scenarios.environment import Environment
from tests.unit.scenarios.registry import scenario

FILE = {"filename": "/in"}
OTHER = {"filename": "/else"}


class OffsetEnvironment(Environment):
    """A source at byte 100 and a sink at record 8 of 10."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.game.add("fs", SOURCE_CONFIG)
        self.scan.put(("fs", FILE), {"position": 40}).put(("fs", FILE), {"position": 100})
        self.game.add("lake", SINK_CONFIG)
        self.brokers.add_topic("t", partitions=2, records=10)
        self.brokers.add_group("connect-lake", {("t", 0): 8, ("t", 1): 6})
        self.brokers.add_topic("offsets", partitions=5, configs={"cleanup.policy": "compact"})


class OldEnvironment(OffsetEnvironment):
    """Workers before 3.6, which take no offsets: records and commits are written without them."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.patch.setattr(exact_writer, "write_records", lambda _, records, **__: self.put_records(records))
        self.patch.setattr(worker_group, "read_worker_loads", lambda *_, **__: {W1: frozenset()})


@scenario(OffsetEnvironment)
def offsets_move_source_to(env):
    """Move a source to a byte, and undo it."""
    env.change("offsets", "move", "fs", "--to", "40")


@scenario(OffsetEnvironment)
def offsets_move_source_beginning(env):
    """Move a source to its beginning."""
    env.change("offsets", "move", "fs", "--to", "earliest")


@scenario(OffsetEnvironment)
def offsets_move_source_shift(env):
    """Move a source ahead and back by bytes."""
    env.change("offsets", "move", "fs", "--shift", "50", "--progress-timeout", "0s", undo=False)
    env.change("offsets", "move", "fs", "--shift", "-120", "--progress-timeout", "0s")


@scenario(OffsetEnvironment)
def offsets_move_sink_to(env):
    """Move a sink to a record, one partition only."""
    env.change("offsets", "move", "lake", "--to", "3", "--topic", "t:0")


@scenario(OffsetEnvironment)
def offsets_move_sink_earliest(env):
    """Move a sink to the earliest records, with a tolerance."""
    env.change("offsets", "move", "lake", "--to", "earliest", "--tolerance", "25%")


@scenario(OffsetEnvironment)
def offsets_move_sink_latest(env):
    """Move a stopped sink to the end; it stays stopped."""
    env.game.states["lake"] = "STOPPED"
    env.change("offsets", "move", "lake", "--to", "latest")


@scenario(OffsetEnvironment)
def offsets_move_sink_back(env):
    """Move a paused sink back by time."""
    env.game.states["lake"] = "PAUSED"
    env.change("offsets", "move", "lake", "--back", "3s")


@scenario(OffsetEnvironment)
def offsets_move_sink_shift(env):
    """Move a sink back by records."""
    env.change("offsets", "move", "lake", "--shift", "-3")


@scenario(OffsetEnvironment)
def offsets_move_group(env):
    """Move a plain group through `offsets`."""
    env.brokers.add_group("g", {("t", 0): 4})
    env.change("offsets", "move", "group/g", "--to", "earliest")


@scenario(OffsetEnvironment)
def offsets_move_from(env):
    """Move a source to what an export has."""
    env.write("export.json", {"fs": [{"partition": FILE, "offset": {"position": 15}}]})
    env.change("offsets", "move", "fs", "--from-file", "export.json")


@scenario(OffsetEnvironment)
def offsets_move_as_of(env):
    """Move several owners to where they were at a time."""
    env.run("offsets", "restore", "fs", "lake", "--at", "2023-11-14T22:13:20.5Z", "--yes")
    env.change("offsets", "restore", "--all", "--at", "2023-11-14T22:13:20.5Z", "--skip-unknown")


@scenario(OffsetEnvironment)
def offsets_move_as_of_record_time(env):
    """Move a sink to the first records of a time."""
    env.change("offsets", "restore", "lake", "--at", "1970-01-01T00:00:05Z", "--by-record-time")


@scenario(OffsetEnvironment)
def offsets_move_refused(env):
    """Moves that end with a refusal or a usage error."""
    env.run("offsets", "move", "fs", "--yes")
    env.run("offsets", "move", "fs", "--to", "nowhere", "--yes")
    env.run("offsets", "move", "fs", "--back", "1h", "--yes")
    env.run("offsets", "move", "missing", "--to", "1", "--yes")
    env.run("offsets", "move", "fs", "--to", "100", "--yes")


@scenario(OldEnvironment)
def offsets_move_old_workers(env):
    """Move a source and a sink of Connect 3.5, which can stop but takes no offsets."""
    env.game.version = "3.5.2"
    env.change("offsets", "move", "fs", "--to", "40", "--progress-timeout", "0s")
    env.change("offsets", "move", "lake", "--to", "3", "--progress-timeout", "0s")


@scenario(OldEnvironment)
def offsets_move_set_aside(env):
    """Move a source and a paused sink of Connect 3.4: they are deleted and created again."""
    env.game.version = "3.4.1"
    env.change("offsets", "move", "fs", "--to", "40", "--progress-timeout", "0s")
    env.game.states["lake"] = "PAUSED"
    env.change("offsets", "move", "lake", "--to", "3", "--progress-timeout", "0s")


@scenario(OffsetEnvironment)
def offsets_forget(env):
    """Forget the offsets of a source, and undo it."""
    env.change("offsets", "reset", "fs")


@scenario(OffsetEnvironment)
def offsets_forget_sink(env):
    """Forget one partition of a sink."""
    env.change("offsets", "reset", "lake", "--topic", "t:1")


@scenario(OffsetEnvironment)
def offsets_copy(env):
    """Copy offsets from a sink to a group and from a source to another."""
    env.change("offsets", "copy", "lake", "group/g")
    env.game.add("other", {**SOURCE_CONFIG, "file": "/else"}, state="STOPPED")
    env.change("offsets", "copy", "fs", "other")


@scenario(OffsetEnvironment)
def offsets_import(env):
    """Restore a source from an export of seamark."""
    env.execute(["offsets", "export", "fs", "--out", "export.json"])
    env.execute(["offsets", "reset", "fs", "--yes"])
    env.change("offsets", "import", "export.json")


@scenario(OffsetEnvironment)
def offsets_import_many(env):
    """Import the offsets of several owners in one change; the undo leaves one of them."""
    env.game.add("other", {**SOURCE_CONFIG, "file": "/else"})
    env.scan.put(("other", OTHER), {"position": 7})
    wanted = {
        "fs": [{"partition": FILE, "offset": {"position": 1}}],
        "other": [{"partition": OTHER, "offset": {"position": 2}}],
        "lake": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}],
    }
    env.write("many.json", wanted)
    env.change("offsets", "import", "many.json", undo=False)
    env.note("fs has read up to byte 100 again")
    env.scan.put(("fs", FILE), {"position": 100})
    env.undo()


@scenario(OffsetEnvironment)
def offsets_undo_nothing_left(env):
    """The undo of a move is empty where the source has caught up."""
    env.run("offsets", "move", "fs", "--to", "30", "--yes")
    env.note("fs has read up to byte 100 again")
    env.scan.put(("fs", FILE), {"position": 100})
    env.undo()


@scenario(OffsetEnvironment)
def offsets_move_saved(env):
    """Save a plan of a move, review and apply it; applied again, it has nothing to write."""
    env.run("offsets", "move", "fs", "--to", "40", "--out", "plan.json")
    env.recorder.add_document("plan.json", (env.folder / "plan.json").read_text())
    env.change("apply", "plan.json", undo=False)
    env.run("apply", "plan.json", "--yes")
    env.undo()
