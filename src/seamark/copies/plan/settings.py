"""The settings with which Spark and its tasks connect to both ends of a copy."""

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

    Both prefix Kafka's settings with `kafka.`: those of the Java client for the source, those of librdkafka for the
    target. `source_client` is needed only if librdkafka can't use the Java settings of the source: its own settings
    without `kafka.`, to read the topic before a run.
    """

    source: Mapping[str, str] = field(repr=False)
    target: Mapping[str, str] = field(repr=False)
    control_topic: str = CONTROL_TOPIC
    source_client: Mapping[str, str] | None = field(default=None, repr=False)

    def read_sink_options(self, topic: str) -> SinkOptions:
        """Return the checked options of the sink."""
        return read_copy_options({**self.target, "topic": topic, "control.topic": self.control_topic})

    def find_source_client(self, plan: CopyPlan, options: SinkOptions) -> Mapping[str, str]:
        """Return the librdkafka settings that connect to the source."""
        if self.source_client:
            return self.source_client
        return options.build_settings().reader if plan.is_one_cluster else build_source_client(self.source)


def build_ends(endpoints: CopyEndpoints, *, control_topic: str) -> CopyEnds:
    """Return the settings of both ends. They contain secrets; `seamark.spark.sessions` has Spark mask them."""
    return CopyEnds(
        source=build_source(endpoints.source.context),
        target={f"{KAFKA_PREFIX}{key}": value for key, value in build_client(endpoints.target.context).items()},
        control_topic=control_topic,
        source_client=build_client(endpoints.source.context),
    )
