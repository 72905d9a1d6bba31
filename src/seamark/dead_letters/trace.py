"""What the trace of a failed task tells: at which stage it failed, with what, and sometimes at which record."""

from __future__ import annotations

import re

from seamark.connect.connector import Task
from seamark.connect.trace import clean_trace, fold_trace
from seamark.dead_letters.park import Failure
from seamark.kafka.record import Place
from seamark.offsets.codec.decoding import SinkStage

# Methods of Connect's WorkerSinkTask and TransformationChain, the innermost first: a put() may convert things itself.
_FRAMES = (
    ("WorkerSinkTask.deliverMessages", SinkStage.TASK_PUT),
    ("TransformationChain.apply", SinkStage.TRANSFORMATION),
    ("TransformationStage.apply", SinkStage.TRANSFORMATION),
    ("WorkerSinkTask.convertKey", SinkStage.KEY_CONVERTER),
    ("WorkerSinkTask.convertValue", SinkStage.VALUE_CONVERTER),
    ("WorkerSinkTask.convertHeadersFor", SinkStage.HEADER_CONVERTER),
)
_TOPIC = r"[A-Za-z0-9._-]{1,249}"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        # A SinkRecord's own text.
        rf"kafkaOffset=(?P<offset>\d+)\b.{{0,200}}?topic='(?P<topic>{_TOPIC})', kafkaPartition=(?P<partition>\d+)",
        # Connect's ProcessingContext: {topic='t', partition=0, offset=12, …
        rf"topic='(?P<topic>{_TOPIC})', partition=(?P<partition>\d+), offset=(?P<offset>\d+)",
        # As people write it: topic t partition 0 offset 12, topic: t, partition: 0, offset: 12
        (
            rf"\b[Tt]opic[ :='\"]{{1,3}}(?P<topic>{_TOPIC})['\"]?[ ,;]{{1,2}}(?:and )?[Pp]artition[ :=]{{1,2}}"
            r"(?P<partition>\d+)[ ,;]{1,2}(?:and |at )?(?:\w+ )?[Oo]ffset[ :=]{1,2}(?P<offset>\d+)"
        ),
        # As Kafka's consumer does: partition t-0 at offset 12
        rf"\b(?:partition )?(?P<topic>{_TOPIC})-(?P<partition>\d+) (?:at )?offset (?P<offset>\d+)",
    )
)


def find_stage(trace: str) -> SinkStage:
    """Where in the sink it failed."""
    return next((stage for frame, stage in _FRAMES if frame in trace), SinkStage.UNKNOWN)


def find_places(trace: str) -> tuple[Place, ...]:
    """The records that a trace names. Numbers that no log can have are none."""
    found: dict[Place, None] = {}
    for pattern in _PATTERNS:
        for match in pattern.finditer(trace):
            if len(match["offset"]) < 19 and len(match["partition"]) < 10:
                found[Place(match["topic"], int(match["partition"]), int(match["offset"]))] = None
    return tuple(found)


def build_failure(task: Task, *, class_name: str, stage: SinkStage | None = None) -> Failure:
    """How a task failed, for the headers of the parked record."""
    root = fold_trace(task.trace).root
    exception, _, message = root.partition(":")
    return Failure(
        stage=str(find_stage(task.trace) if stage is None else stage),
        class_name=class_name,
        exception=exception.strip(),
        task=task.id,
        message=message.strip(),
        trace="\n".join(clean_trace(task.trace)),
    )
