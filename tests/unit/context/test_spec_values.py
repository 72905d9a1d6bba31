"""The values that a context has for spec files."""

from __future__ import annotations

import pytest

from seamark.errors import ConfigurationError, InvalidSettingError

FILE = """
contexts:
  dev:
    kafka: {bootstrap.servers: 127.0.0.1:9092}
    values:
      db_host: db.dev
      partitions: 012
      is_small: true
      realms: [kr-1, 2]
      none: null
"""


def test_values_are_texts_and_lists_have_commas(workplace):
    workplace.write(FILE)
    context = workplace.open()
    assert context.spec_values == {"db_host": "db.dev", "partitions": "012", "is_small": "true", "realms": "kr-1,2"}
    shown = {setting.key: setting for setting in context.settings()}
    assert (shown["values.realms"].value, str(shown["values.realms"].origin)) == ("kr-1, 2", "seamark.yaml:9")


@pytest.mark.parametrize(
    "line",
    [
        "db_password: canary",
        "db: secret://env/CANARY",
        "db: a-secret://env/CANARY",
        "db: postgresql://me:canary@host/",
        "db: [a, 'https://me:canary@host/']",
    ],
)
def test_a_secret_is_refused_and_not_shown(workplace, line):
    workplace.write(FILE.replace("db_host: db.dev", line))
    with pytest.raises(InvalidSettingError, match="appears to be a secret") as caught:
        workplace.open()
    assert caught.value.cause.startswith("seamark.yaml:6")
    assert "canary" not in str(caught.value.as_dict())


@pytest.mark.parametrize("line", ["a: {b: c}", "a: [[b]]", "a/b: c", "a: ['b,c', d]"])
def test_other_values_and_names_are_refused(workplace, line):
    workplace.write(FILE.replace("db_host: db.dev", line))
    with pytest.raises(ConfigurationError):
        workplace.open()


def test_a_variable_sets_a_value_of_the_project_file(workplace):
    workplace.write(FILE)
    workplace.environ["SEAMARK_CONTEXTS__DEV__VALUES__DB_HOST"] = "db.ci"
    workplace.environ["SEAMARK_CONTEXTS__DEV__VALUES__MORE"] = "x"
    values = workplace.open().spec_values
    assert (values["db_host"], values["more"]) == ("db.ci", "x")


def test_a_less_trusted_place_adds_values_and_changes_none(workplace):
    workplace.write_user(FILE)
    workplace.write("contexts: {dev: {values: {db_host: evil, added: '1'}}}")
    workplace.environ["SEAMARK_CONTEXTS__DEV__VALUES__REALMS"] = "evil"
    values = workplace.open().spec_values
    assert (values["db_host"], values["realms"], values["added"]) == ("db.dev", "kr-1,2", "1")


def test_the_hint_names_the_file(workplace):
    workplace.write(FILE)
    assert workplace.open().build_value_hint("x") == "add x: … under contexts.dev.values in seamark.yaml"
