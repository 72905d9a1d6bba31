"""Saved plans and journal entries are untrusted input: what seamark didn't write with the journal's key is refused."""

from __future__ import annotations

import dataclasses
import json

import pytest

import seamark.changes.executor as executor
from seamark.changes.file_journal import FileJournal
from seamark.changes.journal import Entry, EntryKind, Opening
from seamark.changes.plan import Plan, read_plan_file
from seamark.changes.registration import check_expected
from seamark.changes.signing import KeyRing, SealKey, SignedJournal, check_signatures
from seamark.errors import JournalError, LockedError, PermissionDeniedError, RefusedError, TamperedJournalError
from seamark.kafka.model import HeldRecord
from seamark.offsets.stores.topic import check_own_records
from tests.unit.fleet.living import SOURCE_CONFIG, open_living_fleet, register

KEY = SealKey(b"a key of 16 bytes")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "plan.json"


@pytest.fixture
def planned(fleet, game):
    game.add("a", SOURCE_CONFIG)
    return fleet.connectors.set("a", {"tasks.max": "2"})


def rehash(path, edit):
    """Edit a plan file as somebody does who knows how its hash is computed."""
    body = {key: value for key, value in json.loads(path.read_text()).items() if key != "sha256"}
    edit(body)
    path.write_text(json.dumps(Plan.from_dict(body).to_file()))


# --- saved plans


def test_saved_plan_is_applied_once(fleet, game, planned, path):
    assert fleet.save(planned, path) is None
    plan = read_plan_file(path)
    first = fleet.apply(plan)
    assert first.is_done
    # It would fit again.
    assert fleet.apply(fleet.undo(first)).is_done
    writes = game.writes
    with pytest.raises(RefusedError, match=f"was applied before, as change {first.change}"):
        fleet.apply(plan)
    assert game.writes == writes


def test_plan_that_another_process_applies_at_the_same_time_is_applied_once(fleet, game, planned, path, monkeypatch):
    fleet.save(planned, path)
    reviewed = fleet.review(read_plan_file(path))
    # Both have reviewed it; the other one is faster, and what it did was undone.
    assert fleet.apply(fleet.undo(fleet.apply(fleet.review(read_plan_file(path))))).is_done
    writes = game.writes
    with pytest.raises(RefusedError, match="was applied before"):
        fleet.apply(reviewed)
    assert game.writes == writes


def test_plan_is_locked_while_it_is_applied(fleet, planned, path, monkeypatch):
    fleet.save(planned, path)
    reviewed = fleet.review(read_plan_file(path))
    seen = []

    def reach(point, number=0):
        if point == "after-open" and not seen:
            seen.append(point)
            with pytest.raises(LockedError):
                fleet.apply(reviewed)

    monkeypatch.setattr(executor, "reach", reach)
    assert fleet.apply(reviewed).is_done
    assert seen


def test_edited_plan_with_a_hash_of_its_own_is_refused(fleet, game, planned, path):
    fleet.save(planned, path)
    rehash(path, lambda body: body["actions"][0]["config"].update({"tasks.max": "9"}))
    with pytest.raises(RefusedError, match="the plan file was edited") as caught:
        fleet.review(read_plan_file(path))
    assert "journal" in caught.value.cause
    assert game.writes == 0


