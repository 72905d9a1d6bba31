"""Every persisted format has a version: a reader of another one names both, takes no lock and writes nothing."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from seamark.changes import journal as entry
from seamark.changes import journal as journal_key
from seamark.changes import without_journal as spool
from seamark.changes.file_journal import FileJournal
from seamark.changes.file_journal.files import build_frame, split_frames
from seamark.changes.history import read_closed
from seamark.changes.journal import Entry, EntryKind
from seamark.changes.kafka_journal import JournalNames, JournalTiming, heads
from seamark.changes.kafka_journal import heads as board
from seamark.changes.kafka_journal.entries import read_change, read_heads
from seamark.changes.kafka_journal.heads import (
    OpenChangeIndex,
    build_claim_value,
    build_head_value,
    build_release_value,
    track_entries,
)
from seamark.changes.kafka_journal.locks import begin_change, record_key, take_change
from seamark.changes.kafka_journal.names import GATE_KEY, KEY_KEY, head_key
from seamark.changes.plan import FORMAT_VERSION, Plan, read_plan_file, write_plan_file
from seamark.changes.recovery import Recovery
from seamark.consumer.assignment import LedgerSession
from seamark.copies.plan import plan as copy_plan
from seamark.copies.plan import registrations as copy_registration
from seamark.copies.plan.registry import read_copy_plan
from seamark.core.strict_json import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import FormatVersionError
from seamark.kafka.log import Clocks
from seamark.kafka.produce import Outgoing
from seamark.kafka_sink import control as control_codec
from seamark.kafka_sink import task as task_hold
from seamark.kafka_sink.control import Amount, Claim, ControlRecord
from seamark.kafka_sink.task import ExactTask
from seamark.offsets.exports import OffsetExport
from seamark.offsets.read import export_file
from seamark.offsets.stores.ledger import open_ledger
from seamark.pipelines import actions as registered
from seamark.pipelines import progress
from seamark.specs.ownership import read_claims
from seamark.tables.delta import commits as vector
from seamark.tables.model import LedgerEntry
from seamark.tables.postgres import ledger as ledger_module
from seamark.tables.postgres import upsert as tombstones
from seamark.tables.postgres.ledger import Ledger, Runner
from tests.fakes.changes.key_cases import OLD, record_of
from tests.fakes.changes.openings import AT, new_lock, opening
from tests.unit.changes.test_kafka_journal import FakeLog, build_change, outgoing
from tests.unit.copies.test_copy_plans import Desk
from tests.unit.kafka_sink.test_exact_task import CLAIM, SETTINGS, FakeProducer, broker, pieces  # noqa: F401 - a fixture
from tests.unit.pipelines.test_landings import DESIRED, fleet, spec  # noqa: F401 - a fixture

PLAN = StoredFormat("plan", FORMAT_VERSION)
FORMATS = (
    PLAN,
    entry.ENTRY_FORMAT,
    heads.FORMAT,
    board.CLAIM_FORMAT,
    journal_key.KEY_FORMAT,
    spool.FORMAT,
    export_file.FORMAT,
    copy_plan.FORMAT,
    copy_registration.FORMAT,
    control_codec.FORMAT,
    ledger_module.FORMAT,
    registered.FORMAT,
    progress.FORMAT,
    tombstones.FORMAT,
    vector.FORMAT,
)
# Against the version that is known; None is a version that is missing.
OTHERS = pytest.mark.parametrize("by", [1, -1, None], ids=["newer", "older", "missing"])


def change_version(stored, known, by):
    """The same object, as another seamark would have stored it."""
    rest = {key: value for key, value in stored.items() if key != VERSION_FIELD}
    return rest if by is None else rest | {VERSION_FIELD: known.version + by}


def change_bytes(data, known, by):
    body = change_version(json.loads(data), known, by)
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def expect_refusal(known, by, where=""):
    """A context in which both versions, and the location, must be named."""
    found = f"no {known.name} format version" if by is None else f"{known.name} format version {known.version + by}"
    return pytest.raises(
        FormatVersionError, match=f"{where}.*: found {found}, this seamark reads version {known.version}$"
    )


# --- the check itself ------------------------------------------------------------------------------------------------


def test_names_of_formats_are_unique():
    assert len({known.name for known in FORMATS}) == len(FORMATS)


def test_every_format_of_the_code_is_listed_here():
    source = Path(__file__).parents[2] / "src" / "seamark"
    found = {name for path in source.rglob("*.py") for name in re.findall(r'StoredFormat\("([^"]+)"', path.read_text())}
    # The module of the last one needs the extra for Spark; tests/spark/tables/test_format_versions.py tests it.
    assert found == {known.name for known in FORMATS} | {"lake pipeline"}


def test_every_format_has_a_test_with_a_newer_and_an_older_version():
    tests = {
        "plan": (test_plan_file, test_plan_in_the_journal_is_refused_before_its_change_is_taken_over),
        "journal entry": (test_file_journal_entry, test_kafka_journal_entry),
        "journal head": (test_kafka_journal_head,),
        "gate claim": (test_gate_claim,),
        "journal key": (test_file_journal_key, test_kafka_journal_key),
        "spooled intent": (test_spooled_intent_of_another_version_is_left_alone,),
        "offset export": (test_export,),
        "copy plan": (test_copy_plan, test_copy_plan_within_a_registration),
        "registered copy plan": (test_registered_copy_plan,),
        "control record": (test_control_record,),
        "ledger entry": (test_ledger_entry,),
        "registered pipeline": (test_registered_pipeline,),
        "pipeline state": (test_pipeline_state,),
        "tombstone": (test_tombstone,),
        "Delta commit": (test_delta_commit,),
    }
    assert tests.keys() == {known.name for known in FORMATS}
    for test in (test for found in tests.values() for test in found):
        versions = [mark.args[1] for mark in test.pytestmark if mark.name == "parametrize" and mark.args[0] == "by"]
        assert versions == [[1, -1, None]], test.__name__


def test_documentation_lists_every_format():
    text = (Path(__file__).parents[2] / "docs" / "reference" / "format-versions.md").read_text()
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")][1:]
    # The module of the last one needs the extra for Spark.
    known = {(known.name, known.version) for known in FORMATS} | {("lake pipeline", 1)}
    assert {(name.strip(), int(version)) for name, version in rows} == known


@pytest.mark.parametrize("found", [True, 1.0, "1", None, 0, 2, -1, [1]])
def test_only_the_very_version_is_accepted(found):
    known = StoredFormat("x", 1)
    check_format(known, {**known.field, "more": 1}, where="here")
    with pytest.raises(FormatVersionError) as caught:
        check_format(known, {VERSION_FIELD: found}, where="here")
    assert caught.value.message.startswith("can't read here: found ")
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("stored", [None, [], "x", 1])
def test_data_that_is_no_object_has_no_version(stored):
    with pytest.raises(FormatVersionError, match="found no x format version, this seamark reads version 1"):
        check_format(StoredFormat("x", 1), stored, where="here")


def test_hint_depends_on_which_version_is_newer():
    known = StoredFormat("x", 2)
    hints = []
    for found in (3, 1):
        with pytest.raises(FormatVersionError) as caught:
            check_format(known, {VERSION_FIELD: found}, where="here")
        hints.append(caught.value.hint)
    assert hints == ["upgrade seamark to the version that wrote it", "use the version of seamark that wrote it"]


# --- journal entries in a folder --------------------------------------------------------------------------------------


def list_files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "gate"}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "journal"


@pytest.fixture
def file_journal(folder):
    with closing(FileJournal(folder)) as journal:
        yield journal


def write_open_change(journal, folder, by):
    """An open change whose second entry has another format version."""
    first = opening(new_lock(), plan=Plan("t", "c", "now", "ann", steps=()).to_dict())
    writer = journal.begin(first)
    writer.append(EntryKind.NOTE, {"note": "x"})
    writer.release()
    path = folder / "changes" / f"{first.change}.journal"
    frames = [body for _, body in split_frames(path.read_bytes()).bodies]
    frames[1] = change_bytes(frames[1], entry.ENTRY_FORMAT, by)
    path.write_bytes(b"".join(map(build_frame, frames)))
    return first


@OTHERS
def test_file_journal_entry(file_journal, folder, by):
    first = write_open_change(file_journal, folder, by)
    before = list_files(folder)
    for act in (
        # A lock that doesn't conflict: what the other seamark holds is not known.
        lambda: file_journal.begin(opening(new_lock())),
        lambda: file_journal.take_over(first.change, nonce="n2", by="ben", at=AT),
        lambda: file_journal.read(first.change),
        file_journal.heads,
        file_journal.open_heads,
        lambda: read_claims("s", lambda: file_journal),
    ):
        with expect_refusal(entry.ENTRY_FORMAT, by, where=f"entry 1 of .*{first.change}.journal"):
            act()
        assert list_files(folder) == before


@OTHERS
def test_file_journal_key(by, tmp_path):
    folder = tmp_path / "journal"
    file_journal = FileJournal(folder)
    file_journal.record_key(record_of(OLD))
    (folder / "key").write_bytes(change_bytes((folder / "key").read_bytes(), journal_key.KEY_FORMAT, by))
    before = list_files(folder)
    late = replace(opening(new_lock()), key=record_of(OLD))
    for act in (file_journal.read_key, lambda: file_journal.begin(late), lambda: file_journal.record_key(late.key)):
        with expect_refusal(journal_key.KEY_FORMAT, by, where="journal/key"):
            act()
        assert list_files(folder) == before


# --- journal entries, heads and claims in Kafka -----------------------------------------------------------------------


class OpenLog(FakeLog):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def close(self):
        pass


class FakeClients:
    """The journal's clients over two logs in memory. `acts` lists whatever writes, connects or takes an id."""

    def __init__(self, journal=(), heads=()):
        self.names, self.timing, self.clocks = JournalNames(), JournalTiming(), Clocks()
        self.journal, self.heads, self.acts = OpenLog(journal), OpenLog(heads), []

    def open_journal_log(self):
        return self.journal

    def open_heads_log(self):
        return self.heads

    def open_record_writer(self):
        return FakeWriter(self.acts)

    open_gate_writer = open_record_writer

    def open_lock_writer(self, lock):
        return FakeWriter(self.acts)

    def connect(self, writers):
        self.acts.append("connect")


