"""Both ends of a copy, as the brokers tell them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from seamark.copies.plan.plan import TopicEnd
from seamark.copies.plan.registrations import Registered, Registration
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.groups.targets import Where, parse_where
from seamark.kafka.api import BrokersPort
from seamark.kafka.model import LogOffsets, OffsetSpec, TopicStatus
from seamark.kafka_sink.control import ControlReading, ControlRecord
from seamark.kafka_sink.routing import Partitioner
from seamark.spark.slices import OffsetRange
from seamark.topics.service import check_name

if TYPE_CHECKING:
    from seamark.changes.actor import Actor
    from seamark.changes.environment import Environment
    from seamark.changes.outcome import ChangeResult
    from seamark.changes.plan import PlannedChange
    from seamark.changes.planner import Planner
    from seamark.context import Context


@dataclass(frozen=True, slots=True)
class CopyEndpoint:
    """One context of a copy. The registered plan and the control records are in the Kafka cluster of the target.

    `open_kafka` connects to the brokers again after the fleet was closed. `planner` is called when a change is planned:
    most commands plan none.
    """

    context: Context
    world: Environment
    open_kafka: Callable[[], BrokersPort]
    logs: CopyLogs
    actor: Actor
    planner: Callable[[], Planner]
    apply: Callable[[PlannedChange], ChangeResult]

    @property
    def kafka(self) -> BrokersPort:
        """The brokers."""
        return self.open_kafka()


@dataclass(frozen=True, slots=True)
class CopyEndpoints:
    """Source and target of a copy: the same endpoint for a copy within one Kafka cluster."""

    source: CopyEndpoint
    target: CopyEndpoint

    @property
    def is_cross_cluster(self) -> bool:
        """Whether the target is in another context than the source."""
        return self.source is not self.target


Sample = tuple[int, bytes | None]


class RegistrationLease(Protocol):
    """The registration of one plan, held by one driver; `HeldRegistration` implements it."""

    def read(self) -> Registration | None:
        """The newest generation."""

    def write(self, registration: Registration, *, former: Registration | None) -> Registration:
        """Write the next one, and give it with the number of its pieces."""

    def close(self) -> None:
        """Let go of it."""


class CopyLogs(Protocol):
    """The logs that a copy looks into. `seamark.copies.plan.endpoints.KafkaLogs` is the real one."""

    def read_known_configs(self, topic: str) -> frozenset[str]:
        """The names of all configs that the brokers know for a topic."""

    def read_samples(self, topic: str, *, ranges: Mapping[int, tuple[int, int]], most: int) -> Iterable[Sample]:
        """Keys of old and new records of each partition."""

    def read_registered(self, control_topic: str) -> Registered:
        """The plans that were run."""

    def hold(self, control_topic: str, *, plan: str) -> RegistrationLease:
        """Take the registration of a plan."""

    def read_records(self, control_topic: str, *, jobs: Collection[str]) -> Mapping[str, tuple[ControlRecord, ...]]:
        """The control records of jobs: all that were acknowledged before. It waits for transactions that are open."""

    def look_at_records(self, control_topic: str, *, jobs: Collection[str]) -> ControlReading:
        """The control records of jobs, as far as they are committed now."""


# Whoever only looks is not kept waiting for what a dead task left open.
_LOOK_SECONDS = 20.0


class KafkaLogs:
    """Over librdkafka. `build_config` gives the client's settings, with their secrets, when they are needed."""

    def __init__(self, build_config: Callable[[], dict[str, str]]) -> None:
        self._build_config = build_config

    def read_known_configs(self, topic: str) -> frozenset[str]:
        """The names of all configs that the brokers know for a topic."""
        from seamark.kafka.topics import TopicAdmin  # noqa: PLC0415

        with TopicAdmin(self._build_config()) as admin:
            found = admin.read_found([topic]).get(topic)
        return frozenset(found.configs) if found else frozenset()

    def read_samples(self, topic: str, *, ranges: Mapping[int, tuple[int, int]], most: int) -> Iterable[Sample]:
        """Keys of old and new records of each partition."""
        from seamark.kafka.records import read_key_samples  # noqa: PLC0415

        return read_key_samples(self._build_config(), topic, ranges=ranges, most=most)

    def read_registered(self, control_topic: str) -> Registered:
        """The plans that were run."""
        from seamark.copies.plan.registrations import read_registered  # noqa: PLC0415

        return read_registered(self._build_config(), control_topic, patience_seconds=_LOOK_SECONDS)

    def hold(self, control_topic: str, *, plan: str) -> RegistrationLease:
        """Take the registration of a plan."""
        from seamark.copies.plan.registrations import HeldRegistration  # noqa: PLC0415

        return HeldRegistration(self._build_config(), control_topic, plan=plan)

    def read_records(self, control_topic: str, *, jobs: Collection[str]) -> Mapping[str, tuple[ControlRecord, ...]]:
        """The control records of jobs: all that were acknowledged before. It waits for transactions that are open."""
        from seamark.copies.plan.registrations import PATIENCE_SECONDS  # noqa: PLC0415
        from seamark.kafka_sink.control_reads import require_whole  # noqa: PLC0415

        read = self._scan(control_topic, jobs, patience_seconds=PATIENCE_SECONDS)
        return require_whole(read, control_topic, patience_seconds=PATIENCE_SECONDS).records

    def look_at_records(self, control_topic: str, *, jobs: Collection[str]) -> ControlReading:
        """The control records of jobs, as far as they are committed now."""
        return self._scan(control_topic, jobs, patience_seconds=_LOOK_SECONDS)

    def _scan(self, control_topic: str, jobs: Collection[str], *, patience_seconds: float) -> ControlReading:
        from seamark.kafka_sink.control_reads import scan_control  # noqa: PLC0415

        try:
            return scan_control(self._build_config(), control_topic, jobs=jobs, patience_seconds=patience_seconds)
        except NotFoundError:
            return ControlReading(dict.fromkeys(jobs, ()))


