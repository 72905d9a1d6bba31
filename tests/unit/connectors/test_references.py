"""References of specs: which are resolved, and where their values go."""

from __future__ import annotations

import json

import pytest

from seamark.connectors.policy import find_violations
from seamark.context import open_context
from seamark.errors import RefusedError
from seamark.policy.policy import DEFAULT_POLICY, Policy
from tests.unit.fleet.living import LivingConnect, open_living_fleet

JDBC = {
    "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
    "connection.url": "jdbc:postgresql://evil.example/x",
    "topic.prefix": "t",
    "mode": "bulk",
}
CANARY = "ci-deploy-key-canary"


class Listening(LivingConnect):
    """Keeps every config that it is asked to validate."""

    def __init__(self):
        super().__init__()
        self.validated = []

    def validate_config(self, plugin, config):
        self.validated.append(dict(config))
        return super().validate_config(plugin, config)


@pytest.fixture
def connect():
    return Listening()


def open_fleet(tmp_path, connect, *references):
    policy = Policy(files=("/**",), jdbc_urls=("jdbc:",), references=references)
    return open_living_fleet(tmp_path, connect, policy=policy)


def write_spec(tmp_path, **config):
    folder = tmp_path / "spec"
    folder.mkdir(exist_ok=True)
    (folder / "a.json").write_text(json.dumps({"name": "a", "config": JDBC | config}))
    return folder


def context(tmp_path, *, user="", project="", **environ):
    """A user file with a context, and a project file beside the spec."""
    (tmp_path / "u").mkdir(exist_ok=True)
    (tmp_path / ".git").mkdir(exist_ok=True)
    if user:
        (tmp_path / "u" / "config.yaml").write_text(f"contexts: {{dev: {{{user}}}}}")
    if project:
        (tmp_path / "seamark.yaml").write_text(f"contexts: {{dev: {{{project}}}}}")
    return open_context(
        "dev",
        environ={"HOME": str(tmp_path / "home"), **environ},
        cwd=tmp_path,
        user_dir=tmp_path / "u",
        system_dir=tmp_path / "s",
    )


def test_references_are_refused_by_default() -> None:
    assert DEFAULT_POLICY.references == ()


def test_a_merge_request_does_not_read_a_file_of_the_ci_machine(tmp_path, connect) -> None:
    """B8: a spec names a file of the machine, and an address of its own."""
    key = tmp_path / "id_rsa"
    key.write_text(CANARY)
    with open_fleet(tmp_path, connect) as fleet, pytest.raises(RefusedError) as caught:
        fleet.plan(write_spec(tmp_path, **{"connection.user": f"secret://file/{key}"}))
    assert connect.validated == []
    assert CANARY not in str(caught.value.as_dict())
    assert "P018" in caught.value.cause


def test_a_refused_reference_prints_the_line_to_add_and_its_file(tmp_path) -> None:
    opened = context(tmp_path, user="connect: {main: {urls: 'http://a:1'}}")
    (found,) = find_violations([("a", "main", JDBC | {"user": "secret://env/DB_USER"})], opened)
    assert "secret://env/DB_USER" in found.violation.message
    assert found.violation.hint == (
        "add references: ['secret://env/DB_USER'] under contexts.dev.policy in u/config.yaml"
    )


def test_the_line_to_add_keeps_what_is_allowed_already(tmp_path) -> None:
    opened = context(
        tmp_path,
        user="policy: {references: ['secret://env/A*', 'secret://env/B']}, connect: {main: {urls: 'http://a:1'}}",
    )
    (found,) = find_violations([("a", "main", JDBC | {"user": "secret://env/C"})], opened, reveal=False)
    assert "references: ['secret://env/A*', 'secret://env/B', 'secret://env/C']" in found.violation.hint


def test_several_refused_references_are_one_line(tmp_path) -> None:
    opened = context(tmp_path, user="connect: {main: {urls: 'http://a:1'}}")
    configs = [
        ("a", "main", JDBC | {"u": "secret://env/U", "p": "secret://env/P"}),
        ("b", "main", JDBC | {"u": "secret://env/V"}),
    ]
    hints = {one.violation.hint for one in find_violations(configs, opened)}
    assert len(hints) == 1
    assert "references: ['secret://env/U', 'secret://env/P', 'secret://env/V']" in hints.pop()


def test_a_project_file_can_not_allow_references(tmp_path) -> None:
    project = "policy: {references: ['secret://*']}, connect: {main: {urls: 'http://a:1'}}"
    opened = context(tmp_path, project=project)
    assert opened.policy_of("main").references == ()
    (found,) = find_violations([("a", "main", JDBC | {"user": "secret://env/X"})], opened)
    assert found.violation.rule == "P018"
    assert "u/config.yaml" in found.violation.hint


