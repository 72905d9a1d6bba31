"""A record that a sink can't take is parked: copied with its headers, its place and the error to another topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from seamark.changes.codec import Transient
from seamark.changes.last_look import take_last_look
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.dead_letters.port import RECORDS
from seamark.errors import RefusedError
from seamark.kafka.record import Headers, Place, WholeRecord

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
class ParkRecord(Step):
    """The record at a place is copied to a topic, unless a copy of it is there already."""

    aspect: ClassVar[str] = "parked"
    # A copy can be read as soon as it is acknowledged. A minute is for a topic whose leader moves.
    settle_seconds: ClassVar[float] = 60.0

    cluster: str
    name: str
    place: Place
    topic: str
    failure: Failure = field(default_factory=Failure)

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"park {self.place}, which {self.subject} can't take, in {self.topic}"

    def intend(self, world: World) -> Intent:
        is_parked = world.use(RECORDS)(self.cluster, self.name).is_parked(self.topic, self.place)
        return Intent(before=self._build_image(is_parked=is_parked), after=self._build_image(is_parked=True))

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        port = world.use(RECORDS)(self.cluster, self.name)
        record = take_last_look(world, self.subject, lambda: port.read(self.place))
        if record is None:
            raise RefusedError(
                f"{self.place} is not there any more; nothing was parked",
                hint="its topic may have deleted it: then there is nothing to skip",
            )
        port.park(self.topic, record, tuple(self._build_headers(record)))

    def observe(self, world: World, intent: Intent) -> Observed:
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


def build_place_headers(place: Place) -> Headers:
    """The headers by which a parked copy says where its record lies."""
    values = {"topic": place.topic, "partition": str(place.partition), "offset": str(place.offset)}
    return tuple((f"{PREFIX}{name}", value.encode()) for name, value in values.items())


def is_copy_of(record: WholeRecord, place: Place) -> bool:
    """Whether a record is a parked copy of the one at a place. A header that stands twice counts as its last one."""
    headers = dict(record.headers)
    return all(headers.get(name) == value for name, value in build_place_headers(place))
