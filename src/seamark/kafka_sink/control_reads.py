"""Reading control records for one task: how far it has come, whichever attempt did it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from seamark.errors import DeadlineError, RefusedError, RejectedError, UnreachableError
from seamark.kafka.failures import is_passing
from seamark.kafka.log import ANSWER_SECONDS, POLL_SECONDS, PartitionLog, ask_until_known
from seamark.kafka.topic_scan import TopicScan
from seamark.kafka.topics import TopicAdmin, TopicSpec
from seamark.kafka_sink.control import CONTROL_PARTITIONS, Claim, ControlReading, ControlRecord, decode_control

# Spark's Python processes are forks, and live for many tasks. No client outlives a fork, so each process has its own.


@dataclass(frozen=True, slots=True)
class _Clients:
    admin: TopicAdmin
    log: PartitionLog

    def close(self) -> None:
        self.log.close()
        self.admin.close()


class ControlClients:
    """Clients by partition of a control topic. Each is lent to one borrower at a time."""

    # A process works for one task after the other; each has one partition of the control topic.
    _LIMIT = 4

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[object, ...], _Clients] = {}

    @contextmanager
    def lend(
        self, config: Mapping[str, str], topic: str, *, partition: int, patience_seconds: float
    ) -> Iterator[tuple[TopicAdmin, PartitionLog]]:
        """The clients for one partition. After a failure they are not lent again."""
        name = (os.getpid(), frozenset(config.items()), topic, partition, patience_seconds)
        with self._lock:
            clients = self._free.pop(name, None)
        if clients is None:
            clients = _open(config, topic, partition=partition, patience_seconds=patience_seconds)
        try:
            yield clients.admin, clients.log
        except BaseException:
            clients.close()
            raise
        self._keep(name, clients)

    def _keep(self, name: tuple[object, ...], clients: _Clients) -> None:
        with self._lock:
            # Another borrower may have brought back the same meanwhile.
            surplus = [self._free.pop(name)] if name in self._free else []
            self._free[name] = clients
            while len(self._free) > self._LIMIT:
                surplus.append(self._free.pop(next(iter(self._free))))
        for old in surplus:
            old.close()


CLIENTS = ControlClients()
"""Those of this process."""


def _open(config: Mapping[str, str], topic: str, *, partition: int, patience_seconds: float) -> _Clients:
    log = PartitionLog(config, topic, partition=partition, patience_seconds=patience_seconds)
    return _Clients(TopicAdmin(config), log)


# Records that are there come within milliseconds; what stands behind an open transaction is left to the tasks.
_LOOK_SECONDS = 2.0


def scan_control(
    config: Mapping[str, str], topic: str, *, jobs: Collection[str], patience_seconds: float
) -> ControlReading:
    """The newest control record of each claim of these jobs, by partition of the topic; old ones may be gone.

    They are those of one point in time: a job may be running, and a record without those before it would mislead. An
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
        DeadlineError: an open transaction hides some.
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
            cause="an open transaction hides the records after it",
            hint="run seamark doctor to list open transactions; brokers abort them after transaction.timeout.ms",
        )
    return reading


def _scan_known(config: Mapping[str, str], topic: str, *, job: str, patience_seconds: float) -> ControlReading:
    return ask_until_known(lambda: scan_control(config, topic, jobs=[job], patience_seconds=patience_seconds))


def _read_job(key: bytes) -> str:
    # A job's name has no slash.
    return key.partition(b"/")[0].decode(errors="replace")


_COPIES = 3
_NO_LIMIT = "-1"


def ensure_control_topic(admin: TopicAdmin, topic: str) -> str:
    """Make the control topic where it is missing; refuse one that can't serve. Gives its id."""
    found = admin.read_found([topic]).get(topic)
    if found is None:
        admin.create_topics([_build_spec(topic, copies=min(_COPIES, len(admin.read_cluster().brokers)))])
        found = admin.read_found([topic])[topic]
    if found.partitions < CONTROL_PARTITIONS:
        raise RejectedError(
            f"the control topic {topic} has {found.partitions} partitions, and at least {CONTROL_PARTITIONS} are "
            "required",
            hint=f"run seamark topics add-partitions {topic} --total {CONTROL_PARTITIONS}, or set control.topic to "
            "another one",
        )
    policy = found.configs.get("cleanup.policy", "")
    limits = {name: found.configs.get(name) for name in ("retention.ms", "retention.bytes")}
    forgetting = [f"{name}={value}" for name, value in limits.items() if value != _NO_LIMIT]
    if "delete" in policy and forgetting:
        raise RejectedError(
            f"the control topic {topic} deletes old records: cleanup.policy={policy}",
            cause=", ".join(forgetting),
            hint="set cleanup.policy=compact, or retention.ms=-1 and retention.bytes=-1",
        )
    return found.topic_id


