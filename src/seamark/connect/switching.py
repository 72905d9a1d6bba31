"""How a connector's config names a topic, and what it must say to read or write another one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from seamark.errors import RefusedError

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
        RefusedError: it names its topics by a pattern, which nobody can change for one topic alone.
    """
    topics = [topic.strip() for topic in config.get(_TOPICS, "").split(",")]
    if source in topics:
        return {_TOPICS: ",".join(dict.fromkeys(target if topic == source else topic for topic in topics))}
    raise RefusedError(
        f"{name} can't be turned to {target}",
        cause=f"it finds its topics by a pattern, {_PATTERN}={config.get(_PATTERN, '')}",
        hint=f"let it name them one by one ({_TOPICS}), or keep the topic's name: --in-place",
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
    """Whether a sink that finds its topics by a pattern takes this one too; true where nobody can tell."""
    pattern = config.get(_PATTERN, "")
    if not pattern:
        return False
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return True


def find_route(config: Mapping[str, str], topic: str) -> str | None:
    """Where the last transform of a source sends what would go to a topic; None where it leaves it alone.

    One that depends on a predicate, or that nobody here understands, counts as leaving it alone.
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
