"""An offsets topic as a log in memory, with strays in it, and the connector that has its offsets there."""

from __future__ import annotations

from seamark.connect.model import ConnectorStatus, State
from seamark.errors import NotFoundError, UnknownOutcomeError, UnreachableError
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.model import TopicHolding
from seamark.offsets.stores.topic import build_home
from tests.ports import MethodPorts

PARTITIONS = 5
KEY = b'["orders",{"table":"a"}]'
home = build_home(PARTITIONS)
HOME, ASIDE, FARTHER = (home(KEY), (home(KEY) + 1) % PARTITIONS, (home(KEY) + 2) % PARTITIONS)
PARTITION = {"table": "a"}


class Environment(MethodPorts):
    """A topic as a log, and a connector that is stopped or not."""

    def __init__(self, *records):
        self.log = list(records)
        self.time = 1000.0
        self.state = State.STOPPED
        # After so many records the brokers are gone.
        self.breaks_after = None
        self.is_down = False

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds

    def offsets(self, cluster, name):
        if (cluster, name) != ("game", "orders"):
            raise NotFoundError(f"no connector {name}")
        return self

    def read_status(self, _cluster, _name):
        return ConnectorStatus(self.state, worker_id="w:1", tasks=())

    def read_topic(self, topic):
        self._refuse_down()
        held = {record.place: record for record in self.log if decode_key(record.key).connector == "orders"}
        return TopicHolding(topic, tuple(held.values()), home)

    def write(self, records):
        self._refuse_down()
        for number, record in enumerate(records):
            self._break_off(number)
            self.log.append(record)

    def _break_off(self, number):
        if self.breaks_after is None:
            return
        if self.breaks_after > 0:
            self.breaks_after -= 1
            return
        self.breaks_after = None
        self.is_down = True
        raise UnknownOutcomeError("some were written") if number else UnreachableError("no broker")

    def _refuse_down(self):
        if self.is_down:
            raise UnreachableError("no broker answers")

    def held(self):
        """The newest of each place that speaks of the connector."""
        return {
            (record.partition, record.key): record.value
            for record in self.log
            if decode_key(record.key).connector == "orders"
        }
