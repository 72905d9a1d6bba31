"""Check, before anything is stopped, the Kafka permissions that a change of offsets needs.

The brokers themselves report which operations they allow, so nothing is written and no permission to list ACLs is
needed. Without an authorizer they allow everything. They can't report permissions for a transactional ID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.connect.config import OWN_GROUP, find_group
from seamark.connect.model import Connector, State
from seamark.core.offsets import Offset
from seamark.core.refs import ConnectorType
from seamark.errors import AuthorizationError, NotFoundError, RefusedError, SeamarkError
from seamark.offsets.model import WriteRoute
from seamark.offsets.stores.stores import find_own_topic
from seamark.offsets.write.steps import WriteOffsets
from seamark.policy.permissions import Right
from seamark.topics.users import Use, find_uses

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.context import ConnectSettings, Context
    from seamark.core.readings import Reading
    from seamark.kafka.api import BrokerPort
    from seamark.kafka.groups import GroupStatus
    from seamark.kafka.model import TopicStatus
    from seamark.offsets.port import Planning


_TOPIC, _GROUP = "topic", "group"
_ELSEWHERE = ("producer.override.bootstrap.servers", "consumer.override.bootstrap.servers")


def check_denied(denied: Sequence[Right]) -> None:
    """Raise if permissions are missing, and list all of them.

    Raises:
        AuthorizationError: At least one is missing.
    """
    if denied:
        first = denied[0]
        operation = first.operation.title().replace("_", "")
        raise AuthorizationError(
            f"missing Kafka permissions for this change: {', '.join(right.words for right in denied)}; "
            "no changes were made",
            cause="the brokers do not allow these operations to the principal of this context",
            hint=f"grant them: kafka-acls.sh --add --allow-principal User:NAME --operation {operation} "
            f"--{first.kind} {first.name}",
            context={"missing": "; ".join(right.words for right in denied)},
        )


def build_rights_notes(
    rights: Iterable[Right], *, context: Context, brokers: Callable[[], BrokerPort]
) -> tuple[str, ...]:
    """Return the notes of a plan about missing permissions."""
    try:
        denied = find_missing(rights, context=context, brokers=brokers)
    except SeamarkError as error:
        return (f"your Kafka permissions are unknown: {error.message}",)
    if not denied:
        return ()
    return (f"missing Kafka permissions: {', '.join(right.words for right in denied)}; the change would be rejected",)


def find_missing(rights: Iterable[Right], *, context: Context, brokers: Callable[[], BrokerPort]) -> tuple[Right, ...]:
    """Return those of these permissions, and of the journal's own, that the brokers deny; asks only if needed."""
    needed = sorted(set(rights))
    if not needed or not context.has_brokers:
        return ()
    needed += sorted(_find_journal_rights(context))
    topics = _read_operations(brokers().read_topics(_pick(needed, _TOPIC)))
    groups = _read_operations(brokers().read_groups(_pick(needed, _GROUP)))
    allowed = {(_TOPIC, name): found for name, found in topics.items()}
    allowed |= {(_GROUP, name): found for name, found in groups.items()}
    return tuple(one for one in needed if one.operation not in allowed.get((one.kind, one.name), (one.operation,)))


def find_offset_rights(step: WriteOffsets, connector: Connector, planning: Planning) -> Iterator[Right]:
    """Return the permissions to read a connector's offsets, and to write them if Connect does not.

    If everything goes through REST, Connect's permissions apply and not those of this process.
    """
    if planning.context.verify == "rest":
        return
    yield from (Right(_TOPIC, record.topic, "WRITE") for record in step.records)
    partitions = [one.partition for one in step.offsets]
    if step.route is WriteRoute.GROUP and not any(connector.config.get(key) for key in _ELSEWHERE):
        group = find_group(step.name, connector.config, planning.clusters.settings(step.cluster))
        yield Right(_GROUP, group, "READ")
        yield from (Right(_TOPIC, str(one["kafka_topic"]), "READ") for one in partitions if "kafka_topic" in one)
        if any(one.offset is None for one in step.offsets):
            yield Right(_GROUP, group, "DELETE")
    yield from find_read_rights(connector, planning.clusters, partitions)


def find_read_rights(
    connector: Connector, clusters: Clusters, partitions: Sequence[Mapping[str, object]] = ()
) -> Iterator[Right]:
    """Return the permissions to verify a connector's offsets. Connect writes them."""
    if any(connector.config.get(key) for key in _ELSEWHERE):
        # Its offsets, and so the permissions, are in another Kafka cluster.
        return
    settings = clusters.settings(connector.cluster)
    if connector.type is ConnectorType.SINK:
        yield Right(_GROUP, find_group(connector.name, connector.config, settings), "DESCRIBE")
        yield from (Right(_TOPIC, str(one["kafka_topic"]), "DESCRIBE") for one in partitions if "kafka_topic" in one)
    elif settings.offsets_file is None:
        stores = {find_own_topic(connector, settings), settings.offsets_topic}
        yield from (Right(_TOPIC, topic, "READ") for topic in stores if topic)


def _find_journal_rights(context: Context) -> Iterator[Right]:
    from seamark.context import JournalKind  # noqa: PLC0415

    if context.journal.kind is JournalKind.KAFKA:
        for topic in (context.journal.topic, context.journal.heads_topic):
            yield Right(_TOPIC, topic, "READ")
            yield Right(_TOPIC, topic, "WRITE")


