"""The settings with which Spark and its tasks reach both ends of a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.kafka_sink.control import CONTROL_TOPIC
from seamark.kafka_sink.options import SinkOptions, read_copy_options
from seamark.spark.settings import KAFKA_PREFIX, build_client, build_source, build_source_client

if TYPE_CHECKING:
    from seamark.copies.plan.endpoints import CopyEndpoints
    from seamark.copies.plan.plan import CopyPlan


@dataclass(frozen=True, slots=True)
class CopyEnds:
    """The settings of both ends. `source` are options of Spark's own Kafka source, `target` those of our sink.

    Both name Kafka's settings with `kafka.` before them: for the source as Java's client has them, for the target as
    librdkafka has them. `source_client` is needed only where librdkafka can't take Java's for the source: its own,
    without `kafka.`, to look at the topic before a run.
    """

    source: Mapping[str, str] = field(repr=False)
    target: Mapping[str, str] = field(repr=False)
    control_topic: str = CONTROL_TOPIC
    source_client: Mapping[str, str] | None = field(default=None, repr=False)

    def read_sink_options(self, topic: str) -> SinkOptions:
        """The options of the sink, checked."""
        return read_copy_options({**self.target, "topic": topic, "control.topic": self.control_topic})

    def find_source_client(self, plan: CopyPlan, options: SinkOptions) -> Mapping[str, str]:
        """The settings of librdkafka that reach the source."""
        if self.source_client:
            return self.source_client
        return options.build_settings().reader if plan.is_one_cluster else build_source_client(self.source)


def build_ends(endpoints: CopyEndpoints, *, control_topic: str) -> CopyEnds:
    """Return the settings of both ends. They hold secrets: Spark masks options of these names, see `session`."""
    return CopyEnds(
        source=build_source(endpoints.source.context),
        target={f"{KAFKA_PREFIX}{key}": value for key, value in build_client(endpoints.target.context).items()},
        control_topic=control_topic,
        source_client=build_client(endpoints.source.context),
    )
