from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.core import secrets as sensitive
from seamark.core.secrets import MASK, is_reference, is_sensitive, mask_config, mask_text, mask_value


@pytest.mark.parametrize(
    "key",
    [
        "connection.password",
        "database.history.consumer.sasl.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.key.pem",
        "aws.secret.access.key",
        "aws.access.key.id",
        "aws_secret_access_key",
        "basic.auth.user.info",
        "value.converter.basic.auth.user.info",
        "sasl.jaas.config",
        "producer.override.sasl.jaas.config",
        "api.key",
        "apiKey",
        "private_key",
        "gcs.credentials.json",
        "azure.sas.token",
        "http.authorization",
        "client-secret",
        "sftp.pw",
        "sasl.oauthbearer.config",
        "salesforce.consumer.key",
        "snmp.community",
        "github.pat",
        "sf.connection.passcode",
        "webhook.signing.key",
        "datadog.app.key",
        "mqtt.userpw",
        "newrelic.insert.key",
        "aws.session.key",
        "gcp.service.account.json",
        "jwt",
    ],
)
def test_secret_keys_are_known_by_name(key):
    assert is_sensitive(key)
    assert mask_value(key, "hunter2") == MASK


@pytest.mark.parametrize(
    "key",
    [
        "tasks.max",
        "topics",
        "connection.url",
        "connection.user",
        "ssl.keystore.location",
        "value.converter.basic.auth.credentials.source",
        "aws.credentials.provider.class",
        "sasl.oauthbearer.token.endpoint.url",
        "message.key.columns",
        "primary.key.fields",
        "tokenizer",
        "bypass.mode",
        "gcs.credentials.path",
        "consumer.key.deserializer",
        "service.account.json.path",
        "path.pattern",
        "community.name",
    ],
)
def test_other_keys_are_shown(key):
    assert not is_sensitive(key)
    assert mask_value(key, "hunter2") == "hunter2"


@pytest.mark.parametrize(
    "value",
    ["${file:/etc/db.properties:password}", "${env:PASSWORD}", "secret://env/PASSWORD", "secret://file/a#b", ""],
)
def test_references_are_shown_as_they_are(value):
    assert mask_value("connection.password", value) == value


@pytest.mark.parametrize("value", ["x${file:a:b}", "${file:a:b}x", "secret://", "${PASSWORD}", "secret://env/A b"])
def test_what_only_looks_like_a_reference_is_masked(value):
    assert not is_reference(value)
    assert mask_value("connection.password", value) == MASK


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jdbc:postgresql://ops:pw@db/x?ssl=true", "jdbc:postgresql://ops:(sensitive)@db/x?ssl=true"),
        ("jdbc:postgresql://db/x?user=a&password=pw&ssl=1", "jdbc:postgresql://db/x?user=a&password=(sensitive)&ssl=1"),
        ("jdbc:sqlserver://db;user=a;password=pw;x=1", "jdbc:sqlserver://db;user=a;password=(sensitive);x=1"),
        ("mongodb://a:p@w@db:1", "mongodb://a:(sensitive)@db:1"),
        ("https://token@host/", "https://(sensitive)@host/"),
        ("http://a:${file:/x:y}@host", "http://a:${file:/x:y}@host"),
        ('X required username="a" password="p w";', 'X required username="a" password="(sensitive)";'),
        ('{"password": "a\\"b", "x": 1}', '{"password": "(sensitive)", "x": 1}'),
        ("password=${file:/x:y};", "password=${file:/x:y};"),
        ("AccountKey=abc==;E=1", "AccountKey=(sensitive);E=1"),
        ("a -----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- b", "a (sensitive) b"),
        ("see http://host:80/a@b?c=d@e", "see http://host:80/a@b?c=d@e"),
        ("Authorization:Bearer abc|Accept:text", "Authorization:Bearer (sensitive)|Accept:text"),
        ('{"authorization": "Basic YTpi"}', '{"authorization": "Basic (sensitive)"}'),
        ("Authorization: Bearer ${file:/x:y}", "Authorization: Bearer ${file:/x:y}"),
        ("Basic authorization: refused", "Basic authorization: refused"),
        ("nothing here", "nothing here"),
    ],
)
def test_secrets_in_free_text_are_masked(text, shown):
    assert mask_text(text) == shown
    assert mask_text(shown) == shown


def test_a_config_keeps_its_keys_and_their_order():
    masked = mask_config({"b.password": "x", "a": "1"}, unread=False)
    assert list(masked.items()) == [("b.password", MASK), ("a", "1")]


def test_a_plugin_whose_types_were_not_read_shows_only_the_keys_of_connect():
    config = {"connector.class": "org.example.X", "tasks.max": "1", "a": "1", "empty": "", "b": "${file:/f:k}"}
    assert mask_config(config) == config | {"a": MASK}


@given(st.text(st.characters(exclude_characters="${}"), min_size=1).filter(lambda text: not is_reference(text)))
def test_no_literal_is_shown_under_a_secret_key(value):
    assert mask_value("sasl.password", value) == MASK


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000 + " ://",
        "a.a-" * 50_000 + "://",
        "a://" + "@" * 100_000,
        'password="' + "\\" * 100_001,
        "token = " * 30_000,
        "authorization: " * 20_000,
        "authorization:" + " " * 100_000,
    ],
)
def test_hostile_text_costs_linear_time(text):
    begin = time.process_time()
    mask_text(text)
    # Measured 0.1 s at most; quadratic work would take minutes.
    assert time.process_time() - begin < 5


PIECES = st.sampled_from(
    [
        "://",
        "@",
        ":",
        "=",
        " ",
        "me",
        "Password",
        "pa\u017fsword",
        "API_KEY",
        "apikey",
        "to\u212aen",
        "s\u0131gnature",
        "x",
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_what_holds_no_word_for_a_secret_is_not_searched_and_nothing_is_missed(text):
    searched = sensitive._USERINFO.sub(sensitive._mask_userinfo, text)
    assert mask_text(text) == sensitive._ASSIGNMENT.sub(sensitive._mask_assignment, searched)
