"""The Kafka cluster that a connector's config names for its own clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamark.errors import UnsupportedError

if TYPE_CHECKING:
    from seamark.connect.connector import Connector
    from seamark.context import Context

CONSUMER = "consumer.override."
_BOOTSTRAP = "bootstrap.servers"
_CONNECTION = (_BOOTSTRAP, "security.protocol", "sasl.", "ssl.")


def build_override_config(
    config: Mapping[str, str], context: Context, *, prefix: str, name: str
) -> dict[str, str] | None:
    """How to reach the brokers that a connector's overrides name; None where it names none.

    The login of the context is never sent there: whoever may write a connector's config could have it sent to a server
    of their own. What the overrides do not say themselves is not said.

    Raises:
        UnsupportedError: a value is a reference that only the workers can resolve, or the connector's clients log in
            with what the workers' file says.
    """
    overrides = {
        key.removeprefix(prefix): value
        for key, value in config.items()
        if key.startswith(prefix) and key.removeprefix(prefix).startswith(_CONNECTION)
    }
    if not overrides.get(_BOOTSTRAP):
        return None
    for key, value in overrides.items():
        if "${" in value:
            raise UnsupportedError(
                f"the offsets of {name} are in another Kafka cluster, which seamark can't reach",
                cause=f"{prefix}{key} is a reference that only the workers can resolve",
                hint="make a context for that cluster, with this topic as offsets_topic",
            )
    ours = context.kafka.client_config()
    protocol = overrides.get("security.protocol", ours.get("security.protocol", "PLAINTEXT")).upper()
    if protocol.startswith("SASL_") and not any(key.startswith("sasl.") for key in overrides):
        raise UnsupportedError(
            f"the offsets of {name} are in another Kafka cluster, which seamark can't reach",
            cause=f"its config names {overrides[_BOOTSTRAP]} and no login; the context's is not sent to servers "
            "that a connector's config names",
            hint="make a context for that cluster, with this topic as offsets_topic",
        )
    from seamark.context.java_client import build_client_config  # noqa: PLC0415
    from seamark.context.safety import check_kafka_transport  # noqa: PLC0415

    origins = {key: f"{prefix}{key} of {name}" for key in overrides}
    wanted = {"security.protocol": protocol, **overrides}
    check_kafka_transport(wanted, origins=origins, is_allowed=context.insecure)
    return build_client_config(wanted, origins=origins)


def reads_elsewhere(connector: Connector) -> bool:
    """Whether a sink reads from brokers that its own config names: our topics of those names are not the same then."""
    return bool(connector.config.get(f"{CONSUMER}{_BOOTSTRAP}"))