class FakeWriter:
    def __init__(self, acts):
        self.acts = acts

    def write(self, *_):
        self.acts.append("write")

    def take(self):
        self.acts.append("take")

    def close(self):
        pass


def begin(clients):
    return begin_change(clients, opening(new_lock()), now=lambda: 0.0)


def take(clients, change):
    return take_change(clients, change, nonce="n2", by="ben", at=AT, expected_nonce=None, now=lambda: 0.0)


def build_head_record(entries, change=lambda value: value):
    head = track_entries(entries).head
    return Outgoing(JournalNames().heads, key=head_key(head.change), value=change(build_head_value(head)))


def spoil_entry(record, by):
    return replace(record, value=change_bytes(record.value, entry.ENTRY_FORMAT, by))


def spoil_header(record, by):
    version = {} if by is None else {VERSION_FIELD: str(entry.ENTRY_FORMAT.version + by).encode()}
    rest = {name: value for name, value in record.headers if name != VERSION_FIELD}
    return replace(record, headers=tuple({**version, **rest}.items()))


@pytest.mark.parametrize("spoil", [spoil_entry, spoil_header])
@OTHERS
def test_kafka_journal_entry(by, spoil):
    entries = build_change({"note": 1}, closed=False)
    records = outgoing(entries)
    clients = FakeClients([records[0], spoil(records[1], by)], [build_head_record(entries)])
    for act in (
        lambda: read_change(clients.journal, entries[0].change),
        lambda: read_heads(clients.journal, limit=None),
        lambda: take(clients, entries[0].change),
    ):
        with expect_refusal(entry.ENTRY_FORMAT, by, where="offset 1 of topic seamark-journal"):
            act()
    assert clients.acts == []


