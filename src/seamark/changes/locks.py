"""Names of locks. A lock is named after the locked resource itself, not after its name in a context.

    group.GROUP@WORKERS        a sink's consumer group
    source.WORKERS/NAME        a source connector: its offsets and its state
    connect.WORKERS            a whole Connect cluster
    loggers.WORKERS            the log levels of its workers
    labels.WORKERS/NAME        the labels of a connector; labels.WORKERS for all connectors of a Connect cluster
    data.TOPIC, pipeline.NAME  a data topic; a pipeline
    plan.ID                    a saved plan
    file.HOST/PATH             the offset file of a standalone worker

WORKERS is the worker group of a Connect cluster (`Identities.find_scope`). The lock of a whole Connect cluster
conflicts with the locks of its connectors, sink groups and loggers. Every part is percent-encoded, including `/` and
`@`, so that different resources never share a lock name.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

_CLUSTER, _GROUP, _SOURCE, _LOGGERS = "connect.", "group.", "source.", "loggers."
_PIPELINE, _DATA, _LABELS = "pipeline.", "data.", "labels."
_SINK_GROUP, _TOPIC_OWNER = "connect-", "topic/"


def connector_lock(name: str, *, workers: str) -> str:
    """Return the lock of a source connector's offsets and state."""
    return f"{_SOURCE}{_encode(workers)}/{_encode(name)}"


def group_lock(group: str, *, workers: str = "") -> str:
    """Return the lock of a consumer group. `workers` is the Connect cluster of a sink's group."""
    return f"{_GROUP}{_encode(group)}@{_encode(workers)}" if workers else f"{_GROUP}{_encode(group)}"


def topic_lock(topic: str) -> str:
    """Return the lock of a data topic."""
    return f"{_DATA}{_encode(topic)}"


def pipeline_lock(name: str) -> str:
    """Return the lock of a pipeline."""
    return f"{_PIPELINE}{_encode(name)}"


def labels_lock(name: str, *, workers: str) -> str:
    """Return the lock of a connector's labels."""
    return f"{_LABELS}{_encode(workers)}/{_encode(name)}"


def find_wide_labels_lock(lock: str) -> str:
    """Return the lock of all labels of the Connect cluster to which a lock of labels belongs."""
    return lock.partition("/")[0]


def is_labels_lock(lock: str) -> bool:
    """Return whether a lock is one of labels."""
    return lock.startswith(_LABELS)


def plan_lock(plan: str) -> str:
    """Return the lock of a saved plan, which ensures that the plan is applied only once."""
    return f"plan.{_encode(plan)}"


def find_pipeline(lock: str) -> str | None:
    """Return the pipeline whose lock this is; None for a lock of something else."""
    return unquote(lock.removeprefix(_PIPELINE)) if lock.startswith(_PIPELINE) else None


def find_owners(lock: str) -> tuple[str, ...]:
    """Return the owners and the topic that a lock protects. A connector has its encoded worker group as its cluster.

    A sink has the lock of its group: a group with Connect's name for the group of a sink is also that sink.
    """
    if lock.startswith((_SOURCE, _LABELS)):
        workers, slash, name = lock.partition(".")[2].partition("/")
        return (build_scoped_owner(unquote(name), workers=unquote(workers)),) if slash else ()
    if lock.startswith(_GROUP):
        group, _, workers = lock.removeprefix(_GROUP).partition("@")
        group, scope = unquote(group), unquote(workers)
        is_usual = bool(workers) and group.startswith(_SINK_GROUP)
        sink = (build_scoped_owner(group.removeprefix(_SINK_GROUP), workers=scope),) if is_usual else ()
        return (f"group/{group}", *sink)
    if lock.startswith(_PIPELINE):
        return (f"pipeline/{find_pipeline(lock)}",)
    return (f"{_TOPIC_OWNER}{unquote(lock.removeprefix(_DATA))}",) if lock.startswith(_DATA) else ()


def build_scoped_owner(name: str, *, workers: str) -> str:
    """Return a connector with its worker group in the place of its Connect cluster."""
    return f"{_encode(workers)}/{name}"


def file_lock(path: str, *, host: str) -> str:
    """Return the lock of a standalone worker's offset file.

    The name includes the host, because a journal in Kafka serves many machines.
    """
    return f"file.{_encode(host)}/{_encode(path)}"


def cluster_lock(workers: str) -> str:
    """Return the lock of a whole Connect cluster."""
    return f"{_CLUSTER}{_encode(workers)}"


def loggers_lock(workers: str) -> str:
    """Return the lock of the log levels of a Connect cluster's workers."""
    return f"{_LOGGERS}{_encode(workers)}"


def base_name(lock: str) -> str:
    """Return the lock's name without the Connect cluster, for the transactional.id and the lock file's name."""
    return lock.partition("@")[0]


def conflicts(one: str, other: str) -> bool:
    """Return whether two changes can't hold these two locks at the same time."""
    if base_name(one) == base_name(other):
        return True
    return _covers(one, other) or _covers(other, one)


def _covers(cluster: str, inner: str) -> bool:
    if is_labels_lock(cluster):
        return find_wide_labels_lock(inner) == cluster
    return cluster.startswith(_CLUSTER) and _find_workers(inner) == cluster.removeprefix(_CLUSTER)


def _find_workers(lock: str) -> str | None:
    """Return the Connect cluster that a locked resource belongs to; None if it belongs to none."""
    if lock.startswith(_GROUP):
        return lock.partition("@")[2] or None
    if lock.startswith(_SOURCE):
        return lock.removeprefix(_SOURCE).partition("/")[0]
    return lock.removeprefix(_LOGGERS) if lock.startswith(_LOGGERS) else None


def _encode(part: str) -> str:
    return quote(part, safe="")
