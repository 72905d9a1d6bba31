"""Topics and groups."""

from __future__ import annotations

from seamark.errors import RejectedError
from tests.unit.fleet.living import SINK_CONFIG
from tests.unit.scenarios.registry import scenario


def add_topic_and_group(env):
    env.brokers.add_topic("t", partitions=2, records=10)
    env.brokers.add_group("g", {("t", 0): 4, ("t", 1): 10})


@scenario()
def topics_create(env):
    """Create a topic, and undo it."""
    env.change("topics", "create", "n", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=5")


@scenario()
def topics_create_undo_with_records(env):
    """The undo of a creation keeps a topic that has records by now."""
    env.change("topics", "create", "n", undo=False)
    env.note("a producer writes one record")
    env.brokers.topics["n"].logs[0].append(0)
    env.undo()


@scenario()
def topics_alter(env):
    """Set and unset configs of a topic."""
    env.brokers.add_topic("t", configs={"retention.ms": "1", "segment.ms": "9"})
    env.change("topics", "update", "t", "--config", "retention.ms=2", "--unset", "segment.ms")


@scenario()
def topics_grow(env):
    """Add partitions to a topic that a sink and a group read."""
    add_topic_and_group(env)
    env.game.add("reader", SINK_CONFIG)
    env.change("topics", "add-partitions", "t", "--total", "4")


@scenario()
def topics_delete(env):
    """Delete a topic whose committed offsets the journal keeps."""
    add_topic_and_group(env)
    env.change("topics", "delete", "t")


@scenario()
def topics_delete_refused(env):
    """A topic that a running sink reads is not deleted."""
    add_topic_and_group(env)
    env.game.add("reader", SINK_CONFIG)
    env.change("topics", "delete", "t")


@scenario()
def topics_alter_rejected(env):
    """The brokers reject a config."""
    add_topic_and_group(env)
    env.brokers.failing["alter_topic_config", "t"] = RejectedError("the brokers answer INVALID_CONFIG")
    env.change("topics", "update", "t", "--config", "retention.ms=x")


@scenario()
def groups_move(env):
    """Move a group by --to, --shift and --back, and undo each."""
    add_topic_and_group(env)
    env.change("groups", "move", "g", "--to", "earliest", "--topic", "t:0")
    env.change("groups", "move", "g", "--shift", "-1")
    env.change("groups", "move", "g", "--back", "1h")


@scenario()
def groups_move_from(env):
    """Move a group to the offsets of another group and of a CSV file."""
    add_topic_and_group(env)
    env.brokers.add_group("h", {("t", 0): 7})
    env.write("saved.csv", env.execute(["groups", "show", "g", "-o", "csv"]).out)
    env.change("groups", "move", "g", "--from-group", "h", undo=False)
    env.change("groups", "move", "g", "--from-file", "saved.csv")


@scenario()
def groups_move_several(env):
    """Move the groups of a glob in one plan, then those of a CSV file with groups; undo each."""
    add_topic_and_group(env)
    env.brokers.add_group("h", {("t", 0): 7})
    env.write("saved.csv", env.execute(["groups", "export", "*"]).out)
    env.change("groups", "move", "*", "--to", "latest", undo=False)
    env.change("groups", "move", "g", "h", "--from-file", "saved.csv")


@scenario()
def groups_move_in_use(env):
    """A group with members is not moved."""
    add_topic_and_group(env)
    env.brokers.groups["g"].state = "STABLE"
    env.change("groups", "move", "g", "--to", "latest")


@scenario()
def groups_delete(env):
    """Delete a group with its committed offsets, and undo it."""
    add_topic_and_group(env)
    env.change("groups", "delete", "g")