def test_references_do_not_go_to_a_connect_cluster_that_the_project_adds(tmp_path) -> None:
    opened = context(
        tmp_path,
        user="policy: {references: ['secret://env/*']}, connect: {main: {urls: 'http://a:1'}}",
        project="connect: {evil: {urls: 'http://evil'}}",
        X="canary",
    )
    assert opened.policy_of("main").references == ("secret://env/*",)
    assert opened.policy_of("evil").references == ()
    (found,) = find_violations([("a", "evil", JDBC | {"user": "secret://env/X"})], opened)
    assert found.violation.hint == "set connect.evil.urls in the file that allows references, not in seamark.yaml:1"


def test_references_do_not_follow_a_redirected_connect_cluster(tmp_path) -> None:
    opened = context(
        tmp_path,
        user="policy: {references: ['secret://env/*']}, connect: {main: {urls: 'http://a:1'}}",
        project="connect: {main: {urls: 'http://evil'}}",
    )
    assert opened.policy_of("main").references == ()


@pytest.mark.parametrize(
    "reference",
    [
        "secret://file//run/secrets/../../etc/shadow",
        "secret://file//run/secrets/..",
        "secret://file//run/secrets/a/../../../etc/shadow#key",
        "secret://file//run/secrets/\x00",
    ],
)
def test_dots_do_not_lead_out_of_an_allowed_folder(tmp_path, reference: str) -> None:
    opened = context(
        tmp_path, user="policy: {references: ['secret://file//run/secrets/*']}, connect: {main: {urls: 'http://a:1'}}"
    )
    found = find_violations([("a", "main", JDBC | {"user": reference})], opened, reveal=False)
    assert [one.violation.rule for one in found] == ["P018"]
    with pytest.raises(RefusedError):
        opened.reveal(reference)


def test_nothing_reveals_a_reference_that_the_policy_does_not_allow(tmp_path) -> None:
    """Undo, resume and pull resolve references too: the context itself refuses."""
    opened = context(
        tmp_path, user="policy: {references: ['secret://env/A']}, connect: {main: {urls: 'http://a:1'}}", A="1", B="2"
    )
    assert opened.reveal("secret://env/A") == "1"
    with pytest.raises(RefusedError, match="secret://env/B"):
        opened.reveal("secret://env/B")


# --- validation


def test_plugins_get_placeholders_and_no_secret(tmp_path, connect, monkeypatch) -> None:
    monkeypatch.setenv("DB_USER", CANARY)
    with open_fleet(tmp_path, connect, "secret://env/DB_*") as fleet:
        planned = fleet.plan(write_spec(tmp_path, **{"connection.user": "secret://env/DB_USER"}))
        assert CANARY not in str(connect.validated)
        assert connect.validated[-1]["connection.url"] == JDBC["connection.url"]
        assert "secret://" not in connect.validated[-1]["connection.user"]
        fleet.apply(planned)
    assert connect.configs["a"]["connection.user"] == CANARY


def test_errors_of_placeholders_are_shown_as_not_checked(tmp_path, connect, monkeypatch) -> None:
    monkeypatch.setenv("DB_USER", "u")
    connect.invalid["a"] = {
        "connection.user": ("Invalid value seamark-placeholder for configuration connection.user",),
        "connection.url": ('Unable to connect: FATAL: password authentication failed for user "x"',),
    }
    with open_fleet(tmp_path, connect, "secret://env/DB_*") as fleet:
        planned = fleet.plan(write_spec(tmp_path, **{"connection.user": "secret://env/DB_USER"}))
    assert [note for note in planned.plan.notes if "not checked" in note] == [
        "connector/game/a: not checked: connection.url, connection.user (they depend on secret:// references)"
    ]


def test_other_errors_still_refuse_the_plan(tmp_path, connect, monkeypatch) -> None:
    monkeypatch.setenv("DB_USER", "u")
    connect.invalid["a"] = {"mode": ("Invalid value blk for configuration mode",), "connection.user": ("bad",)}
    with open_fleet(tmp_path, connect, "secret://env/DB_*") as fleet, pytest.raises(RefusedError) as caught:
        fleet.plan(write_spec(tmp_path, **{"connection.user": "secret://env/DB_USER"}))
    assert "mode: Invalid value" in caught.value.cause
    assert "connection.user" not in caught.value.cause


def test_a_failed_connection_counts_where_no_reference_was_replaced(tmp_path, connect) -> None:
    connect.invalid["a"] = {"connection.url": ("Unable to connect: refused",)}
    with open_fleet(tmp_path, connect) as fleet, pytest.raises(RefusedError, match="Connect rejects the config"):
        fleet.plan(write_spec(tmp_path))