def _pick(rights: Sequence[Right], kind: str) -> list[str]:
    return list(dict.fromkeys(right.name for right in rights if right.kind == kind))


def _read_operations(reading: Reading[TopicStatus] | Reading[GroupStatus]) -> dict[str, frozenset[str]]:
    """Return the allowed operations by name: none if access is denied; resources that do not exist are omitted."""
    found: dict[str, frozenset[str]] = {}
    for name, error in reading.failures.items():
        if isinstance(error, AuthorizationError):
            found[name] = frozenset()
        elif not isinstance(error, NotFoundError):
            raise _build_unknown(error)
    # A resource that can be described allows at least one operation: an empty set means that it was not reported.
    return found | {one.name: one.operations for one in reading.items if one.operations}


def _build_unknown(error: SeamarkError) -> SeamarkError:
    error.hint = error.hint or "run the command again when the brokers respond; no changes were made"
    return error


# Connect's own reset deletes the whole group of a sink, even if other consumers use it. seamark never does that: it
# deletes single partitions. Only the configs of all sinks show which of them belong to one sink.

_TOPIC_KEY = "kafka_topic"
_KAFKA = "consumer.override.bootstrap.servers"
_READS = frozenset({Use.READS, Use.MAY_READ})


@dataclass(frozen=True, slots=True)
class SharedGroups:
    """The sinks of a context, and the Connect clusters that could not be read."""

    clusters: Clusters
    sinks: tuple[Connector, ...] = ()
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    def find_others(self, sink: Connector) -> tuple[Connector, ...]:
        """Return the other sinks of its group, in the same Kafka cluster as far as the configs show."""
        group = self._find_group(sink)
        return tuple(
            other
            for other in self.sinks
            if other.owner != sink.owner
            and self._find_group(other) == group
            and other.config.get(_KAFKA) == sink.config.get(_KAFKA)
        )

    def refuse_foreign(self, sink: Connector, offsets: Sequence[Offset]) -> tuple[str, ...]:
        """Raise for a change of offsets that do not belong to this sink alone. Returns notes for the plan."""
        group = self._find_group(sink)
        others = self.find_others(sink)
        is_named = bool(sink.config.get(OWN_GROUP)) or self._settings(sink).consumer_group_id is not None
        topics = sorted({str(one.partition[_TOPIC_KEY]) for one in offsets if _TOPIC_KEY in one.partition})
        foreign = {topic: found for topic in topics if (found := _find_readers(others, topic))}
        # A group with the sink's default name also has offsets of topics that it consumed before. Another group has
        # offsets of other consumers.
        strange = [topic for topic in topics if topic not in foreign and is_named and not _find_readers([sink], topic)]
        if foreign or strange:
            raise self._build_refusal(sink, group, topics=topics, foreign=foreign, strange=strange)
        if self.failures and is_named:
            raise RefusedError(
                f"can't determine which other sinks use group {group} of {sink.owner}; no changes were made",
                cause="; ".join(f"{name}: {error.message}" for name, error in self.failures.items()),
                hint="run the command again when all Connect clusters respond",
            )
        if not others:
            return ()
        _refuse_running(sink, group, others)
        names = ", ".join(other.owner for other in others)
        return (f"group {group} is shared with {names}: their offsets are not changed",)

    def _build_refusal(
        self,
        sink: Connector,
        group: str,
        *,
        topics: Iterable[str],
        foreign: Mapping[str, Sequence[str]],
        strange: Sequence[str],
    ) -> SeamarkError:
        said = [
            f"{', '.join(readers)} read{'s' if len(readers) == 1 else ''} {topic}" for topic, readers in foreign.items()
        ]
        said += [f"{sink.owner} does not read {topic}" for topic in strange]
        own = [topic for topic in topics if topic not in foreign and topic not in strange]
        choose = f"pass only its own topics: {' '.join(f'--topic {topic}' for topic in own)}; or " if own else ""
        return RefusedError(
            f"group {group} of {sink.owner} also has offsets of other owners; no changes were made",
            cause=f"in this group {'; '.join(said)}",
            hint=f"{choose}stop all of them and change the group itself: seamark offsets move|reset group/{group}",
        )

    def _find_group(self, sink: Connector) -> str:
        return find_group(sink.name, sink.config, self._settings(sink))

    def _settings(self, sink: Connector) -> ConnectSettings:
        return self.clusters.settings(sink.cluster)


def read_shared(clusters: Clusters) -> SharedGroups:
    """Read the sinks of every Connect cluster."""
    answers = clusters.ask(lambda client: client.read_connectors())
    sinks = tuple(one for found in answers.results.values() for one in found if one.type is ConnectorType.SINK)
    return SharedGroups(clusters, sinks, answers.failures)


def _refuse_running(sink: Connector, group: str, others: Sequence[Connector]) -> None:
    """Raise if other sinks run: Kafka rejects offset changes for a group with members, whatever they consume."""
    running = [other.owner for other in others if other.status is None or other.status.state is not State.STOPPED]
    if running:
        raise RefusedError(
            f"{', '.join(running)} may be running in group {group} of {sink.owner}; no changes were made",
            cause="Kafka changes the offsets of a group only while it has no members",
            hint=f"stop first: seamark connectors stop {' '.join(running)}",
        )


def _find_readers(sinks: Iterable[Connector], topic: str) -> list[str]:
    return [sink.owner for sink in sinks if any(user.use in _READS for user in find_uses(sink, topic))]
