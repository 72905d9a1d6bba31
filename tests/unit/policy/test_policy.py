"""What the rules refuse and let through, and how a policy opens them one by one."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.policy.check import check_policy, find_references
from seamark.policy.policy import DEFAULT_POLICY, FLAG_KEYS, LIST_KEYS, Policy, build_policy
from seamark.policy.rules import RULES, is_listed_path
from tests.unit.core.hostile import FILE_SOURCE, HOSTILE, JDBC, PLAIN, SINK
from tests.unit.core.ordinary import ORDINARY

CANARY = "canary77feather"


def rules(config: dict[str, str], **policy: tuple[str, ...] | bool) -> set[str]:
    return {found.rule for found in check_policy(config, name="a", policy=build_policy(policy))}


def test_there_are_enough_of_both() -> None:
    assert len({case[0] for case in HOSTILE}) == len(HOSTILE) >= 40
    assert len({case[0] for case in ORDINARY}) == len(ORDINARY) >= 30


@pytest.mark.parametrize(("config", "rule"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_a_hostile_config_breaks_its_rule(config: dict[str, str], rule: str) -> None:
    found = check_policy(config, name="a")
    assert rule in {one.rule for one in found}
    for one in found:
        assert one.key in config
        assert one.message
        assert one.hint == RULES[one.rule].hint


def test_every_rule_on_configs_has_a_hostile_config() -> None:
    shown = {case[2] for case in HOSTILE}
    # P001 is about names; P018 is what a context may add, and by default all our references are allowed.
    assert shown == set(RULES) - {"P001", "P018"}


@pytest.mark.parametrize("config", [case[1] for case in ORDINARY], ids=[case[0] for case in ORDINARY])
def test_an_ordinary_config_passes(config: dict[str, str]) -> None:
    assert check_policy(config, name="a") == ()


OPENED: list[tuple[dict[str, str], dict[str, tuple[str, ...] | bool]]] = [
    ({"connector.class": FILE_SOURCE, "file": "/data/in/a.txt", "topic": "t"}, {"files": ("/data/**",)}),
    (SINK | {"a.url": "file:///data/a"}, {"files": ("/data/*",)}),
    (SINK | {"schema.history.internal.file.filename": "/data/h"}, {"files": ("/data/h",)}),
    (
        SINK | {"producer.override.sasl.jaas.config": f"{PLAIN} required;"},
        {"client_overrides": ("default", "*.override.sasl.*")},
    ),
    (
        SINK | {"x.sasl.jaas.config": "a.b.IAMLoginModule required;"},
        {"login_modules": ("default", "a.b.IAMLoginModule")},
    ),
    (SINK | {"x.sasl.client.callback.handler.class": "a.b.Handler"}, {"client_classes": ("a.b.*",)}),
    (SINK | {"x.sasl.oauthbearer.token.endpoint.url": "https://idp/token"}, {"oauth_urls": ("https://idp/*",)}),
    (SINK | {"x": "${mine:a:b}"}, {"config_providers": ("default", "mine")}),
    (SINK | {"x": "${file:/srv/secrets/db:b}"}, {"provider_paths": ("/srv/secrets/*",)}),
    (SINK | {"x": "${file:/etc/kafka/worker.properties:b}"}, {"provider_paths": ("/etc/kafka/worker.properties",)}),
    (SINK | {"x": "${env:DB_PASSWORD}"}, {"environment": ("DB_*",)}),
    (JDBC | {"connection.url": "jdbc:h2:mem:x"}, {"jdbc_urls": ("default", "jdbc:h2:")}),
    (JDBC | {"connection.url": "jdbc:postgresql:///d?socketFactory=g.Cloud"}, {"jdbc_parameters": ("socketFactory",)}),
    (SINK | {"java.naming.provider.url": "ldap://x"}, {"jndi": True}),
    (SINK | {"transforms.f.type": "io.debezium.transforms.Filter"}, {"scripts": True}),
]


@pytest.mark.parametrize(("config", "policy"), OPENED)
def test_a_context_can_allow_it(config: dict[str, str], policy: dict[str, tuple[str, ...] | bool]) -> None:
    assert rules(config)
    assert rules(config, **policy) == set()


NARROWED: list[tuple[dict[str, str], dict[str, tuple[str, ...]], str]] = [
    (SINK, {"connector_classes": ("io.debezium.*",)}, "P002"),
    (JDBC | {"connector.class": "JdbcSource"}, {"connector_classes": ("io.aiven.*",)}, "P002"),
    (SINK, {"connector_classes": ()}, "P002"),
    (SINK | {"value.converter": "a.B"}, {"plugin_classes": ("org.apache.kafka.*",)}, "P003"),
    (SINK | {"transforms.x.type": "a.B"}, {"plugin_classes": ("org.apache.kafka.*",)}, "P003"),
    (SINK | {"consumer.override.group.id": "g"}, {"client_overrides": ()}, "P005"),
    (SINK | {"x": "${vault:a:b}"}, {"config_providers": ("file",)}, "P010"),
    (SINK | {"x": "secret://file//var/lib/kafka/.ssh/id"}, {"references": ("secret://env/*",)}, "P018"),
    (JDBC | {"connection.url": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'x'"}, {"jdbc_urls": ("jdbc:h2:",)}, "P014"),
    (SINK | {"x.sasl.jaas.config": "a.BModule required;"}, {"client_overrides": ("*",)}, "P006"),
]


@pytest.mark.parametrize(("config", "policy", "rule"), NARROWED)
def test_a_context_can_be_narrower_than_the_default(config, policy, rule) -> None:
    assert rule in rules(config, **policy)


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://evil/x",
        "jdbc:postgresql://db.internal@evil/x",
        "jdbc:postgresql://db.internal,evil/x",
        "jdbc:postgresql://evil/db.internal",
        "jdbc:postgresql://evil?//db.internal/",
        "jdbc:postgresql://db.internal.evil/x",
        "jdbc:postgresql://${env:H}/x",
        "jdbc:postgresql:x",
        "jdbc:postgresql://db.internal/x?host=evil",
        "jdbc:mysql://db.internal/x",
        "jdbc:postgresql://db.internal%2eevil/x",
        "jdbc:postgresql://address=(host=evil)/x",
    ],
)
def test_a_host_that_is_not_listed_is_refused_however_it_is_written(url: str) -> None:
    allowed = {"jdbc_urls": ("jdbc:postgresql://db.internal",), "environment": ("*",)}
    assert rules(JDBC | {"connection.url": url}, **allowed) == {"P013"}
    assert rules(JDBC | {"connection.url": "jdbc:postgresql://DB.internal:5432/x?a=b"}, **allowed) == set()


@pytest.mark.parametrize(
    "path", ["/data/../etc/x", "/data", "/data/a/../../x", "data/a", "\\data\\a", "/data/a\0", "/data/./../x"]
)
def test_a_path_can_not_leave_its_folder(path: str) -> None:
    assert not is_listed_path(path, ("/data/**",))
    assert is_listed_path("/data//a/./b", ("/data/**",))
    assert not is_listed_path("/data/a/b", ("/data/*",))


def test_a_violation_never_holds_the_value() -> None:
    keys = [
        *("x.sasl.jaas.config", "connection.url", "connection.password", "producer.override.sasl.jaas.config", "file"),
        *("sasl.oauthbearer.token.endpoint.url", "config.providers", "connection.socketFactory", "java.naming.x"),
    ]
    values = [
        *(
            f"{CANARY}",
            f"jdbc:{CANARY}",
            f"jdbc:h2://u:{CANARY}@h/d?password={CANARY}",
            f"a.B required password={CANARY};",
        ),
        *(f"${{env:{CANARY} {CANARY}}}", f"file:///{CANARY}", f"{CANARY} required;", f"ldap://u:{CANARY}@h"),
    ]
    found = [one for key in keys for value in values for one in check_policy(SINK | {key: value}, name="a")]
    assert len(found) > 50
    assert not [one for one in found if CANARY in repr(one)]


def test_a_list_replaces_the_default_and_the_word_default_adds_to_it() -> None:
    assert build_policy({"jdbc_urls": ("jdbc:x:",)}).jdbc_urls == ("jdbc:x:",)
    assert build_policy({"jdbc_urls": ("default", "jdbc:x:")}).jdbc_urls == (*DEFAULT_POLICY.jdbc_urls, "jdbc:x:")
    narrow = Policy(files=("/a",))
    assert build_policy({"scripts": True}, base=narrow) == Policy(files=("/a",), scripts=True)


def test_every_key_is_a_list_or_a_flag() -> None:
    assert set(FLAG_KEYS) == {"scripts", "jndi", "python"}
    assert len(LIST_KEYS) + len(FLAG_KEYS) == len(Policy.__slots__)


@given(st.text(alphabet="${}:ab", max_size=30))
def test_references_are_found_as_kafka_finds_them(text: str) -> None:
    kafka = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
    assert list(find_references(text)) == [(m[1], m[2] or "", m[3]) for m in kafka.finditer(text)]


@pytest.mark.parametrize(
    "value",
    [
        "${" * 50_000,
        "${" + ":" * 100_000,
        "a/" * 50_000,
        '"' * 100_000,
        "jdbc:" * 20_000,
        "%25" * 30_000,
        "ldap " * 20_000,
    ],
)
@pytest.mark.parametrize("key", ["x", "x.sasl.jaas.config", "file", "connection.url", "transforms.a.type"])
def test_a_hostile_value_costs_little_time(key: str, value: str) -> None:
    began = time.process_time()
    check_policy(SINK | {key: value, f"{value[:1000]}.type": "x", "y": f"${{file:/{value}:k}}"}, name="a")
    # It takes some milliseconds; what grows faster than its length would take minutes.
    assert time.process_time() - began < 2


def test_ten_thousand_connectors_take_less_than_two_seconds() -> None:
    fleet = [
        (f"c{number}", ORDINARY[number % len(ORDINARY)][1] | {f"own.{key}": f"{number}" for key in range(25)})
        for number in range(10_000)
    ]

    def check_cpu_seconds() -> float:
        began = time.process_time()
        assert [name for name, config in fleet if check_policy(config, name=name)] == []
        return time.process_time() - began

    # A machine that is taken away for a while counts for the process: the best of three tells.
    assert min(check_cpu_seconds() for _ in range(3)) < 2
