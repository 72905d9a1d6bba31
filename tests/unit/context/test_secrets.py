"""Secret references, masks, and what may be shown."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.context import Secret, is_masked, mask_urls
from seamark.core.secrets import MASK, is_sensitive
from seamark.errors import InvalidSettingError, SecretError


@pytest.fixture(autouse=True)
def _trusted(workplace):
    workplace.trust_project()


def write(workplace, password: str) -> None:
    workplace.write(
        "contexts:\n  dev:\n    connect:\n      game:\n        urls: https://a:1\n        username: ops\n"
        f"        password: {json.dumps(password)}\n"
    )


def reveal(workplace, password: str) -> str:
    write(workplace, password)
    secret = workplace.open().connect["game"].password
    assert secret is not None
    return secret.reveal()


def test_a_reference_to_the_environment_is_resolved(workplace) -> None:
    workplace.environ["PW"] = " with blanks "
    assert reveal(workplace, "secret://env/PW") == " with blanks "


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("secret://file/ops.properties#db.password", "from properties"),
        ("secret://file/ops.json#password", "from json"),
        ("secret://file/ops.json#number", "42"),
        ("secret://file/sub/plain", "whole file"),
        ("secret://file/~/home.txt", "from home"),
    ],
)
def test_a_reference_to_a_file_is_resolved(workplace, reference: str, expected: str) -> None:
    workplace.write("db.password = from properties\n", "ops.properties")
    workplace.write('{"password": "from json", "number": 42}', "ops.json")
    (workplace.project / "sub").mkdir()
    workplace.write("\n  whole file \n", "sub/plain")
    (workplace.project.parent / "home.txt").write_text("from home\n")
    assert reveal(workplace, reference) == expected


def test_a_whole_path_has_two_slashes(workplace, tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("x1")
    assert reveal(workplace, f"secret://file/{tmp_path}/pw") == "x1"
    with pytest.raises(SecretError) as caught:
        reveal(workplace, f"secret://file{tmp_path}/pw")
    assert caught.value.hint == f"use two slashes for an absolute path: secret://file/{tmp_path}/pw"


@pytest.mark.parametrize(
    ("reference", "cause"),
    [
        ("secret://env/NOT_SET", "the environment variable NOT_SET is not set"),
        ("secret://env/EMPTY", "the environment variable EMPTY is empty"),
        ("secret://env/", "it is incomplete"),
        ("secret://vault/kv/x", "unknown kind of reference"),
        ("secret://file/nowhere", "No such file"),
        ("secret://file/empty", "has no value there"),
        ("secret://file/binary", "is not text"),
        ("secret://file/ops.properties#nokey", "nokey is not in"),
        ("secret://file/bad.json#k", "is not a JSON object"),
        ("secret://file/ops.json#list", "is not a single text in"),
        ("secret://file/ops.json#flag", "is not a single text in"),
        ("secret://file/ops.yaml#k", "keys are read from .properties and .json files only"),
    ],
)
def test_a_reference_that_leads_nowhere_says_why_and_where_it_stands(workplace, reference, cause) -> None:
    workplace.environ["EMPTY"] = ""
    workplace.write("k = hunter2\n", "ops.properties")
    workplace.write('{"list": ["hunter2"], "flag": true}', "ops.json")
    workplace.write('{"k": "hunter2"', "bad.json")
    workplace.write("", "empty")
    (workplace.project / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretError) as caught:
        reveal(workplace, reference)
    error = caught.value
    assert error.message == f"the secret of connect.game.password can't be read: {reference}"
    assert error.cause.startswith("seamark.yaml:7:19: ")
    assert cause in error.cause
    assert error.hint or cause == "has no value there"
    assert "hunter2" not in str(error.as_dict())
    assert error.__context__ is None


def test_a_context_opens_and_shows_itself_without_its_secrets(workplace) -> None:
    write(workplace, "secret://env/NOT_SET")
    assert workplace.values()["connect.game.password"] == "secret://env/NOT_SET"


def test_a_reference_is_not_taken_where_no_secret_belongs(workplace) -> None:
    workplace.write("contexts: {dev: {connect: {game: {urls: 'http://a:1', group_id: 'secret://env/X'}}}}")
    with pytest.raises(InvalidSettingError, match="doesn't support secret references"):
        workplace.open()


def test_user_name_and_servers_may_be_references(workplace) -> None:
    workplace.environ |= {"WHO": "ops", "SERVERS": "b:1"}
    workplace.write(
        "contexts: {dev: {kafka: {bootstrap.servers: 'secret://env/SERVERS'},"
        " connect: {game: {urls: 'https://a:1', username: 'secret://env/WHO', password: x}}}}"
    )
    context = workplace.open()
    assert (context.kafka.bootstrap_servers, context.connect["game"].username) == ("b:1", "ops")


def test_a_literal_password_is_masked_and_flagged_and_a_reference_is_not(workplace) -> None:
    write(workplace, "hunter2")
    (workplace.project / "seamark.yaml").chmod(0o644)
    setting = {s.key: s for s in workplace.open().settings()}["connect.game.password"]
    assert (setting.value, setting.is_sensitive, setting.is_literal) == (MASK, True, True)
    assert setting.note == "seamark.yaml is readable by others"
    assert workplace.open().connect["game"].password.is_literal
    (workplace.project / "seamark.yaml").chmod(0o600)
    assert {s.key: s for s in workplace.open().settings()}["connect.game.password"].note == ""
    workplace.environ["SEAMARK_CONTEXTS__DEV__CONNECT__GAME__PASSWORD"] = "hunter3"
    setting = {s.key: s for s in workplace.open().settings()}["connect.game.password"]
    assert (setting.value, setting.is_literal) == (MASK, False)


def test_a_secret_file_that_others_can_read_is_read_and_noted(workplace) -> None:
    workplace.write("k=v\n", "ops.properties").chmod(0o644)
    assert reveal(workplace, "secret://file/ops.properties#k") == "v"
    setting = {s.key: s for s in workplace.open().settings()}["connect.game.password"]
    assert (setting.is_literal, setting.note) == (False, "ops.properties is readable by others")
    (workplace.project / "ops.properties").chmod(0o600)
    assert {s.key: s for s in workplace.open().settings()}["connect.game.password"].note == ""


def test_a_cluster_s_name_does_not_make_its_settings_secret(workplace) -> None:
    workplace.write("contexts: {dev: {connect: {token-service: {urls: 'http://a:1', group_id: g}}}}")
    assert workplace.values()["connect.token-service.group_id"] == "g"


@pytest.mark.parametrize("mask", [MASK, "******", "[hidden]"])
def test_a_saved_mask_is_not_used_as_a_password(workplace, mask: str) -> None:
    with pytest.raises(InvalidSettingError, match="contains the mask of a secret"):
        reveal(workplace, mask)


def test_a_secret_shows_itself_nowhere(tmp_path: Path) -> None:
    secret = Secret("hunter2", is_literal=True)
    holder = dataclasses.make_dataclass("Holder", ["secret"])(secret)
    shown = [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{secret!r}", f"{holder}", f"{[secret]}"]
    assert all("hunter2" not in text and MASK in text for text in shown)
    assert copy.copy(secret) is copy.deepcopy(secret) is secret
    assert dataclasses.asdict(holder) == {"secret": secret}
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert secret.reveal() == "hunter2"


@pytest.mark.parametrize(
    "key",
    [
        "password", "sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.key", "sasl.jaas.config",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.assertion.private.key.pem", "api.key", "apikey",
        "aws.access.key.id", "aws_secret_access_key", "basic.auth.user.info", "token", "credentials", "passwd",
        "sasl.oauthbearer.assertion.private.key.passphrase", "CONNECTION.PASSWORD",
    ],
)  # fmt: skip
def test_names_that_hold_secrets(key: str) -> None:
    assert is_sensitive(key)


@pytest.mark.parametrize(
    "key",
    [
        "bootstrap.servers", "ssl.keystore.location", "ssl.keystore.type", "ssl.key.location", "client.id",
        "sasl.oauthbearer.assertion.private.key.file", "sasl.username", "key.converter", "ssl.ca.pem", "group_id",
    ],
)  # fmt: skip
def test_names_that_hold_none(key: str) -> None:
    assert not is_sensitive(key)


@given(
    st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1).filter(
        lambda text: text not in "http://(sensitive)@host:8083"
    )
)
def test_the_user_part_of_a_url_is_never_shown(password: str) -> None:
    shown = mask_urls(f"http://ops:{password}@host:8083")
    assert shown == "http://(sensitive)@host:8083"


@pytest.mark.parametrize(
    "text", ["(sensitive)", "***", "********", "http://u:***@h", 'password="****";', "[hidden]", "http://(sensitive)@h"]
)
def test_masks_are_known(text: str) -> None:
    assert is_masked(text)


@pytest.mark.parametrize("text", ["", "**", "a***b", "pass***", "sensitive", "hidden"])
def test_other_texts_are_no_masks(text: str) -> None:
    assert not is_masked(text)
