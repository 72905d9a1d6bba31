"""A sink's group may be that of others too: then one sink's offsets are changed only where they are its own alone.

Connect's own reset deletes the whole group of a sink, whoever else is in it. seamark never asks for that: it takes
single partitions away. Which of them are a sink's own, only the configs of all sinks tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.connect.config import OWN_GROUP, find_group
from seamark.connect.connector import Connector, State
from seamark.core.offset import Offset
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError, SeamarkError
from seamark.topics.report import Use
from seamark.topics.topic_users import find_uses

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.context import ConnectSettings

_TOPIC_KEY = "kafka_topic"
_KAFKA = "consumer.override.bootstrap.servers"
_READS = frozenset({Use.READS, Use.MAY_READ})


@dataclass(frozen=True, slots=True)
class SharedGroups:
    """The sinks of a context, and the clusters that did not tell theirs."""

    clusters: Clusters
    sinks: tuple[Connector, ...] = ()
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    def find_others(self, sink: Connector) -> tuple[Connector, ...]:
        """The other sinks of its group, in the same Kafka cluster as far as configs tell."""
        group = self._find_group(sink)
        return tuple(
            other
            for other in self.sinks
            if other.owner != sink.owner
            and self._find_group(other) == group
            and other.config.get(_KAFKA) == sink.config.get(_KAFKA)
        )

    def refuse_foreign(self, sink: Connector, offsets: Sequence[Offset]) -> tuple[str, ...]:
        """Refuse a change of offsets that are not this sink's alone. Gives what the reader of a plan must know."""
        group = self._find_group(sink)
        others = self.find_others(sink)
        is_named = bool(sink.config.get(OWN_GROUP)) or self._settings(sink).consumer_group_id is not None
        topics = sorted({str(one.partition[_TOPIC_KEY]) for one in offsets if _TOPIC_KEY in one.partition})
        foreign = {topic: found for topic in topics if (found := _find_readers(others, topic))}
        # A group of its own name holds what it read before, too. Another one holds what others read.
        strange = [topic for topic in topics if topic not in foreign and is_named and not _find_readers([sink], topic)]
        if foreign or strange:
            raise self._build_refusal(sink, group, topics=topics, foreign=foreign, strange=strange)
        if self.failures and is_named:
            raise RefusedError(
                f"nobody can tell who else is in group {group} of {sink.owner}; nothing was changed",
                cause="; ".join(f"{name}: {error.message}" for name, error in self.failures.items()),
                hint="repeat it when all clusters answer",
            )
        if not others:
            return ()
        _refuse_running(sink, group, others)
        names = ", ".join(other.owner for other in others)
        return (f"group {group} is also that of {names}: their offsets stay as they are",)

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
        choose = f"name those that are its own: {' '.join(f'--partition {topic}' for topic in own)}; or " if own else ""
        return RefusedError(
            f"group {group} of {sink.owner} holds offsets that are not its own alone; nothing was changed",
            cause=f"in this group {'; '.join(said)}",
            hint=f"{choose}stop all of them and change the group itself: seamark offsets move|forget group/{group}",
        )

    def _find_group(self, sink: Connector) -> str:
        return find_group(sink.name, sink.config, self._settings(sink))

    def _settings(self, sink: Connector) -> ConnectSettings:
        return self.clusters.settings(sink.cluster)


def read_shared(clusters: Clusters) -> SharedGroups:
    """Ask every Connect cluster for its sinks."""
    answers = clusters.ask(lambda client: client.read_connectors())
    sinks = tuple(one for found in answers.results.values() for one in found if one.type is ConnectorType.SINK)
    return SharedGroups(clusters, sinks, answers.failures)


def _refuse_running(sink: Connector, group: str, others: Sequence[Connector]) -> None:
    """Kafka changes no offsets of a group that has members, whatever they read."""
    running = [other.owner for other in others if other.status is None or other.status.state is not State.STOPPED]
    if running:
        raise RefusedError(
            f"{', '.join(running)} may be at work in group {group} of {sink.owner}; nothing was changed",
            cause="Kafka changes offsets of a group only while nobody is in it",
            hint=f"stop first: seamark connectors stop {' '.join(running)}",
        )


def _find_readers(sinks: Iterable[Connector], topic: str) -> list[str]:
    return [sink.owner for sink in sinks if any(user.use in _READS for user in find_uses(sink, topic))]
