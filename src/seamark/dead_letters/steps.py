"""After a record was skipped: the sink runs, and goes on behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Protocol

from seamark.changes.action import CheckStep, read_within_deadline
from seamark.changes.codec import Transient
from seamark.changes.environment import Environment
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.connect.model import ConnectorStatus, State, fold_trace
from seamark.connectors.read import read_status
from seamark.connectors.run_state import SetRunState, is_running
from seamark.connectors.steps import EditConfig
from seamark.core.refs import Port
from seamark.core.secrets import is_sensitive
from seamark.errors import DeadlineError, RefusedError, SeamarkError
from seamark.kafka.model import Headers, RecordLocation, TopicPartition, WholeRecord
from seamark.topics.actions import CreateTopic

# What says who a connector is, what it reads and from where: a sink with another of these is another sink.
_NOT_LENT = frozenset({"name", "connector.class", "topics", "topics.regex"})
_OVERRIDES, _BATCH = (
    ("consumer.override.", "producer.override.", "admin.override."),
    "consumer.override.max.poll.records",
)


def refuse_lent(keys: Iterable[str]) -> None:
    """Refuse keys that can't be lent: those that make another connector of it, and secrets."""
    for key in keys:
        if key in _NOT_LENT or (key.startswith(_OVERRIDES) and key != _BATCH) or is_sensitive(key):
            raise RefusedError(f"{key} can't be lent for a while; nothing was changed")


@step_kind("lend-config")
@dataclass(frozen=True, slots=True)
class OverrideConfig(EditConfig):
    """Some keys of a connector's config get other values for a while. With `returns` it is the way back."""

    returns: bool = False

    def describe(self) -> str:
        if self.returns:
            return f"put the config of {self.subject} back"
        return f"lend {self.subject} for a while {self.say_values()}"

    def refuse_keys(self) -> None:
        refuse_lent(self.values)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # The change gives back what it lends, in every case. Only where that failed, there is something to undo.
        if self.returns or intent.before is None:
            return None
        former = self.find_former(intent)
        return (
            former if isinstance(former, CanNotUndo) else OverrideConfig(self.cluster, self.name, former, returns=True)
        )


@step_kind("run-meanwhile")
@dataclass(frozen=True, slots=True)
class RunTemporarily(SetRunState):
    """A connector runs or stops in the midst of a change. An undo of the change has nothing to do about it."""

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None


@step_kind("make-parking-topic")
@dataclass(frozen=True, slots=True)
class CreateDeadLetterTopic(CreateTopic):
    """The topic for parked records is created. It stays where the change is undone: the parked record is in it."""

    configs: Mapping[str, str] = field(default_factory=dict)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None


class RecordPort(Protocol):
    """The records of one sink."""

    def read_positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of every partition that it reads. What was never committed stands where the log begins."""
        ...

    def read_ends(self) -> Mapping[TopicPartition, int]:
        """Where the log of every partition that it reads ends now."""
        ...

    def find_next(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, RecordLocation]:
        """The first record at or behind each position, as the sink would get it. None where the log ends."""
        ...

    def read(self, place: RecordLocation) -> WholeRecord | None:
        """The record that lies there; None where none does any more."""
        ...

    def is_parked(self, topic: str, place: RecordLocation) -> bool:
        """Whether the topic holds a parked copy of the record that lies, or lay, there. No topic holds none."""
        ...

    def park(self, topic: str, record: WholeRecord, headers: Headers) -> None:
        """Write a copy with these headers behind its own."""
        ...


RECORDS: Port[Callable[[str, str], RecordPort]] = Port("records")
"""Opens the records that one sink of a Connect cluster reads."""


_LOOK_SECONDS = 1.0
# A task that has just been started may still show the failure of the one before it for a moment.
_FAILED_SECONDS = 5.0
_RUNNING_SECONDS = 3.0


@step_kind("await-progress")
@dataclass(frozen=True, slots=True)
class AwaitProgress(CheckStep):
    """A sink is watched until it runs and has committed something behind a place, or nothing is left to read there.

    Sinks commit every `offset.flush.interval.ms`, a minute by default, and some of them only whole files: one that runs
    for `patience_seconds` is well, too.
    """

    aspect: ClassVar[str] = "progress"

    cluster: str
    name: str
    place: RecordLocation
    deadline_seconds: float = 120.0
    patience_seconds: float = 75.0

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    @property
    def settle_seconds(self) -> float:
        return self.deadline_seconds

    def describe(self) -> str:
        return f"see {self.subject} run and go on behind {self.place}"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        clock = world.clock
        deadline = clock.now() + self.deadline_seconds
        running_since: float | None = None
        failed_since: float | None = None
        while True:
            now = clock.now()
            status = self._read_status(world, is_late=now >= deadline)
            runs = status is not None and bool(status.tasks) and is_running(status)
            fails = status is not None and any(task.state is State.FAILED for task in status.tasks)
            running_since = (now if running_since is None else running_since) if runs else None
            failed_since = (now if failed_since is None else failed_since) if fails else None
            if failed_since is not None and now - failed_since >= _FAILED_SECONDS:
                raise self._build_failed(status)
            if running_since is not None and self._is_well(world, now - running_since):
                return
            if now >= deadline:
                raise self._build_late(status)
            clock.sleep(_LOOK_SECONDS)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        status = read_status(world, self.cluster, self.name)
        return Observed.AFTER if status is not None and is_running(status) else Observed.BEFORE

    def _read_status(self, world: Environment, *, is_late: bool) -> ConnectorStatus | None:
        try:
            return read_status(world, self.cluster, self.name)
        except SeamarkError as error:
            # A rebalance hides it for a while.
            if is_late or not error.retryable:
                raise
            return None

    def _is_well(self, world: Environment, seconds: float) -> bool:
        if seconds < _RUNNING_SECONDS:
            return False
        if seconds >= self.patience_seconds:
            return True
        port = world.use(RECORDS)(self.cluster, self.name)
        position = port.read_positions().get(self.place.spot, 0)
        if position > self.place.offset + 1:
            return True
        return not port.find_next({self.place.spot: position})

    def _build_failed(self, status: ConnectorStatus | None) -> RefusedError:
        traces = [task.trace for task in (status.tasks if status else ()) if task.state is State.FAILED]
        # The words of a trace may hold what is in a record; its class does not.
        kinds = {fold_trace(trace).root.partition(":")[0] for trace in traces}
        return RefusedError(
            f"{self.place} is skipped, and {self.subject} fails again",
            cause=", ".join(sorted(kinds - {""})) or "its task has no trace",
            hint="where another record is the cause: seamark offsets skip "
            f"{self.cluster}/{self.name}; where its target takes none at all, mend that, and undo this",
        )

    def _build_late(self, status: ConnectorStatus | None) -> DeadlineError:
        seen = "Connect has no status of it" if status is None else f"connector {status.state}"
        tasks = ", ".join(f"task {task.id} {task.state}" for task in (status.tasks if status else ()))
        return DeadlineError(
            f"{self.place} is skipped, and {self.subject} did not run within {self.deadline_seconds:g} s",
            cause=f"{seen}, {tasks or 'no task'}",
            hint=f"seamark connectors show {self.cluster}/{self.name}",
        )


# Connect's own names, as its dead-letter queues have them (DeadLetterQueueReporter).
PREFIX = "__connect.errors."
# Connect keeps the record's time as the copy's. Then a topic's retention may delete an old record as soon as it is
# parked, so a copy has the time of its parking, and the record's own is here.
TIMESTAMP = "seamark.record.timestamp"
_LOST = "not kept: the plan came from a file, or the change was resumed"


@dataclass(frozen=True, slots=True)
class Failure:
    """How a record failed. What a trace says may hold the record's contents: plan and journal keep it out."""

    stage: str = ""
    class_name: str = ""
    exception: str = ""
    task: int = 0
    message: Annotated[str, Transient()] = field(default=_LOST, compare=False, repr=False)
    trace: Annotated[str, Transient()] = field(default=_LOST, compare=False, repr=False)


