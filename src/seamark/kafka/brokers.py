"""The brokers of a context, to read and to change: what the services and the steps act on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from seamark.errors import RejectedError, SeamarkError, UnknownOutcomeError
from seamark.kafka.admin import DEFAULT_TIMEOUT_SECONDS
from seamark.kafka.outcomes import build_write_failure, is_known
from seamark.kafka.second import SecondClient
from seamark.kafka.survey import SurveyAdmin
from seamark.model.group import Committed, GroupListing
from seamark.model.reading import Reading
from seamark.model.spot import Spot
from seamark.model.topic import TopicSize

_SHARE = "share groups"


class Brokers(SurveyAdmin):
    """All that seamark asks of brokers and does to them. Thread-safe.

    A write that failed says whether it happened: UnknownOutcomeError means that nobody knows, anything else that it
    did not.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        build_client: Callable[..., Any] | None = None,
        build_second: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(config, timeout_seconds=timeout_seconds, build_client=build_client)
        self._second = SecondClient(config, timeout_seconds=timeout_seconds, build_client=build_second)

    def read_all_groups(self) -> Reading[GroupListing]:
        """Every group, by name: classic, consumer and share groups."""
        reading = self.read_consumer_groups()
        known = {listing.name for listing in reading.items}
        try:
            share = [found for found in self._second.read_share_groups() if found.name not in known]
        except SeamarkError as error:
            return Reading(reading.items, failures={**reading.failures, _SHARE: error})
        items = sorted((*reading.items, *share), key=lambda listing: listing.name)
        return Reading(tuple(items), failures=reading.failures)

    def read_sizes(self, topics: Mapping[str, Sequence[int]]) -> Reading[TopicSize]:
        """The bytes of topics, given with the numbers of their partitions. A call a broker; failures are by broker."""
        brokers = [broker.id for broker in self.read_cluster().brokers]
        return self._second.read_sizes(topics, brokers=brokers)

    # --- writes

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic. What is None is left to the brokers."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

        new = NewTopic(
            name,
            num_partitions=-1 if partitions is None else partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            config=dict(configs or {}),
        )
        futures = self._client.create_topics([new], **self._limits())
        self._write(futures, action="create the topic", operation="CREATE")

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all that is in it."""
        futures = self._client.delete_topics([name], **self._limits())
        self._write(futures, action="delete the topic", operation="DELETE")

    def grow_topic(self, name: str, *, partitions: int) -> None:
        """Give a topic more partitions, until it has so many."""
        from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # noqa: PLC0415

        futures = self._client.create_partitions([NewPartitions(name, partitions)], **self._limits())
        self._write(futures, action="add partitions to the topic", operation="ALTER")

    def alter_topic_config(
        self, name: str, *, values: Mapping[str, str] | None = None, remove: Collection[str] = ()
    ) -> None:
        """Set configs of a topic, and take others away from it, so that the brokers' default counts again."""
        from confluent_kafka.admin import (  # type: ignore[attr-defined]  # noqa: PLC0415
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
            ResourceType,
        )

        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in (values or {}).items()
        ]
        entries += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in remove]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        futures = self._client.incremental_alter_configs([resource], request_timeout=self._timeout_seconds)
        named = {found.name: future for found, future in futures.items()}
        self._write(named, action="change the config of the topic", operation="ALTER_CONFIGS")

    def alter_group_offsets(self, group: str, offsets: Mapping[Spot, Committed]) -> None:
        """Commit offsets for a group that nobody is in. One request; where only a part was taken, it is unknown."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition  # noqa: PLC0415

        if not offsets:
            return
        partitions = [
            TopicPartition(topic, number, found.offset, metadata=found.metadata, **_epoch(found))
            for (topic, number), found in offsets.items()
        ]
        request = ConsumerGroupTopicPartitions(group, partitions)
        futures = self._client.alter_consumer_group_offsets([request], request_timeout=self._timeout_seconds)
        results = self._write(futures, action="commit offsets for the group", operation="READ")
        answered = results[group].topic_partitions
        errors = {(spot.topic, spot.partition): spot.error for spot in answered if spot.error is not None}
        self._check_parts(errors, count=len(offsets), group=group, action="commit the offset of")

    def delete_group_offsets(self, group: str, spots: Collection[Spot]) -> None:
        """Forget what a group has committed for some partitions. Where only a part was done, it is unknown."""
        if not spots:
            return
        errors = self._second.delete_group_offsets(group, spots)
        self._check_parts(errors, count=len(spots), group=group, action="forget the offset of")

    def delete_group(self, group: str) -> None:
        """Delete a group that nobody is in, with all that it has committed."""
        futures = self._client.delete_consumer_groups([group], request_timeout=self._timeout_seconds)
        self._write(futures, action="delete the group", operation="DELETE")

    def _limits(self) -> dict[str, float]:
        # The brokers give up first, so that their answer is still heard.
        return {"operation_timeout": self._timeout_seconds * 0.8, "request_timeout": self._timeout_seconds}

    def _write(self, futures: Mapping[str, Future[Any]], *, action: str, operation: str) -> dict[str, Any]:
        results, failures = self._settle(futures, action=action, operation=operation, is_write=True)
        for error in failures.values():
            raise error
        return results

    def _check_parts(self, errors: Mapping[Spot, Any], *, count: int, group: str, action: str) -> None:
        """Raise where partitions failed. Only if all of them did, and for certain, did nothing happen."""
        failures = {
            f"{topic}-{number}": build_write_failure(
                error, action=f"{action} group {group} for {topic}-{number}", subject=group, operation="READ"
            )
            for (topic, number), error in errors.items()
        }
        if not failures:
            return
        if len(failures) == count and all(is_known(error) for error in failures.values()):
            raise _build_refused(failures, group)
        raise UnknownOutcomeError(
            f"the offsets of group {group} are changed in part",
            cause="; ".join(f"{spot}: {error.cause}" for spot, error in failures.items()),
            hint="look at them before you repeat it",
            context={"subject": group},
        )


def _build_refused(failures: Mapping[str, SeamarkError], group: str) -> SeamarkError:
    first = next(iter(failures.values()))
    if len({type(error) for error in failures.values()}) == 1:
        return first
    cause = "; ".join(f"{spot}: {error.cause}" for spot, error in failures.items())
    return RejectedError(
        f"could not change the offsets of group {group}", cause=cause, hint=first.hint, context=first.context
    )


def _epoch(found: Committed) -> dict[str, int]:
    return {} if found.leader_epoch is None else {"leader_epoch": found.leader_epoch}
