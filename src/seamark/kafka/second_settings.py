"""The context's settings for kafka-python: turned over from librdkafka's, or refused. Never less secure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seamark.core.sensitive import MASK
from seamark.errors import UnsupportedError

_LOGINS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_SASL = frozenset({"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"})
# They only matter to a mechanism that is refused.
_SASL_UNUSED = "sasl.oauthbearer."


class Hidden(str):
    """A text that is used as it is, and never spelled out: kafka-python writes its settings into its log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)


def build_second_settings(config: Mapping[str, str], *, timeout_seconds: float) -> dict[str, Any]:
    """What `KafkaAdminClient` takes, from settings for librdkafka.

    Raises:
        UnsupportedError: a setting of the connection's security can't be turned over. Nothing was sent.
    """
    protocol = (config.get("security.protocol") or "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise build_untranslatable("security.protocol")
    milliseconds = int(timeout_seconds * 1000)
    settings: dict[str, Any] = {
        "bootstrap_servers": [address.strip() for address in config["bootstrap.servers"].split(",") if address.strip()],
        "client_id": config.get("client.id", "seamark"),
        "security_protocol": protocol,
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
    }
    if protocol.startswith("SASL_"):
        settings |= _build_login(config)
    if protocol.endswith("SSL"):
        from seamark.kafka.tls import build_tls  # noqa: PLC0415

        settings["ssl_context"] = build_tls(config)
    return settings


def build_untranslatable(key: str, *, hint: str = "") -> UnsupportedError:
    """The refusal for a setting that only librdkafka understands."""
    return UnsupportedError(
        f"kafka.{key} of the context can't be used for this call",
        cause="sizes of topics, forgetting single offsets and share groups need a second Kafka client, "
        "which does not know this setting",
        hint=hint or "everything else works; leave it out to have these calls too",
        context={"setting": f"kafka.{key}"},
    )


def _build_login(config: Mapping[str, str]) -> dict[str, Any]:
    for key in config:
        if key.startswith("sasl.") and key not in _SASL and not key.startswith(_SASL_UNUSED):
            raise build_untranslatable(key)
    mechanism = (config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "").strip().upper()
    if mechanism not in _LOGINS:
        raise build_untranslatable("sasl.mechanism", hint=f"it knows {', '.join(sorted(_LOGINS))}")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": config.get("sasl.username", ""),
        "sasl_plain_password": Hidden(config.get("sasl.password", "")),
    }