@step_kind("park-record")
@dataclass(frozen=True, slots=True)
class SendToDeadLetter(Step):
    """The record at a place is copied to a topic, unless a copy of it is there already."""

    aspect: ClassVar[str] = "parked"
    # A copy can be read as soon as it is acknowledged. A minute is for a topic whose leader moves.
    settle_seconds: ClassVar[float] = 60.0

    cluster: str
    name: str
    place: RecordLocation
    topic: str
    failure: Failure = field(default_factory=Failure)

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"park {self.place}, which {self.subject} can't take, in {self.topic}"

    def intend(self, world: Environment) -> Intent:
        is_parked = world.use(RECORDS)(self.cluster, self.name).is_parked(self.topic, self.place)
        return Intent(before=self._build_image(is_parked=is_parked), after=self._build_image(is_parked=True))

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        port = world.use(RECORDS)(self.cluster, self.name)
        record = read_within_deadline(world, self.subject, lambda: port.read(self.place))
        if record is None:
            raise RefusedError(
                f"{self.place} is not there any more; nothing was parked",
                hint="its topic may have deleted it: then there is nothing to skip",
            )
        port.park(self.topic, record, tuple(self._build_headers(record)))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        is_parked = world.use(RECORDS)(self.cluster, self.name).is_parked(self.topic, self.place)
        return Observed.AFTER if is_parked else Observed.BEFORE

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # The copy stays: it does no harm, and somebody may have read it.
        del intent
        return None

    def _build_image(self, *, is_parked: bool) -> dict[str, object]:
        return {"record": str(self.place), "topic": self.topic, "parked": is_parked}

    def _build_headers(self, record: WholeRecord) -> Iterator[tuple[str, bytes]]:
        for name, value in build_place_headers(record.place):
            yield name, value or b""
        failure = self.failure
        for name, text in (
            ("connector.name", self.name),
            ("task.id", str(failure.task)),
            ("stage", failure.stage),
            ("class.name", failure.class_name),
            ("exception.class.name", failure.exception),
            ("exception.message", failure.message),
            ("exception.stacktrace", failure.trace),
        ):
            yield f"{PREFIX}{name}", text.encode()
        yield TIMESTAMP, str(record.timestamp_ms).encode()


def build_place_headers(place: RecordLocation) -> Headers:
    """The headers by which a parked copy says where its record lies."""
    values = {"topic": place.topic, "partition": str(place.partition), "offset": str(place.offset)}
    return tuple((f"{PREFIX}{name}", value.encode()) for name, value in values.items())


def is_copy_of(record: WholeRecord, place: RecordLocation) -> bool:
    """Whether a record is a parked copy of the one at a place. A header that stands twice counts as its last one."""
    headers = dict(record.headers)
    return all(headers.get(name) == value for name, value in build_place_headers(place))
