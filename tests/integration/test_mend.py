"""Odd records of a source's offsets are put right by a plan that says what each will be, and undone to the byte.

What is cleaned is a topic of the connector's own: the workers' topic is everybody's. With its own topic a source reads
all records anew at each start, as a worker does with its own when it starts.
"""

from __future__ import annotations

import json

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from seamark.change.steps.cleaning import CLEANING
from seamark.devstack.fake_connect import FILE_SOURCE
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnsupportedError, UsageError
from seamark.offsets.mending import NEWEST
from tests.integration.offset_rig import OffsetRig, without_tombstones
from tests.integration.offset_tools import JSON
from tests.integration.waits import IN_A_ROW, wait_for

FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
LINES = 10
LINE = "line 00\n"
PARTITIONS = 3
# The cleaner of the brokers sleeps 15 s, and is needed twice; a busy machine needs more.
pytestmark = pytest.mark.timeout(600)


def spell(lines):
    """The value that stands for so many lines."""
    return json.dumps({"position": lines * len(LINE)}, separators=(",", ":")).encode()


@pytest.fixture
def rig(stack, tmp_path):
    # A cleaning asks Connect some ten times within a minute: with a short `in_flight` a neighbour's rebalance of 5 s
    # would be the end of it.
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
        return self.rig.plan(lambda: self.rig.fleet.offsets.of(self.name))

    def mend(self, **options):
        return self.rig.plan(lambda: self.rig.fleet.offsets.mend([self.name], **options))

    def findings(self):
        return [str(found.oddity) for found in self._read_owned().findings]

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

    def read_whole_log(self):
        """Every record that is left of the topic, tombstones and all: (partition, key, value)."""
        settings = {"bootstrap.servers": self.rig.brokers.bootstrap, "group.id": "mend", "enable.auto.commit": False}
        consumer, found, ended = Consumer({**settings, "enable.partition.eof": True}), [], set()
        try:
            consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
            while len(ended) < PARTITIONS:
                message = consumer.poll(60)
                assert message is not None, "the topic was not read within 60 s"
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    ended.add(message.partition())
                else:
                    found.append((message.partition(), message.key(), message.value()))
        finally:
            consumer.close()
        return found


def distinct(lines):
    """Each once, as they came first: who begins at another place still leaves lines out, or reads more of them."""
    return list(dict.fromkeys(lines))


def read_configs(rig, topic):
    """What is set on the topic itself of what a cleaning lends."""
    with_configs = rig.fleet._world.kafka().read_topics([topic]).items[0]
    return {key: value for key, value in with_configs.own_configs.items() if key in CLEANING}


def await_configs(rig, topic, wanted):
    """Until every broker tells these: each hears of another config in its own time, and any of them may be asked."""
    wait_for(
        lambda: [read_configs(rig, topic) for _ in range(IN_A_ROW)],
        lambda found: found == [wanted] * IN_A_ROW,
        f"every broker to tell {wanted} of {topic}",
    )


def test_copies_are_levelled_without_a_cleaning_and_put_back(rig, tmp_path):
    source = Source(rig, tmp_path)
    home, stray = source.write(16), source.write(72, aside=1)
    spaced = source.write(8, key=source.spaced)
    before = source.read()
    assert len(before) == 3
    with pytest.raises(RefusedError, match="nobody can tell which one counts") as refused:
        source.mend()
    assert '{"position":72}' in refused.value.cause
    assert '{"position":16}' in refused.value.cause
    planned = source.mend(take=source.find_place(b'{"position":16}'))
    assert '"{"position":72}" → "{"position":16}"' in str(planned)
    assert "--clean takes them out of the log" in str(planned)
    result = rig.apply(planned)
    value = b'{"position":16}'
    assert source.read() == {home: value, stray: value, spaced: before[spaced]}
    assert source.mend().is_empty
    with pytest.raises(NotFoundError, match="no odd record at nowhere-1@5"):
        source.mend(take="nowhere-1@5")
    rig.undo(result)
    assert source.read() == before
    # The newest is the one that was written last, at home or not.
    rig.apply(source.mend(take=source.find_place(b'{"position":72}')))
    assert source.read() == {home: before[stray], stray: before[stray], spaced: before[spaced]}
    assert distinct(source.run_to_end(1)) == ["line 09"]