@OTHERS
def test_kafka_journal_entry_that_a_reader_of_heads_would_pass_over(by):
    # An entry in the middle of a change whose beginning is not in the list.
    record = spoil_header(outgoing(build_change({"note": 1}))[1], by)
    log = FakeLog([*outgoing(build_change()), record])
    with expect_refusal(entry.ENTRY_FORMAT, by, where="offset 2 of topic seamark-journal"):
        read_heads(log, limit=None)


@OTHERS
def test_kafka_journal_head(by):
    entries = build_change(closed=False)
    head = build_head_record(entries, lambda value: change_bytes(value, heads.FORMAT, by))
    clients = FakeClients(outgoing(entries), [head])
    # A begin with locks that conflict with nothing: which locks the other seamark holds is not known.
    for act in (lambda: begin(clients), lambda: take(clients, entries[0].change)):
        with expect_refusal(heads.FORMAT, by, where="offset 0 of topic"):
            act()
    assert clients.acts == []


@OTHERS
def test_kafka_journal_key(by):
    record = record_of(OLD)
    stored = Outgoing("", key=KEY_KEY, value=change_bytes(record.to_bytes(), journal_key.KEY_FORMAT, by))
    clients = FakeClients(heads=[stored])
    for act in (lambda: begin(clients), lambda: record_key(clients, record)):
        with expect_refusal(journal_key.KEY_FORMAT, by, where="offset 0 of topic"):
            act()
    assert clients.acts == []