MOST_PARTITIONS = 100_000


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The topic to copy, and how.

    `expected` is the number of partitions that the topic must have. `since` and `until` are places in the log,
    by default all of it. Without `slice_records` slices are made as large as their tasks can well bear.
    """

    topic: str
    partitions: int
    expected: int | None = None
    to: str = ""
    rule: Partitioner | None = None
    since: Where | None = None
    until: Where | None = None
    replication_factor: int | None = None
    slice_records: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no broker would take."""
        check_name(self.target)
        for what, number in (("replication-factor", self.replication_factor), ("slice-records", self.slice_records)):
            if number is not None and number < 1:
                raise UsageError(f"{what} must be 1 or more, and not {number}")

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.to or f"{self.topic}-{self.partitions}"


def build_copy_options(
    topic: str,
    partitions: int | str,
    *,
    to: str = "",
    rule: str | Partitioner | None = None,
    since: str | int | None = None,
    until: str | int | None = None,
    replication_factor: int | None = None,
    slice_records: int | None = None,
) -> CopyOptions:
    """Build the options from the values of the command line."""
    expected, wanted = parse_shape(str(partitions))
    return CopyOptions(
        topic,
        partitions=wanted,
        expected=expected,
        to=to,
        rule=parse_rule(rule),
        since=None if since is None else parse_where(since),
        until=None if until is None else parse_where(until),
        replication_factor=replication_factor,
        slice_records=slice_records,
    )


def parse_shape(text: str) -> tuple[int | None, int]:
    """`N`, or `M:N` where the topic must have M partitions now."""
    parts = text.split(":")
    if len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"{text!r} is no number of partitions", hint="N, or M:N for a topic that has M of them: 12:6")
    numbers = [int(part) for part in parts]
    if not all(1 <= number <= MOST_PARTITIONS for number in numbers):
        raise UsageError(f"{text!r}: a topic has 1 to {MOST_PARTITIONS} partitions")
    return (numbers[0] if len(numbers) == 2 else None), numbers[-1]


