"""The brokers of a context, to read and to change: what the services and the steps act on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from seamark.core.readings import Reading
from seamark.core.time import limit_timeout
from seamark.errors import RejectedError, SeamarkError, UnknownOutcomeError
from seamark.kafka.admin import DEFAULT_TIMEOUT_SECONDS
from seamark.kafka.bulk_reads import BulkReadAdmin, TransactionsClient
from seamark.kafka.failures import build_write_failure, is_known
from seamark.kafka.groups import Committed, GroupListing, GroupOffsets
from seamark.kafka.model import OpenTransaction, TopicPartition, TopicSize

_SHARE = "share groups"


class Brokers(BulkReadAdmin):
    """All that seamark asks of brokers and does to them. Thread-safe.

    A write that failed reports whether it happened: UnknownOutcomeError means that this is unknown, any other error
    that it did not.
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
        self._second = TransactionsClient(
            config, timeout_seconds=timeout_seconds, build_client=build_second, find_addresses=self._find_addresses
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._second.close()
        super().close()

    def read_all_groups(self) -> Reading[GroupListing]:
        """Every group, by name: classic, consumer and share groups."""
        asked = self._ask_listing()
        # Both are asked at once, unless the second one would first have to find brokers that may not be there.
        early = self._read_share_groups() if self._second.is_open else None
        reading = self._settle_listing(asked)
        share = self._read_share_groups() if early is None else early
        if share.is_complete and not share.items:
            return reading
        known = {listing.name for listing in reading.items}
        more = [found for found in share.items if found.name not in known]
        items = sorted((*reading.items, *more), key=lambda listing: listing.name)
        return Reading(tuple(items), failures={**reading.failures, **share.failures})

    def _read_share_groups(self) -> Reading[GroupListing]:
        try:
            return Reading(self._second.read_share_groups())
        except SeamarkError as error:
            return Reading(failures={_SHARE: error})

    def read_committed(
        self,
        groups: Mapping[str, Collection[TopicPartition] | None],
        *,
        only_stable: bool = False,
        with_metadata: bool = True,
    ) -> Reading[GroupOffsets]:
        """What groups have committed, for the given partitions of each, or for all of them where that is None.

        With `only_stable` a commit that waits for the end of its transaction is a failure of that group. Groups with
        metadata cost a second call; without `with_metadata` the metadata is left out.
        """
        reading = super().read_committed(groups, only_stable=only_stable)
        # confluent_kafka (seen with 2.16) adds a zero byte to metadata that it writes, and takes metadata without one
        # for longer than it is: what follows in memory, or a UnicodeDecodeError.
        marked = [found.group for found in reading.items if any(held.metadata for held in found.offsets.values())]
        if not marked:
            return reading
        try:
            full = self._second.read_committed(marked) if with_metadata else {}
        except SeamarkError as error:
            items = tuple(found for found in reading.items if found.group not in marked)
            return Reading(items, failures={**reading.failures, **dict.fromkeys(marked, error)})
        items = tuple(_restore_metadata(found, full.get(found.group, {})) for found in reading.items)
        return Reading(items, failures=reading.failures)

    def read_sizes(self, topics: Mapping[str, Sequence[int]]) -> Reading[TopicSize]:
        """The bytes of topics, given with the numbers of their partitions. A call a broker; failures are by broker."""
        brokers = [broker.id for broker in self.read_cluster().brokers]
        return self._second.read_sizes(topics, brokers=brokers)

    def read_moving(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Partitions that are being reassigned, each with the brokers whose copies are on their way. One call."""
        return self._second.read_moving()

    def read_open_transactions(self, spots: Sequence[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """The transactions that are open on these partitions. Needs READ on the topics, DESCRIBE on their ids."""
        return self._second.read_open(spots)

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
        action = "create the topic"
        futures = self._client.create_topics([new], **self._limits(action))
        self._write(futures, action=action, operation="CREATE")

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all that is in it."""
        action = "delete the topic"
        futures = self._client.delete_topics([name], **self._limits(action))
        self._write(futures, action=action, operation="DELETE")

    def grow_topic(self, name: str, *, partitions: int) -> None:
        """Give a topic more partitions, until it has so many."""
        from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # noqa: PLC0415

        action = "add partitions to the topic"
        futures = self._client.create_partitions([NewPartitions(name, partitions)], **self._limits(action))
        self._write(futures, action=action, operation="ALTER")

    def alter_topic_config(
        self, name: str, *, values: Mapping[str, str] | None = None, remove: Collection[str] = ()
    ) -> None:
        """Set configs of a topic, and take others away from it, so that the brokers' default counts again."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]  # noqa: PLC0415

        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in (values or {}).items()
        ]
        entries += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in remove]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        action = "change the config of the topic"
        futures = self._client.incremental_alter_configs([resource], request_timeout=self._limit(action))
        named = {found.name: future for found, future in futures.items()}
        self._write(named, action=action, operation="ALTER_CONFIGS")

    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit offsets of a group without members. One request; if only a part succeeded, the outcome is unknown."""
        from confluent_kafka import ConsumerGroupTopicPartitions  # noqa: PLC0415
        from confluent_kafka import TopicPartition as ConfluentTopicPartition  # noqa: PLC0415

        if not offsets:
            return
        if any(found.metadata for found in offsets.values()):
            # See `read_committed`: a reader would find altered metadata.
            errors = self._second.alter_group_offsets(group, offsets)
            self._check_parts(errors, count=len(offsets), group=group, action="commit the offset of")
            return
        partitions = [
            ConfluentTopicPartition(topic, number, found.offset, leader_epoch=_epoch(found))
            for (topic, number), found in offsets.items()
        ]
        request = ConsumerGroupTopicPartitions(group, partitions)
        action = "commit offsets for the group"
        futures = self._client.alter_consumer_group_offsets([request], request_timeout=self._limit(action))
        results = self._write(futures, action=action, operation="READ")
        answered = results[group].topic_partitions
        errors = {(spot.topic, spot.partition): spot.error for spot in answered if spot.error is not None}
        self._check_parts(errors, count=len(offsets), group=group, action="commit the offset of")

    def mirror_group_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit a copy of offsets that are stored elsewhere, for a process that runs for days.

        Not by librdkafka: its admin requests to a coordinator abort the process if the connection is lost at the wrong
        moment (`rd_kafka_enq_once_del_source_return: Assertion eonce->refcnt > 0`, seen with 2.16 when a broker was
        killed; issue 4605 and pull request 5397 of confluentinc/librdkafka).
        """
        if offsets:
            self._second.mirror_group_offsets(group, offsets)

    def read_mirrored_offsets(self, group: str) -> Mapping[TopicPartition, Committed]:
        """Read the offsets of a group in a process that runs for days: see `mirror_group_offsets`."""
        return self._second.read_committed([group]).get(group, {})

    def delete_group_offsets(self, group: str, spots: Collection[TopicPartition]) -> None:
        """Forget what a group has committed for some partitions. Where only a part was done, it is unknown."""
        if not spots:
            return
        errors = self._second.delete_group_offsets(group, spots)
        self._check_parts(errors, count=len(spots), group=group, action="delete the offset of")

    def delete_group(self, group: str) -> None:
        """Delete a group without members, with all its committed offsets."""
        action = "delete the group"
        futures = self._client.delete_consumer_groups([group], request_timeout=self._limit(action))
        self._write(futures, action=action, operation="DELETE")

    def _find_addresses(self) -> list[str]:
        return [broker.address for broker in self.read_cluster().brokers]

    def _limit(self, action: str) -> float:
        """Return the timeout of a request: the client's own, or less where the deadline of the request is nearer."""
        return limit_timeout(self._timeout_seconds, action=action)

    def _limits(self, action: str) -> dict[str, float]:
        seconds = self._limit(action)
        # The brokers give up first, so that their answer is still heard.
        return {"operation_timeout": seconds * 0.8, "request_timeout": seconds}

    def _write(self, futures: Mapping[str, Future[Any]], *, action: str, operation: str) -> dict[str, Any]:
        results, failures = self._settle(futures, action=action, operation=operation, is_write=True)
        for error in failures.values():
            raise error
        return results

    def _check_parts(self, errors: Mapping[TopicPartition, Any], *, count: int, group: str, action: str) -> None:
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
            f"only some offsets of group {group} were changed",
            cause="; ".join(f"{spot}: {error.cause}" for spot, error in failures.items()),
            hint=f"check them before you try again: seamark groups show {group}",
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


def _epoch(found: Committed) -> int:
    return -1 if found.leader_epoch is None else found.leader_epoch


def _restore_metadata(found: GroupOffsets, full: Mapping[TopicPartition, Committed]) -> GroupOffsets:
    """The commits with their true metadata. One that has moved since is taken from the later answer."""
    offsets = {
        spot: full.get(spot, replace(held, metadata="")) if held.metadata else held
        for spot, held in found.offsets.items()
    }
    return GroupOffsets(found.group, offsets)