@pytest.mark.parametrize("value", [build_claim_value("n", by="ann"), build_release_value("n")])
@OTHERS
def test_gate_claim(by, value):
    claim = Outgoing("", key=GATE_KEY, value=change_bytes(value, board.CLAIM_FORMAT, by))
    clients = FakeClients(heads=[claim])
    with expect_refusal(board.CLAIM_FORMAT, by, where="offset 0 of topic"):
        begin(clients)
    assert clients.acts == []
    with expect_refusal(board.CLAIM_FORMAT, by):
        OpenChangeIndex(clients.heads, lease_seconds=1.0).catch_up()


def test_known_versions_are_read():
    entries = build_change(closed=False)
    clients = FakeClients(
        outgoing(entries), [build_head_record(entries), Outgoing("", GATE_KEY, build_claim_value("n", by="ann"))]
    )
    found = OpenChangeIndex(clients.heads, lease_seconds=1.0)
    found.catch_up()
    assert (list(found.heads), found.gate.nonce) == ([entries[0].change], "n")
    assert read_change(clients.journal, entries[0].change) == entries


# --- plans ------------------------------------------------------------------------------------------------------------


@OTHERS
def test_plan_file(tmp_path, by):
    path = tmp_path / "plan.json"
    write_plan_file(Plan("t", "c", "now", "ann", steps=()), path)
    path.write_bytes(change_bytes(path.read_bytes(), PLAN, by))
    with expect_refusal(PLAN, by, where="plan.json"):
        read_plan_file(path)


@OTHERS
def test_plan_in_the_journal_is_refused_before_its_change_is_taken_over(file_journal, folder, by):
    plan = change_version(Plan("t", "c", "now", "ann", steps=()).to_dict(), PLAN, by)
    first = opening(new_lock(), plan=plan)
    file_journal.begin(first).release()
    before = list_files(folder)
    actor = SimpleNamespace(new_nonce=lambda: "n2", name="ben", timestamp=lambda: AT)
    recovery = Recovery(SimpleNamespace(journal=file_journal, world=None, actor=actor, timing=None))
    for act in (recovery.resume, recovery.abandon, lambda change: read_closed(file_journal.read(change))):
        with expect_refusal(PLAN, by):
            act(first.change)
    assert list_files(folder) == before


