"""Connectors: create, change, delete, pause, resume, stop, restart, rename, heal and loggers."""

from __future__ import annotations

from seamark.core.offsets import Offset
from seamark.errors import RejectedError
from tests.unit.connectors.operating import W1, W2, OperatedConnect
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.scenarios.environment import PASSWORD, Environment
from tests.unit.scenarios.registry import scenario

FILE = {"filename": "/in"}


class OperatedEnvironment(Environment):
    """A Connect cluster of two workers with log levels."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.context = {"urls": (W1, W2)}

    def build_connect(self):
        return OperatedConnect()

    def read_state(self):
        return {**super().read_state(), "loggers": self.game.loggers}


def add_two(env):
    env.game.add("a", SOURCE_CONFIG)
    env.game.add("b", SINK_CONFIG)


@scenario()
def connectors_create(env):
    """Create a connector from a file, and undo it."""
    file = env.write("new.json", {"name": "new", "config": {**SOURCE_CONFIG, "tasks.max": 2}})
    env.change("connectors", "create", "-f", file)


@scenario()
def connectors_create_stopped(env):
    """Create a stopped connector whose name has stored offsets."""
    env.scan.put(("new", {"filename": "/in"}), {"position": 7})
    file = env.write("new.json", SOURCE_CONFIG)
    env.change("connectors", "create", "-f", file, "--name", "new", "--initial-state", "stopped")


@scenario()
def connectors_create_with_secret(env):
    """Create a connector with a secret, which a saved plan does not contain."""
    env.write("secrets.properties", f"password={PASSWORD}\n")
    config = {**SOURCE_CONFIG, "db.password": "secret://file/secrets.properties#password"}
    env.change("connectors", "create", "-f", env.write("new.json", {"name": "new", "config": config}))
    literal = env.write("literal.json", {"name": "plain", "config": {**SOURCE_CONFIG, "db.password": PASSWORD}})
    env.run("connectors", "create", "-f", literal, "--out", "plan.json")
    env.run("apply", "plan.json", "--yes")


@scenario()
def connectors_change(env):
    """Set and unset keys of a config, and undo it."""
    add_two(env)
    env.change("connectors", "update", "a", "--set", "tasks.max=4", "--unset", "topic")


@scenario()
def connectors_change_secret(env):
    """Change a connector that has secrets: seals in plan and journal."""
    env.game.add("a", {**SOURCE_CONFIG, "db.password": PASSWORD, "url": f"jdbc:x://h/d?user=u&password={PASSWORD}"})
    env.change("connectors", "update", "a", "--set", "tasks.max=2")


@scenario()
def connectors_change_file(env):
    """Replace a whole config by a file."""
    add_two(env)
    file = env.write("a.json", {"name": "a", "config": {**SOURCE_CONFIG, "file": "/other"}})
    env.change("connectors", "update", "a", "-f", file)


@scenario()
def connectors_delete(env):
    """Delete a source and a sink whose offsets stay, and undo it."""
    add_two(env)
    env.scan.put(("a", {"filename": "/in"}), {"position": 40})
    env.brokers.add_topic("t", records=10)
    env.brokers.add_group("connect-b", {("t", 0): 8})
    env.change("connectors", "delete", "a", "b")


@scenario()
def connectors_delete_with_offsets(env):
    """Delete a source and a sink with their offsets, and undo it."""
    add_two_with_offsets(env)
    env.change("connectors", "delete", "old", "lake", "--with-offsets")


@scenario()
def connectors_create_fresh(env):
    """Create a connector without the offsets of an earlier one of its name, and undo it."""
    env.scan.put(("new", FILE), {"position": 7})
    file = env.write("new.json", {"name": "new", "config": SOURCE_CONFIG})
    env.change("connectors", "create", "-f", file, "--fresh")


@scenario()
def connectors_pause(env):
    """Pause one connector, and undo it; the second undo is refused."""
    add_two(env)
    env.change("connectors", "pause", "a", undo=False)
    paused = env.newest()
    env.undo()
    env.run("journal", "undo", paused, "--yes")


@scenario()
def connectors_pause_many(env):
    """Pause connectors that a pattern selects."""
    add_two(env)
    env.game.add("c", SOURCE_CONFIG, state="PAUSED")
    env.change("connectors", "pause", "*")


@scenario()
def connectors_resume(env):
    """Resume a paused and a stopped connector."""
    env.game.add("a", SOURCE_CONFIG, state="PAUSED")
    env.game.add("b", SINK_CONFIG, state="STOPPED")
    env.change("connectors", "resume", "a", "b")


@scenario()
def connectors_stop(env):
    """Stop two connectors."""
    add_two(env)
    env.change("connectors", "stop", "a", "b")


@scenario()
def connectors_restart(env):
    """Restart failed tasks, which leaves nothing to undo."""
    env.game.add("a", {**SOURCE_CONFIG, "tasks.max": "3"}, failed=[1, 2])
    env.game.add("b", SINK_CONFIG)
    env.change("connectors", "restart", "a", "b")


@scenario()
def connectors_rename(env):
    """Rename a stopped connector that has no offsets, and undo it."""
    env.game.add("a", SOURCE_CONFIG, state="STOPPED")
    env.change("connectors", "rename", "a", "z")


def add_two_with_offsets(env):
    env.game.add("old", SOURCE_CONFIG)
    env.game.offsets["old"] = (Offset(FILE, {"position": 7}),)
    env.scan.put(("old", FILE), {"position": 7})
    env.game.add("lake", SINK_CONFIG, state="STOPPED")
    env.game.offsets["lake"] = (Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7}),)
    env.brokers.add_topic("t", records=10)
    env.brokers.add_group("connect-lake", {("t", 0): 7})
    env.brokers.add_group("connect-pond", {})


@scenario()
def connectors_rename_with_offsets(env):
    """Rename a source and a sink whose offsets are copied to the new names."""
    add_two_with_offsets(env)
    env.change("connectors", "rename", "old", "new")
    env.change("connectors", "rename", "lake", "pond")


@scenario()
def connectors_rename_fails(env):
    """Connect rejects the copied offsets, and the old connector continues."""
    add_two_with_offsets(env)
    env.game.failing["patch_offsets", "new"] = RejectedError("Connect answers 400: the offsets are invalid")
    env.change("connectors", "rename", "old", "new")


@scenario(OperatedEnvironment)
def connectors_rename_losing_offsets(env):
    """Rename on old workers: refused, then accepted with the loss of offsets."""
    env.game.version = "3.6.2"
    env.game.add("a", SOURCE_CONFIG)
    env.game.offsets["a"] = (Offset({"filename": "/in"}, {"position": 7}),)
    env.run("connectors", "rename", "a", "z", "--yes")
    env.change("connectors", "rename", "a", "z", "--allow-offset-loss")


@scenario(OperatedEnvironment)
def connectors_heal(env):
    """Heal a failed connector."""
    env.game.add("a", SOURCE_CONFIG)
    env.game.add("b", SOURCE_CONFIG, failed=[0])
    env.change("connectors", "heal", undo=False)


@scenario(OperatedEnvironment)
def connectors_heal_gives_up(env):
    """Restart a connector that fails again until seamark gives up."""
    env.game.add("b", SOURCE_CONFIG, failed=[0])

    def fail():
        env.game.failed_tasks["b"] = {0}

    env.on_sleep = fail
    env.run("connectors", "heal", "--max-restarts", "2", "--backoff", "10s", "--yes")
    env.run("journal", "list")


@scenario(OperatedEnvironment)
def loggers_set(env):
    """Set a log level on all workers, and undo it."""
    env.change("loggers", "set", "org.apache.kafka.connect.runtime", "debug", "--all-workers")


@scenario(OperatedEnvironment)
def loggers_set_one_worker(env):
    """Set a log level on one worker, and undo it."""
    env.game.loggers[W1]["org.apache"] = "WARN"
    env.change("loggers", "set", "org.apache", "TRACE", "--worker", W1)
