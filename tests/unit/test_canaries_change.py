"""Fifty secrets in configs, URLs, variables and files, through every command: none comes out but to Connect."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.context import load_contexts
from seamark.errors import SeamarkError
from seamark.fleet.fleet import Fleet
from seamark.report.data import OutputFormat
from tests.fakes.connect import FakeConnect
from tests.fakes.connect.faults import Answer
from tests.unit.fleet.builders import EmptyScan, StubKafka

CANARIES = [f"canary{number:02d}feather" for number in range(50)]
C = iter(CANARIES)
PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"
BASE = {"connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector", "tasks.max": "1", "topic.prefix": "t"}
LITERAL = {
    "connection.password": next(C),
    "database.password": f" {next(C)}\t",
    "aws.secret.access.key": next(C),
    "apiKey": next(C),
    "private_key": next(C),
    "ssl.keystore.key": PEM.format(next(C)),
    "ssl.key.password": next(C),
    "x.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="u" password="{next(C)}";',
    "auth.token": next(C),
    "value.converter.basic.auth.user.info": f"u:{next(C)}",
    "passphrase": next(C),
    "snowflake.private.key": next(C),
    "azure.connection.string": f"AccountKey={next(C)};x=y",
    "header.authorization": f"Bearer {next(C)}",
    "oauth2.client.secret": next(C),
    "credentials.json": f'{{"k": "{next(C)}"}}',
    "confluent.license.key": next(C),
    "shared.access.key": next(C),
    "sftp.passwd": next(C),
    "encryption_key": next(C),
}
IN_URLS = {
    "connection.url": f"jdbc:postgresql://u:{next(C)}@db/x?password={next(C)}&ssl=true",
    "backup.url": f"jdbc:sqlserver://db;user=u;password={next(C)};encrypt=true",
    "http.url": f"https://{next(C)}@api.example.com/v1",
    "hook.url": f"https://api.example.com/v1?api_key={next(C)}&x=1",
    "mongo.uri": f"mongodb://u:{next(C)}@m1:27017,m2:27017/?replicaSet=r",
    "amqp.uri": f"amqp://u:{next(C)}@mq/%2f",
    "signed.url": f"https://blob.example.com/c?sv=1&signature={next(C)}",
    "proxy.url": f"http://p%40:{next(C)}@proxy:3128",
}
BY_VARIABLE = {f"own{number}.password": next(C) for number in range(5)}
BY_FILE = {f"filed{number}.secret": next(C) for number in range(6)}
NEW = {f"new{number}.password": next(C) for number in range(4)}
TRACE = f"Caused by: x: Login failed for jdbc:mysql://u:{next(C)}@h/d, password={next(C)}"
ECHOED = next(C)
REST_PASSWORD, WRONG_MASK = next(C), next(C)
# A key whose name tells nothing: what stands behind a reference is a secret all the same.
UNNAMED = next(C)
assert next(C, None) is None, "give every canary a place"


def leaks(*texts: str) -> list[str]:
    """The canaries in some texts: as they are, quoted for a URL, or as HTTP sends them."""
    spelled = [
        form
        for canary in CANARIES
        for form in {canary, quote(canary, safe=""), base64.b64encode(f"ops:{canary}".encode()).decode()}
    ]
    return [form for form in spelled for text in texts if form in text]


class Desk:
    """A fake Connect, a contexts file, and command lines typed at them; everything written is kept."""

    def __init__(self, folder: Path, connect: FakeConnect) -> None:
        self.folder = folder
        self.connect = connect
        self.written: list[str] = []
        self.environ = {
            "XDG_STATE_HOME": str(folder / "state"),
            "HOME": str(folder),
            "SEAMARK_CONFIG": str(folder / "seamark.yaml"),
            "REST_PASSWORD": REST_PASSWORD,
            "UNNAMED": UNNAMED,
        } | {key.upper().replace(".", "_"): value for key, value in BY_VARIABLE.items()}
        url = connect.urls[0]
        self.write(
            "seamark.yaml",
            "contexts: {dev: {kafka: {bootstrap.servers: 'b:1'}, journal: file, in_flight_timeout: 0.1s, "
            "insecure: true, "
            "policy: {references: ['secret://*']}, "
            f"connect: {{game: {{urls: '{url}', username: ops, password: 'secret://env/REST_PASSWORD', "
            "group_id: g, offsets_topic: o}}}}",
        )
        self.write("secrets.properties", "".join(f"{key}={value}\n" for key, value in BY_FILE.items()))

    def write(self, name: str, content: object) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def fleet(self) -> Fleet:
        contexts = load_contexts(
            environ=self.environ, cwd=self.folder, user_dir=self.folder / "user", system_dir=self.folder / "etc"
        )
        return Fleet(
            contexts.open(), build_kafka=lambda _: StubKafka(), open_scan=lambda _, topic, __: EmptyScan(topic)
        )

    def run(self, *argv: str, log: bool = True) -> int:
        """Run one command line, with the fullest log there is."""
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(), open_fleet=lambda _: self.fleet())
        with plain_logging():
            code = execute([*argv, *(["-vv"] if log else [])], session=session)
        self.written += [out.getvalue(), err.getvalue()]
        assert leaks(out.getvalue(), err.getvalue()) == [], argv
        return code

    def must(self, *argv: str) -> None:
        assert self.run(*argv) == 0, self.written[-1]

    def newest(self) -> str:
        self.must("journal", "list", "--limit", "1", "-o", "name")
        return self.written[-2].strip()

    def held(self, name: str) -> dict[str, str]:
        with self.fleet() as fleet:
            return dict(fleet.connectors.get(name).config)

    def files(self) -> list[Path]:
        """What seamark itself wrote: the journal, its key, plans, pulled files."""
        places = [self.folder / "state", *self.folder.glob("*.plan"), self.folder / "pulled"]
        return [
            file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()
        ]


@contextmanager
def plain_logging() -> Iterator[None]:
    """Take back what `-vv` does to the logging of the whole process."""
    root = logging.getLogger()
    kept, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = kept
        root.setLevel(level)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEAMARK_CONFIG", str(tmp_path / "seamark.yaml"))
    with FakeConnect(username="ops", password=REST_PASSWORD) as connect:
        yield Desk(tmp_path, connect)


def wanted() -> dict[str, str]:
    """The config as a file gives it."""
    variables = {key: f"secret://env/{key.upper().replace('.', '_')}" for key in BY_VARIABLE}
    files = {key: f"secret://file/secrets.properties#{key}" for key in BY_FILE}
    return BASE | LITERAL | IN_URLS | variables | files


def clear() -> dict[str, str]:
    """The same as Connect shall hold it."""
    return {"name": "a"} | BASE | LITERAL | IN_URLS | BY_VARIABLE | BY_FILE


# Each command that looks, in every format. A new one is one more line.
LOOKS = [
    ("status",),
    ("connectors", "list"),
    ("connectors", "show", "a"),
    ("plugins", "list"),
    ("workers", "list"),
    ("offsets", "show", "a"),
    ("context", "show"),
    ("journal", "list"),
    ("journal", "show", "{change}"),
    ("connectors", "create", "-f", "{a}", "--name", "b", "--dry-run"),
    ("connectors", "update", "a", "-f", "{changed}", "--dry-run"),
    ("connectors", "delete", "a", "--dry-run"),
    ("connectors", "rename", "a", "b", "--allow-offset-loss", "--dry-run"),
    ("plan", "-f", "{spec}"),
    ("plan", "-f", "{spec}", "--offline"),
    ("destroy", "-f", "{spec}", "--dry-run"),
    ("pull", "--dir", "{pulled}", "--dry-run"),
    ("journal", "export", "{change}"),
]


def test_no_command_shows_a_secret(desk: Desk) -> None:
    places = {
        "a": desk.write("a.json", wanted()),
        "changed": desk.write("changed.json", wanted() | NEW | {"tasks.max": "2"}),
        "spec": str(Path(desk.write("spec/a.json", {"name": "a", "config": _below(wanted()) | NEW})).parent),
    }
    desk.must("connectors", "create", "-f", places["a"], "--name", "a", "--yes")
    assert desk.held("a") == clear()
    places["pulled"] = str(Path(places["spec"]).parent / "pulled")
    desk.connect.add_connector("failed", clear(), state="FAILED", tasks=["FAILED"], trace=TRACE, task_traces=[TRACE])
    places["change"] = desk.newest()
    for argv in LOOKS:
        for form in OutputFormat:
            # The log is the same for every format.
            line = [part.format(**places) for part in argv]
            code = desk.run(*line, "-o", form.value, log=form is OutputFormat.TABLE)
            assert code == 0 or form.value not in {"table", "json"}, desk.written[-1]
    assert len(desk.written) >= 2 * len(LOOKS) * len(OutputFormat)
    assert [desk.connect.asked("PUT /connectors/"), desk.connect.asked("DELETE")] == [[], []]


def test_no_change_writes_a_secret(desk: Desk) -> None:
    file = desk.write("a.json", wanted())
    desk.must("connectors", "create", "-f", file, "--name", "a", "--yes")
    desk.must("connectors", "update", "a", "-f", desk.write("b.json", wanted() | NEW), "--yes")
    assert desk.held("a") == clear() | NEW
    desk.must("connectors", "update", "a", "--set", "tasks.max=2", "--out", "set.plan")
    desk.must("apply", "set.plan", "--yes")
    desk.must("connectors", "update", "a", "--set", "x.password=secret://env/UNNAMED", "--yes", "-o", "json")
    desk.must("journal", "undo", desk.newest(), "--yes", "-o", "yaml")
    desk.must("connectors", "create", "-f", file, "--name", "c", "--out", "create.plan")
    assert desk.run("apply", "create.plan", "--yes") == 5
    desk.must("connectors", "delete", "a", "--yes")
    assert desk.run("journal", "undo", desk.newest(), "--yes") == 5
    change = desk.newest()
    desk.must("journal", "show", change)
    desk.run("journal", "export", change)
    _check_files(desk, at_least=6)


def test_no_apply_of_files_writes_a_secret(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamark.connectors.run_state._lasts", lambda since, now, seconds: since is not None)
    spec = str(Path(desk.write("spec/a.json", {"name": "a", "config": _below(wanted())})).parent)
    desk.must("apply", "-f", spec, "--yes")
    assert desk.held("a") == clear()
    desk.write("spec/a.json", {"name": "a", "config": _below(wanted()) | NEW})
    desk.must("plan", "-f", spec, "--out", "spec.plan")
    assert desk.run("apply", "spec.plan", "--yes") == 5
    desk.must("apply", "-f", spec, "--yes", "-o", "json")
    assert desk.held("a") == clear() | NEW
    for form in OutputFormat:
        desk.must("journal", "show", desk.newest(), "-o", form.value)
    desk.must("destroy", "-f", spec, "--yes")
    _check_files(desk, at_least=5)


def test_a_key_that_does_not_tell_is_no_leak(desk: Desk) -> None:
    file = desk.write("a.json", BASE | {"custom.thing": "secret://env/UNNAMED"})
    desk.must("connectors", "create", "-f", file, "--name", "a", "--dry-run", "-o", "json")
    desk.must("connectors", "create", "-f", file, "--name", "a", "--out", "create.plan")
    desk.must("apply", "create.plan", "--yes")
    assert desk.held("a")["custom.thing"] == UNNAMED
    desk.must("journal", "show", desk.newest(), "-o", "json")
    _check_files(desk, at_least=3)


def test_what_is_shown_can_be_given_back(desk: Desk) -> None:
    desk.must("connectors", "create", "-f", desk.write("a.json", wanted()), "--name", "a", "--yes")
    desk.must("connectors", "show", "a", "-o", "json")
    shown = json.loads(desk.written[-2])
    config = shown["config"] if "config" in shown else shown["connector"]["config"]
    desk.must("connectors", "update", "a", "-f", desk.write("back.json", config | {"tasks.max": "3"}), "--yes")
    assert desk.held("a") == clear() | {"tasks.max": "3"}
    assert {key: value.encode() for key, value in desk.held("a").items()} == {
        key: value.encode() for key, value in (clear() | {"tasks.max": "3"}).items()
    }


FAILURES = [
    Answer(400, f"Connector configuration is invalid: password={ECHOED}; no route to jdbc:x://u:{ECHOED}@h"),
    Answer(500, f'{{"connection.password": "{LITERAL["connection.password"]}", "url": "{IN_URLS["connection.url"]}"}}'),
    Answer(409, f"Conflict: {LITERAL['aws.secret.access.key']} password={ECHOED}"),
]


@pytest.mark.parametrize("answer", FAILURES, ids=lambda answer: str(answer.status))
def test_no_failure_tells_a_secret(desk: Desk, answer: Answer) -> None:
    desk.connect.faults.add(match="POST /connectors*", do=answer, times=None)
    assert desk.run("connectors", "create", "-f", desk.write("a.json", wanted()), "--name", "a", "--yes") != 0
    _check_files(desk, at_least=1)


@pytest.mark.parametrize(
    "content",
    [
        f'{{"connection.password": "{CANARIES[0]}"',
        f'{{"connection.password": "{CANARIES[0]}", "connection.password": "{CANARIES[1]}"}}',
        f'["{CANARIES[0]}"]',
        f'{{"connector.class": "x", "connection.password": ["{CANARIES[0]}"]}}',
        f'{{"connector.class": "{BASE["connector.class"]}", "connection.url": "jdbc:h2://u:{CANARIES[0]}@x"}}',
        f'{{"connector.class": "x", "x.sasl.jaas.config": "{CANARIES[0]} required;"}}',
        f'{{"connector.class": "x", "p.password": "(sensitive) {WRONG_MASK}"}}',
        f'{{"connector.class": "x", "p.password": "secret://env/NOT_SET", "q.password": "{CANARIES[0]}"}}',
        '{"connector.class": "x", "p.password": "secret://file/secrets.properties#none"}',
        f"{CANARIES[0]}",
    ],
)
def test_no_refusal_tells_a_secret(desk: Desk, content: str) -> None:
    assert desk.run("connectors", "create", "-f", desk.write("a.json", content), "--name", "a", "--yes") in {5, 64}
    assert desk.connect.asked("POST") == []


def test_no_repr_holds_a_secret(desk: Desk) -> None:
    with desk.fleet() as fleet:
        planned = fleet.connectors.create("a", _below(wanted()))
        result = fleet.apply(planned)
        again = fleet.connectors.update("a", _below(wanted()) | NEW)
        with pytest.raises(SeamarkError) as caught:
            fleet.connectors.create("a", _below(wanted()))
        values = [
            fleet,
            fleet.context,
            planned,
            planned.plan,
            planned.effects,
            again,
            again.plan,
            again.effects,
            result,
        ]
        texts = [text for value in values for text in (repr(value), str(value))]
        error = caught.value
        assert leaks(*texts, repr(error), str(error), str(error.as_dict())) == []


def _below(config: dict[str, str]) -> dict[str, str]:
    """References to files start at the file they stand in; here they start at the current folder."""
    return {key: value.replace("secret://file/", f"secret://file/{Path.cwd()}/") for key, value in config.items()}


def _check_files(desk: Desk, *, at_least: int) -> None:
    files = desk.files()
    assert len(files) >= at_least
    found = {str(file): leaks(file.read_bytes().decode("utf-8", errors="replace")) for file in files}
    assert {name: leaked for name, leaked in found.items() if leaked} == {}
