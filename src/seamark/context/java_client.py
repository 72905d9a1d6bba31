"""Settings of a Java client, turned into librdkafka's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from seamark.context.java_stores import (
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasError,
    StoreKind,
    build_jks_refusal,
    build_pem,
    parse_jaas,
    read_store_kind,
    read_trusted_pem,
)
from seamark.context.kafka_keys import IGNORED_KEYS, JAVA_KEYS, PROBE, REFUSED_KEYS
from seamark.errors import ConfigurationError, InvalidSettingError

_PROVIDER_NAMES = re.compile(r"[A-Za-z0-9_]+(,[A-Za-z0-9_]+)*")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def build_client_config(values: Mapping[str, str], *, origins: Mapping[str, str]) -> dict[str, str]:
    """Settings for librdkafka from a mixture of its own and Java's.

    Java's stores and logins are only looked at where `security.protocol` uses them: a worker's file
    may name a trust store that nothing needs. `origins` says where each key stands, for errors.
    """
    for key in values:
        if key in REFUSED_KEYS:
            raise _invalid(key, origins, f"kafka.{key} can't be used: {REFUSED_KEYS[key]}", hint="remove it")
    if not _PROVIDER_NAMES.fullmatch(values.get("ssl.providers", "default")):
        # OpenSSL loads a provider by its name; a path would load any library.
        hint = "use the names of OpenSSL's own providers: default,legacy"
        raise _invalid("ssl.providers", origins, "kafka.ssl.providers accepts names only", hint=hint)
    config = {key: text for key, text in values.items() if key not in JAVA_KEYS | IGNORED_KEYS}
    protocol = read_protocol(values)
    if protocol.startswith("SASL_"):
        config |= _build_librdkafka_login(values, origins)
    if protocol.endswith("SSL"):
        config |= _build_librdkafka_trust(values, origins)
        _replace_key_store(config, values, origins)
    elif "ssl.keystore.location" in config:
        # librdkafka asks for its password at once, though no connection uses it.
        del config["ssl.keystore.location"]
    if config.get("ssl.endpoint.identification.algorithm") == "":
        # Java's way to say: do not compare the host name.
        config["ssl.endpoint.identification.algorithm"] = "none"
    return config


def read_protocol(values: Mapping[str, str]) -> str:
    """The security protocol in capitals; PLAINTEXT where none is given."""
    return (values.get("security.protocol") or "PLAINTEXT").strip().upper()


def read_mechanism(values: Mapping[str, str]) -> str:
    """The SASL mechanism in capitals, or an empty text."""
    return (values.get("sasl.mechanism") or values.get("sasl.mechanisms") or "").strip().upper()


def _build_librdkafka_login(values: Mapping[str, str], origins: Mapping[str, str]) -> dict[str, str]:
    mechanism = read_mechanism(values)
    if mechanism and mechanism not in MECHANISMS:
        key = "sasl.mechanism" if "sasl.mechanism" in values else "sasl.mechanisms"
        cause = f"use one of {', '.join(MECHANISMS)}"
        raise _invalid(key, origins, "kafka.sasl.mechanism is not supported", hint=cause)
    jaas = values.get("sasl.jaas.config")
    if jaas is None:
        _check_login(values, mechanism, origins)
        return {}
    problem = ""
    try:
        login = parse_jaas(jaas)
    except JaasError as error:
        problem = str(error)
    if problem:
        raise _invalid(
            "sasl.jaas.config",
            origins,
            f"kafka.sasl.jaas.config can't be used: {problem}",
            hint="set sasl.mechanism, sasl.username and sasl.password in the context's kafka part instead",
        )
    if not mechanism and login.module != PLAIN_MODULE:
        raise _invalid(
            "sasl.jaas.config",
            origins,
            "kafka.sasl.mechanism is not set for a SCRAM login",
            hint="set sasl.mechanism: SCRAM-SHA-256 or SCRAM-SHA-512",
        )
    found = {"sasl.username": login.username, "sasl.password": login.password}
    return found if mechanism else found | {"sasl.mechanism": "PLAIN"}


def _check_login(values: Mapping[str, str], mechanism: str, origins: Mapping[str, str]) -> None:
    """Refuse a login with a part missing. librdkafka would only say that the broker said no."""
    needed = {"sasl.username", "sasl.password"} if mechanism != "OAUTHBEARER" else set()
    lacking = sorted(key for key in needed if not values.get(key))
    if not mechanism:
        lacking.insert(0, "sasl.mechanism")
    if lacking:
        raise _invalid(
            "security.protocol",
            origins,
            f"kafka.{lacking[0]} is missing for {read_protocol(values)}",
            hint=f"set {', '.join(lacking)} in the context's kafka part; "
            "with one of user name and password there, the worker's login is not used",
        )


def _build_librdkafka_trust(values: Mapping[str, str], origins: Mapping[str, str]) -> dict[str, str]:
    if "ssl.truststore.certificates" in values:
        return {"ssl.ca.pem": build_pem(values["ssl.truststore.certificates"])}
    location = values.get("ssl.truststore.location")
    if location is None:
        return {}
    path, key = Path(location), _named("ssl.truststore.location", origins)
    kind = read_store_kind(path, key=key, declared=values.get("ssl.truststore.type", ""))
    if kind is StoreKind.JKS:
        raise build_jks_refusal(path, key=key)
    if kind is StoreKind.PEM:
        return {"ssl.ca.location": location}
    return {"ssl.ca.pem": read_trusted_pem(path, key=key, password=values.get("ssl.truststore.password"))}


def _replace_key_store(config: dict[str, str], values: Mapping[str, str], origins: Mapping[str, str]) -> None:
    for java, ours in (("ssl.keystore.certificate.chain", "ssl.certificate.pem"), ("ssl.keystore.key", "ssl.key.pem")):
        if java in values:
            config[ours] = build_pem(values[java])
    location = config.get("ssl.keystore.location")
    if location is None:
        return
    path, key = Path(location), _named("ssl.keystore.location", origins)
    kind = read_store_kind(path, key=key, declared=values.get("ssl.keystore.type", ""))
    if kind is StoreKind.JKS:
        raise build_jks_refusal(path, key=key)
    if kind is StoreKind.PEM:
        # One file with key and certificates; OpenSSL takes from it what each setting is for.
        del config["ssl.keystore.location"]
        config.pop("ssl.keystore.password", None)
        config |= {"ssl.certificate.location": location, "ssl.key.location": location}
    elif "ssl.keystore.password" not in config:
        raise _invalid(
            "ssl.keystore.location",
            origins,
            "kafka.ssl.keystore.password is not set for a PKCS12 store",
            hint="set ssl.keystore.password: secret://env/NAME",
        )


def _named(key: str, origins: Mapping[str, str]) -> str:
    return f"kafka.{key} ({origins[key]})" if key in origins else f"kafka.{key}"


def _invalid(key: str, origins: Mapping[str, str], message: str, *, hint: str) -> InvalidSettingError:
    where = origins.get(key, "")
    return InvalidSettingError(
        message,
        cause=f"{where}: kafka.{key}" if where else "",
        hint=hint,
        context={"setting": f"kafka.{key}", "origin": where},
    )


# Both clients use the same name, and a client that only reads needs them.
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
# A certificate and its chain fit; a larger file is something else.
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
            f"Spark's Kafka source can't log in with {mechanism or 'no mechanism'} with the settings of this context",
            hint=f"use one of {', '.join(modules)} for copies",
        )
    user, password = (_quote(config.get(key, "")) for key in ("sasl.username", "sasl.password"))
    jaas = f"{modules[mechanism]} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def _build_java_trust(config: Mapping[str, str]) -> dict[str, str]:
    if config.get(_UNSAFE, "true").lower() == "false":
        raise ConfigurationError(
            f"Spark's Kafka source can't connect with {_UNSAFE}=false",
            cause="Java's client always verifies certificates",
            hint="set ssl.ca.location instead",
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
        raise ConfigurationError(f"kafka.{key} can't be read: {path}", cause=cause, hint="use a PEM file") from None


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HINT = "or accept it: insecure: true in the context"


def check_kafka_transport(values: Mapping[str, str], *, origins: Mapping[str, str], is_allowed: bool) -> None:
    """Refuse a Kafka connection that is open to others, unless the context accepts it."""
    origin = origins.get("security.protocol", "")
    if read_protocol(values) not in PROTOCOLS:
        raise InvalidSettingError(
            f"kafka.security.protocol is not one of {', '.join(PROTOCOLS)}",
            cause=origin,
            hint="use one of these, usually SASL_SSL",
            context={"setting": "kafka.security.protocol", "origin": origin},
        )
    if is_allowed:
        return
    if read_protocol(values) == "SASL_PLAINTEXT":
        mechanism = read_mechanism(values) or "a password"
        raise build_insecure(
            "kafka.security.protocol",
            origin,
            f"SASL_PLAINTEXT sends {mechanism} over a connection that others can read and change",
            fix="use SASL_SSL",
        )
    if values.get("enable.ssl.certificate.verification", "true").strip().lower() != "true":
        key = "enable.ssl.certificate.verification"
        cause = "any server could impersonate a broker"
        raise build_insecure(f"kafka.{key}", origins.get(key, ""), cause, fix="set ssl.ca.location")
    key = "ssl.endpoint.identification.algorithm"
    if read_protocol(values).endswith("SSL") and values.get(key, "https").strip().lower() != "https":
        cause = "any server with a certificate of that authority could impersonate a broker"
        raise build_insecure(f"kafka.{key}", origins.get(key, ""), cause, fix="use https")


def build_insecure(key: str, origin: str, cause: str, *, fix: str) -> InvalidSettingError:
    """The error for a setting that makes a connection insecure."""
    return InvalidSettingError(
        f"{key} makes the connection insecure",
        cause=f"{origin}: {cause}" if origin else cause,
        hint=f"{fix}; {_HINT}",
        context={"setting": key, "origin": origin},
    )
