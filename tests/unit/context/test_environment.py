"""Values from variables and flags."""

from __future__ import annotations

import pytest

from seamark.context.environment import build_variable
from seamark.errors import ConfigurationError, UsageError


def test_a_context_can_live_in_the_environment_alone(workplace) -> None:
    workplace.environ |= {
        "SEAMARK_CONTEXTS__DEV__KAFKA__BOOTSTRAP_SERVERS": "b:1",
        "seamark_contexts__dev__kafka__log_level": "3",
        "SEAMARK_CONTEXTS__DEV__CONNECT__GAME__URLS": "http://a:1, http://b:2",
        "SEAMARK_CONTEXTS__DEV__CONNECT__GAME__GROUP_ID": "g",
        "SEAMARK_CONTEXTS__DEV__PROTECTED": "true",
        "SEAMARK_PLUGINS": "not ours",
    }
    context = workplace.open()
    assert context.name == "dev"
    assert context.kafka.client_config() == {"bootstrap.servers": "b:1", "log_level": "3"}
    assert context.connect["game"].urls == ("http://a:1", "http://b:2")
    assert (context.connect["game"].group_id, context.protected) == ("g", True)


def test_names_with_capitals_dots_and_dashes_are_found(workplace) -> None:
    workplace.write("contexts: {My-Prod.eu: {connect: {Game-1: {urls: 'http://a:1'}}}}")
    workplace.environ["SEAMARK_CONTEXTS__MY_PROD_EU__CONNECT__GAME_1__GROUP_ID"] = "g"
    context = workplace.open()
    assert (context.name, context.connect["Game-1"].group_id) == ("My-Prod.eu", "g")


def test_a_variable_that_could_mean_two_names_is_refused(workplace) -> None:
    workplace.write("contexts: {a-b: {}, a.b: {}}")
    workplace.environ["SEAMARK_CONTEXTS__A_B__PROTECTED"] = "true"
    with pytest.raises(ConfigurationError, match=r"could mean more than one context: a-b, a\.b"):
        workplace.load()


def test_two_variables_for_one_value_are_refused(workplace) -> None:
    workplace.environ |= {"SEAMARK_CONTEXTS__DEV__PROTECTED": "true", "seamark_contexts__dev__protected": "false"}
    with pytest.raises(ConfigurationError, match="set the same value"):
        workplace.load()


def test_an_empty_variable_counts_as_not_set(workplace) -> None:
    workplace.write("contexts: {dev: {kafka: {client.id: file}}}")
    workplace.environ |= {"SEAMARK_CONTEXTS__DEV__KAFKA__CLIENT_ID": "", "SEAMARK_CONTEXT": " ", "SEAMARK_CONFIG": ""}
    assert workplace.values()["kafka.client.id"] == "file"


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("SEAMARK_CONTEXTS__DEV__KAFKA__BOOTSTRAP_SERVER", "use bootstrap.servers, the most similar key"),
        ("SEAMARK_CONTEXTS__DEV__CONNECT__GAME__URL", "use urls, the most similar key"),
        ("SEAMARK_CONTEXTS__DEV__PROTECT", "use protected, the most similar key"),
    ],
)
def test_an_unknown_key_in_a_variable_is_fatal_and_named(workplace, variable: str, nearest: str) -> None:
    workplace.environ[variable] = "true"
    with pytest.raises(ConfigurationError, match="unknown key") as caught:
        workplace.load()
    assert variable in caught.value.cause
    assert caught.value.hint == nearest


@pytest.mark.parametrize(
    "variable",
    [
        "SEAMARK_CONTEXTS__DEV",
        "SEAMARK_CONTEXTS__DEV__KAFKA",
        "SEAMARK_CONTEXTS__DEV__CONNECT__GAME",
        "SEAMARK_CONTEXTS__A__B__C__D__E",
    ],
)
def test_a_variable_that_names_no_setting_is_refused(workplace, variable: str) -> None:
    workplace.environ[variable] = "x"
    with pytest.raises(ConfigurationError, match="does not name a setting"):
        workplace.load()


def test_variable_names_are_built_as_they_are_read(workplace) -> None:
    path = ("contexts", "my-dev", "kafka", "sasl.password")
    assert build_variable(path) == "SEAMARK_CONTEXTS__MY_DEV__KAFKA__SASL_PASSWORD"


def test_flags_set_kafka_cluster_and_context_values(workplace) -> None:
    workplace.write("contexts: {dev: {connect: {a.b: {urls: 'http://a:1'}}}}")
    context = workplace.open(
        overrides={"kafka.bootstrap.servers": "b:1", "connect.a.b.urls": "http://c:3,http://d:4", "protected": "true"}
    )
    assert context.kafka.bootstrap_servers == "b:1"
    assert context.connect["a.b"].urls == ("http://c:3", "http://d:4")
    assert context.protected


@pytest.mark.parametrize("key", ["kafka", "connect.urls", "kafka.acks", "kafka.nope.nope", "connect.a.nope", "nope"])
def test_a_flag_for_an_unknown_setting_is_refused(workplace, key: str) -> None:
    workplace.write("contexts: {dev: {}}")
    with pytest.raises((UsageError, ConfigurationError)):
        workplace.open(overrides={key: "x"})


def test_flags_do_not_make_a_context(workplace) -> None:
    with pytest.raises(ConfigurationError, match="there is no context dve"):
        workplace.open("dve", overrides={"kafka.bootstrap.servers": "b:1"})
