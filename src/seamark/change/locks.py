"""Names of locks: the thing that is locked, not the name somebody gave it.

    group.GROUP@WORKERS            a sink's consumer group
    source.TOPIC.NAME@WORKERS      a source's offsets in an offsets topic
    connect.WORKERS                a whole Connect cluster, by its workers' group.id
    loggers.WORKERS@WORKERS        the log levels of its workers
    data.TOPIC, pipeline.NAME      a data topic; a pipeline
    file.HOST:PATH                 the offset file of a standalone worker

What stands behind `@` is the Connect cluster that the thing belongs to: a lock of the whole cluster excludes it.
"""

from __future__ import annotations

PIPELINE_LOCK = "pipeline."


def connector_lock(name: str, *, offsets_topic: str, workers: str) -> str:
    """The lock of a source connector's positions and life."""
    return f"source.{offsets_topic}.{name}@{workers}"


def group_lock(group: str, *, workers: str = "") -> str:
    """The lock of a consumer group, a sink's or any other."""
    return f"group.{group}@{workers}" if workers else f"group.{group}"


def topic_lock(topic: str) -> str:
    """The lock of a data topic."""
    return f"data.{topic}"


def pipeline_lock(name: str) -> str:
    """The lock of a pipeline."""
    return f"{PIPELINE_LOCK}{name}"


def file_lock(path: str, *, host: str) -> str:
    """The lock of a standalone worker's file. A journal in Kafka serves many machines."""
    return f"file.{host}:{path.replace('@', '%40')}"


def cluster_lock(workers: str) -> str:
    """The lock of a whole Connect cluster."""
    return f"connect.{workers}"


def loggers_lock(workers: str) -> str:
    """The lock of the log levels of a Connect cluster's workers."""
    return f"loggers.{workers}@{workers}"


def base_name(lock: str) -> str:
    """The name of the thing alone, as the transactional id and the lock file carry it."""
    return lock.partition("@")[0]


def conflicts(one: str, other: str) -> bool:
    """Whether two locks can't be held by two changes at once."""
    if base_name(one) == base_name(other):
        return True
    return _covers(one, other) or _covers(other, one)


def _covers(cluster: str, inner: str) -> bool:
    return cluster.startswith("connect.") and inner.partition("@")[2] == cluster.removeprefix("connect.")
