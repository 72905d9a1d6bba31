"""URLs of Connect workers, and what makes a connection insecure."""

from __future__ import annotations

import pytest

from seamark.errors import ConfigurationError, InvalidSettingError


def open_urls(workplace, urls: str, more: str = ""):
    workplace.write(f"contexts:\n  dev:\n    connect:\n      game:\n        urls: {urls}\n{more}")
    return workplace.open().connect["game"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://a:8083", ("http://a:8083",)),
        ("HTTP://a:8083/", ("http://a:8083",)),
        ("[https://a/connect/, http://b:1]", ("https://a/connect", "http://b:1")),
        ("[http://a:1, http://a:1/]", ("http://a:1",)),
        ("http://[::1]:8083", ("http://[::1]:8083",)),
    ],
)
def test_urls_are_taken_and_tidied(workplace, given: str, expected: tuple[str, ...]) -> None:
    assert open_urls(workplace, given).urls == expected


@pytest.mark.parametrize(
    "given",
    [
        "ftp://a:1", "a:8083", "//a:1", "http://", "http://:8083", "http://a:99999", "http://a:0", "http://a:b",
        "http://[::1", "http://a:1?x=1", "'http://a:1#x'", "'http://a b'", '"http://a\\tb"', "'http://a\\b'",
        "http://u:12/3@a:1", "file:///etc/passwd", "'secret://env/X'", "'http://u:p#w@a:1'", "http://a:1?",
    ],
)  # fmt: skip
def test_anything_else_is_refused_without_showing_it(workplace, given: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        open_urls(workplace, given)
    error = caught.value
    assert error.message.startswith("connect.game.urls ")
    assert error.cause.startswith("seamark.yaml:5:15")
    assert given.strip("'\"") not in error.message + error.cause


def test_credentials_in_a_url_are_split_off_and_masked(workplace) -> None:
    game = open_urls(workplace, "[https://ops:p%40ss@a:1, https://ops:p%40ss@b:2/x]")
    assert game.urls == ("https://a:1", "https://b:2/x")
    assert (game.username, game.password.reveal(), game.password.is_literal) == ("ops", "p@ss", True)
    setting = {s.key: s for s in workplace.open().settings()}["connect.game.urls"]
    assert setting.value == "https://(sensitive)@a:1, https://(sensitive)@b:2/x"
    assert (setting.is_sensitive, setting.is_literal) == (True, True)


@pytest.mark.parametrize(
    ("urls", "more", "problem"),
    [
        ("[http://a:x@a:1, http://b:y@b:1]", "", "the URLs carry different users"),
        ("http://a:x@a:1", "        username: b\n", "set twice"),
        ("http://a:1", "        password: x\n", "is set without username"),
        ("http://u:***@a:1", "", "contains the mask of a secret"),
        ("http://a:1", "        username: ''\n", "is empty"),
    ],
)
def test_credentials_that_contradict_are_refused(workplace, urls: str, more: str, problem: str) -> None:
    with pytest.raises(InvalidSettingError, match=problem):
        open_urls(workplace, urls, more)


def test_a_user_in_a_url_needs_no_password(workplace) -> None:
    game = open_urls(workplace, "https://ops@a:1")
    assert (game.username, game.password) == ("ops", None)


def test_ca_file_is_relative_to_its_file(workplace) -> None:
    assert open_urls(workplace, "https://a", "        ca_file: ca.pem\n").ca_file == workplace.project / "ca.pem"


# --- S23 ---

INSECURE = [
    ("connect: {game: {urls: 'https://a', tls_verify: false}}", "connect.game.tls_verify"),
    ("kafka: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: SCRAM-SHA-512}", "kafka.security.protocol"),
    ("kafka: {security.protocol: sasl_plaintext, sasl.mechanisms: PLAIN}", "kafka.security.protocol"),
    ("kafka: {security.protocol: SSL, enable.ssl.certificate.verification: false}", "kafka.enable.ssl.certificate"),
    ("kafka: {security.protocol: SSL, ssl.endpoint.identification.algorithm: none}", "kafka.ssl.endpoint"),
    ("kafka: {security.protocol: SASL_SSL, ssl.endpoint.identification.algorithm: ''}", "kafka.ssl.endpoint"),
]


@pytest.mark.parametrize(("line", "key"), INSECURE)
def test_an_insecure_connection_needs_consent(workplace, line: str, key: str) -> None:
    workplace.write(f"contexts:\n  dev:\n    {line}\n")
    with pytest.raises(InvalidSettingError, match="makes the connection insecure") as caught:
        workplace.open()
    assert caught.value.message.startswith(key)
    assert caught.value.cause.startswith("seamark.yaml:3:")
    assert "insecure: true" in caught.value.hint
    workplace.write(f"contexts:\n  dev:\n    insecure: true\n    {line}\n")
    assert workplace.open().insecure


def test_an_insecure_worker_file_needs_consent_too(workplace) -> None:
    workplace.write("contexts: {dev: {connect: {game: {urls: 'http://a:1', worker_config: w.properties}}}}")
    workplace.write("security.protocol=SASL_PLAINTEXT\n", "w.properties")
    with pytest.raises(InvalidSettingError, match="insecure") as caught:
        workplace.open()
    assert caught.value.cause.startswith("w.properties:1: ")


@pytest.mark.parametrize(
    "cluster",
    [
        "urls: 'http://worker:8083', username: ops, password: p",
        "urls: 'http://127.0.0.1:8083', username: ops, password: p",
        "urls: 'HTTP://worker:8083', username: ops",
        "urls: ['https://a:8083', 'http://b:8083'], username: ops, password: p",
        "urls: 'http://ops:p@worker:8083'",
    ],
)
def test_basic_auth_over_plain_http_needs_consent_like_sasl_plaintext(workplace, cluster: str) -> None:
    workplace.write_user(f"contexts: {{dev: {{connect: {{main: {{{cluster}}}}}}}}}")
    with pytest.raises(InvalidSettingError, match=r"connect\.main\.urls makes the connection insecure") as caught:
        workplace.open()
    assert "https" in caught.value.hint
    workplace.write_user(f"contexts: {{dev: {{insecure: true, connect: {{main: {{{cluster}}}}}}}}}")
    assert workplace.open().connect["main"].username == "ops"


def test_plain_http_without_credentials_and_https_with_them_open(workplace) -> None:
    workplace.write_user("contexts: {dev: {connect: {a: {urls: 'http://a:1'}, b: {urls: 'https://u:p@b:1'}}}}")
    assert set(workplace.open().connect) == {"a", "b"}


def test_a_protocol_behind_a_reference_is_checked_when_it_is_known(workplace) -> None:
    workplace.trust_project()
    workplace.environ["PROTOCOL"] = "SASL_PLAINTEXT"
    workplace.write(
        "contexts: {dev: {kafka: {bootstrap.servers: 'b:1', security.protocol: 'secret://env/PROTOCOL',"
        " sasl.mechanism: PLAIN, sasl.username: u, sasl.password: p}}}"
    )
    context = workplace.open()
    with pytest.raises(InvalidSettingError, match="insecure"):
        context.kafka.client_config()


def test_java_s_empty_algorithm_is_librdkafka_s_none(workplace) -> None:
    workplace.write(
        "contexts: {dev: {insecure: true, kafka: {bootstrap.servers: 'b:1', security.protocol: SSL,"
        " ssl.endpoint.identification.algorithm: ''}}}"
    )
    assert workplace.open().kafka.client_config()["ssl.endpoint.identification.algorithm"] == "none"


@pytest.mark.parametrize("protocol", ["SASL_SLS", "TLS", "SSL_SASL"])
def test_a_protocol_that_is_none_is_refused_even_where_insecure_is_allowed(workplace, protocol: str) -> None:
    workplace.write(f"contexts: {{dev: {{insecure: true, kafka: {{security.protocol: {protocol}}}}}}}")
    with pytest.raises(InvalidSettingError, match=r"kafka\.security\.protocol is not one of PLAINTEXT, SSL"):
        workplace.open()


def test_the_error_of_an_insecure_setting_is_a_configuration_error(workplace) -> None:
    workplace.write("contexts: {dev: {connect: {game: {urls: 'https://a', tls_verify: false}}}}")
    with pytest.raises(ConfigurationError) as caught:
        workplace.open()
    assert caught.value.exit_code == 64