# --- exports ----------------------------------------------------------------------------------------------------------


@OTHERS
def test_export(tmp_path, by):
    path = tmp_path / "offsets.json"
    export_file.write_export(OffsetExport(time=AT, source={}, owners=()), path)
    assert export_file.read_export(path)[0].time == AT
    path.write_bytes(change_bytes(path.read_bytes(), export_file.FORMAT, by))
    with expect_refusal(export_file.FORMAT, by, where="offsets.json"):
        export_file.read_export(path)


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def desk(tmp_path, monkeypatch):
    return Desk(tmp_path, monkeypatch)


@OTHERS
def test_copy_plan(desk, tmp_path, by):
    body = desk.plan().plan.to_dict()
    (tmp_path / "plan.json").write_text(json.dumps(change_version(body, copy_plan.FORMAT, by)))
    with expect_refusal(copy_plan.FORMAT, by, where="plan.json"):
        read_copy_plan(tmp_path / "plan.json")


@OTHERS
def test_registered_copy_plan(desk, by):
    plan = desk.plan().plan
    desk.fleet.copies.run(plan)
    pairs = desk.logs.plans["seamark-control"]
    for number, (key, value) in enumerate(pairs):
        head, _, data = value.partition(b"\n")
        pairs[number] = key, change_bytes(head, copy_registration.FORMAT, by) + b"\n" + data
    desk.logs.holders.clear()
    before = list(pairs), len(desk.brokers.writes)
    for what in (plan, plan.id, plan.id[:12]):
        with expect_refusal(copy_registration.FORMAT, by, where=plan.id):
            desk.fleet.copies.run(what)
    # Nobody who runs the copy was fenced, and the plan is listed with the reason.
    assert desk.logs.holders == {}
    assert (pairs, len(desk.brokers.writes)) == before
    assert list(desk.fleet.copies.list().failures) == [plan.id]


@OTHERS
def test_copy_plan_within_a_registration(desk, by):
    plan = desk.plan().plan
    desk.fleet.copies.run(plan)
    found = desk.logs.read_registered("seamark-control").found[plan.id]
    body = change_version(found.body, copy_plan.FORMAT, by)
    desk.logs.plans["seamark-control"] = list(copy_registration.encode_registration(replace(found, body=body)))
    desk.logs.holders.clear()
    with expect_refusal(copy_plan.FORMAT, by, where=plan.id):
        desk.fleet.copies.run(plan.id)
    assert desk.logs.holders == {}


# --- control records --------------------------------------------------------------------------------------------------


def build_control_bytes(by):
    value = control_codec.encode_control(ControlRecord(Claim("orders", task=7), amount=Amount(3, 40), is_done=True))
    return change_bytes(value, control_codec.FORMAT, by)


def decode(by):
    return control_codec.decode_control(build_control_bytes(by), place="seamark-control-0@5")


@OTHERS
def test_control_record(by):
    with expect_refusal(control_codec.FORMAT, by, where="seamark-control-0@5"):
        decode(by)


@OTHERS
def test_control_record_is_refused_before_a_copy_is_taken(desk, monkeypatch, by):
    plan = desk.plan().plan
    monkeypatch.setattr(desk.logs, "look_at_records", lambda topic, *, jobs: decode(by))
    with expect_refusal(control_codec.FORMAT, by):
        desk.fleet.copies.run(plan)
    assert (desk.logs.holders, desk.logs.plans, desk.spark.sessions) == ({}, {"seamark-control": []}, [])