def read_control_id(admin: TopicAdmin, topic: str, *, expected: str = "") -> str:
    """The id of the control topic. Another one than expected is refused: what it has forgotten would be done again."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while not (reading := admin.read_topics([topic])).items:
        error = next(iter(reading.failures.values()))
        may_pass = is_passing(error) or isinstance(error, UnreachableError)
        if not may_pass or time.monotonic() > deadline:
            raise error
        time.sleep(POLL_SECONDS)
    found = reading.items[0].topic_id
    if expected and found != expected:
        raise RefusedError(
            f"the control topic {topic} was recreated while the job ran",
            cause=f"its topic ID is {found}, and was {expected}; the control records are lost",
            hint="check the target topic before you run the job again: it would write all records once more",
        )
    return found


def _build_spec(topic: str, *, copies: int) -> TopicSpec:
    configs = {
        # The newest record of a task is all that is ever asked for.
        "cleanup.policy": "compact",
        "segment.ms": str(24 * 3600 * 1000),
        # Rows that outlive their control record would be written twice: so it is on two brokers before it counts, where
        # the loss of one then still leaves two, and no broker that lacks it may come to lead.
        "min.insync.replicas": str(max(1, copies - 1)),
        "unclean.leader.election.enable": "false",
    }
    return TopicSpec(topic, CONTROL_PARTITIONS, copies, configs)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was read of a partition: up to where, and the newest record of each key of one job."""

    position: int | None
    newest: Mapping[bytes, ControlRecord] = field(default_factory=dict)


class _Memory:
    """What this process knows of control topics. Spark's Python processes serve many tasks, one after the other.

    Committed records never change, so that a task only reads what came since the last one.
    """

    # A process works for few jobs at a time.
    _LIMIT = 64

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, ...], _Seen] = {}

    def find(self, name: tuple[str, ...], *, start: int | None) -> _Seen:
        with self._lock:
            return self._seen.get(name) or _Seen(start)

    def keep(self, name: tuple[str, ...], seen: _Seen) -> None:
        with self._lock:
            while len(self._seen) >= self._LIMIT and name not in self._seen:
                del self._seen[next(iter(self._seen))]
            self._seen[name] = seen


_MEMORY = _Memory()


def read_progress(
    config: Mapping[str, str],
    topic: str,
    *,
    claim: Claim,
    patience_seconds: float,
    start: int | None = None,
    topic_id: str = "",
) -> ControlRecord | None:
    """The newest control record of a task, or None. `topic_id` is that of the topic when the job began, if known.

    Everything that was acknowledged before this call is seen: the true end of the partition is asked for first, and
    then committed records are read until it is reached. If another producer's transaction is open before that end,
    this waits; the last stable offset alone could hide our own record after it.
    """
    with CLIENTS.lend(config, topic, partition=claim.partition, patience_seconds=patience_seconds) as (admin, log):
        # A recreated topic may have a higher end than the old one by now, so that the end alone shows nothing.
        known = read_control_id(admin, topic, expected=topic_id)
        name = (config.get("bootstrap.servers", ""), topic, known, str(claim.partition), claim.family)
        seen = _MEMORY.find(name, start=start)
        low, high = log.read_bounds()
        if seen.position is None or seen.position > high:
            # Behind its end: the partition has lost records.
            seen = _Seen(low)
        # A copy: another thread may be reading for the same job, and be elsewhere.
        newest = dict(seen.newest)
        family = claim.family.encode()
        for record in log.read(max(seen.position or 0, low), high):
            if record.key is not None and record.key.startswith(family) and record.value is not None:
                place = f"{topic}-{claim.partition}@{record.offset}"
                newest[record.key] = decode_control(record.value, place=place)
    _MEMORY.keep(name, _Seen(high, newest))
    return newest.get(claim.key)


def read_ends(admin: TopicAdmin, topic: str) -> dict[int, int]:
    """Where each partition of a control topic ends now. A job that is new has no record before."""
    spots = [(topic, partition) for partition in range(CONTROL_PARTITIONS)]
    found = ask_until_known(lambda: admin.read_end_offsets(spots))
    return {partition: end for (_, partition), end in found.items()}
