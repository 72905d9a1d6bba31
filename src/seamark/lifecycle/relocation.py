"""A source gets an offsets topic of its own, or goes back to that of its workers, and reads nothing again.

Connect says that a connector which gets a topic of its own falls back to the workers' one. It does not (seen with 3.5
to 4.3): it begins anew. So its offsets are carried over first, while it is stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.changes.planned import Planned
from seamark.connect.capability import Capability
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.connector import Connector
from seamark.connectors.policy import refuse_violations
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError, UnsupportedError
from seamark.lifecycle.relocation_action import OffsetsTopicShape, RelocateOffsets
from seamark.offsets.stores.record_topics import check_record_topic
from seamark.offsets.write.access import build_rights_notes
from seamark.offsets.write.preview_totals import DEFAULT_SAFETY, SafetyOptions
from seamark.offsets.write.stopped import build_config_pin

if TYPE_CHECKING:
    from seamark.context import ConnectSettings
    from seamark.kafka.topic import TopicStatus
    from seamark.offsets.port import OffsetDependencies

_ELSEWHERE = ("producer.override.bootstrap.servers", "consumer.override.bootstrap.servers")
_POLICY = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class Relocations:
    """Plans another offsets topic for a source. Nothing is changed here; `fleet.apply` does it."""

    deps: OffsetDependencies

    def plan(self, connector: Connector, topic: str | None, *, safety: SafetyOptions = DEFAULT_SAFETY) -> Planned:
        """Let a source keep its offsets in that topic; None is the one of its workers."""
        settings = self.deps.clusters.settings(connector.cluster)
        self._refuse_other(connector, settings)
        workers = settings.offsets_topic
        if workers is None:
            raise self.deps.context.missing(f"connect.{connector.cluster}.offsets_topic")
        source, target = connector.config.get(OWN_OFFSETS_TOPIC) or workers, topic or workers
        title = f"keep the offsets of {connector.owner} in {target}"
        reads = self.deps.planner.open_reads(1).over(self.deps.world)
        if source == target:
            return self.deps.planner.plan(title, (), reads=reads)
        check_record_topic(target, self.deps.context, is_for_offsets=True)
        action = RelocateOffsets(
            connector.cluster,
            connector.name,
            source,
            target,
            self._find_shape(target, workers=workers),
            wait_seconds=safety.wait_seconds,
            accepts_zombies=safety.accepts_zombies,
            config=build_config_pin(connector.config, self.deps.world, cluster=connector.cluster),
        )
        seen = action.read(reads)
        cluster, name = connector.cluster, connector.name
        refuse_violations([(name, cluster, seen.config)], self.deps.context, present={(cluster, name): seen.present})
        rights = action.needs(seen).rights
        return self.deps.planner.plan(
            title,
            [action],
            notes=(
                f"what {connector.name} holds in {source} stays there; an undo carries back what it holds then",
                *build_rights_notes(rights, context=self.deps.context, brokers=self.deps.world.kafka),
            ),
            reads=reads,
            known={0: seen},
        )

    def _refuse_other(self, connector: Connector, settings: ConnectSettings) -> None:
        """Refuse what has no topic of its own, or one that nobody here can reach."""
        client = self.deps.clusters.client(connector.cluster)
        client.read_capabilities().require(Capability.STOP, doing=f"carry the offsets of {connector.owner}")
        if connector.type is not ConnectorType.SOURCE or settings.offsets_file is not None:
            what = "a sink has a consumer group" if connector.type is ConnectorType.SINK else "its worker has a file"
            raise UnsupportedError(
                f"{connector.owner} can't have an offsets topic of its own; nothing was changed",
                cause=what if connector.type is not ConnectorType.UNKNOWN else "nobody can tell whether it is a source",
            )
        if any(connector.config.get(key) for key in _ELSEWHERE) or self.deps.world.stores.has_own_partitioner(
            connector
        ):
            raise UnsupportedError(
                f"the offsets of {connector.owner} can't be carried; nothing was changed",
                cause="its clients have a Kafka cluster or a partitioner of their own",
            )

    def _find_shape(self, target: str, *, workers: str) -> OffsetsTopicShape | None:
        """Return how the topic is created; None where it is there and keeps offsets."""
        reading = self.deps.world.kafka().read_topics([target, workers])
        found = {topic.name: topic for topic in reading.items}
        for name, error in reading.failures.items():
            if name != target or not isinstance(error, NotFoundError):
                raise error
        if target not in found:
            like = found[workers]
            # As a worker would create it: like its own.
            return OffsetsTopicShape(len(like.partitions), like.replication_factor, {_POLICY: "compact"})
        _refuse_deleting(found[target])
        return None


def _refuse_deleting(topic: TopicStatus) -> None:
    policy = topic.configs.get(_POLICY)
    if policy is not None and policy.value != "compact":
        raise RefusedError(
            f"topic {topic.name} does not keep offsets; nothing was changed",
            cause=f"its {_POLICY} is {policy.value}: what is older than its retention is deleted",
            hint="give another topic, or make it compact",
        )