@pytest.mark.parametrize("claim", [CLAIM, replace(CLAIM, query="q", batch=4), replace(CLAIM, part="000001-a")])
@OTHERS
def test_control_record_is_refused_before_a_task_takes_its_id(broker, monkeypatch, by, claim):  # noqa: F811
    monkeypatch.setattr(task_hold, "_CHECKED", set())
    with expect_refusal(control_codec.FORMAT, by):
        task = ExactTask(SETTINGS, claim, open_producer=lambda: FakeProducer(broker), read=lambda _: decode(by))
        task.write(pieces("abc"))
    assert (broker.taken, broker.acts, broker.committed) == (0, 0, "")


# --- ledgers ----------------------------------------------------------------------------------------------------------

FIRST = LedgerEntry("orders", "id", 0, next_offset=5)
SECOND = replace(FIRST, partition=1)


class LockingRunner(Runner):
    """SQLite has no FOR UPDATE; which rows would be locked is seen all the same."""

    locked = 0

    def read(self, text, **values):
        rows = super().read(text.removesuffix(" FOR UPDATE"), **values)
        self.locked += len(rows) if text.endswith(" FOR UPDATE") else 0
        return rows


@pytest.fixture
def database(tmp_path):
    return str(tmp_path / "ledger.db")


def write_ledger(database, by):
    """Two entries, of which the second has another format version; without one, the table has no such column."""
    with closing(sqlite3.connect(database)) as connection:
        runner = Runner(connection)
        Ledger("billing").create(runner)
        for one in (FIRST, SECOND):
            Ledger("billing").add(runner, one)
        if by is None:
            connection.execute(f"ALTER TABLE seamark_ledger DROP COLUMN {VERSION_FIELD}")
        else:
            connection.execute(
                f"UPDATE seamark_ledger SET {VERSION_FIELD} = ? WHERE partition_number = 1",
                [ledger_module.FORMAT.version + by],
            )
        connection.commit()


def read_rows(database):
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT * FROM seamark_ledger ORDER BY partition_number").fetchall()


@OTHERS
def test_ledger_entry(database, by):
    write_ledger(database, by)
    with closing(sqlite3.connect(database)) as connection:
        runner, ledger = LockingRunner(connection), Ledger("billing")
        with expect_refusal(ledger_module.FORMAT, by, where="of billing in seamark_ledger"):
            ledger.read(runner)
        # Another owner's entries are none of its business.
        assert Ledger("audit").read(runner) == {}


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("name", ["hold", "claim", "place", "remove", "move"])
def test_ledger_entry_is_neither_locked_nor_changed(database, name, by):
    write_ledger(database, by)
    before = read_rows(database)
    with closing(sqlite3.connect(database)) as connection:
        runner = LockingRunner(connection)
        more = {"to": 9} if name == "move" else {}
        with expect_refusal(ledger_module.FORMAT, by, where="entry orders-1 of billing"):
            getattr(Ledger("billing"), name)(runner, SECOND, **more)
        connection.commit()
        assert runner.locked == 0
    assert read_rows(database) == before


@OTHERS
def test_ledger_entry_is_refused_before_a_consumer_claims_any(database, by):
    write_ledger(database, by)
    before = read_rows(database)
    statements = []

    def connect():
        connection = sqlite3.connect(database)
        connection.set_trace_callback(statements.append)
        return connection

    with closing(LedgerSession(Ledger("billing"), connect)) as keeping:
        # The first is of the known version; what the second says of its owner is not known.
        with expect_refusal(ledger_module.FORMAT, by):
            keeping.claim(FIRST, find_start=lambda: 0)
        # A process that has passed the check before meets the newer entry later.
        keeping._is_created = True
        with expect_refusal(ledger_module.FORMAT, by):
            keeping.claim(FIRST, find_start=lambda: 0)
    assert not [text for text in statements if text.startswith(("UPDATE", "INSERT", "CREATE"))]
    assert read_rows(database) == before


