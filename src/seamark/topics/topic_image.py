"""What steps see of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from seamark.changes.world import World
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka.api import BROKERS
from seamark.kafka.groups import build_commit_image
from seamark.kafka.topic import TopicStatus
from seamark.kafka.topic_config import normalize_value


def read_topic(world: World, name: str) -> TopicStatus | None:
    """The topic with its configs, or None where there is none of that name."""
    reading = world.use(BROKERS)().read_topics([name])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return None
        raise error
    (topic,) = reading.items
    if topic.configs_error:
        raise RefusedError(
            f"the configs of topic/{name} can't be read, and nothing is changed unseen",
            cause=topic.configs_error,
            hint=f"grant DESCRIBE_CONFIGS on the topic {name} to the principal of this context",
        )
    return topic


def require_topic(world: World, name: str) -> TopicStatus:
    """The topic, or the error that it is not there."""
    topic = read_topic(world, name)
    if topic is None:
        raise NotFoundError(f"there is no topic/{name}", hint="seamark topics list shows what is there")
    return topic


def pick_configs(topic: TopicStatus, keys: Iterable[str]) -> dict[str, str | None]:
    """What is set on the topic itself for some keys; None where the brokers' default counts."""
    own = topic.own_configs
    return {key: normalize_value(own[key]) if key in own else None for key in sorted(keys)}


def build_configs(values: Mapping[str, str]) -> dict[str, str]:
    """Configs as they stand in an image."""
    return {key: normalize_value(values[key]) for key in sorted(values)}


def read_export(world: World, topic: TopicStatus) -> dict[str, Any]:
    """All that is worth keeping of a topic before it goes: its shape, its bounds, and what groups committed on it."""
    kafka = world.use(BROKERS)()
    bounds = kafka.read_bounds(topic.led_spots).found
    groups = [listing.name for listing in kafka.read_consumer_groups() if listing.has_offsets]
    committed = kafka.read_committed(dict.fromkeys(groups, topic.spots))
    return {
        "topic_id": topic.topic_id,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "configs": topic.own_configs,
        "bounds": {str(number): [found.earliest, found.latest] for (_, number), found in sorted(bounds.items())},
        "groups": {
            found.group: {
                str(number): build_commit_image(commit) for (_, number), commit in sorted(found.offsets.items())
            }
            for found in committed.items
            if found.offsets
        },
        "groups_not_read": {name: error.message for name, error in committed.failures.items()},
    }


def is_led(topic: TopicStatus) -> bool:
    """Whether every partition has a leader, so that it can be used."""
    return not topic.leaderless