def test_strays_and_keys_that_nobody_reads_are_cleaned_out_of_the_log(rig, tmp_path):
    source = Source(rig, tmp_path, own_topic=True)
    rig.fleet.apply(rig.fleet.topics.alter(source.topic, set={"segment.ms": "600000"}))
    configs = {"segment.ms": "600000"}
    await_configs(rig, source.topic, configs)
    other = json.dumps(["somebody", {"filename": "else"}], separators=(",", ":")).encode()
    kept = [rig.write_raw(other, b'{"position":5}', topic=source.topic, aside=number) for number in range(PARTITIONS)]
    home, stray = source.write(16), source.write(72, aside=1)
    gone = source.write(None, aside=2)
    spaced = source.write(8, key=source.spaced)
    before = source.read()
    assert set(source.findings()) >= {"stray", "masked", "variants", "never-read"}

    planned = source.mend(take=source.find_place(b'{"position":16}'), clean=True)
    shown = str(planned)
    assert '"{"position":72}" → (taken out)' in shown
    assert '"a tombstone" → (taken out)' in shown
    assert "is cleaned of 3 records: about a minute" in shown
    assert 'segment.ms                 "600000" → "1000", for that time' in shown
    result = rig.apply(planned)
    log = source.read_whole_log()
    assert {(partition, key) for partition, key, _ in log if b'"seamark"' not in key} == {home, *kept}
    assert {value for _, key, value in log if b'"seamark"' in key} == {None}
    assert len({stray, gone, spaced} & {(partition, key) for partition, key, _ in log}) == 0
    assert source.read() == {home: b'{"position":16}'}
    assert source.findings() == []
    await_configs(rig, source.topic, configs)
    assert source.mend(clean=True).is_empty

    # It goes on behind the second line: eight are left.
    assert distinct(source.run_to_end(8)) == [f"line {number:02d}" for number in range(2, LINES)]
    source.write(16)
    rig.undo(result)
    assert without_tombstones(source.read()) == without_tombstones(before)


def test_a_running_source_stops_goes_on_and_reads_nothing_again(rig, tmp_path):
    source = Source(rig, tmp_path, own_topic=True, state="RUNNING")
    home = source.await_stored(LINES)
    stray = source.write(8, aside=1)
    planned = source.mend(take=source.find_place(spell(LINES)), clean=True)
    # What it stores until its stop counts, and not what it had stored when the plan was made.
    source.append("line 10")
    source.await_stored(LINES + 1)
    already = source.read_lines()
    assert distinct(already) == [f"line {number:02d}" for number in range(11)]
    rig.apply(planned)
    assert source.read()[home] == spell(LINES + 1)
    assert stray not in source.read()
    assert source.findings() == []
    source.await_state("RUNNING")
    source.append("line 11")
    assert distinct(source.run_to_end(12)[len(already) :]) == ["line 11"]


def test_of_two_spellings_one_stays(rig, tmp_path):
    source = Source(rig, tmp_path, own_topic=True)
    fields = [{"filename": "other", "part": "1"}, {"part": "1", "filename": "other"}]
    keys = [json.dumps([source.name, one], separators=(",", ":")).encode() for one in fields]
    first, second = source.write(1, key=keys[0]), source.write(2, key=keys[1])
    rig.apply(source.mend(take=NEWEST))
    assert source.read() == {first: b'{"position":2}', second: b'{"position":2}'}
    place = next(one.place for one in source.find_evidence() if one.key == keys[1])
    rig.apply(source.mend(take=place, clean=True, only=True))
    assert source.read() == {second: b'{"position":2}'}
    assert "variants" not in source.findings()


def plan_all(rig):
    """A plan over every source. Neighbours come and go meanwhile, and some have records that nobody can decide on."""
    try:
        return rig.fleet.offsets.mend(everything=True, take=NEWEST)
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
    with pytest.raises(UnsupportedError, match="are in no topic"):
        rig.fleet.offsets.mend([name])
    with pytest.raises(UsageError, match="say whose"):
        rig.fleet.offsets.mend([])
