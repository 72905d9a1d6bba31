"""An offsets topic as a log in memory, with strays in it, and the connector that has its offsets there."""

from __future__ import annotations

from seamark.errors import NotFoundError, UnknownOutcomeError, UnreachableError
from seamark.model.connector import ConnectorStatus, State
from seamark.model.held_offset import OffsetWrite, TopicHolding
from seamark.offsets.codec import decode_key, decode_value
from seamark.offsets.grouping import build_home
from tests.unit.change.brokers import FakeBrokers

PARTITIONS = 5
KEY = b'["orders",{"table":"a"}]'
home = build_home(PARTITIONS)
HOME, ASIDE, FARTHER = (home(KEY), (home(KEY) + 1) % PARTITIONS, (home(KEY) + 2) % PARTITIONS)
PARTITION = {"table": "a"}


class Killed(BaseException):
    """The process is no more."""


class World:
    """A topic as a log, a connector that is stopped or not, and a cleaner that needs `rounds` rolled segments.

    `starts` is what its task found each time that it was resumed: what its worker has heard last.
    """

    def __init__(self, *records, rounds=2):
        self.log = []
        self.time = 1000.0
        self.rounds = rounds
        self.rolled = 0
        self.state = State.STOPPED
        self.cluster = "game"
        self.failing = {}
        # After so many records of the connector's the brokers are gone, or this process is.
        self.breaks_after = None
        self.breaks_with = UnreachableError
        self.is_down = False
        self.heard = None
        self.starts = []
        self.brokers = FakeBrokers()
        self.brokers.add_topic("t", partitions=PARTITIONS, configs={"segment.ms": "5"})
        for record in records:
            self._append(record)

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds

    def kafka(self):
        return self.brokers

    def connect(self, _cluster):
        return self

    def offsets(self, cluster, name):
        if (cluster, name) != (self.cluster, "orders"):
            raise NotFoundError(f"no connector {name}")
        return self

    def left_offsets(self, _cluster):
        return self

    def read_status(self, _cluster, _name):
        return ConnectorStatus(self.state, worker_id="w:1", tasks=())

    def stop(self, _name):
        self.state = State.STOPPED

    def pause(self, _name):
        self.state = State.PAUSED

    def resume(self, _name):
        self.starts.append(self.heard)
        self.state = State.RUNNING

    def read_topic(self, topic):
        self._refuse_down()
        if self.failing:
            raise self.failing.pop(next(iter(self.failing)))
        held = {record.place: record for record, _ in self.log if decode_key(record.key).connector == "orders"}
        return TopicHolding(topic, tuple(held.values()), home)

    def read_writes(self, partitions):
        self._refuse_down()
        return [
            [
                OffsetWrite(decode_value(record.value).offset, at)
                for record, at in self.log
                if (key := decode_key(record.key).key) is not None and key.partition == partition
            ]
            for partition in partitions
        ]

    def write(self, records):
        self._refuse_down()
        for number, record in enumerate(records):
            if record.value is not None and "write" in self.failing:
                raise self.failing.pop("write")
            self._break_off(number)
            self._append(record)
            if decode_key(record.key).connector == "seamark":
                assert (record.value, record.partition) == (None, home(record.key))
                self.rolled += 1
        if self.rolled >= self.rounds:
            newest = {record.place: (record, at) for record, at in self.log}
            self.log = [found for found in newest.values() if found[0].value is not None]

    def _break_off(self, number):
        if self.breaks_after is None:
            return
        if self.breaks_after > 0:
            self.breaks_after -= 1
            return
        self.breaks_after = None
        if self.breaks_with is Killed:
            raise Killed
        self.is_down = self.breaks_with is UnreachableError
        raise UnknownOutcomeError("some were written") if number else UnreachableError("no broker")

    def _refuse_down(self):
        if self.is_down:
            raise UnreachableError("no broker answers")

    def _append(self, record):
        self.time += 1
        self.log.append((record, int(self.time * 1000)))
        if record.key == KEY:
            self.heard = record.value

    def held(self):
        """The newest of each place that speaks of the connector."""
        return {
            (record.partition, record.key): record.value
            for record, _ in self.log
            if decode_key(record.key).connector == "orders"
        }
