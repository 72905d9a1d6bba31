"""The bare admin calls that lists of topics, groups and lag need: the clients' own values, and nothing around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType  # type: ignore[attr-defined]

from bench.fleets.admin import open_admin
from seamark.kafka.kafka_python import load

ANSWER_SECONDS = 60.0
Facts = Mapping[str, Any]
Rounds = Sequence[Mapping[tuple[str, int], int]]
"""The times that a search asks for, by partition, one round after the other."""


class BareAdmin:
    """confluent_kafka's admin client, and kafka-python's for what that has not."""

    def __init__(self, address: str, *, rounds: Rounds = ()) -> None:
        self._client = open_admin(address)
        self._second = load("kafka.admin").KafkaAdminClient(bootstrap_servers=address)
        self._rounds = rounds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._second.close()

    def read_topics(self) -> Facts:
        """Partitions, replication and cleanup policy of each topic."""
        names = list(self._client.list_topics(timeout=ANSWER_SECONDS).topics)
        described = self._client.describe_topics(TopicCollection(names), request_timeout=ANSWER_SECONDS)
        found = {name: future.result(ANSWER_SECONDS) for name, future in described.items()}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        asked = self._client.describe_configs(resources, request_timeout=ANSWER_SECONDS)
        configs = {resource.name: future.result(ANSWER_SECONDS) for resource, future in asked.items()}
        return {
            name: (
                len(one.partitions),
                len(one.partitions[0].replicas),
                configs[name]["cleanup.policy"].value,
            )
            for name, one in found.items()
        }

    def read_groups(self) -> Facts:
        """The state of each group. The share groups are in the other client's answer."""
        found = self._client.list_consumer_groups(request_timeout=ANSWER_SECONDS).result(ANSWER_SECONDS)
        share = self._second.list_groups(types_filter=["share"])
        return {one.group_id: one.state.name for one in found.valid} | {one["group_id"]: "" for one in share}

    def read_lag(self) -> Facts:
        """Records behind and the number of partitions of each group; the times are asked for, and not looked at."""
        listed = self._client.list_consumer_groups(request_timeout=ANSWER_SECONDS).result(ANSWER_SECONDS)
        futures = {one.group_id: self._ask_commits(one.group_id) for one in listed.valid}
        commits = {group: future.result(ANSWER_SECONDS).topic_partitions for group, future in futures.items()}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        spots = {(spot.topic, spot.partition) for found in commits.values() for spot in found}
        ends = self._ask_offsets(dict.fromkeys(spots, latest))
        for times in self._rounds:
            self._ask_offsets({spot: OffsetSpec.for_timestamp(at) for spot, at in times.items()})
        return {
            group: (sum(ends[spot.topic, spot.partition] - spot.offset for spot in found), len(found), None)
            for group, found in commits.items()
        }

    def _ask_commits(self, group: str) -> Future[Any]:
        wanted = [ConsumerGroupTopicPartitions(group)]
        return self._client.list_consumer_group_offsets(wanted, request_timeout=ANSWER_SECONDS)[group]

    def _ask_offsets(self, wanted: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], int]:
        request = {TopicPartition(*spot): spec for spot, spec in wanted.items()}
        futures = self._client.list_offsets(request, request_timeout=ANSWER_SECONDS)
        return {(spot.topic, spot.partition): future.result(ANSWER_SECONDS).offset for spot, future in futures.items()}
