"""Both ends of a copy, as the brokers report them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from seamark.copies.plan.plan import CopyPlan, TopicEnd
from seamark.copies.plan.registrations import Registered, Registration
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.groups.targets import Where, parse_where
from seamark.kafka.api import BrokersPort
from seamark.kafka.model import LogOffsets, OffsetSpec, TopicStatus
from seamark.kafka_sink.control import CONTROL_TOPIC, ControlReading, ControlRecord
from seamark.kafka_sink.options import SinkOptions, read_copy_options
from seamark.kafka_sink.routing import Partitioner
from seamark.report.words import parse_number, render_number
from seamark.spark.settings import KAFKA_PREFIX, build_client, build_source, build_source_client
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
        """Return the newest generation."""

    def write(self, registration: Registration, *, former: Registration | None) -> Registration:
        """Write the next generation, and return it with the number of its pieces."""

    def close(self) -> None:
        """Close the connections."""


class CopyLogs(Protocol):
    """The logs that a copy reads. `seamark.copies.plan.endpoints.KafkaLogs` implements it."""

    def read_known_configs(self, topic: str) -> frozenset[str]:
        """Return the names of all configs that the brokers support for a topic."""

    def read_samples(self, topic: str, *, ranges: Mapping[int, tuple[int, int]], most: int) -> Iterable[Sample]:
        """Return keys of old and new records of each partition."""

    def read_registered(self, control_topic: str) -> Registered:
        """Return the plans that were run."""

    def hold(self, control_topic: str, *, plan: str) -> RegistrationLease:
        """Take the registration of a plan."""

    def read_records(self, control_topic: str, *, jobs: Collection[str]) -> Mapping[str, tuple[ControlRecord, ...]]:
        """Return all control records of jobs acknowledged before the call. It waits for open transactions."""

    def look_at_records(self, control_topic: str, *, jobs: Collection[str]) -> ControlReading:
        """Return the control records of jobs that are committed now."""


# A command that only reads doesn't wait for a transaction that a dead task left open.
_LOOK_SECONDS = 20.0


class KafkaLogs:
    """`CopyLogs` with librdkafka. `build_config` returns the client settings, with secrets, when they are needed."""

    def __init__(self, build_config: Callable[[], dict[str, str]]) -> None:
        self._build_config = build_config

    def read_known_configs(self, topic: str) -> frozenset[str]:
        """Return the names of all configs that the brokers support for a topic."""
        from seamark.kafka.topics import TopicAdmin  # noqa: PLC0415

        with TopicAdmin(self._build_config()) as admin:
            found = admin.read_found([topic]).get(topic)
        return frozenset(found.configs) if found else frozenset()

    def read_samples(self, topic: str, *, ranges: Mapping[int, tuple[int, int]], most: int) -> Iterable[Sample]:
        """Return keys of old and new records of each partition."""
        from seamark.kafka.records import read_key_samples  # noqa: PLC0415

        return read_key_samples(self._build_config(), topic, ranges=ranges, most=most)

    def read_registered(self, control_topic: str) -> Registered:
        """Return the plans that were run."""
        from seamark.copies.plan.registrations import read_registered  # noqa: PLC0415

        return read_registered(self._build_config(), control_topic, patience_seconds=_LOOK_SECONDS)

    def hold(self, control_topic: str, *, plan: str) -> RegistrationLease:
        """Take the registration of a plan."""
        from seamark.copies.plan.registrations import HeldRegistration  # noqa: PLC0415

        return HeldRegistration(self._build_config(), control_topic, plan=plan)

    def read_records(self, control_topic: str, *, jobs: Collection[str]) -> Mapping[str, tuple[ControlRecord, ...]]:
        """Return all control records of jobs acknowledged before the call. It waits for open transactions."""
        from seamark.copies.plan.registrations import PATIENCE_SECONDS  # noqa: PLC0415
        from seamark.kafka_sink.control_reads import require_whole  # noqa: PLC0415

        read = self._scan(control_topic, jobs, patience_seconds=PATIENCE_SECONDS)
        return require_whole(read, control_topic, patience_seconds=PATIENCE_SECONDS).records

    def look_at_records(self, control_topic: str, *, jobs: Collection[str]) -> ControlReading:
        """Return the control records of jobs that are committed now."""
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

    `expected` is the number of partitions that the topic must have. `since` and `until` are log locations; by default
    the whole log is copied. Without `slice_records` slices are as large as their tasks can handle.
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
        """Refuse values that no broker accepts."""
        check_name(self.target)
        for what, number in (("replication-factor", self.replication_factor), ("slice-records", self.slice_records)):
            if number is not None and number < 1:
                raise UsageError(f"invalid value {number} for {what}: expected 1 or more")

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
        since=None if since is None else parse_where(since, option="--start"),
        until=None if until is None else parse_where(until, option="--end"),
        replication_factor=replication_factor,
        slice_records=slice_records,
    )


def parse_shape(text: str) -> tuple[int | None, int]:
    """Parse `N`, or `M:N` if the topic must have M partitions now."""
    try:
        numbers = [parse_number(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 2:
        raise UsageError(
            f"invalid number of partitions {text!r}", hint="use N, or M:N for a topic that has M partitions now: 12:6"
        )
    if not all(1 <= number <= MOST_PARTITIONS for number in numbers):
        raise UsageError(f"invalid number of partitions {text!r}: expected 1 to {render_number(MOST_PARTITIONS)}")
    return (numbers[0] if len(numbers) == 2 else None), numbers[-1]


def parse_rule(text: str | Partitioner | None) -> Partitioner | None:
    """Parse the name of a partitioner."""
    if text is None:
        return None
    try:
        return Partitioner(text)
    except ValueError:
        raise UsageError(
            f"invalid value {text!r} for --partitioner", hint=f"use one of {', '.join(Partitioner)}"
        ) from None


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The source: its log as `read_committed` consumers see it, and the offsets to copy.

    `bytes` is the size of one replica of the whole log, None if it is unknown.
    """

    cluster_id: str
    status: TopicStatus
    bounds: Mapping[int, LogOffsets]
    ranges: tuple[OffsetRange, ...]
    bytes: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def end(self) -> TopicEnd:
        """The source as a plan stores it."""
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
        """The size of the copied part, estimated by its share of the offsets."""
        whole = sum(found.records for found in self.bounds.values())
        if self.bytes is None or not whole:
            return self.bytes
        return self.bytes * sum(one.size for one in self.ranges) // whole


