"""What a verification asks the brokers before Spark starts: control records, and where both topics begin and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seamark.copies.plan.copy_plan import CopyPlan, TopicEnd
from seamark.copies.plan.settings import CopyEnds
from seamark.copies.plan.topics import check_topic
from seamark.copies.verify.verif_sums import Forgetting
from seamark.errors import UsageError
from seamark.kafka.log_offsets import LogOffsetsAdmin
from seamark.kafka.spot import Edge
from seamark.kafka.topics import TopicAdmin
from seamark.kafka_sink.control import ControlRecord
from seamark.kafka_sink.control_scan import read_records
from seamark.kafka_sink.options import SinkOptions

# A transaction whose owner died is ended by the brokers at their next look after its time, which is 10 s away at most.
_SLACK_SECONDS = 30.0
_KAFKA = "kafka."
# Settings that both clients have by the same name.
_SHARED = ("bootstrap.servers", "client.id", "security.protocol")


@dataclass(frozen=True, slots=True)
class TargetFound:
    """Where the target begins and ends, for readers of committed records and for all."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]
    true_ends: Mapping[int, int]


def read_source(plan: CopyPlan, ends: CopyEnds, options: SinkOptions) -> Forgetting:
    """What the source may have lost by now. A source that is gone, or was made anew, is an error."""
    source = ends.find_source_client(plan, options)
    with TopicAdmin(source) as admin:
        check_topic(admin, plan.source, role="source")
        policy = admin.read_found([plan.source.topic])[plan.source.topic].configs.get("cleanup.policy", "")
    with LogOffsetsAdmin(source) as offsets:
        return Forgetting("compact" in policy, begins=_read_edge(offsets, plan.source, Edge.EARLIEST))


def read_target(plan: CopyPlan, options: SinkOptions) -> TargetFound:
    """Where the target begins and ends. A target that is gone, or was made anew, is an error."""
    target = options.build_settings().reader
    with TopicAdmin(target) as admin:
        check_topic(admin, plan.target, role="target")
    with LogOffsetsAdmin(target) as offsets:
        edges = (Edge.EARLIEST, Edge.STABLE, Edge.LATEST)
        return TargetFound(*(_read_edge(offsets, plan.target, edge) for edge in edges))


def read_control_records(plan: CopyPlan, options: SinkOptions) -> Sequence[ControlRecord]:
    """Every control record of a plan."""
    settings = options.build_settings()
    patience = settings.transaction_seconds + _SLACK_SECONDS
    return read_records(settings.reader, options.control_topic, job=plan.id, patience_seconds=patience)


def build_target_source(plan: CopyPlan, ends: CopyEnds) -> Mapping[str, str]:
    """The options of Spark's own source for the target: Java's settings, where ours are librdkafka's.

    In one cluster they are those of the source. In two, plain addresses will do; how to log in is Java's own to say.
    """
    if plan.is_one_cluster:
        return ends.source
    named = {key.removeprefix(_KAFKA): value for key, value in ends.target.items() if key.startswith(_KAFKA)}
    if named.get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT":
        raise UsageError(
            f"it is not known how Spark reads the target {plan.target.topic}",
            cause="the settings of the sink are librdkafka's, and Spark's source takes Java's",
            hint="give the options of Spark's Kafka source for the target as target_source",
        )
    return {f"{_KAFKA}{key}": named[key] for key in _SHARED if key in named}


def _read_edge(admin: LogOffsetsAdmin, end: TopicEnd, edge: Edge) -> dict[int, int]:
    spots = [(end.topic, partition) for partition in range(end.partitions)]
    found = admin.read_log_offsets(spots, at=edge).require_complete(what=f"the topic {end.topic}")
    return {partition: stamp.offset for (_, partition), stamp in found.items() if stamp is not None}