def parse_rule(text: str | Partitioner | None) -> Partitioner | None:
    """A rule by its name."""
    if text is None:
        return None
    try:
        return Partitioner(text)
    except ValueError:
        raise UsageError(f"{text!r} is no rule for placing records", hint=f"one of {', '.join(Partitioner)}") from None


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The source: its log as readers of committed records see it, and what of it is wanted.

    `bytes` is the size of one copy of the whole log, None where nobody tells it.
    """

    cluster_id: str
    status: TopicStatus
    bounds: Mapping[int, LogOffsets]
    ranges: tuple[OffsetRange, ...]
    bytes: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def end(self) -> TopicEnd:
        """The source as a plan has it."""
        status = self.status
        return TopicEnd(
            self.cluster_id,
            topic=status.name,
            topic_id=status.topic_id,
            partitions=len(status.partitions),
            replication_factor=status.replication_factor,
        )

    @property
    def wanted_bytes(self) -> int | None:
        """What is copied of it, by its share of the offsets."""
        whole = sum(found.records for found in self.bounds.values())
        if self.bytes is None or not whole:
            return self.bytes
        return self.bytes * sum(one.size for one in self.ranges) // whole


def read_source(kafka: BrokersPort, options: CopyOptions) -> SourceFacts:
    """Look at the source, and settle once and for all which offsets of it are meant."""
    status = find_topic(kafka, options.topic)
    if status is None:
        raise NotFoundError(f"there is no topic {options.topic}", hint="seamark topics list shows all of them")
    if status.configs_error:
        raise SeamarkError(
            f"the configs of {options.topic} can't be read, and its copy would lack them",
            cause=status.configs_error,
            hint="grant DESCRIBE_CONFIGS on the topic to the principal of this context",
        )
    count = len(status.partitions)
    if options.expected is not None and options.expected != count:
        raise UsageError(
            f"the topic {options.topic} has {count} partitions, and not {options.expected}",
            hint=f"--partitions {count}:{options.partitions}, if that is the topic you mean",
        )
    bounds = read_stable_bounds(kafka, status)
    size, notes = _read_bytes(kafka, status)
    return SourceFacts(
        kafka.read_cluster().cluster_id,
        status,
        bounds=bounds,
        ranges=_read_ranges(kafka, status, bounds, options),
        bytes=size,
        notes=notes,
    )


def find_topic(kafka: BrokersPort, name: str) -> TopicStatus | None:
    """A topic by its name; None where it is not there."""
    reading = kafka.read_topics([name])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return None
        raise error
    return reading.items[0]


def read_stable_bounds(kafka: BrokersPort, status: TopicStatus) -> dict[int, LogOffsets]:
    """Where each partition begins, and where readers of committed records come to its end now."""
    if status.leaderless:
        raise RefusedError(
            f"partitions {', '.join(map(str, status.leaderless))} of {status.name} have no leader",
            hint="seamark topics health says what is wrong there",
        )
    begins = kafka.read_log_offsets(status.spots, at=OffsetSpec.EARLIEST).require_complete(what="the begin")
    ends = kafka.read_log_offsets(status.spots, at=OffsetSpec.STABLE).require_complete(what="the end")
    found = {}
    for spot in status.spots:
        begin, end = begins[spot], ends[spot]
        if begin is None or end is None:
            raise SeamarkError(
                f"the brokers told no offset of {spot[0]}-{spot[1]} just now", hint="try again in a moment"
            )
        # An open transaction may hold the end for readers before the begin that retention has moved meanwhile.
        found[spot[1]] = LogOffsets(begin.offset, max(begin.offset, end.offset))
    return found


def _read_bytes(kafka: BrokersPort, status: TopicStatus) -> tuple[int | None, tuple[str, ...]]:
    try:
        reading = kafka.read_sizes({status.name: [one.id for one in status.partitions]})
    except SeamarkError as error:
        return None, (f"its size is not known: {error.message}",)
    size = next(iter(reading.items), None)
    if size is None or reading.failures:
        return None, tuple(f"its size is not known: {error.message}" for error in reading.failures.values())
    total = sum(size.by_partition.values())
    # Brokers that don't let us see their logs answer with none. An empty log has a size of zero as well.
    return (total, ()) if total else (None, ())


def _read_ranges(
    kafka: BrokersPort, status: TopicStatus, bounds: Mapping[int, LogOffsets], options: CopyOptions
) -> tuple[OffsetRange, ...]:
    begins = _read_places(
        kafka, status, bounds, where=options.since if options.since is not None else OffsetSpec.EARLIEST
    )
    ends = _read_places(kafka, status, bounds, where=options.until if options.until is not None else OffsetSpec.LATEST)
    return tuple(OffsetRange(number, begins[number], max(begins[number], ends[number])) for number in sorted(bounds))


def _read_places(
    kafka: BrokersPort, status: TopicStatus, bounds: Mapping[int, LogOffsets], *, where: Where
) -> dict[int, int]:
    """The offsets at a place, within the bounds. A time after the last record stands for the end."""
    if isinstance(where, OffsetSpec):
        return {
            number: found.earliest if where is OffsetSpec.EARLIEST else found.latest for number, found in bounds.items()
        }
    if isinstance(where, datetime):
        moment_ms = round(where.timestamp() * 1000)
        stamps = kafka.read_log_offsets(status.spots, at=moment_ms).require_complete(what="the offsets of that time")
        wanted = {spot[1]: None if stamp is None else stamp.offset for spot, stamp in stamps.items()}
    else:
        wanted = dict.fromkeys(bounds, where)
    return {
        number: found.latest if (at := wanted[number]) is None else min(max(at, found.earliest), found.latest)
        for number, found in bounds.items()
    }