def test_plan_of_an_unknown_id_is_refused(fleet, planned, path):
    fleet.save(planned, path)
    rehash(path, lambda body: body.update({"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}))
    with pytest.raises(RefusedError, match="is not registered in this journal"):
        fleet.review(read_plan_file(path))


def test_id_of_a_change_is_no_registration(fleet, planned, path):
    change = fleet.apply(planned).change
    back = fleet.undo(change)
    fleet.save(back, path)
    rehash(path, lambda body: body.update({"id": change}))
    with pytest.raises(RefusedError, match="is not registered in this journal"):
        fleet.review(read_plan_file(path))


def test_old_plan_is_refused(fleet, planned, path, monkeypatch):
    fleet.save(planned, path)
    now = fleet._world.clock.now()
    monkeypatch.setattr(fleet._changes._registrations, "_now", lambda: now + 24 * 3600 - 60)
    fleet.review(read_plan_file(path))
    monkeypatch.setattr(fleet._changes._registrations, "_now", lambda: now + 24 * 3600 + 60)
    with pytest.raises(RefusedError, match="older than 1 day"):
        fleet.review(read_plan_file(path))


def test_plan_without_a_journal_is_a_proposal(fleet, game, planned, path, monkeypatch):
    def begin(self, opening):
        raise JournalError("the journal can't be written")

    with monkeypatch.context() as patch:
        patch.setattr(FileJournal, "begin", begin)
        problem = fleet.save(planned, path)
    assert problem is not None
    assert problem.message == "the journal can't be written"
    proposal = read_plan_file(path)
    with pytest.raises(RefusedError, match="only a proposal") as caught:
        fleet.apply(proposal)
    assert "--expect" in caught.value.hint
    # Planned again, it is the same.
    check_expected(fleet.connectors.set("a", {"tasks.max": "2"}).plan, proposal)
    for other, said in (
        (fleet.connectors.set("a", {"tasks.max": "3"}), "different: connector/game/a"),
        (fleet.connectors.pause("a"), "only in the expected plan: connector/game/a"),
    ):
        with pytest.raises(RefusedError, match="differs from the expected one") as caught:
            check_expected(other.plan, proposal)
        assert said in caught.value.cause


def test_saved_plan_in_the_journal_can_not_be_undone(fleet, planned, path):
    fleet.save(planned, path)
    (head,) = fleet.journal.list()
    assert head.title.startswith("save the plan: ")
    with pytest.raises(RefusedError, match="doesn't record a change"):
        fleet.undo(head.change)
    with pytest.raises(RefusedError, match="doesn't record a change"):
        fleet.journal.resume(head.change)


# --- journal entries


def test_entry_without_the_key_is_refused(fleet, game, planned, tmp_path):
    """Whoever may write to the journal's topic can compute its hash chain: the entry is perfect but for the key."""
    plan = dataclasses.replace(planned.plan, title="anything")
    journal = FileJournal(tmp_path / "journal")
    change = fleet._actor.new_id()
    body, at = {"plan": plan.to_dict()}, fleet._actor.timestamp()
    opening = Opening(change, "anything", "mallory@evil:1", at, "ab" * 8, plan.locks, body)
    journal.begin(opening).release()
    for act in (fleet.journal.resume, lambda name: fleet.journal.unlock(name, nonce="ab" * 8)):
        with pytest.raises(TamperedJournalError, match="not written by seamark with this journal's key"):
            act(change)
    assert game.writes == 0
    assert [entry.kind for entry in journal.read(change)] == ["open"]


def change_values(value):
    """Yield copies of a JSON value with one place changed, deleted, duplicated or moved."""
    if isinstance(value, dict):
        yield value | {"extra": 1}
        for key, inner in value.items():
            yield {name: found for name, found in value.items() if name != key}
            yield from (value | {key: other} for other in change_values(inner))
    elif isinstance(value, list):
        yield from ([value[::-1]] if value != value[::-1] else [])
        for place, inner in enumerate(value):
            yield value[:place] + value[place + 1 :]
            yield [*value[: place + 1], inner, *value[place + 1 :]]
            yield from ([*value[:place], other, *value[place + 1 :]] for other in change_values(inner))
    else:
        yield {bool: lambda: not value, str: lambda: value + "x", int: lambda: value + 1}.get(
            type(value), lambda: "x"
        )()


def test_every_edit_of_every_entry_is_refused(fleet, planned):
    change = fleet.apply(planned).change
    entries = fleet.journal.show(change)
    seal = fleet._world.seal
    check_signatures(entries, seal)
    count = 0
    for place, entry in enumerate(entries):
        for body in change_values(dict(entry.body)):
            if {key: value for key, value in body.items() if key != "nonce"} == {
                key: value for key, value in entry.body.items() if key != "nonce"
            }:
                continue
            edited = [*entries[:place], dataclasses.replace(entry, body=body), *entries[place + 1 :]]
            with pytest.raises(TamperedJournalError):
                check_signatures(edited, seal)
            count += 1
    assert count > 150


def test_entry_of_another_place_is_refused(fleet, planned):
    first = fleet.apply(planned).change
    second = fleet.apply(fleet.undo(first)).change
    entries, others = fleet.journal.show(first), fleet.journal.show(second)
    seal = fleet._world.seal
    intent = next(entry for entry in entries if entry.kind is EntryKind.INTENT)
    for moved in (
        [entries[0], dataclasses.replace(intent, number=intent.number + 1)],
        [entries[0], dataclasses.replace(intent, kind=EntryKind.NOTE)],
        [others[0], dataclasses.replace(intent, change=second)],
    ):
        with pytest.raises(TamperedJournalError):
            check_signatures(moved, seal)


def test_writers_of_many_entries_at_once_sign_each(tmp_path):
    journal = SignedJournal(FileJournal(tmp_path / "j"), lambda: KeyRing(KEY))
    opening = Opening("01ARZ3NDEKTSV4RRFFQ69G5FAV", "t", "a", "2026-01-01T00:00:00Z", "n", ("data.t",), {"x": 1})
    writer = journal.begin(opening)
    writer.append_all([(EntryKind.NOTE, {"n": 1}), (EntryKind.NOTE, {"n": 2})])
    writer.release()
    writer = journal.take_over(opening.change, nonce="m", by="b", at="2026-01-01T00:00:01Z")
    writer.append(EntryKind.CLOSE, {"ending": "done"})
    writer.release()
    entries = journal.read(opening.change)
    assert [str(entry.kind) for entry in entries] == ["open", "note", "note", "taken", "close"]
    check_signatures(entries, KEY.seal)
    with pytest.raises(TamperedJournalError, match="entry 0"):
        check_signatures(entries, SealKey(b"another").seal)


def test_change_whose_last_entry_was_cut_off_can_be_taken_over(tmp_path):
    """A full disk cuts an entry off; the journal sets it aside in an entry that no holder of the key has signed."""
    journal = SignedJournal(FileJournal(tmp_path / "j"), lambda: KeyRing(KEY))
    opening = Opening("01ARZ3NDEKTSV4RRFFQ69G5FAV", "t", "a", "2026-01-01T00:00:00Z", "n", ("data.t",), {"x": 1})
    writer = journal.begin(opening)
    writer.append(EntryKind.NOTE, {"n": 1})
    writer.release()
    (file,) = (tmp_path / "j" / "changes").glob(f"{opening.change}*")
    file.write_bytes(file.read_bytes()[:-7])
    writer = journal.take_over(opening.change, nonce="m", by="b", at="2026-01-01T00:00:01Z")
    writer.append(EntryKind.CLOSE, {"ending": "done"})
    writer.release()
    entries = journal.read(opening.change)
    assert [str(entry.kind) for entry in entries] == ["open", "taken", "close"]
    assert entries[1].body["torn_bytes"] > 0
    check_signatures(entries, KEY.seal)


def test_entry_that_is_added_before_the_takeover_is_refused(tmp_path):
    """The signatures were checked, then somebody without the key appended a perfect entry, then comes the takeover."""
    inner = FileJournal(tmp_path / "j")
    journal = SignedJournal(inner, lambda: KeyRing(KEY))
    opening = Opening("01ARZ3NDEKTSV4RRFFQ69G5FAV", "t", "a", "2026-01-01T00:00:00Z", "n", ("data.t",), {"x": 1})
    journal.begin(opening).release()
    check_signatures(journal.read(opening.change), KEY.seal)
    forger = inner.take_over(opening.change, nonce="evil", by="mallory", at="2026-01-01T00:00:01Z")
    forger.append(EntryKind.INTENT, {"step": 0, "before": None, "after": None, "extra": {"records": []}})
    forger.release()
    with pytest.raises(TamperedJournalError, match="entry 2"):
        journal.take_over(opening.change, nonce="m", by="b", at="2026-01-01T00:00:02Z")
    assert [head.change for head in journal.open_heads()] == [opening.change]


def test_plan_that_no_role_allows_is_saved_as_a_proposal(tmp_path, game, path):
    game.add("a", SOURCE_CONFIG)
    fleet = open_living_fleet(tmp_path, game)
    object.__setattr__(fleet.context, "read_only", True)
    assert isinstance(fleet.save(fleet.connectors.pause("a"), path), PermissionDeniedError)
    assert fleet.journal.list() == ()
    assert read_plan_file(path).id == ""


def test_journal_with_another_key_is_refused_before_anything(tmp_path, fleet, game, planned, path):
    fleet.apply(planned)
    writes = game.writes
    (tmp_path / "state" / "journal.key").write_text("ab" * 32)
    with open_living_fleet(tmp_path, game) as other:
        again = other.connectors.set("a", {"tasks.max": "5"})
        with pytest.raises(RefusedError, match="the journal has another key than this context") as caught:
            other.apply(again)
        assert "journal_key" in caught.value.hint
        assert other.save(again, path) is not None
    assert game.writes == writes


# --- records

OWN = b'["fs",{"filename":"/in"}]'


@pytest.mark.parametrize(
    "record",
    [
        HeldRecord("connect-configs", 0, b"connector-pwn", b"{}"),
        HeldRecord("connect-configs", 0, OWN, b"{}"),
        HeldRecord("seamark-journal-heads", 0, b"change/X", b"junk"),
        HeldRecord("offsets", 0, b'["other",{"filename":"/in"}]', b"{}"),
        HeldRecord("offsets", 0, b"connector-pwn", b"{}"),
        HeldRecord("offsets", 0, b"", None),
    ],
)
def test_only_offsets_of_the_connector_in_its_topics_are_written(record):
    good = HeldRecord("offsets", 0, OWN, b'{"position":1}')
    mine = dataclasses.replace(good, topic="mine")
    check_own_records([good, mine], connectors=["fs"], topics=("offsets", "mine", None, ""))
    with pytest.raises(RefusedError, match="isn't an offset of the connector"):
        check_own_records([good, record], connectors=["fs"], topics=("offsets", None))


def test_registered_plan_with_a_foreign_record_is_refused_before_the_stop(tmp_path, monkeypatch):
    from tests.unit.offsets.test_older_workers import OldPlace  # noqa: PLC0415

    place = OldPlace(tmp_path, "3.5.2")
    written = []
    write = "seamark.kafka.transaction.write_records"
    monkeypatch.setattr(write, lambda config, records, **_: written.extend(records))
    monkeypatch.setattr("seamark.kafka.worker_group.read_worker_loads", lambda *_, **__: place.loads)
    plan = place.fleet.offsets.move("fs", to=3, wait_seconds=0).plan
    (action,) = plan.actions
    evil = HeldRecord("connect-configs", 0, b"connector-pwn", b"{}")
    hostile = dataclasses.replace(plan, actions=(dataclasses.replace(action, records=(*action.records, evil)),))
    states = dict(place.game.states)
    with pytest.raises(RefusedError, match="isn't an offset of the connector: topic connect-configs"):
        place.fleet.apply(register(place.fleet, hostile))
    assert (written, place.game.states) == ([], states)


def test_entry_bytes_are_the_same_after_reading(fleet, planned):
    for entry in fleet.journal.show(fleet.apply(planned).change):
        assert Entry.from_bytes(entry.to_bytes()) == entry
