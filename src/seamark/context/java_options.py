"""Settings of librdkafka, turned into those of Java's client: Spark's own Kafka source is written in Java."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seamark.context.jaas import PLAIN_MODULE, SCRAM_MODULE
from seamark.context.kafka_keys import PROBE
from seamark.errors import ConfigurationError

# Named alike by both, and of use to whoever only reads.
_SAME = (
    "bootstrap.servers",
    "client.id",
    "client.rack",
    "client.dns.lookup",
    "security.protocol",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "retry.backoff.ms",
)
_PEM = "PEM"
_UNSAFE = "enable.ssl.certificate.verification"
# A certificate and its chain; anything larger is no such file.
_MOST_BYTES = 1 << 20


def build_java_config(config: Mapping[str, str]) -> dict[str, str]:
    """What `KafkaSettings.client_config` gives, for a Java client. It holds the same secrets.

    Raises:
        ConfigurationError: Java has no such way to connect.
    """
    protocol = config.get("security.protocol", "PLAINTEXT").upper()
    java = {key: config[key] for key in _SAME if key in config}
    if protocol.startswith("SASL_"):
        java |= _build_java_login(config)
    if protocol.endswith("SSL"):
        java |= _build_java_trust(config) | _build_identity(config)
    return java


def embed_files(config: Mapping[str, str]) -> dict[str, str]:
    """The same settings with certificates and keys in place of the files that hold them.

    Executors on other machines have no such files.
    """
    embedded = dict(config)
    for location, pem in (
        ("ssl.ca.location", "ssl.ca.pem"),
        ("ssl.certificate.location", "ssl.certificate.pem"),
        ("ssl.key.location", "ssl.key.pem"),
    ):
        path = config.get(location)
        if path and path != PROBE and Path(path).is_file():
            embedded[pem] = _read_pem(path, key=location)
            del embedded[location]
    return embedded


def _build_java_login(config: Mapping[str, str]) -> dict[str, str]:
    mechanism = (config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "").upper()
    modules = {"PLAIN": PLAIN_MODULE, "SCRAM-SHA-256": SCRAM_MODULE, "SCRAM-SHA-512": SCRAM_MODULE}
    if mechanism not in modules:
        raise ConfigurationError(
            f"Spark's Kafka source can't log in by {mechanism or 'no mechanism'} with the settings of this context",
            hint=f"use one of {', '.join(modules)} for copies",
        )
    user, password = (_quote(config.get(key, "")) for key in ("sasl.username", "sasl.password"))
    jaas = f"{modules[mechanism]} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def _build_java_trust(config: Mapping[str, str]) -> dict[str, str]:
    if config.get(_UNSAFE, "true").lower() == "false":
        raise ConfigurationError(
            f"Spark's Kafka source can't connect with {_UNSAFE}=false",
            cause="Java's client always looks at certificates",
            hint="give ssl.ca.location instead",
        )
    java: dict[str, str] = {}
    if (algorithm := config.get("ssl.endpoint.identification.algorithm")) is not None:
        # Java's way to say: do not compare the host name.
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    found = embed_files(config)
    if pem := found.get("ssl.ca.pem"):
        java |= {"ssl.truststore.type": _PEM, "ssl.truststore.certificates": pem}
    return java


def _build_identity(config: Mapping[str, str]) -> dict[str, str]:
    password = {"ssl.key.password": config["ssl.key.password"]} if config.get("ssl.key.password") else {}
    if location := config.get("ssl.keystore.location"):
        store = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": location}
        return {**store, "ssl.keystore.password": config.get("ssl.keystore.password", ""), **password}
    found = embed_files(config)
    if "ssl.certificate.pem" not in found or "ssl.key.pem" not in found:
        return {}
    return {
        "ssl.keystore.type": _PEM,
        "ssl.keystore.certificate.chain": found["ssl.certificate.pem"],
        "ssl.keystore.key": found["ssl.key.pem"],
        **password,
    }


def _read_pem(path: str, *, key: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigurationError(
            f"kafka.{key} can't be read: {path}", cause=cause, hint="a file in PEM form is needed"
        ) from None


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
