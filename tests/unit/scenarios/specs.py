"""Spec files: plan, apply and destroy with connectors, topics and pipelines."""

from __future__ import annotations

from seamark.context.context import DatabaseSettings, PaceSettings
from seamark.context.reference import Secret
from seamark.errors import RejectedError
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.scenarios.connectors import FILE
from tests.unit.scenarios.environment import PASSWORD, Environment
from tests.unit.scenarios.registry import scenario

PIPELINE = """\
pipelines:
  orders:
    kind: land
    from: {topic: orders}
    to: {database: shop, table: public.orders}
    columns: {id: bigint}
"""
SHOP = DatabaseSettings("shop", "jdbc:postgresql://db/shop", Secret(lambda: "postgresql://me@127.0.0.1:1/shop"))


class PipelineEnvironment(Environment):
    """A context with a database."""

    def open_fleet(self, name=None):
        fleet = super().open_fleet(name)
        object.__setattr__(fleet.context, "databases", {"shop": SHOP})
        return fleet


class PacedEnvironment(Environment):
    """A context with a pace."""

    def open_fleet(self, name=None):
        fleet = super().open_fleet(name)
        object.__setattr__(fleet.context, "pace", PaceSettings(parallel=2))
        return fleet


def define(env, name, config=SOURCE_CONFIG, **changes):
    """Write the spec file of one connector."""
    env.write(f"config/{name}.json", {"name": name, "config": {**config, **changes}})


def plan_and_apply(env, *argv, undo=True):
    """Record `plan -f` and everything that `apply -f` does."""
    env.run("plan", "-f", "config", "--detailed-exitcode", *argv)
    return env.change("apply", "-f", "config", *argv, undo=undo)


@scenario()
def apply_create(env):
    """Create two connectors from files; the second apply has nothing to do."""
    define(env, "a")
    define(env, "b", SINK_CONFIG)
    plan_and_apply(env, undo=False)
    env.run("apply", "-f", "config", "--yes")
    env.undo()


@scenario()
def apply_update(env):
    """Change a connector as its file says."""
    define(env, "a", topic="other", **{"tasks.max": "3"})
    env.game.add("a", {**SOURCE_CONFIG, "extra": "1"})
    plan_and_apply(env)


@scenario()
def apply_mixed(env):
    """Create, change and delete connectors in one change, and undo it."""
    for name in ("old", "same", "other"):
        define(env, name)
    env.execute(["apply", "-f", "config", "--yes"])
    (env.folder / "config/old.json").unlink()
    define(env, "other", topic="2")
    define(env, "new", SINK_CONFIG)
    plan_and_apply(env)


@scenario()
def apply_prune(env):
    """Delete the connectors that no file names."""
    define(env, "a")
    env.game.add("a", SOURCE_CONFIG)
    env.game.add("stray", SINK_CONFIG)
    plan_and_apply(env, "--prune")


@scenario()
def apply_secrets(env):
    """Apply a file with a secret reference, and change the secret later."""
    env.patch.setenv("GAME_PASSWORD", PASSWORD)
    define(env, "a", **{"connection.password": "secret://env/GAME_PASSWORD"})
    plan_and_apply(env, undo=False)
    env.patch.setenv("GAME_PASSWORD", f"another {PASSWORD}")
    plan_and_apply(env)


@scenario()
def apply_drift(env):
    """Restore a config that was changed since the last apply."""
    define(env, "a")
    env.execute(["apply", "-f", "config", "--yes"])
    env.note("another program sets tasks.max to 4")
    env.game.configs["a"]["tasks.max"] = "4"
    plan_and_apply(env)


@scenario()
def apply_labels(env):
    """Label connectors, change a label without a restart, select by labels, and undo it."""
    config = "\n".join(f"      {key}: {value!r}" for key, value in SOURCE_CONFIG.items())

    def write(tier):
        entries = [
            f"  - name: {name}\n    labels: {labels}\n    config:\n{config}\n"
            for name, labels in (("a", f"{{team: game, tier: {tier}}}"), ("b", "{team: shop}"))
        ]
        env.write("config/a.yaml", f"connectors:\n{''.join(entries)}")

    # The images of labels contain the spec's ID, which would be the folder otherwise.
    env.write("config/_defaults.yaml", "spec: fleet\n")
    env.game.add("b", SOURCE_CONFIG)
    write("gold")
    # One by one: the steps of several connectors have no fixed order.
    plan_and_apply(env, "a", undo=False)
    env.execute(["apply", "-f", "config", "b", "--yes"])
    env.run("connectors", "list", "-l", "team=game", "-o", "wide")
    write("silver")
    plan_and_apply(env)
    env.run("connectors", "pause", "-l", "team=shop", "--yes")
    env.run("connectors", "pause", "-l", "team=nobody", "--yes")
    env.run("status", "-l", "team=shop")
    env.run("journal", "list", "-l", "team=shop", "--limit", "1")
    env.run("offsets", "list", "b", "-l", "team=shop")
    env.run("offsets", "export", "a", "-l", "team=shop")
    env.run("offsets", "restore", "--all", "-l", "team=shop", "--at", "2026-11-14T12:00:00Z", "--dry-run")
    env.run("lag", "-l", "team=shop")
    env.run("connectors", "list", "-l", "team=a b")


@scenario()
def apply_state(env):
    """Resume a connector that was paused by hand, as its file says."""
    config = "\n".join(f"      {key}: {value!r}" for key, value in SOURCE_CONFIG.items())
    env.write("config/a.yaml", f"connectors:\n  - name: a\n    manage_state: true\n    config:\n{config}\n")
    env.execute(["apply", "-f", "config", "--yes"])
    env.note("another program pauses the connector")
    env.game.states["a"] = "PAUSED"
    plan_and_apply(env)


