"""The Kafka journal's own parts, without brokers: records, heads, the board, the names."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.changes.actor import ulid_time
from seamark.changes.journal import EntryKind, Head, build_entries
from seamark.changes.kafka_journal import (
    Difference,
    JournalNames,
    KafkaJournal,
    build_needed_access,
    build_setup_access,
    build_topics,
)
from seamark.changes.kafka_journal import entries as reader
from seamark.changes.kafka_journal import entries as records
from seamark.changes.kafka_journal.clients import compare_topic, refuse_differences
from seamark.changes.kafka_journal.entries import (
    ChunkAssembly,
    KafkaJournalWriter,
    build_change_records,
    build_entry_records,
)
from seamark.changes.kafka_journal.heads import (
    OpenChangeIndex,
    build_claim_value,
    build_head_value,
    build_release_value,
    read_head_value,
    track_entries,
)
from seamark.changes.kafka_journal.names import GATE_KEY, head_key, proof_key, sorted_locks
from seamark.errors import (
    FormatVersionError,
    InvalidSettingError,
    LockedError,
    NotFoundError,
    TamperedJournalError,
    UsageError,
)
from seamark.kafka.log import LogRecord
from seamark.kafka.topics import TopicFound
from tests.fakes.changes.journal_suite import AT, new_change_id, new_lock, opening

NAMES = JournalNames()


class FakeLog:
    """A partition in memory: what `PartitionLog` tells, and how often it was asked to read."""

    topic = NAMES.journal

    def __init__(self, outgoing=()):
        self.records = []
        self.reads = []
        for record in outgoing:
            self.add(record)

    def add(self, outgoing, *, gap=0, at_ms=None):
        # A transaction's marker takes an offset that is never handed out.
        offset = self.records[-1].offset + 1 + gap if self.records else 0
        stamp = outgoing.timestamp_ms if at_ms is None else at_ms
        headers = dict(outgoing.headers)
        self.records.append(LogRecord(offset, stamp, key=outgoing.key, value=outgoing.value, headers=headers))

    def read_bounds(self):
        return (self.records[0].offset, self.records[-1].offset + 2) if self.records else (0, 0)

    def find_offset(self, at):
        return next((record.offset for record in self.records if record.timestamp_ms >= at * 1000), None)

    def read(self, start=None, end=None):
        low, high = self.read_bounds()
        start, end = low if start is None else start, high if end is None else end
        self.reads.append((start, end))
        yield from (record for record in self.records if start <= record.offset < end)


def build_change(*bodies, change=None, closed=True, **opened):
    """The entries of a change: an opening, notes or steps, a close."""
    first = opening(new_lock(), change=change, **opened)
    body = {**first.body, "title": first.title, "locks": list(first.locks), "nonce": first.nonce}
    kinds = [(EntryKind.OPEN, body), *((EntryKind.NOTE, body) for body in bodies)]
    kinds += [(EntryKind.CLOSE, {"ending": "done"})] if closed else []
    return tuple(build_entries(first.change, kinds, by=first.by, at=AT))


def outgoing(entries):
    return [record for entry in entries for record in build_entry_records(entry, topic=NAMES.journal, now=time.time())]


# --- records ----------------------------------------------------------------------------------------------------------


@given(text=st.text(max_size=300), size=st.integers(min_value=1, max_value=400))
def test_entry_is_the_same_after_it_was_cut_and_put_together(text, size):
    (entry,) = build_change(text=text, closed=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "CHUNK_BYTES", size)
        log = FakeLog(outgoing([entry]))
    assert max(len(record.value) for record in log.records) <= size
    assembly = ChunkAssembly(log.topic)
    found = [assembly.add(record) for record in log.records]
    assert found == [None] * (len(log.records) - 1) + [entry]
    assembly.check_whole()


def test_every_flipped_bit_is_refused(monkeypatch):
    monkeypatch.setattr(records, "CHUNK_BYTES", 200)
    entries = build_change({"note": "ü"})
    log = FakeLog(outgoing(entries))
    assert reader.read_change(log, entries[0].change) == entries
    whole, tried = list(log.records), 0
    for number, record in enumerate(whole):
        parts = {"value": record.value, **record.headers}
        for name, data in parts.items():
            for bit in range(len(data) * 8):
                changed = bytearray(data)
                changed[bit // 8] ^= 1 << bit % 8
                spoilt = (
                    replace(record, value=bytes(changed))
                    if name == "value"
                    else replace(record, headers={**record.headers, name: bytes(changed)})
                )
                log.records = [*whole[:number], spoilt, *whole[number + 1 :]]
                with pytest.raises((TamperedJournalError, FormatVersionError)):
                    reader.read_change(log, entries[0].change)
                tried += 1
    assert tried > 5000


def test_missing_doubled_and_exchanged_records_are_refused(monkeypatch):
    monkeypatch.setattr(records, "CHUNK_BYTES", 200)
    entries = build_change({"note": 1}, {"note": 2}, closed=False)
    log = FakeLog(outgoing(entries))
    whole = list(log.records)
    assert len(whole) > 4
    for number in range(len(whole)):
        for spoilt in (
            [*whole[:number], *whole[number + 1 :]],
            [*whole[:number], whole[number], *whole[number:]],
            [*whole[:number], *whole[number + 1 : number + 2], whole[number], *whole[number + 2 :]],
        ):
            if spoilt in (whole, whole[:-1]):
                continue
            log.records = spoilt
            with pytest.raises(TamperedJournalError):
                reader.read_change(log, entries[0].change)


def test_lost_end_of_an_open_change_is_seen_by_its_head():
    entries = build_change({"note": 1}, closed=False)
    head = track_entries(entries).head
    reader.check_tail(entries, head)
    reader.check_tail(entries, None)
    with pytest.raises(TamperedJournalError, match="entry 1"):
        reader.check_tail(entries[:1], head)
    with pytest.raises(TamperedJournalError):
        reader.check_tail(entries, replace(head, last_hash="0" * 64))


# --- finding changes --------------------------------------------------------------------------------------------------


def interleave(changes):
    """The records of several changes, one entry of each in turn, with the offsets of markers between them."""
    log = FakeLog()
    queues = [list(entries) for entries in changes]
    for turn in range(max(len(entries) for entries in changes) + len(changes)):
        for position, queue in enumerate(queues):
            if turn >= position and queue:
                for record in outgoing([queue.pop(0)]):
                    log.add(record, gap=1)
    return log


@pytest.mark.parametrize("window", [1, 2, 3, 7, 1000])
def test_newest_heads_are_those_of_the_whole_list(monkeypatch, window):
    monkeypatch.setattr(reader, "_WINDOW_RECORDS", window)
    changes = [build_change(*[{"step": n} for n in range(number % 4)], closed=number % 3 > 0) for number in range(9)]
    log = interleave(changes)
    full = reader.read_heads(log, limit=None)
    assert [head.change for head in full] == sorted((entries[0].change for entries in changes), reverse=True)
    by_id = {entries[0].change: entries for entries in changes}
    assert all(head == track_entries(by_id[head.change]).head for head in full)
    for limit in range(11):
        assert reader.read_heads(log, limit=limit) == full[:limit]


def test_list_of_the_newest_reads_the_end_of_the_journal_only():
    log = FakeLog(outgoing([entry for _ in range(3000) for entry in build_change()]))
    reader.read_heads(log, limit=20)
    low, high = log.read_bounds()
    assert min(start for start, _ in log.reads) > high - 2100 > low


def test_change_is_read_from_where_its_id_says_to_its_close():
    changes = [build_change({"note": number}) for number in range(50)]
    log = FakeLog(outgoing([entry for entries in changes for entry in entries]))
    # Ids are made a millisecond apart; the slack of a minute would reach over all of them.
    for number, record in enumerate(log.records):
        log.records[number] = replace(record, timestamp_ms=record.timestamp_ms + number * 100_000)
    asked = changes[40][0].change
    at_ms = int(ulid_time(asked) * 1000)
    log.records = [replace(r, timestamp_ms=at_ms) if r.key == asked.encode() else r for r in log.records]
    assert reader.read_change(log, asked) == changes[40]


def test_change_whose_clock_was_off_is_found_by_reading_all():
    entries = build_change({"note": 1})
    log = FakeLog()
    for record in outgoing(entries):
        log.add(record, at_ms=1000)
    assert reader.read_change(log, entries[0].change) == entries
    assert len(log.reads) == 2


def test_open_entry_carries_the_time_of_its_id_but_none_to_come():
    entry = build_change()[0]
    # Not `time.time()`: tests create IDs, one for each millisecond, faster than the clock goes.
    now = ulid_time(entry.change) + 1
    assert build_entry_records(entry, topic="t", now=now)[0].timestamp_ms == round(ulid_time(entry.change) * 1000)
    future = "7" + new_change_id()[1:]
    records = build_entry_records(build_change(change=future)[0], topic="t", now=time.time())
    assert records[0].timestamp_ms < ulid_time(future) * 1000


@pytest.mark.parametrize("text", ["", " ", "01K/..", "é", "0" * 27])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(UsageError):
        reader.resolve_change(FakeLog(), text)


def test_unknown_short_id_is_not_found():
    with pytest.raises(NotFoundError):
        reader.resolve_change(FakeLog(outgoing(build_change())), "7ZZ")


# --- heads and the board ----------------------------------------------------------------------------------------------


def test_head_names_the_step_by_the_plan():
    plan = {"steps": [{"kind": "connector.stop", "subject": "connector/game/orders"}]}
    entries = build_change({"step": 0}, plan=plan, closed=False)
    assert track_entries(entries).head.step == "0 (connector.stop connector/game/orders)"
    assert track_entries(build_change({"step": 7}, plan=plan, closed=False)).head.step == "7"
    assert track_entries(build_change({"step": 7}, plan={"steps": "x"}, closed=False)).head.step == "7"


def test_head_survives_its_record():
    head = track_entries(build_change({"step": 1}, closed=False, title="Zürich \u2028")).head
    assert read_head_value(build_head_value(head)) == head


@pytest.mark.parametrize("spoil", [{"last_kind": "x"}, {"locks": None}, {"more": 1}])
def test_head_of_another_form_is_refused(spoil):
    value = json.loads(build_head_value(track_entries(build_change()).head))
    with pytest.raises(TamperedJournalError):
        read_head_value(json.dumps(value | spoil).encode())


def build_board(*outgoing_records, lease_seconds=10.0):
    board = OpenChangeIndex(FakeLog(), lease_seconds=lease_seconds)
    for offset, (key, value, at_ms) in enumerate(outgoing_records):
        board.apply(LogRecord(offset, at_ms, key=key, value=value))
    return board


def claim(nonce, at_ms):
    return (GATE_KEY, build_claim_value(nonce, by=f"{nonce}@host"), at_ms)


def release(nonce, at_ms):
    return (GATE_KEY, build_release_value(nonce), at_ms)


@pytest.mark.parametrize(
    ("said", "holder"),
    [
        ([claim("a", 0)], "a"),
        ([claim("a", 0), claim("b", 9_999)], "a"),
        ([claim("a", 0), claim("b", 10_000)], "a"),
        ([claim("a", 0), claim("b", 10_001)], "b"),
        ([claim("a", 0), claim("b", 5_000), claim("c", 10_001)], "c"),
        ([claim("a", 0), release("a", 10)], None),
        ([claim("a", 0), claim("b", 5), release("b", 10)], "a"),
        ([claim("a", 0), release("a", 10), claim("b", 11)], "b"),
        ([claim("a", 0), claim("b", 5), release("a", 10), claim("c", 11)], "c"),
        ([claim("a", 0), claim("b", 10_001), release("a", 10_002)], "b"),
    ],
)
def test_gate_belongs_to_the_first_claim_that_is_neither_released_nor_over(said, holder):
    gate = build_board(*said).gate
    assert (gate.nonce if gate else None) == holder


def build_stamped_board(entries, *, epochs, claimed_at_ms, is_append_time=True, claim_epoch=7):
    """A board with the heads of a change, an entry each 10 s, and then a claim of the gate."""
    board = OpenChangeIndex(FakeLog(), lease_seconds=10.0)
    for number, epoch in enumerate(epochs):
        value = build_head_value(track_entries(entries[: number + 1]).head)
        board.apply(
            LogRecord(
                number,
                number * 10_000,
                key=head_key(entries[0].change),
                value=value,
                is_append_time=is_append_time,
                leader_epoch=epoch,
            )
        )
    value = build_claim_value("n", by="second@host")
    board.apply(
        LogRecord(99, claimed_at_ms, key=GATE_KEY, value=value, is_append_time=is_append_time, leader_epoch=claim_epoch)
    )
    return board


class TestAges:
    """How long ago entries were written, by the clock of the leader. 10 s are deducted for a clock that is set."""

    entries = build_change({"step": 0}, {"step": 0}, {"step": 0}, closed=False)

    def measure(self, number, **more):
        board = build_stamped_board(self.entries, **{"epochs": (7, 7, 7, 7), "claimed_at_ms": 100_000} | more)
        ages = board.measure_ages(self.entries[0].change)
        writer = KafkaJournalWriter(None, self.entries, names=NAMES, by="second", now=lambda: 0.0, ages=ages)
        return writer.measure_age(number)

    def test_an_entry_is_as_old_as_the_leader_says(self):
        assert [self.measure(number) for number in range(4)] == [90.0, 80.0, 70.0, 60.0]

    def test_an_entry_after_the_last_known_one_has_no_age(self):
        assert self.measure(4) == 0.0

    def test_an_entry_without_a_head_is_as_old_as_the_next_that_has_one(self):
        # Two entries of one transaction, or a head that was compacted.
        board = build_stamped_board(self.entries, epochs=(7, 7), claimed_at_ms=100_000)
        ages = [age for age in board.measure_ages(self.entries[0].change) if age[0] != 0]
        writer = KafkaJournalWriter(None, self.entries, names=NAMES, by="second", now=lambda: 0.0, ages=ages)
        assert writer.measure_age(0) == 80.0

    def test_entries_of_another_leader_have_no_age(self):
        assert [self.measure(number, epochs=(6, 6, 6, 6)) for number in range(4)] == [0.0] * 4
        # A later entry of the present leader is a bound for an earlier one of another.
        assert [self.measure(number, epochs=(6, 6, 6, 7)) for number in range(4)] == [60.0] * 4
        assert self.measure(1, claim_epoch=None) == 0.0

    def test_producers_times_do_not_count(self):
        assert [self.measure(number, is_append_time=False) for number in range(4)] == [0.0] * 4

    @pytest.mark.parametrize("claimed_at_ms", [-3_600_000, 0, 30_000, 40_000])
    def test_no_age_is_negative(self, claimed_at_ms):
        assert self.measure(3, claimed_at_ms=claimed_at_ms) == 0.0

    def test_another_change_has_no_ages(self):
        board = build_stamped_board(self.entries, epochs=(7, 7), claimed_at_ms=100_000)
        assert board.measure_ages(new_change_id()) == ()


def test_board_holds_the_open_changes():
    one, two = build_change(closed=False), build_change({"step": 1})
    said = []
    for entries in (one, two):
        for number, _ in enumerate(entries):
            head = track_entries(entries[: number + 1]).head
            said += [
                (record.key, record.value, 0)
                for record in build_change_records([entries[number]], head, names=NAMES, now=time.time())
                if record.topic == NAMES.heads
            ]
    board = build_board(*said, (proof_key("data.x"), b"held", 0))
    assert board.open_heads() == (track_entries(one).head,)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (GATE_KEY, b"{"),
        (GATE_KEY, None),
        (GATE_KEY, b"{}"),
        (head_key("x"), b"[]"),
        (b"change/\xff", b"null"),
        (b"of a later version", b"?"),
        (None, b"{}"),
    ],
)
def test_spoilt_record_of_the_board_is_refused_by_its_offset(key, value):
    with pytest.raises((TamperedJournalError, FormatVersionError), match="offset 0"):
        build_board((key, value, 0))


def test_head_under_the_key_of_another_change_is_refused():
    value = build_head_value(track_entries(build_change(closed=False)).head)
    with pytest.raises(TamperedJournalError):
        build_board((head_key(new_change_id()), value, 0))


def test_refusal_says_who_since_when_and_at_which_step():
    entries = build_change({"step": 3}, closed=False, by="ann@north:1")
    head = track_entries(entries).head
    board = build_board((head_key(head.change), build_head_value(head), 0))
    with pytest.raises(LockedError) as caught:
        board.refuse_conflict(opening(*head.locks))
    said = f"{caught.value.message} {caught.value.cause} {caught.value.hint}"
    assert all(word in said for word in (head.change, "ann@north:1", AT, "step 3", f"journal resume {head.change}"))
    board.refuse_conflict(opening(new_lock()))


# --- names, topics, rights --------------------------------------------------------------------------------------------


def test_lock_ids_are_of_the_thing_alone_and_printable():
    assert NAMES.lock_id("abc", lock="group.orders@workers") == "seamark.abc.group.orders"
    assert NAMES.lock_id("abc", lock="group.a\x00 ü%") == "seamark.abc.group.a%00%20%C3%BC%25"
    assert NAMES.gate_id("abc").startswith(NAMES.id_pattern("abc"))
    assert JournalNames(heads="a").gate_id("c") != JournalNames(heads="b").gate_id("c")


def test_locks_are_sorted_and_each_thing_is_taken_once():
    assert sorted_locks("01", ("group.b", "group.a@x", "group.a@y")) == ("group.a", "group.b")
    assert sorted_locks("01", ()) == ("change.01",)


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, 1, "1"), (2, 2, "2"), (3, 3, "2"), (50, 3, "2")])
def test_topics_fit_the_number_of_brokers(brokers, copies, in_sync):
    for spec in build_topics(brokers):
        assert (spec.partitions, spec.replication_factor) == (1, copies)
        assert spec.configs["min.insync.replicas"] == in_sync


def test_differences_are_told_and_only_what_could_forget_is_refused():
    journal, heads = build_topics(3)
    as_wanted = TopicFound(journal.name, partitions=1, replication_factor=3, configs=journal.configs)
    assert compare_topic(journal, as_wanted) == ()
    safer = replace(as_wanted, configs={**journal.configs, "min.insync.replicas": "3"})
    assert compare_topic(journal, safer) == ()
    weak = replace(as_wanted, replication_factor=1, configs={**journal.configs, "min.insync.replicas": "1"})
    told = compare_topic(journal, weak)
    assert [difference.key for difference in told] == ["replication factor", "min.insync.replicas"]
    refuse_differences(told)
    bad = compare_topic(heads, TopicFound(heads.name, partitions=3, replication_factor=3, configs={}))
    assert Difference(heads.name, key="partitions", wanted="1", found="3", is_refused=True) in bad
    with pytest.raises(InvalidSettingError) as caught:
        refuse_differences(bad)
    assert f"{heads.name}: partitions is 3, wanted 1" in caught.value.cause
    assert f"--topic {heads.name} --add-config cleanup.policy=compact" in caught.value.hint


def test_needed_rights_are_listed():
    needed = {(a.resource, a.name, a.pattern, a.operation) for a in build_needed_access("abc")}
    assert ("TOPIC", "seamark-journal", "LITERAL", "WRITE") in needed
    assert ("TRANSACTIONAL_ID", "seamark.abc.", "PREFIXED", "WRITE") in needed
    assert len(needed) == 10
    assert {a.operation for a in build_setup_access()} == {"CREATE"}


def test_journal_shows_no_secret_and_loads_no_client_before_it_is_used():
    journal = KafkaJournal({"bootstrap.servers": "x:1", "sasl.password": "canary-7"})
    assert "canary-7" not in repr(journal) + repr(journal._clients)
    code = "import sys, seamark.changes.kafka_journal; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_head_is_a_plain_head():
    assert type(read_head_value(build_head_value(track_entries(build_change()).head))) is Head
