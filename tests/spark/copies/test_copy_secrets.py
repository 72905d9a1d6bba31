"""Spark masks every option of a copy that holds a secret."""

from __future__ import annotations

import re

import pytest

from seamark.context.java_client import build_java_config, embed_files
from seamark.core.secrets import is_sensitive
from seamark.spark.sessions import CONFS

PLAIN = {
    "bootstrap.servers": "b:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": "hush",
    "ssl.ca.pem": "ca",
    "ssl.certificate.pem": "certificate",
    "ssl.key.pem": "hush",
    "ssl.key.password": "hush",
}
STORE = {
    "bootstrap.servers": "b:1",
    "security.protocol": "SSL",
    "ssl.keystore.location": "/k.p12",
    "ssl.keystore.password": "hush",
}


@pytest.mark.parametrize("config", [PLAIN, STORE])
def test_options_with_secrets_are_masked_by_their_names(config):
    masked = re.compile(CONFS["spark.sql.redaction.options.regex"])
    for options in (build_java_config(config), embed_files(config)):
        secret = {key for key, value in options.items() if "hush" in value}
        assert secret
        assert all(masked.search(f"kafka.{key}") for key in secret | {key for key in options if is_sensitive(key)})
        # And what helps to find a fault is not.
        assert not masked.search("kafka.bootstrap.servers")