@scenario(PacedEnvironment)
def apply_pace(env):
    """Apply a plan in a context with a pace, and undo it at the same pace."""
    for name in ("a", "b", "c"):
        define(env, name)
    plan_and_apply(env)


@scenario()
def apply_offsets(env):
    """Create a connector that starts at the offsets of its spec, and undo it."""
    config = "\n".join(f"      {key}: {value!r}" for key, value in SOURCE_CONFIG.items())
    offsets = f"    offsets: [{{partition: {FILE!r}, offset: {{position: 15}}}}]\n"
    env.write("config/a.yaml", f"connectors:\n  - name: a\n    config:\n{config}\n{offsets}")
    plan_and_apply(env)


@scenario()
def apply_topics(env):
    """Create topics and then connectors, and undo it in reverse order."""
    env.write(
        "config/spec.yaml",
        "topics:\n  t: {partitions: 2, replication_factor: 1, config: {retention.ms: 5}}\n  u: {}\n"
        f"connectors:\n  - name: a\n    config: {SOURCE_CONFIG!r}\n",
    )
    plan_and_apply(env)


@scenario()
def apply_topics_update(env):
    """Grow and alter a topic that a sink reads; growing can't be undone."""
    env.game.add("reader", SINK_CONFIG)
    env.brokers.add_topic("t", configs={"cleanup.policy": "compact", "retention.ms": "1"})
    env.write("config/spec.yaml", "topics:\n  t: {partitions: 3, replication_factor: 1, config: {retention.ms: 2}}\n")
    plan_and_apply(env)


@scenario(PipelineEnvironment)
def apply_pipeline(env):
    """Register a pipeline, change it, and undo both."""
    env.write("config/pipelines.yaml", PIPELINE)
    plan_and_apply(env, undo=False)
    env.write("config/pipelines.yaml", PIPELINE.replace("{id: bigint}", "{id: bigint, at: timestamp}"))
    plan_and_apply(env)


@scenario(PipelineEnvironment)
def apply_everything(env):
    """Create a topic, a connector and a pipeline in one change, then remove the pipeline."""
    env.write("config/pipelines.yaml", "topics:\n  orders: {partitions: 2}\n" + PIPELINE)
    define(env, "a")
    plan_and_apply(env)
    env.execute(["apply", "-f", "config", "--yes"])
    (env.folder / "config/pipelines.yaml").unlink()
    plan_and_apply(env)


@scenario()
def apply_rolled_back(env):
    """A connector that fails with its new config gets its previous config back: exit code 3."""
    define(env, "a", file="/broken")
    define(env, "b", topic="2")
    for name in ("a", "b"):
        env.game.add(name, SOURCE_CONFIG)
    env.note("tasks of a fail while file is /broken")
    fail_while(env, "a", file="/broken")
    plan_and_apply(env)


@scenario()
def apply_new_connector_fails(env):
    """A new connector whose task fails is deleted again, and the change fails."""
    define(env, "a", file="/broken")
    env.note("tasks of a fail while file is /broken")
    fail_while(env, "a", file="/broken")
    plan_and_apply(env, undo=False)


def fail_while(env, name, **values):
    """Let the task of a connector fail while its config has these values."""
    built = env.game._build

    def build(found):
        is_broken = found == name and values.items() <= env.game.configs[name].items()
        env.game.failed_tasks[found] = {0} if is_broken else set()
        return built(found)

    env.patch.setattr(env.game, "_build", build)


@scenario()
def apply_topic_fails(env):
    """A topic can't be created, so the connectors are not begun."""
    env.write("config/spec.yaml", "topics:\n  t: {}\n  u: {}\n")
    define(env, "a")
    env.brokers.failing["create_topic", "t"] = RejectedError("the brokers answer INVALID_CONFIG")
    plan_and_apply(env)


@scenario()
def apply_canary(env):
    """The canary fails, and nothing else is begun; too many changes are refused."""
    for name in "abc":
        define(env, name)
    env.run("apply", "-f", "config", "--max-changes", "2", "--yes")
    env.game.failing["create", "a"] = RejectedError("Connect answers 400: connector.class is unknown")
    env.run("apply", "-f", "config", "--canary", "1", "--yes")
    env.show_journal()


@scenario()
def apply_invalid(env):
    """A plugin rejects a config, so no change is planned."""
    define(env, "a")
    env.game.invalid["a"] = {"file": ("must be set",)}
    env.run("plan", "-f", "config")
    env.run("apply", "-f", "config", "--yes")


@scenario()
def destroy_connectors(env):
    """Delete everything that the files name; topics stay."""
    define(env, "a")
    define(env, "b", SINK_CONFIG)
    env.write("config/topics.yaml", "topics:\n  t: {}\n")
    env.execute(["apply", "-f", "config", "--yes"])
    env.change("destroy", "-f", "config")


@scenario(PipelineEnvironment)
def destroy_pipeline(env):
    """Delete a connector whose files declare a pipeline too; files without a connector are refused."""
    env.write("config/pipelines.yaml", PIPELINE)
    env.run("destroy", "-f", "config", "--yes")
    define(env, "a")
    env.execute(["apply", "-f", "config", "--yes"])
    env.change("destroy", "-f", "config")


@scenario()
def saved_plan(env):
    """Save a plan, review it, apply it, and see it refused as out of date."""
    define(env, "a", topic="2")
    define(env, "b")
    env.game.add("a", SOURCE_CONFIG)
    env.run("plan", "-f", "config", "--out", "plan.json")
    env.recorder.add_document("plan.json", (env.folder / "plan.json").read_text())
    env.change("apply", "plan.json", undo=False)
    env.run("apply", "plan.json", "--yes")
    env.undo()
