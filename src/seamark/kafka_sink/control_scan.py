"""The control records of whole jobs: all partitions of the control topic read at once, those of one moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from seamark.errors import DeadlineError
from seamark.kafka.reading import ask_until_known
from seamark.kafka.topic_scan import TopicScan
from seamark.kafka_sink.control import Claim, ControlReading, ControlRecord
from seamark.kafka_sink.control_codec import decode_control

# Records that are there come within milliseconds; what stands behind an open transaction is left to the tasks.
_LOOK_SECONDS = 2.0


def scan_control(
    config: Mapping[str, str], topic: str, *, jobs: Collection[str], patience_seconds: float
) -> ControlReading:
    """The newest control record of each claim of these jobs, by partition of the topic; old ones may be gone.

    They are those of one moment: a job may go on meanwhile, and a record without those before it would mislead. An
    open transaction is waited for as long as `patience_seconds`.
    """
    found: dict[str, list[ControlRecord]] = {job: [] for job in jobs}
    scan = TopicScan(config, topic, committed=True, patience_seconds=patience_seconds)
    read = scan.read_newest(lambda key: _read_job(key) in found)
    for record in read.records:
        if record.key is not None and record.value is not None:
            place = f"{topic}-{record.partition}@{record.offset}"
            found[_read_job(record.key)].append(decode_control(record.value, place=place))
    return ControlReading({job: tuple(held) for job, held in found.items()}, is_whole=not read.held_back)


def read_records(
    config: Mapping[str, str], topic: str, *, job: str, patience_seconds: float
) -> tuple[ControlRecord, ...]:
    """Every control record of a job: all that were acknowledged before. It waits for transactions that are open.

    Raises:
        DeadlineError: a transaction hides some, and nobody has ended it.
    """
    found = _scan_known(config, topic, job=job, patience_seconds=patience_seconds)
    return require_whole(found, topic, patience_seconds=patience_seconds).records[job]


def read_known(config: Mapping[str, str], topic: str, *, job: str) -> dict[int, ControlRecord]:
    """What is known of the tasks of a batch job, by task. More may come: this does not wait for open transactions."""
    known = _scan_known(config, topic, job=job, patience_seconds=_LOOK_SECONDS).records[job]
    return {record.claim.task: record for record in known if record.claim == Claim(job, record.claim.task)}


def require_whole(reading: ControlReading, topic: str, *, patience_seconds: float) -> ControlReading:
    """The reading, or an error where it is not whole."""
    if not reading.is_whole:
        raise DeadlineError(
            f"the control topic {topic} could not be read to its end within {patience_seconds:g} s",
            cause="a transaction that nobody has ended hides what comes after it",
            hint="seamark doctor names open transactions; the brokers end them after some minutes",
        )
    return reading


def _scan_known(config: Mapping[str, str], topic: str, *, job: str, patience_seconds: float) -> ControlReading:
    return ask_until_known(lambda: scan_control(config, topic, jobs=[job], patience_seconds=patience_seconds))


def _read_job(key: bytes) -> str:
    # A job's name has no slash.
    return key.partition(b"/")[0].decode(errors="replace")
