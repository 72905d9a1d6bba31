"""Sources and sinks of older workers, killed in the middle of a move of their offsets, and finished by resume.

Connect 3.5 takes no offsets, so they are written to the topic or committed for the group. A move has six steps:
stop 0 · prove 1 · count 2 · write 3 · verify 4 · resume 5.
"""

from __future__ import annotations

import json

from confluent_kafka import Producer

import seamark
from seamark.changes.interruption import POINTS
from seamark.context import open_context
from seamark.devstack.process import wait_until
from seamark.offsets.codec.codec import encode_key
from tests.fault.rig import Rig, is_hindered
from tests.integration.offset_tools import read_writes
from tests.integration.waits import TRIES, ask_patiently

STEPS = 6
# Those that act: the others are only looks, which a crash does not hurt.
ACTING = (0, 3, 5)
STEP_POINTS = [point for point in POINTS if point not in ("after-open", "before-close", "after-close")]
LOOKS = ("before-intent", "after-outcome")
MATRIX = [
    f"{point}:{number}" for number in range(STEPS) for point in STEP_POINTS if number in ACTING or point in LOOKS
] + ["after-open:0", "before-close:0", "after-close:0"]
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
STRING = "org.apache.kafka.connect.storage.StringConverter"
# A line is five bytes. Two are there at the beginning, and every move to the beginning brings both once more.
TEXT = "line\n" * 2
PATIENCE_SECONDS = 120


class Moved:
    """A connector that has read its two lines, and whoever moves it to the beginning."""

    kind = "source"
    # A move to the beginning is one record of it.
    writes = 1
    # A source's task that Connect itself ended before its flush, in a neighbour's rebalance, reads all of them again.
    may_repeat = True

    def __init__(self, stack, folder, *, cluster, count_records):
        self.rig = Rig(stack, folder, journal="file", cluster=cluster)
        self.rig.input.write_text(TEXT)
        self._count_records = count_records
        self.seen = 0
        code, _, err = self.rig.seamark("init", "--yes")
        assert code == 0, err

    def create(self):
        self.rig.create()
        self.await_end(2)

    @property
    def owner(self):
        return f"{self.rig.cluster}/{self.rig.name}"

    def count(self):
        """How many lines it has delivered so far."""
        return self._count_records(self.rig.name)

    def read(self):
        """The positions that the store holds, read by nobody else than seamark: 3.4 tells none."""
        with seamark.Fleet(open_context(environ=self.rig.env)) as fleet:
            found = ask_patiently(lambda: fleet.offsets.get(self.owner).offsets)
        return [next(iter(one.offset.values())) for one in found]

    def find_end(self):
        return self.rig.input.stat().st_size

    def await_end(self, more):
        """So many lines more were delivered, its place is at the end, and was flushed."""
        wait_until(
            lambda: self.count() >= self.seen + more and self.read() == [self.find_end()],
            f"{self.rig.name} stood at its end",
            seconds=PATIENCE_SECONDS,
            every_seconds=0.5,
        )
        new = self.count() - self.seen
        is_right = new == more or (self.may_repeat and new % more == 0)
        assert is_right, f"{self.rig.name} has delivered {new} lines, expected {more}"
        self.seen += new

    def move(self, place="0", **options):
        words = ("offsets", "move", self.owner, "--to", place, "--progress-timeout", "0s", "--yes")
        return self.rig.seamark(*words, timeout=300, **options)

    def count_rewinds(self):
        """How often its beginning was stored so far; a task only stores what lies behind it."""
        endpoint = self.rig.stack.connect[self.rig.cluster]
        key = encode_key(self.rig.name, {"filename": str(self.rig.input)})
        values = read_writes(self.rig.stack.kafka.bootstrap_servers, endpoint.offsets_topic, key)
        return sum(value is not None and json.loads(value) == {"position": 0} for value in values)

    def move_at(self, point):
        """Kill a move there; again where a rebalance kept it from there. Gives how often it was rewound before."""
        for _ in range(TRIES):
            wait_until(self.rig.runs, f"{self.rig.name} ran", seconds=PATIENCE_SECONDS)
            rewinds = self.count_rewinds()
            ended = self.move(failpoint=f"{point}:kill")
            if not is_hindered(*ended):
                break
            self.rig.finish()
        assert ended[0] == -9, ended
        return rewinds

    def run_point(self, point):
        """Kill a move there, resume it, and see that it was done once."""
        before = self.rig.config()
        rewinds = self.move_at(point)
        # The newest: one that a rebalance hindered did nothing.
        change, *_ = self.rig.changes()
        if point.startswith("after-close"):
            assert change["state"] == "done", change
        else:
            assert change["state"] == "open", change
            code, _, err = self.rig.resume(change["change"])
            assert code == 0, err
        change, *_ = self.rig.changes()
        assert change["state"] == "done", change
        assert self.rig.config() == before
        wait_until(self.rig.runs, f"{self.rig.name} ran again", seconds=PATIENCE_SECONDS)
        self.await_end(2)
        assert self.count_rewinds() == rewinds + self.writes

    def close(self):
        self.rig.delete()


class MovedSink(Moved):
    """The same for a file sink: its lines are in a file, and its place is in its group."""

    kind = "sink"
    writes = 0
    # It commits when it is ended; and nothing else tells how often it was moved.
    may_repeat = False

    def create(self):
        producer = Producer({"bootstrap.servers": self.rig.stack.kafka.bootstrap_servers, "acks": "all"})
        for line in TEXT.splitlines():
            producer.produce(self.rig.name, value=line)
        assert producer.flush(60) == 0
        self.rig.put(
            self.rig.name,
            {
                "connector.class": SINK,
                "tasks.max": "1",
                "topics": self.rig.name,
                "file": str(self.rig.folder / "out.txt"),
                "key.converter": STRING,
                "value.converter": STRING,
            },
        )
        wait_until(self.rig.runs, f"{self.rig.name} ran", seconds=PATIENCE_SECONDS)
        self.await_end(2)

    def count(self):
        file = self.rig.folder / "out.txt"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def find_end(self):
        return 2

    def count_rewinds(self):
        """Nothing of it is in the topic."""
        return 0


KINDS = {"source": Moved, "sink": MovedSink}
