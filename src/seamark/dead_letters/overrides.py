"""Temporary config of a sink for processing record by record, and whether its committed offset is then exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamark.connect.model import Connector
from seamark.core.secrets import mask_text
from seamark.dead_letters.steps import refuse_lent
from seamark.errors import RefusedError

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort
    from seamark.context import ConnectSettings


Lent = Mapping[str, str | None]
"""Temporary values of config keys; None removes a key."""

BATCH = "consumer.override.max.poll.records"
DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_TASKS = "tasks.max"
_TOLERANCE = "errors.tolerance"
# A task is a consumer, and often a database connection, too.
_MOST_TASKS = 32
_FLUSH = "flush.size"
_CONFLUENT = "io.confluent.connect."
# Sinks that, according to their source code, have processed all given records when Connect commits: they don't override
# preCommit(). The committed offset of other sinks may be before records that they have buffered.
_TRUE_SINKS = frozenset(
    {
        "FileStreamSink",
        "FileStreamSinkConnector",
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "io.aiven.connect.jdbc.JdbcSinkConnector",
        "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "io.confluent.connect.jdbc.JdbcSinkConnector",
    }
)


# Their progress is stored in the names of their files: the committed offset of the group doesn't affect them.
_OWN_POSITIONS = ("io.confluent.connect.hdfs.", "io.confluent.connect.hdfs3.")


def refuse_own_positions(connector: Connector) -> None:
    """Refuse a sink that doesn't follow the committed offset of its group."""
    if connector.plugin.startswith(_OWN_POSITIONS):
        raise RefusedError(
            f"{connector.owner} stores its own offsets in the names of its files; no changes were made",
            hint="set errors.tolerance=all and errors.deadletterqueue.topic.name in its config",
        )


def choose_lent(connector: Connector, asked: Mapping[str, str]) -> Lent:
    """Choose the temporary config: batches of one record, and files of one record for sinks that write whole files.

    A sink that doesn't tolerate errors but has a dead letter queue sends the record there each time it fails. So its
    dead letter queue is removed temporarily, because the record should be sent there only once.
    """
    refuse_lent(asked)
    lent: dict[str, str | None] = {BATCH: "1"}
    if connector.plugin.startswith(_CONFLUENT) and _FLUSH in connector.config:
        lent[_FLUSH] = "1"
    if connector.config.get(DEAD_LETTERS) and connector.config.get(_TOLERANCE, "none").strip().lower() != "all":
        lent[DEAD_LETTERS] = None
    return lent | dict(asked)


def lend_tasks(connector: Connector, lent: Lent, *, partitions: int) -> Lent:
    """Return the temporary config with one task per partition, if there are fewer tasks.

    A task with several partitions may read the failing record first each time. Then its other partitions never
    progress, and the committed offsets don't show which record failed.
    """
    tasks = connector.config.get(_TASKS, "1").strip()
    if _TASKS in lent or not tasks.isdecimal() or int(tasks) >= min(partitions, _MOST_TASKS):
        return lent
    return {**lent, _TASKS: str(min(partitions, _MOST_TASKS))}


def tells_truth(connector: Connector, lent: Lent) -> bool:
    """Return whether the sink commits each record that it was given before the next one fails."""
    return connector.plugin in _TRUE_SINKS or lent.get(_FLUSH) == "1"


def find_refusal(connector: Connector, lent: Lent, client: ConnectPort) -> str:
    """Return why Connect would reject the temporary config, by its override policy or plugin; "" if it accepts it."""
    merged = {**connector.config, **lent, "name": connector.name}
    config = {key: value for key, value in merged.items() if value is not None}
    found = client.validate_config(connector.plugin, config)
    return "; ".join(mask_text(f"{key}: {said}") for key in lent for said in found.errors.get(key, ()))


_WANTED = ("key.converter", "value.converter", "header.converter", "consumer.")
_CONSUMER, _OVERRIDE = "consumer.", "consumer.override."


def read_worker_config(settings: ConnectSettings) -> Mapping[str, str]:
    """Read the workers' converters and consumer settings; empty if their properties file isn't on this machine."""
    if settings.worker_config is None or not settings.worker_config.is_file():
        return {}
    from seamark.context.layer import Origin, OriginKind  # noqa: PLC0415
    from seamark.context.properties import read_properties  # noqa: PLC0415

    place = Origin(OriginKind.WORKER, str(settings.worker_config), path=settings.worker_config)
    found = read_properties(settings.worker_config, origin=place)
    return {key: one.value for key, one in found.items() if key.startswith(_WANTED)}


def find_consumer_setting(key: str, config: Mapping[str, str], worker: Mapping[str, str], default: str) -> str:
    """Return a setting of a sink's consumer: the connector's own, else the workers', else the default."""
    return (config.get(f"{_OVERRIDE}{key}") or worker.get(f"{_CONSUMER}{key}") or default).strip()
