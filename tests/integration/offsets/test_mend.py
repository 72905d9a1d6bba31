"""Odd records of a source's offsets are put right by a plan that says what each will be, and undone to the byte.

With a topic of its own a source reads all records anew at each start, as a worker does with its own when it starts.
"""

from __future__ import annotations

import json

import pytest

from seamark.changes.outcome import SilentProgress
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnsupportedError, UsageError
from seamark.offsets.repair.rules import NEWEST
from tests.fakes.connect import FILE_SOURCE
from tests.integration.offset_rig import OffsetRig
from tests.integration.offset_tools import JSON
from tests.integration.waits import wait_for

FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
LINES = 10
LINE = "line 00\n"
PARTITIONS = 3
pytestmark = pytest.mark.timeout(600)


def spell(lines):
    """The value that stands for so many lines."""
    return json.dumps({"position": lines * len(LINE)}, separators=(",", ":")).encode()


@pytest.fixture
def rig(stack, tmp_path):
    # With a short `in_flight_timeout` a neighbour's rebalance of 5 s would be the end of it.
    made = OffsetRig(stack, tmp_path, in_flight="90s")
    yield made
    made.close()


class Source:
    """A file source over ten lines of eight bytes, and the records of its one offset."""

    def __init__(self, rig, folder, *, own_topic=False, state="STOPPED"):
        self.rig, self.file, self.name, self.out = rig, folder / "lines.txt", rig.name("odd"), rig.name("out")
        self.file.write_text("".join(f"line {number:02d}\n" for number in range(LINES)))
        self.topic = rig.brokers.make_topic(rig.name("own"), partitions=PARTITIONS) if own_topic else None
        rig.brokers.made.append(self.out)
        config = {"connector.class": FILE_SOURCE, "file": str(self.file), "topic": self.out, **JSON}
        config |= {"offsets.storage.topic": self.topic} if own_topic else {}
        rig.client.create_connector(self.name, config, initial_state=state)
        self.await_state(state)
        self.key = json.dumps([self.name, {"filename": str(self.file)}], separators=(",", ":")).encode()
        self.spaced = self.key.replace(b":", b": ")

    def await_state(self, state):
        """Right after it was created Connect has no status of it yet; a neighbour's rebalance shows it UNASSIGNED."""
        wait_for(self._read_state, lambda found: found == state, f"{self.name} to be {state}")

    def _read_state(self):
        try:
            return self.rig.client.read_status(self.name).state
        except NotFoundError:
            return None

    def write(self, position, *, key=None, aside=0):
        value = None if position is None else json.dumps({"position": position}, separators=(",", ":")).encode()
        return self.rig.write_raw(key or self.key, value, topic=self.topic, aside=aside)

    def read(self):
        return self.rig.read_raw(self.name, topic=self.topic)

    def find_place(self, value):
        (found,) = [one for one in self.find_evidence() if one.value == value]
        return found.place

    def find_evidence(self):
        for found in self._read_owned().stored:
            yield from (found.evidence, *found.others)

    def _read_owned(self):
        """What seamark shows, once a rebalance lets it."""
        return self.rig.plan(lambda: self.rig.fleet.offsets.get(self.name))

    def mend(self, **options):
        return self.rig.plan(lambda: self.rig.fleet.offsets.repair([self.name], **options))

    def run_to_end(self, count):
        """It runs until so many lines are there, and has stored its end; gives all of them.

        In a neighbour's rebalance Connect may begin a task anew before it has stored anything: see `distinct`.
        """
        self.rig.client.resume(self.name)
        wait_for(self._count, lambda found: found >= count, f"{count} lines")
        end = json.dumps({"position": self.file.stat().st_size}, separators=(",", ":")).encode()
        # Not by REST: a worker may be told the value of a stray that is still in the log.
        wait_for(self.read, lambda found: end in found.values(), f"{self.name} at its end")
        self.rig.stop(self.name)
        return self.read_lines()

    def _count(self):
        return len(set(self.read_lines())) if self._is_there() else 0

    def read_lines(self):
        return self.rig.brokers.read_values(self.out)

    def _is_there(self):
        return self.out in self.rig.brokers._admin.list_topics(timeout=30).topics

    def append(self, line):
        with self.file.open("a") as file:
            file.write(f"{line}\n")

    def await_stored(self, lines):
        """The place of its key, once it has stored that so many lines are read. REST may be told a stray's value."""
        wait_for(self.read, lambda found: spell(lines) in found.values(), f"{lines} lines stored")
        return next(place for place, value in self.read().items() if value == spell(lines))