def test_ledger_of_another_store_is_not_used_instead(monkeypatch):
    def refuse(*_):
        raise FormatVersionError("can't read it")

    monkeypatch.setattr("seamark.tables.postgres.writer.LandingDatabase.read_if_any", refuse)
    monkeypatch.setattr("seamark.tables.delta.technology.DeltaStore.find", lambda self, owner: pytest.fail("not asked"))
    shop = SimpleNamespace(name="shop", dsn=SimpleNamespace(reveal=lambda: ""))
    context = SimpleNamespace(name="dev", databases={"shop": shop}, lakes={"lake": SimpleNamespace(url="")})
    with pytest.raises(FormatVersionError):
        open_ledger(context, "pipeline/orders")


# --- Delta commits (on a real table: tests/spark/tables/test_lake_folder.py), pipelines, spooled intents --------------


@OTHERS
def test_delta_commit(by):
    text = vector.CommitOffsets("pipeline/orders", "run", (FIRST,)).to_json()
    assert vector.read_vector(text, place="x").entries == (FIRST,)
    with expect_refusal(vector.FORMAT, by, where="the commit x/1.json"):
        vector.read_vector(change_bytes(text, vector.FORMAT, by).decode(), place="x/1.json")


@OTHERS
def test_tombstone(by):
    found = None if by is None else tombstones.FORMAT.version + by
    rows = SimpleNamespace(fetchall=lambda: [(tombstones.FORMAT.version,), (found,)])
    connection = SimpleNamespace(execute=lambda _: rows)
    with expect_refusal(tombstones.FORMAT, by, "the tombstones in seamark_tombstones"):
        tombstones.Tombstones(connection, "rows", seconds=1).check()


@OTHERS
def test_registered_pipeline(fleet, monkeypatch, by):  # noqa: F811
    build = registered.build_body
    monkeypatch.setattr(
        "seamark.pipelines.spec.build_body", lambda one: change_version(build(one), registered.FORMAT, by)
    )
    assert fleet.apply(fleet.plan(spec(DESIRED))).is_done
    monkeypatch.undo()
    changes = len(fleet.journal.list())
    for act in (
        lambda: fleet.pipelines.declared(names=["orders"]),
        lambda: fleet.plan(spec(DESIRED)),
        lambda: fleet.plan(spec()),
    ):
        with expect_refusal(registered.FORMAT, by, where="pipeline/orders in the journal"):
            act()
    assert len(fleet.journal.list()) == changes


@OTHERS
def test_pipeline_state(by):
    stored = json.loads(progress.RunReport(progress.MemberState.RUNNING, 5).to_metadata())
    with expect_refusal(progress.FORMAT, by, where="the published state of a pipeline"):
        progress.read_report(json.dumps(change_version(stored, progress.FORMAT, by)))


def test_spooled_intent_has_its_version(tmp_path):
    path = Path(spool.FileSpool(tmp_path).write("01X", 3, {"a": 1}))
    assert json.loads(path.read_text())[VERSION_FIELD] == spool.FORMAT.version


@OTHERS
def test_spooled_intent_of_another_version_is_left_alone(tmp_path, by):
    """seamark never reads a spooled intent; a file of another version is neither refused nor written over."""
    path = Path(spool.FileSpool(tmp_path).write("01X", 3, {"a": 1}))
    path.write_bytes(change_bytes(path.read_bytes(), spool.FORMAT, by))
    before = path.read_bytes()
    other = Path(spool.FileSpool(tmp_path).write("01X", 3, {"a": 2}))
    assert other != path
    assert path.read_bytes() == before
    assert json.loads(other.read_text())[VERSION_FIELD] == spool.FORMAT.version


def test_entry_has_its_version():
    (first,) = build_change(closed=False)
    assert json.loads(first.to_bytes())[VERSION_FIELD] == entry.ENTRY_FORMAT.version
    assert Entry.from_bytes(first.to_bytes()) == first
