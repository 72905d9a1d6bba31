"""The errors that operators meet most often, provoked on real servers: exit code, form, and a next step that exists."""

from __future__ import annotations

import io
import json
import re
import uuid

import click
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from seamark.cli.main import execute, root
from seamark.cli.session import Session
from tests.integration.rest import call, call_until

SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
ID = "01M7Q0000000000000000000ZZ"

# Exit code and command line. {s} a source, {k} a sink, {t} the sink's topic, {e} a topic without consumers, {a} a group
# with a member, {g} an empty group, {d} a folder with the files below.
ERRORS = (
    (1, "connectors show no-such"),
    (1, "connectors delete no-such --yes"),
    (1, "connectors pause no-such --yes"),
    (64, "connectors list --state banana"),
    (64, "connectors describe {s}"),
    (64, "connectors create -f {d}/missing.json"),
    (64, "connectors create -f {d}/broken.json --yes"),
    (64, "connectors create -f {d}/no-class.json --yes"),
    (1, "connectors create -f {d}/unknown-class.json --yes"),
    (1, "connectors create -f {d}/existing.json --yes"),
    (64, "connectors update {s}"),
    (1, "connectors update {s} --set tasks.max=many --yes"),
    (1, "connectors rename {s} {k} --yes"),
    (64, "connectors pause {s}"),
    (4, "connectors pause {s} --yes --context readonly"),
    (64, "connectors delete {s} --yes --context protected"),
    (1, "connectors pause {s} --yes --context fresh"),
    (1, "offsets show no-such"),
    (1, "offsets show group/no-such"),
    (1, "offsets show pipeline/no-such"),
    (1, "offsets move no-such --to 5 --yes"),
    (64, "offsets move {s}"),
    (64, "offsets move {s} --to 5 --back 1h"),
    (64, "offsets move {s} --to yesterday"),
    (64, "offsets move {k} --back 1x"),
    (5, "offsets move {s} --back 1h"),
    (64, "offsets move {s} --to latest"),
    (1, "offsets move {s} --to 5 --partition nope"),
    (1, "offsets move {k} --to earliest --topic no-such"),
    (5, "offsets move group/{a} --to earliest --yes"),
    (1, "offsets move group/no-such --to earliest --yes"),
    (5, "offsets copy {s} {k} --yes"),
    (64, "offsets export"),
    (64, "offsets import {d}/missing.json"),
    (64, "offsets import {d}/broken.json"),
    (64, "offsets import {d}/no-class.json"),
    (64, "offsets restore {s}"),
    (5, "offsets restore {s} --at 1999-01-01T00:00:00Z"),
    (5, "offsets skip {k} --yes"),
    (5, "offsets relocate {k} --topic own --yes"),
    (1, "groups show no-such"),
    (5, "groups delete {a} --yes"),
    (5, "groups move {a} --to latest --yes"),
    (1, "topics show no-such"),
    (1, "topics create {t} --yes"),
    (1, "topics create new-{e} --replication-factor 9 --yes"),
    (64, "topics create bad/name --yes"),
    (5, "topics delete connect-offsets --yes"),
    (5, "topics delete {t} --yes"),
    (5, "topics add-partitions {e} --total 1 --yes"),
    (64, "topics update {e}"),
    (1, "topics update {e} --config no.such.key=1 --yes"),
    (64, "plan -f {d}/missing.yaml"),
    (64, "plan -f {d}/broken.yaml"),
    (64, "plan -f {d}/unknown-key.yaml"),
    (64, "plan -f {d}/spec.py"),
    (64, "apply"),
    (5, "apply {d}/no-class.json"),
    (1, f"journal show {ID}"),
    (1, f"journal undo {ID}"),
    (1, f"journal resume {ID}"),
    (64, f"journal unlock {ID}"),
    (64, "status --context no-such"),
    (6, "status --context down"),
    (6, "topics list --context down"),
    (64, "context use no-such"),
    (64, "lag --watch --interval soon"),
    (64, "loggers set root LOUD --yes"),
    (64, "copies plan {e} --partitions 0"),
    (64, "copies run no-such"),
    (1, "pipelines plan no-such"),
    (64, "status -o xml"),
)

FILES = {
    "broken.json": "{not json",
    "no-class.json": '{"name": "x", "config": {"tasks.max": "1"}}',
    "unknown-class.json": '{"name": "x", "config": {"connector.class": "org.example.NoSuch", "tasks.max": "1"}}',
    "broken.yaml": "connectors: [\n",
    "unknown-key.yaml": "connectors:\n  x:\n    konfig: {}\n",
    "spec.py": "from seamark.specs import connector\n",
}


