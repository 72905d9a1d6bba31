"""Steps that skip a record: temporary config, dead letter topic and record, and the check that the sink continues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Protocol

from seamark.changes.action import CheckStep, read_within_deadline
from seamark.changes.codec import Transient
from seamark.changes.environment import Environment
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Observed, Step, step_kind
from seamark.connect.model import ConnectorStatus, State, fold_trace
from seamark.connectors.read import read_status
from seamark.connectors.run_state import SetRunState, is_running
from seamark.connectors.steps import EditConfig
from seamark.core.refs import Port
from seamark.core.secrets import is_sensitive
from seamark.errors import DeadlineError, RefusedError, SeamarkError
from seamark.kafka.model import Headers, RecordLocation, TopicPartition, WholeRecord
from seamark.topics.actions import CreateTopic

# Keys that determine a connector's identity and input: with another value, it would be another sink.
_NOT_LENT = frozenset({"name", "connector.class", "topics", "topics.regex"})
_OVERRIDES, _BATCH = (
    ("consumer.override.", "producer.override.", "admin.override."),
    "consumer.override.max.poll.records",
)


def refuse_lent(keys: Iterable[str]) -> None:
    """Refuse keys that can't be changed temporarily: those that change the connector's identity, and secrets."""
    for key in keys:
        if key in _NOT_LENT or (key.startswith(_OVERRIDES) and key != _BATCH) or is_sensitive(key):
            raise RefusedError(f"{key} can't be set temporarily; no changes were made")


@step_kind("set-config-temporarily")
@dataclass(frozen=True, slots=True)
class OverrideConfig(EditConfig):
    """Set some keys of a connector's config temporarily. With `returns`, the step restores the previous values."""

    returns: bool = False

    def describe(self) -> str:
        if self.returns:
            return f"restore the config of {self.subject}"
        return f"set temporarily for {self.subject}: {self.say_values()}"

    def refuse_keys(self) -> None:
        refuse_lent(self.values)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # The change always restores the temporary config. Only if that failed is there something to undo.
        if self.returns or intent.before is None:
            return None
        former = self.find_previous_values(intent)
        return (
            former if isinstance(former, CanNotUndo) else OverrideConfig(self.cluster, self.name, former, returns=True)
        )


@step_kind("set-run-state-temporarily")
@dataclass(frozen=True, slots=True)
class RunTemporarily(SetRunState):
    """Run or stop a connector during a change. An undo of the change needs no counterpart."""

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None


@step_kind("create-dead-letter-topic")
@dataclass(frozen=True, slots=True)
class CreateDeadLetterTopic(CreateTopic):
    """Create the dead letter topic. Undo keeps it, because the skipped record is in it."""

    configs: Mapping[str, str] = field(default_factory=dict)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None


class RecordPort(Protocol):
    """The records of one sink."""

    def read_positions(self) -> Mapping[TopicPartition, int]:
        """Return the next offset of every partition that it reads; the start of the log if nothing is committed."""
        ...

    def read_ends(self) -> Mapping[TopicPartition, int]:
        """Return the current log end of every partition that it reads."""
        ...

    def find_next(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, RecordLocation]:
        """Return the first record at or after each offset, as the sink would get it; none at the end of the log."""
        ...

    def read(self, place: RecordLocation) -> WholeRecord | None:
        """Return the record at that location; None if it no longer exists."""
        ...

    def is_dead_letter(self, topic: str, place: RecordLocation) -> bool:
        """Return whether the topic has a copy of the record at that location, even if the original no longer exists.

        A missing topic has no copies.
        """
        ...

    def park(self, topic: str, record: WholeRecord, headers: Headers) -> None:
        """Write a copy to the dead letter queue, with these headers after its own."""
        ...


RECORDS: Port[Callable[[str, str], RecordPort]] = Port("records")
"""Opens the records that one sink of a Connect cluster reads."""


_LOOK_SECONDS = 1.0
# A task that has just been started may briefly show the failure of the previous one.
_FAILED_SECONDS = 5.0
_RUNNING_SECONDS = 3.0


