"""Changes that are refused or fail: out of date, locked, rejected by Connect, changed by others."""

from __future__ import annotations

import json

from seamark.changes.file_journal import FileJournal
from seamark.errors import RejectedError, UnknownOutcomeError, UnreachableError
from seamark.fleet.fleet import Fleet
from tests.fakes.connect import FILE_SOURCE, FakeConnect
from tests.fakes.connect.faults import Answer, Drop
from tests.unit.fleet.builders import EmptyScan, StubKafka
from tests.unit.fleet.living import SOURCE_CONFIG, living_context
from tests.unit.scenarios.environment import Environment
from tests.unit.scenarios.offsets import FILE, OffsetEnvironment
from tests.unit.scenarios.registry import scenario

HTTP_CONFIG = {"connector.class": FILE_SOURCE, "topic": "t", "tasks.max": "1"}


class HttpEnvironment(Environment):
    """FakeConnect behind the real client."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.fake = FakeConnect(workers=1).__enter__()
        for name in "ab":
            self.fake.add_connector(name, HTTP_CONFIG)

    def open_fleet(self, name=None):
        return Fleet(
            living_context(self.folder, urls=self.fake.urls),
            build_kafka=lambda settings: StubKafka(),
            open_scan=lambda config, topic, committed: EmptyScan(topic),
            open_journal=lambda opened: FileJournal(opened.journal.folder),
        )

    def read_state(self):
        listed = json.loads(self.execute(["connectors", "list", "-o", "json"]).out)
        return {"connectors": {item["name"]: item["state"] for item in listed["items"]}}

    def close(self):
        self.fake.__exit__(None, None, None)


def add_two(env):
    env.game.add("a", SOURCE_CONFIG)
    env.game.add("b", SOURCE_CONFIG)


@scenario(HttpEnvironment)
def connect_answers_400(env):
    """Connect rejects the request of one of two connectors: exit code 3."""
    env.fake.faults.add(match="PUT /connectors/a/config", do=Answer(400, "tasks.max must be at most 8"))
    env.change("connectors", "update", "a", "--set", "tasks.max=9", undo=False)
    env.fake.faults.add(match="PUT /connectors/b/pause", do=Answer(400, "not allowed"))
    env.change("connectors", "pause", "a", "b")


@scenario(HttpEnvironment)
def connect_answers_500(env):
    """Connect answers 500 to a request that it has not carried out."""
    env.fake.faults.add(match="PUT /connectors/a/pause", do=Answer(500, "Request timed out"), times=None)
    env.change("connectors", "pause", "a", "b")


@scenario(HttpEnvironment)
def connect_loses_the_answer(env):
    """The connection breaks after Connect has carried the request out."""
    env.fake.faults.add(match="PUT /connectors/a/stop", do=Drop(applied=True))
    env.change("connectors", "stop", "a")


@scenario(HttpEnvironment)
def connect_deletes_and_creates(env):
    """Create and delete connectors through the real client."""
    file = env.write("new.json", {"name": "new", "config": HTTP_CONFIG})
    env.change("connectors", "create", "-f", file)
    env.change("connectors", "delete", "a")


@scenario()
def unreachable_worker(env):
    """A worker can't be reached, so nothing was changed: exit code 6."""
    add_two(env)
    env.game.failing["pause", "a"] = UnreachableError("can't reach http://w1:8083", hint="start the worker")
    env.change("connectors", "pause", "a")


@scenario()
def failed_partly(env):
    """One of three connectors fails: exit code 3, and the undo restores the other two."""
    add_two(env)
    env.game.add("c", SOURCE_CONFIG)
    env.game.failing["pause", "b"] = RejectedError("Connect answers 400: no")
    env.change("connectors", "pause", "a", "b", "c")


@scenario()
def failed_all(env):
    """All requests fail: exit code 1."""
    add_two(env)
    for name in "ab":
        env.game.failing["delete", name] = RejectedError(f"Connect answers 400 for {name}")
    env.change("connectors", "delete", "a", "b")


@scenario()
def changed_by_others_meanwhile(env):
    """Another program changes a config while the answer to seamark's request is lost."""
    add_two(env)

    def change():
        env.game.configs["a"]["file"] = "/theirs"
        raise UnknownOutcomeError("no answer")

    env.note("another program sets file while the answer is lost")
    env.game.before["put_config", "a"] = change
    env.change("connectors", "update", "a", "--set", "tasks.max=2")


@scenario()
def changed_by_others_since(env):
    """The undo is refused because another program has changed the config since."""
    add_two(env)
    env.change("connectors", "update", "a", "--set", "tasks.max=2", undo=False)
    env.note("another program sets tasks.max to 7")
    env.game.configs["a"]["tasks.max"] = "7"
    env.undo()


@scenario(OffsetEnvironment)
def offsets_written_by_others(env):
    """Another program writes the offsets of a source that has been moved."""
    resume = env.game.resume

    def resume_and_write(name):
        resume(name)
        env.scan.put((name, FILE), {"position": 10})

    env.patch.setattr(env.game, "resume", resume_and_write)
    env.change("offsets", "move", "fs", "--to", "130")


@scenario(OffsetEnvironment)
def offsets_rejected(env):
    """Connect rejects the offsets; the connector runs again with its previous offsets."""
    env.game.failing["patch_offsets", "fs"] = RejectedError("Connect answers 400: the plugin rejects these offsets")
    env.change("offsets", "move", "fs", "--to", "40")


@scenario(OffsetEnvironment)
def offsets_preview_exceeded(env):
    """The source has read much more between plan and stop than the tolerance allows."""
    stop = env.game.stop

    def read_and_stop(name):
        env.scan.put((name, FILE), {"position": 90_000_000})
        stop(name)

    env.patch.setattr(env.game, "stop", read_and_stop)
    env.change("offsets", "move", "fs", "--to", "40", "--tolerance", "10%")


@scenario()
def saved_plan_out_of_date(env):
    """A saved plan is refused because the config has changed since."""
    add_two(env)
    env.run("connectors", "update", "a", "--set", "tasks.max=2", "--out", "plan.json")
    env.note("another program sets file")
    env.game.configs["a"]["file"] = "/theirs"
    env.run("apply", "plan.json", "--dry-run")
    env.run("apply", "plan.json", "--yes")
    env.run("journal", "list")


@scenario()
def saved_plan_edited(env):
    """A saved plan is refused when its locks, its preconditions, its steps or its context were edited."""
    add_two(env)
    env.execute(["connectors", "pause", "a", "--out", "plan.json"])
    plan = json.loads((env.folder / "plan.json").read_text())
    for name, changes in (
        ("no locks", {"locks": []}),
        ("no preconditions", {"preconditions": []}),
        ("another context", {"context": "prod"}),
        ("another version", {"format_version": 99}),
    ):
        env.note(f"the file has {name}")
        env.write("edited.json", {**plan, **changes})
        env.run("apply", "edited.json", "--yes")
    env.note("the file is no plan")
    env.write("edited.json", "[]")
    env.run("apply", "edited.json", "--yes")


@scenario()
def not_confirmed(env):
    """The question before a change: not confirmed, without a terminal, and in a protected context."""
    add_two(env)
    env.run("connectors", "pause", "a", typed="no\n")
    env.run("connectors", "pause", "a")
    env.run("connectors", "delete", "a", typed="yes\n")
    env.context = {"protected": True}
    env.run("connectors", "pause", "a", typed="yes\n")
    env.run("connectors", "pause", "a", typed="a\n")
