"""The databases behind connectors, as a context names them."""

from __future__ import annotations

import pytest

from seamark.errors import ConfigurationError, InvalidSettingError, MissingSettingError

FILE = """
contexts:
  dev:
    kafka: {bootstrap.servers: 127.0.0.1:9092}
    databases:
      game:
        jdbc_url: jdbc:postgresql://db:5432/game
        dsn: secret://env/GAME_DSN
      token-service:
        jdbc_url: jdbc:postgresql://db:5432/tokens
        dsn: host=db dbname=tokens password=canary-1
"""


def test_a_connector_finds_its_database_by_its_url(workplace):
    workplace.write(FILE)
    workplace.environ["GAME_DSN"] = "postgresql://reader:canary-2@db/game"
    context = workplace.open()
    found = context.find_database("jdbc:postgresql://db:5432/game?ssl=true&user=x")
    assert found.name == "game"
    assert found.dsn.reveal() == "postgresql://reader:canary-2@db/game"


@pytest.mark.parametrize(
    "url", ["jdbc:postgresql://db:5432/game2", "jdbc:postgresql://db:5432/gam", "jdbc:postgresql://db:5432", "", None]
)
def test_another_database_is_not_taken_for_it(workplace, url):
    workplace.write(FILE)
    assert workplace.open().find_database(url) is None


def test_a_dsn_is_never_shown(workplace):
    workplace.write(FILE)
    context = workplace.open()
    shown = {setting.key: setting for setting in context.settings()}
    assert shown["databases.game.dsn"].value == "secret://env/GAME_DSN"
    assert shown["databases.token-service.dsn"].value == "(sensitive)"
    assert shown["databases.token-service.dsn"].is_literal
    assert shown["databases.token-service.jdbc_url"].value == "jdbc:postgresql://db:5432/tokens"
    assert "canary" not in f"{context!r}{context.databases!r}{context.settings()!r}"


def test_a_variable_sets_a_dsn(workplace):
    workplace.write(FILE)
    workplace.environ["SEAMARK_CONTEXTS__DEV__DATABASES__TOKEN_SERVICE__DSN"] = "dbname=other"
    assert workplace.open().databases["token-service"].dsn.reveal() == "dbname=other"


@pytest.mark.parametrize("key", ["jdbc_url", "dsn"])
def test_a_missing_key_is_named(workplace, key):
    workplace.write("\n".join(line for line in FILE.splitlines() if f"{key}:" not in line or "token" in line))
    with pytest.raises(MissingSettingError) as caught:
        workplace.open()
    assert f"databases.game.{key}" in caught.value.message


@pytest.mark.parametrize(
    "url", ["jdbc:mysql://db/game", "postgresql://db/game", "jdbc:postgresql://db/game?password=canary-3"]
)
def test_a_url_that_can_never_fit_is_refused(workplace, url):
    workplace.write(FILE.replace("jdbc:postgresql://db:5432/game", url))
    with pytest.raises(InvalidSettingError) as caught:
        workplace.open()
    assert "canary" not in f"{caught.value.as_dict()}"


def test_an_unknown_key_names_the_nearest(workplace):
    workplace.write(FILE.replace("jdbc_url: jdbc:postgresql://db:5432/game", "jdbcurl: x"))
    with pytest.raises(ConfigurationError) as caught:
        workplace.open()
    assert caught.value.hint == "use jdbc_url, the most similar key"