class AtStop(SilentProgress):
    """How many lines were delivered when the source had stopped."""

    def __init__(self, source):
        self.source, self.count = source, None

    def ended(self, result):
        if "is stopped" in result.words:
            self.count = len(self.source.read_lines())


def distinct(lines):
    """Each once, as they came first: who begins at another place still leaves lines out, or reads more of them."""
    return list(dict.fromkeys(lines))


def test_copies_are_levelled_and_put_back(rig, tmp_path):
    source = Source(rig, tmp_path)
    home, stray = source.write(16), source.write(72, aside=1)
    spaced = source.write(8, key=source.spaced)
    before = source.read()
    assert len(before) == 3
    with pytest.raises(RefusedError, match="seamark can't determine which one the task uses") as refused:
        source.mend()
    assert '{"position":72}' in refused.value.cause
    assert '{"position":16}' in refused.value.cause
    planned = source.mend(take=source.find_place(b'{"position":16}'))
    assert '"{"position":72}" → "{"position":16}"' in str(planned)
    assert "describes how to remove them" in str(planned)
    result = rig.apply(planned)
    value = b'{"position":16}'
    assert source.read() == {home: value, stray: value, spaced: before[spaced]}
    assert source.mend().is_empty
    with pytest.raises(NotFoundError, match="no anomalous record at nowhere-1@5"):
        source.mend(take="nowhere-1@5")
    rig.undo(result)
    assert source.read() == before
    # The newest is the one that was written last, at home or not.
    rig.apply(source.mend(take=source.find_place(b'{"position":72}')))
    assert source.read() == {home: before[stray], stray: before[stray], spaced: before[spaced]}
    assert distinct(source.run_to_end(1)) == ["line 09"]


def test_a_running_source_stops_goes_on_and_reads_nothing_again(rig, tmp_path):
    source = Source(rig, tmp_path, own_topic=True, state="RUNNING")
    home = source.await_stored(LINES)
    stray = source.write(8, aside=1)
    planned = source.mend(take=source.find_place(spell(LINES)))
    # What it stores until its stop counts, and not what it had stored when the plan was made.
    source.append("line 10")
    source.await_stored(LINES + 1)
    assert distinct(source.read_lines()) == [f"line {number:02d}" for number in range(11)]
    # Until the stop, a neighbour's rebalance may restart the task, which then reads the stray.
    stop = AtStop(source)
    rig.apply(planned, stop)
    assert source.read() == dict.fromkeys([home, stray], spell(LINES + 1))
    source.await_state("RUNNING")
    source.append("line 11")
    assert distinct(source.run_to_end(12)[stop.count :]) == ["line 11"]


def test_two_spellings_get_one_value(rig, tmp_path):
    source = Source(rig, tmp_path, own_topic=True)
    fields = [{"filename": "other", "part": "1"}, {"part": "1", "filename": "other"}]
    keys = [json.dumps([source.name, one], separators=(",", ":")).encode() for one in fields]
    first, second = source.write(1, key=keys[0]), source.write(2, key=keys[1])
    rig.apply(source.mend(take=NEWEST))
    assert source.read() == {first: b'{"position":2}', second: b'{"position":2}'}


def plan_all(rig):
    """A plan over every source. Neighbours come and go meanwhile, and some have records that nobody can decide on."""
    try:
        return rig.fleet.offsets.repair(everything=True, take=NEWEST)
    except SeamarkError as error:
        return error


def test_all_odd_sources_are_found_and_sinks_have_none(rig, tmp_path):
    source = Source(rig, tmp_path)
    source.write(16, aside=1)
    planned = wait_for(
        lambda: plan_all(rig), lambda found: not isinstance(found, SeamarkError), "a plan over everybody's sources"
    )
    assert f"connector/connect/{source.name}" in [effect.subject for effect in planned.effects]
    name = rig.name("sink")
    config = {"connector.class": FILE_SINK, "file": str(tmp_path / "out.txt"), "topics": rig.name("in")}
    rig.client.create_connector(name, config, initial_state="STOPPED")
    wait_for(rig.client.read_names, lambda names: name in names, f"{name} to be there")
    with pytest.raises(UnsupportedError, match="not in a topic"):
        rig.fleet.offsets.repair([name])
    with pytest.raises(UsageError, match="no owner given"):
        rig.fleet.offsets.repair([])
