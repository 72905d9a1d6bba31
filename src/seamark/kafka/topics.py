"""Making topics and comparing them with what they should be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seamark.errors import AuthorizationError, DeadlineError, NotFoundError, SeamarkError
from seamark.kafka.admin import KafkaAdmin

_POLL_SECONDS = 0.1
# A topic that was just made is not known to every broker in the same moment; a few heartbeats are enough.
_NEW_TOPIC_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it should be. `configs` are Kafka's own keys."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicFound:
    """A topic as it is, with every config that the brokers tell."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    topic_id: str = ""


class TopicAdmin(KafkaAdmin):
    """The brokers, with what it takes to make topics and look at all of their configs."""

    def create_topics(self, specs: Sequence[TopicSpec]) -> tuple[str, ...]:
        """Make the topics that are not there, and wait until the brokers know them. Gives the names of the new ones."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

        if not specs:
            return ()
        new = [
            NewTopic(
                spec.name,
                num_partitions=spec.partitions,
                replication_factor=spec.replication_factor,
                config=dict(spec.configs),
            )
            for spec in specs
        ]
        futures = self._client.create_topics(new, request_timeout=self._timeout_seconds)
        made, failures = self._settle(futures, action="create the topic", operation="CREATE")
        for error in failures.values():
            if error.context.get("kafka_error") != "TOPIC_ALREADY_EXISTS":
                raise error
        self._await_topics([spec.name for spec in specs])
        return tuple(spec.name for spec in specs if spec.name in made)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics. One that is not there is fine."""
        if not names:
            return
        futures = self._client.delete_topics(list(names), request_timeout=self._timeout_seconds)
        _, failures = self._settle(futures, action="delete the topic", operation="DELETE")
        for error in failures.values():
            if not isinstance(error, NotFoundError):
                raise error

    def read_found(self, names: Sequence[str]) -> dict[str, TopicFound]:
        """Topics with all their configs, by name. One that is not there is left out; any other failure is raised."""
        deadline = time.monotonic() + _NEW_TOPIC_SECONDS
        while len(found := self._look_for(names)) < len(set(names)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return found

    def _look_for(self, names: Sequence[str]) -> dict[str, TopicFound]:
        reading = self.read_topics(names)
        # Each question may go to another broker, so that the second one may not know what the first told.
        configs, missing = self._read_configs([topic.name for topic in reading.items])
        for error in (*reading.failures.values(), *missing.values()):
            if not isinstance(error, NotFoundError):
                raise error
        return {
            topic.name: TopicFound(
                topic.name,
                partitions=len(topic.partitions),
                replication_factor=topic.replication_factor,
                configs=_plain(configs[topic.name]),
                topic_id=topic.topic_id,
            )
            for topic in reading.items
            if topic.name in configs
        }

    def _await_topics(self, names: Sequence[str]) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        last: SeamarkError | None = None
        while time.monotonic() < deadline:
            reading = self.read_topics(names)
            led = all(partition.leader is not None for topic in reading.items for partition in topic.partitions)
            if reading.is_complete and led:
                return
            last = next(iter(reading.failures.values()), None)
            if isinstance(last, AuthorizationError):
                raise last
            time.sleep(_POLL_SECONDS)
        raise DeadlineError(
            f"the new topics {', '.join(names)} have no leader after {self._timeout_seconds:g} s",
            cause=last.message if last else "",
            hint="check that the brokers run; then run the command again",
        )


def _plain(entries: Mapping[str, Any]) -> dict[str, str]:
    return {key: entry.value or "" for key, entry in entries.items()}
