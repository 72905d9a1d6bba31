"""Connector configs as Connect keeps them: flat maps of strings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamark.core.sensitive import find_secret_values
from seamark.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from seamark.context import ConnectSettings

# Keys whose values must not come back in a message, whatever the plugin calls them.
_SENSITIVE_KEY = re.compile(
    r"passw|secret|token|credential|jaas|private|api.?key|access.?key|passphrase", re.IGNORECASE
)
# What tools show in place of a secret: ours, and rows of stars or bullets.
_MASK = re.compile(r"\(sensitive\)|\[hidden\]|[*•]{3,}")


def is_same_config(running: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a PUT of `wanted` would change nothing.

    Connect adds `name` by itself, so it does not count. Asking first matters: a PUT of the same config costs a
    rebalance and restarts the connector.
    """
    return _without_name(running) == _without_name(wanted)


def check_config(name: str, config: Mapping[str, str]) -> dict[str, str]:
    """The config as it may be sent, or a refusal.

    Raises:
        UsageError: a value is not a string, or `name` in the config is another one.
        RefusedError: a value is a mask; writing it would replace a secret by stars.
    """
    for key, value in config.items():
        if not isinstance(value, str):
            raise UsageError(
                f"{key} of connector {name} is not a string",
                hint="Connect keeps every config value as a string: quote it",
                context={"connector": name, "key": key},
            )
        if _MASK.fullmatch(value):
            raise RefusedError(
                f"{key} of connector {name} is a mask, not a value",
                cause="some tool showed stars in place of a secret and they were copied here",
                hint="give the value itself, or a reference such as ${file:/path:key}",
                context={"connector": name, "key": key},
            )
    if config.get("name", name) != name:
        raise UsageError(
            f"the config of connector {name} names another connector: {config['name']}",
            hint="leave `name` out of the config, Connect adds it",
            context={"connector": name},
        )
    return dict(config)


def sensitive_values(config: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values that must be cut out of any text Connect sends back. References such as `${file:…}` stay."""
    return find_secret_values(config, more=[key for key in config if _SENSITIVE_KEY.search(key)])


def _without_name(config: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in config.items() if key != "name"}


OWN_OFFSETS_TOPIC = "offsets.storage.topic"

OWN_GROUP = "consumer.override.group.id"


def find_offsets_topic(config: Mapping[str, str], settings: ConnectSettings) -> str | None:
    """Return the topic that holds a source's offsets, or None where neither config nor context names one."""
    return config.get(OWN_OFFSETS_TOPIC) or settings.offsets_topic


def find_group(name: str, config: Mapping[str, str], settings: ConnectSettings) -> str:
    """Return the consumer group of a sink."""
    return config.get(OWN_GROUP) or settings.consumer_group_id or f"connect-{name}"