@step_kind("await-progress")
@dataclass(frozen=True, slots=True)
class AwaitProgress(ConnectorSubject, CheckStep):
    """Watch a sink until it runs and has committed an offset after a record, or no record is left to read there.

    Sinks commit every `offset.flush.interval.ms`, a minute by default, and some of them only whole files. So a sink
    that runs for `patience_seconds` passes, too.
    """

    aspect: ClassVar[str] = "progress"

    place: RecordLocation
    deadline_seconds: float = 120.0
    patience_seconds: float = 75.0

    @property
    def settle_seconds(self) -> float:
        return self.deadline_seconds

    def describe(self) -> str:
        return f"wait until {self.subject} runs and has processed records after {self.place}"

    def perform(self, world: Environment, intent: Intent) -> None:
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
        status = read_status(world, self.cluster, self.name)
        return Observed.AFTER if status is not None and is_running(status) else Observed.BEFORE

    def _read_status(self, world: Environment, *, is_late: bool) -> ConnectorStatus | None:
        try:
            return read_status(world, self.cluster, self.name)
        except SeamarkError as error:
            # A rebalance hides it temporarily.
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
        # The message of a trace may contain record data; the exception class doesn't.
        kinds = {fold_trace(trace).root.partition(":")[0] for trace in traces}
        return RefusedError(
            f"{self.place} was skipped, but {self.subject} fails again",
            cause=", ".join(sorted(kinds - {""})) or "its task has no trace",
            hint="if another record is the cause, run seamark offsets skip "
            f"{self.cluster}/{self.name}; if its target accepts no records, repair the target and undo this change",
        )

    def _build_late(self, status: ConnectorStatus | None) -> DeadlineError:
        seen = "Connect has no status for it" if status is None else f"connector {status.state}"
        tasks = ", ".join(f"task {task.id} {task.state}" for task in (status.tasks if status else ()))
        return DeadlineError(
            f"{self.place} was skipped, but {self.subject} was not RUNNING within {self.deadline_seconds:g} s",
            cause=f"{seen}, {tasks or 'no task'}",
            hint=f"check it with seamark connectors show {self.cluster}/{self.name}",
        )


# Connect's own header names, as in its dead letter queues (DeadLetterQueueReporter).
PREFIX = "__connect.errors."
# Connect copies the record's timestamp. Then retention may delete an old record immediately after it is written, so a
# copy has the time of its writing, and this header has the record's own timestamp.
TIMESTAMP = "seamark.record.timestamp"
_LOST = "not stored: the plan came from a file, or the change was resumed"


@dataclass(frozen=True, slots=True)
class Failure:
    """How a record failed. A trace may contain record data, so the plan and the journal don't store it."""

    stage: str = ""
    class_name: str = ""
    exception: str = ""
    task: int = 0
    message: Annotated[str, Transient()] = field(default=_LOST, compare=False, repr=False)
    trace: Annotated[str, Transient()] = field(default=_LOST, compare=False, repr=False)


@step_kind("send-dead-letter")
@dataclass(frozen=True, slots=True)
class SendToDeadLetter(ConnectorSubject, Step):
    """Copy a record to the dead letter topic, unless a copy of it is already there."""

    aspect: ClassVar[str] = "parked"
    # A copy can be read as soon as it is acknowledged. A minute is for a topic whose leader moves.
    settle_seconds: ClassVar[float] = 60.0

    place: RecordLocation
    topic: str
    failure: Failure = field(default_factory=Failure)

    def describe(self) -> str:
        return f"send {self.place}, which {self.subject} can't process, to the dead letter queue {self.topic}"

    def intend(self, world: Environment) -> Intent:
        is_dead_letter = world.use(RECORDS)(self.cluster, self.name).is_dead_letter(self.topic, self.place)
        return Intent(
            before=self._build_image(is_dead_letter=is_dead_letter), after=self._build_image(is_dead_letter=True)
        )

    def perform(self, world: Environment, intent: Intent) -> None:
        port = world.use(RECORDS)(self.cluster, self.name)
        record = read_within_deadline(world, self.subject, lambda: port.read(self.place))
        if record is None:
            raise RefusedError(
                f"{self.place} does not exist any more; it was not sent to the dead letter queue",
                cause="retention or compaction may have deleted it; then it doesn't need to be skipped",
            )
        port.park(self.topic, record, tuple(self._build_headers(record)))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        is_dead_letter = world.use(RECORDS)(self.cluster, self.name).is_dead_letter(self.topic, self.place)
        return Observed.AFTER if is_dead_letter else Observed.BEFORE

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # The copy stays: it is harmless, and consumers may have read it.
        return None

    def _build_image(self, *, is_dead_letter: bool) -> dict[str, object]:
        return {"record": str(self.place), "topic": self.topic, "parked": is_dead_letter}

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
    """Return the headers that name the location of a copy's original record."""
    values = {"topic": place.topic, "partition": str(place.partition), "offset": str(place.offset)}
    return tuple((f"{PREFIX}{name}", value.encode()) for name, value in values.items())


def is_copy_of(record: WholeRecord, place: RecordLocation) -> bool:
    """Return whether a record is a copy of the one at a location. If a header occurs twice, the last one counts."""
    headers = dict(record.headers)
    return all(headers.get(name) == value for name, value in build_place_headers(place))
