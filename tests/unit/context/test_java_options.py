"""Settings of a context for Spark's Kafka source, which is written in Java."""

from __future__ import annotations

import pytest

from seamark.context.java_client import build_client_config, build_java_config, embed_files
from seamark.context.java_stores import parse_jaas
from seamark.errors import ConfigurationError

BASE = {"bootstrap.servers": "b:9092"}


def test_plain_connection_takes_what_both_clients_name_alike():
    config = {**BASE, "client.id": "me", "socket.timeout.ms": "5", "debug": "all"}
    assert build_java_config(config) == {**BASE, "client.id": "me"}


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "PlainLoginModule"), ("scram-sha-512", "ScramLoginModule")]
)
def test_login_becomes_a_jaas_config_that_reads_back(mechanism, module):
    password = 'a"b\\c;d'
    config = {
        **BASE,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "me",
        "sasl.password": password,
    }
    java = build_java_config(config)
    login = parse_jaas(java["sasl.jaas.config"])
    assert login.module.endswith(module)
    assert (login.username, login.password) == ("me", password)
    assert java["sasl.mechanism"] == mechanism.upper()
    assert "sasl.password" not in java
    back = build_client_config(java, origins={})
    assert (back["sasl.username"], back["sasl.password"]) == ("me", password)


def test_certificates_are_embedded_in_place_of_their_files(tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"-----BEGIN {name}-----\n")
    config = {
        **BASE,
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca"),
        "ssl.certificate.location": str(tmp_path / "cert"),
        "ssl.key.location": str(tmp_path / "key"),
        "ssl.key.password": "hush",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert build_java_config(config) == {
        **BASE,
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-----BEGIN ca-----\n",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-----BEGIN cert-----\n",
        "ssl.keystore.key": "-----BEGIN key-----\n",
        "ssl.key.password": "hush",
    }
    embedded = embed_files(config)
    assert not [key for key in embedded if key.endswith(".location")]
    assert embedded["ssl.key.pem"] == "-----BEGIN key-----\n"


def test_pkcs12_store_is_named_by_its_place():
    config = {
        **BASE,
        "security.protocol": "ssl",
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.password": "hush",
    }
    java = build_java_config(config)
    assert (java["ssl.keystore.type"], java["ssl.keystore.location"]) == ("PKCS12", "/k.p12")


def test_folder_of_certificates_stays_a_place(tmp_path):
    config = {**BASE, "ssl.ca.location": str(tmp_path)}
    assert embed_files(config) == config
    assert embed_files({**BASE, "ssl.ca.location": "probe"})["ssl.ca.location"] == "probe"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, "verification"),
    ],
)
def test_what_java_can_not_do_is_refused_with_a_way_out(more, words):
    with pytest.raises(ConfigurationError, match=words) as caught:
        build_java_config({**BASE, **more})
    assert caught.value.hint
