"""Transport rules: what would show a password or trust a stranger needs `insecure: true`."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.context.java_client import read_mechanism, read_protocol
from seamark.errors import InvalidSettingError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HINT = "or say that you accept it: insecure: true in the context"


def check_kafka_transport(values: Mapping[str, str], *, origins: Mapping[str, str], is_allowed: bool) -> None:
    """Refuse a Kafka connection that is open to others, unless the context accepts it."""
    origin = origins.get("security.protocol", "")
    if read_protocol(values) not in PROTOCOLS:
        raise InvalidSettingError(
            f"kafka.security.protocol is not one of {', '.join(PROTOCOLS)}",
            cause=origin,
            hint="SASL_SSL is the usual one",
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
        cause = "any server could pass for a broker"
        raise build_insecure(f"kafka.{key}", origins.get(key, ""), cause, fix="name the authority in ssl.ca.location")
    key = "ssl.endpoint.identification.algorithm"
    if read_protocol(values).endswith("SSL") and values.get(key, "https").strip().lower() != "https":
        cause = "any server with a certificate of that authority could pass for a broker"
        raise build_insecure(f"kafka.{key}", origins.get(key, ""), cause, fix="use https")


def build_insecure(key: str, origin: str, cause: str, *, fix: str) -> InvalidSettingError:
    """The error for a setting that makes a connection insecure."""
    return InvalidSettingError(
        f"{key} makes the connection insecure",
        cause=f"{origin}: {cause}" if origin else cause,
        hint=f"{fix}; {_HINT}",
        context={"setting": key, "origin": origin},
    )
