"""Key stores and trust stores of Java, as librdkafka takes them."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from seamark.context.java_stores import build_pem
from seamark.errors import InvalidSettingError


@pytest.fixture(autouse=True)
def _trusted(workplace):
    workplace.trust_project()


KEY = ec.generate_private_key(ec.SECP256R1())


def build_certificate(name: str) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, start, start + dt.timedelta(days=9))
    return builder.sign(KEY, hashes.SHA256())


ONE, TWO = build_certificate("one"), build_certificate("two")
ONE_PEM, TWO_PEM = (found.public_bytes(Encoding.PEM).decode() for found in (ONE, TWO))
KEY_PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def configure(workplace, *lines: str) -> dict[str, str]:
    workplace.write("contexts: {dev: {connect: {game: {urls: 'http://a:1', worker_config: worker.properties}}}}")
    text = "\n".join(["bootstrap.servers=b:1", "security.protocol=SSL", *lines, ""])
    workplace.write(text, "worker.properties")
    return workplace.open().kafka.client_config()


def accept(config: dict[str, str]) -> None:
    """A real librdkafka client takes the settings; it opens stores and keys when it is made."""
    Producer({**config, "bootstrap.servers": "", "log_level": "0"})


def test_a_pem_trust_store_is_a_ca_file(workplace) -> None:
    workplace.write(ONE_PEM, "ca.pem")
    config = configure(workplace, "ssl.truststore.type=PEM", "ssl.truststore.location=ca.pem")
    assert config["ssl.ca.location"] == str(workplace.project / "ca.pem")
    assert not [key for key in config if "truststore" in key]
    accept(config)


def test_a_pkcs12_trust_store_becomes_pem(workplace) -> None:
    password = BestAvailableEncryption(b"changeit")
    data = pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(ONE, b"one"), pkcs12.PKCS12Certificate(TWO, b"two")], password
    )
    (workplace.project / "trust.p12").write_bytes(data)
    config = configure(workplace, "ssl.truststore.location=trust.p12", "ssl.truststore.password=changeit")
    assert config["ssl.ca.pem"] == ONE_PEM + TWO_PEM
    accept(config)
    with pytest.raises(InvalidSettingError, match="contains no readable certificate") as caught:
        configure(workplace, "ssl.truststore.location=trust.p12", "ssl.truststore.password=hunter2")
    assert "ssl.truststore.password is wrong" in caught.value.cause
    assert "hunter2" not in str(caught.value.as_dict())


def test_a_pkcs12_key_store_goes_to_librdkafka_as_it_is(workplace) -> None:
    data = pkcs12.serialize_key_and_certificates(b"me", KEY, ONE, None, BestAvailableEncryption(b"changeit"))
    (workplace.project / "me.p12").write_bytes(data)
    lines = ["ssl.keystore.type=PKCS12", "ssl.keystore.location=me.p12"]
    config = configure(workplace, *lines, "ssl.keystore.password=changeit")
    assert config["ssl.keystore.location"] == str(workplace.project / "me.p12")
    assert config["ssl.keystore.password"] == "changeit"
    assert "ssl.keystore.type" not in config
    accept(config)
    with pytest.raises(InvalidSettingError, match=r"ssl\.keystore\.password is not set"):
        configure(workplace, *lines)


def test_a_pem_key_store_is_key_and_certificate_in_one_file(workplace) -> None:
    workplace.write(KEY_PEM + ONE_PEM, "me.pem")
    config = configure(workplace, "ssl.keystore.type=PEM", "ssl.keystore.location=me.pem")
    path = str(workplace.project / "me.pem")
    assert (config["ssl.certificate.location"], config["ssl.key.location"]) == (path, path)
    accept(config)


def test_inline_pem_in_one_line_is_put_into_lines(workplace) -> None:
    def one_line(pem: str) -> str:
        head, *body, tail = pem.strip().split("\n")
        return f"{head} {''.join(body)} {tail}"

    config = configure(
        workplace,
        f"ssl.truststore.certificates={one_line(TWO_PEM)}",
        f"ssl.keystore.certificate.chain={one_line(ONE_PEM)}",
        f"ssl.keystore.key={one_line(KEY_PEM)}",
    )
    assert (config["ssl.ca.pem"], config["ssl.certificate.pem"], config["ssl.key.pem"]) == (TWO_PEM, ONE_PEM, KEY_PEM)
    accept(config)
    assert workplace.values()["kafka.ssl.keystore.key"] == "(sensitive)"


def test_pem_with_headers_or_without_blocks_is_left_alone() -> None:
    old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----"
    assert build_pem(old) == old + "\n"
    assert build_pem("no pem") == "no pem"


@pytest.mark.parametrize("setting", ["truststore", "keystore"])
def test_jks_is_refused_with_the_command_that_converts_it(workplace, setting: str) -> None:
    (workplace.project / "my store.jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(InvalidSettingError, match=r"my store\.jks is a JKS store") as caught:
        configure(workplace, f"ssl.{setting}.location=my store.jks", f"ssl.{setting}.password=hunter2")
    error = caught.value
    folder = workplace.project
    assert (
        f"keytool -importkeystore -srckeystore '{folder}/my store.jks' -destkeystore '{folder}/my store.p12' "
        "-deststoretype PKCS12"
    ) in error.hint
    assert f"ssl.{setting}.location (worker.properties:3)" in error.message
    assert "hunter2" not in str(error.as_dict())


def test_the_command_of_the_refusal_really_converts_a_jks_store(workplace, tmp_path: Path) -> None:
    workplace.write(ONE_PEM, "one.pem")
    store = workplace.project / "trust.jks"

    def keytool(*arguments: str, answers: str = "") -> None:
        # The cheap compiler only: each call lives for half a second.
        command = ["keytool", "-J-XX:TieredStopAtLevel=1", *arguments]
        subprocess.run(
            command, cwd=workplace.project, input=answers, text=True, capture_output=True, check=True, timeout=60
        )

    keytool(
        "-importcert",
        "-noprompt",
        "-alias",
        "one",
        "-file",
        "one.pem",
        "-keystore",
        store.name,
        "-storetype",
        "JKS",
        "-storepass",
        "changeit",
    )
    with pytest.raises(InvalidSettingError) as caught:
        configure(workplace, f"ssl.truststore.location={store.name}", "ssl.truststore.password=changeit")
    command = caught.value.hint.removeprefix("convert it: keytool ").partition(", and name")[0].split()
    keytool(*command, answers="changeit\nchangeit\nchangeit\n")
    config = configure(workplace, "ssl.truststore.location=trust.p12", "ssl.truststore.password=changeit")
    assert config["ssl.ca.pem"] == ONE_PEM


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["ssl.truststore.location=odd.bin"], "not a store that seamark can read"),
        (["ssl.truststore.location=odd.bin", "ssl.truststore.type=BCFKS"], "a store of type BCFKS can't be used"),
        (["ssl.truststore.location=empty.p12"], "contains no readable certificate"),
    ],
)
def test_other_stores_are_refused(workplace, lines: list[str], problem: str) -> None:
    (workplace.project / "odd.bin").write_bytes(b"????")
    (workplace.project / "empty.p12").write_bytes(b"\x30\x00")
    with pytest.raises(InvalidSettingError, match=problem):
        configure(workplace, *lines)


def test_java_keys_work_in_the_context_itself(workplace) -> None:
    workplace.write(ONE_PEM, "ca.pem")
    workplace.write(
        "contexts: {dev: {kafka: {bootstrap.servers: 'b:1', security.protocol: SSL, ssl.truststore.type: PEM,"
        " ssl.truststore.location: ca.pem, ssl.protocol: TLSv1.3, ssl.providers: 'default,legacy'}}}"
    )
    config = workplace.open().kafka.client_config()
    assert config == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "ssl.ca.location": str(workplace.project / "ca.pem"),
        "ssl.providers": "default,legacy",
    }


def test_paths_are_relative_to_their_file_and_probe_is_no_path(workplace) -> None:
    workplace.write(
        "contexts: {dev: {kafka: {bootstrap.servers: 'b:1', ssl.ca.location: ~/ca.pem, https.ca.location: probe}}}"
    )
    config = workplace.open().kafka.client_config()
    assert config["ssl.ca.location"] == f"{workplace.environ['HOME']}/ca.pem"
    assert config["https.ca.location"] == "probe"


def test_openssl_providers_are_names_and_not_paths(workplace) -> None:
    workplace.write("contexts: {dev: {kafka: {bootstrap.servers: 'b:1', ssl.providers: /tmp/evil}}}")
    with pytest.raises(InvalidSettingError, match=r"ssl\.providers accepts names only"):
        workplace.open().kafka.client_config()
