"""Connector configs as Connect keeps them: flat maps of strings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamark.core.secrets import find_secret_values
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

    Connect adds `name` to every config, so that key is not compared. Asking first matters: a PUT of the same config
    costs a rebalance and restarts the connector.
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
                hint="put the value in quotation marks: Connect stores every config value as a string",
                context={"connector": name, "key": key},
            )
        if _MASK.fullmatch(value):
            raise RefusedError(
                f"{key} of connector {name} is a mask, not a value",
                cause="it was copied from an output that masks secrets",
                hint="write the secret itself, or a reference such as ${file:/path:key}",
                context={"connector": name, "key": key},
            )
    if config.get("name", name) != name:
        raise UsageError(
            f"the config of connector {name} names another connector: {config['name']}",
            hint="remove `name` from the config: Connect adds it",
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


Values = Mapping[str, str | None]

ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
_ALIAS = "seamarkCopy"
_TOPICS, _PATTERN, _TRANSFORMS = "topics", "topics.regex", "transforms"
# Keys by which well-known sources name the one topic that they write to.
_NAMES = ("topic", "kafka.topic")
_PREFIX, _QUERY = "topic.prefix", "query"


def switch_sink(name: str, config: Mapping[str, str], *, source: str, target: str) -> Values:
    """What a sink's config must say to read the target instead of the source.

    Raises:
        RefusedError: it subscribes by a pattern, which can't be changed for one topic alone.
    """
    topics = [topic.strip() for topic in config.get(_TOPICS, "").split(",")]
    if source in topics:
        return {_TOPICS: ",".join(dict.fromkeys(target if topic == source else topic for topic in topics))}
    raise RefusedError(
        f"connector {name} can't be switched to topic {target}",
        cause=f"it selects its topics by a pattern, {_PATTERN}={config.get(_PATTERN, '')}",
        hint=f"list its topics in {_TOPICS} instead, or keep the topic's name: --in-place",
    )


def switch_source(config: Mapping[str, str], *, source: str, target: str) -> Values:
    """What a source's config must say to write to the target instead of the source.

    Where no key holds the name, a transform at the end of all others turns it.
    """
    named = [key for key in _NAMES if config.get(key) == source]
    if config.get(_QUERY, "").strip() and config.get(_PREFIX) == source:
        # A JDBC source with a query of its own takes the prefix for the whole name.
        named.append(_PREFIX)
    if named:
        return dict.fromkeys(named, target)
    present = [alias.strip() for alias in config.get(_TRANSFORMS, "").split(",") if alias.strip()]
    alias = _choose_alias(present)
    return {
        _TRANSFORMS: ",".join((*present, alias)),
        f"{_TRANSFORMS}.{alias}.type": ROUTER,
        f"{_TRANSFORMS}.{alias}.regex": re.escape(source).replace("\\-", "-"),
        f"{_TRANSFORMS}.{alias}.replacement": target,
    }


def is_read_by_pattern(config: Mapping[str, str], topic: str) -> bool:
    """Whether a sink that subscribes by a pattern reads this topic; true if the pattern can't be evaluated."""
    pattern = config.get(_PATTERN, "")
    if not pattern:
        return False
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return True


def find_route(config: Mapping[str, str], topic: str) -> str | None:
    """Where the last transform of a source sends what would go to a topic; None where it leaves it alone.

    A transform with a predicate, or of an unknown class, counts as one that keeps the topic.
    """
    aliases = [alias.strip() for alias in config.get(_TRANSFORMS, "").split(",") if alias.strip()]
    own = f"{_TRANSFORMS}.{aliases[-1]}" if aliases else ""
    if not own or config.get(f"{own}.type") != ROUTER or config.get(f"{own}.predicate"):
        return None
    replacement = config.get(f"{own}.replacement", "")
    try:
        fits = re.fullmatch(config.get(f"{own}.regex", ""), topic) is not None
    except re.error:
        return None
    return replacement if fits and "$" not in replacement and "\\" not in replacement else None


def _choose_alias(present: list[str]) -> str:
    if _ALIAS not in present:
        return _ALIAS
    return next(alias for number in range(2, len(present) + 3) if (alias := f"{_ALIAS}{number}") not in present)