def read_source(kafka: BrokersPort, options: CopyOptions) -> SourceFacts:
    """Read the source, and fix the offsets to copy once for the whole plan."""
    status = find_topic(kafka, options.topic)
    if status is None:
        raise NotFoundError(f"topic {options.topic} does not exist", hint="list the topics: seamark topics list")
    if status.configs_error:
        raise SeamarkError(
            f"can't read the configs of topic {options.topic}, which its copy needs",
            cause=status.configs_error,
            hint="grant DESCRIBE_CONFIGS on the topic to the principal of this context",
        )
    count = len(status.partitions)
    if options.expected is not None and options.expected != count:
        raise UsageError(
            f"topic {options.topic} has {count} partitions, not {options.expected}",
            hint=f"check the topic name, or pass --partitions {count}:{options.partitions}",
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
    """Find a topic by its name; return None if it doesn't exist."""
    reading = kafka.read_topics([name])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return None
        raise error
    return reading.items[0]


def read_stable_bounds(kafka: BrokersPort, status: TopicStatus) -> dict[int, LogOffsets]:
    """Return the first offset of each partition, and its current end for `read_committed` consumers."""
    if status.leaderless:
        raise RefusedError(
            f"partitions {', '.join(map(str, status.leaderless))} of {status.name} have no leader",
            hint="find the cause: seamark topics health",
        )
    begins = kafka.read_log_offsets(status.spots, at=OffsetSpec.EARLIEST).require_complete(what="the start offsets")
    ends = kafka.read_log_offsets(status.spots, at=OffsetSpec.STABLE).require_complete(what="the end offsets")
    found = {}
    for spot in status.spots:
        begin, end = begins[spot], ends[spot]
        if begin is None or end is None:
            raise SeamarkError(f"the brokers returned no offset for partition {spot[0]}-{spot[1]}", hint="try again")
        # An open transaction may hold the last stable offset before the log start offset that retention has moved
        # meanwhile.
        found[spot[1]] = LogOffsets(begin.offset, max(begin.offset, end.offset))
    return found


def _read_bytes(kafka: BrokersPort, status: TopicStatus) -> tuple[int | None, tuple[str, ...]]:
    try:
        reading = kafka.read_sizes({status.name: [one.id for one in status.partitions]})
    except SeamarkError as error:
        return None, (f"the size of the topic is unknown: {error.message}",)
    size = next(iter(reading.items), None)
    if size is None or reading.failures:
        return None, tuple(f"the size of the topic is unknown: {error.message}" for error in reading.failures.values())
    total = sum(size.by_partition.values())
    # Brokers that deny access to their log directories return none. An empty log has size zero as well.
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
    """Return the offsets of a log location, within the bounds. A time after the last record means the end."""
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