class Desk:
    """Contexts, servers' resources and command lines."""

    def __init__(self, stack, folder, monkeypatch):
        self.mark = uuid.uuid4().hex[:8]
        self.url = stack.connect["connect"].urls[0]
        self.kafka = {"bootstrap.servers": stack.kafka.bootstrap_servers}
        self.words = {
            "s": f"err-source-{self.mark}",
            "k": f"err-sink-{self.mark}",
            "t": f"err-topic-{self.mark}",
            "e": f"err-empty-{self.mark}",
            "a": f"err-active-{self.mark}",
            "g": f"err-group-{self.mark}",
            "d": str(folder),
        }
        endpoint = stack.connect["connect"]
        workers = {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}
        dev = {
            "journal": "file",
            "journal_folder": str(folder / "journal"),
            "policy": {"files": ["/**"]},
            "kafka": self.kafka,
            "connect": {"connect": workers},
        }
        down = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "connect": {"connect": {"urls": ["http://127.0.0.1:1"]}}}
        contexts = {
            "dev": dev,
            "readonly": {**dev, "read_only": True},
            "protected": {**dev, "protected": True},
            "fresh": {**dev, "journal": "kafka", "journal_topic": f"no-journal-{self.mark}"},
            "down": {**down, "journal": "file", "journal_folder": str(folder / "other")},
        }
        config = folder / "contexts.yaml"
        config.write_text(json.dumps({"current": "dev", "contexts": contexts}))
        monkeypatch.setenv("SEAMARK_CONFIG", str(config))
        for name, text in FILES.items():
            (folder / name).write_text(text)
        (folder / "lines.txt").write_text("a\nb\n")
        existing = {"connector.class": SOURCE, "tasks.max": "1", "file": str(folder / "lines.txt"), "topic": "x"}
        (folder / "existing.json").write_text(json.dumps({"name": self.words["s"], "config": existing}))
        self.source = existing | {"topic": self.words["t"]}
        self.sink = {
            "connector.class": SINK,
            "tasks.max": "1",
            "topics": self.words["t"],
            "file": str(folder / "out.txt"),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }

    def set_up(self):
        admin = AdminClient(self.kafka)
        topics = [NewTopic(self.words[name], num_partitions=2, replication_factor=1) for name in "te"]
        for done in admin.create_topics(topics).values():
            done.result(30)
        producer = Producer(self.kafka)
        producer.produce(self.words["t"], value=b"first", partition=0)
        assert producer.flush(30) == 0
        for name, config in ((self.words["s"], self.source), (self.words["k"], self.sink)):
            status, _ = call(f"{self.url}/connectors/{name}/config", method="PUT", body=config)
            assert status == 201
            call_until(
                f"{self.url}/connectors/{name}/status",
                lambda status, found: status == 200 and [one["state"] for one in found["tasks"]] == ["RUNNING"],
            )
        call_until(
            f"{self.url}/connectors/{self.words['s']}/offsets",
            lambda status, found: status == 200 and found["offsets"],
        )
        code, _, err = self.run("init --yes")
        assert code == 0, err

    def tear_down(self):
        for name in "sk":
            call(f"{self.url}/connectors/{self.words[name]}", method="DELETE")
        admin = AdminClient(self.kafka)
        for done in admin.delete_topics([self.words[name] for name in "te"]).values():
            done.result(30)

    def run(self, line):
        out, err = io.StringIO(), io.StringIO()
        argv = line.format(**self.words).split()
        code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
        return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def desk(stack, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        desk = Desk(stack, tmp_path_factory.mktemp("errors"), monkeypatch)
        desk.set_up()
        member = Consumer({**desk.kafka, "group.id": desk.words["a"], "auto.offset.reset": "earliest"})
        member.subscribe([desk.words["t"]])
        assert member.poll(60) is not None
        member.commit(offsets=[TopicPartition(desk.words["t"], 0, 1)], asynchronous=False)
        yield desk
        member.close()
        desk.tear_down()


def find_commands(text):
    """The command lines of seamark in the hints of errors."""
    hints = "\n".join(line for line in text.splitlines() if line.startswith("hint:"))
    return re.findall(r"(?<![\w/.-])seamark ((?:--?)?[a-z][^`;)\n]*)", hints)


def find_mistake(line):
    """What is wrong with a command line that a text names; None if it exists."""
    command, words = root, line.replace(",", " ").split()
    with click.Context(root, info_name="seamark") as ctx:
        while isinstance(command, click.Group) and words:
            found = command.get_command(ctx, words[0].rstrip(".:"))
            if found is None:
                return f"{words[0]!r} is no command of {command.name}"
            command, words = found, words[1:]
        known = {name for param in (*command.params, *root.params) for name in (*param.opts, *param.secondary_opts)}
    known.add("--help")
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0].rstrip(".:") not in known]
    return f"{unknown} of {line!r}" if unknown else None


@pytest.mark.parametrize(("code", "line"), ERRORS, ids=[line for _, line in ERRORS])
def test_error_names_what_happened_and_a_next_step_that_exists(desk, code, line):
    found, out, err = desk.run(line)
    print(f"$ seamark {line}\n{out}{err}[exit code {found}]")
    assert found == code, out + err
    assert re.search(r"^error: \S", err, re.MULTILINE), err
    assert "Traceback" not in err
    assert "Error(" not in err
    for command in find_commands(err):
        assert find_mistake(command) is None, err
