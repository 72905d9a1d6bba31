"""One key per journal: another key is refused before anything is locked, and `init --rotate-key` replaces the key."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.changes.interruption import KEY_POINTS, set_hook
from seamark.changes.journal import Opening
from seamark.changes.kafka_journal.names import KEY_KEY, JournalNames
from seamark.changes.plan import read_plan_file
from seamark.changes.signing import SealKey, SignedJournal, build_key_record
from seamark.context.reference import Secret
from seamark.errors import LockedError, PermissionDeniedError, RefusedError, StalePlanError, TamperedJournalError
from seamark.fleet.fleet import Fleet
from seamark.kafka.produce import Outgoing
from tests.fakes.changes.journal_brokers import build_brokers, build_clients
from tests.fakes.changes.journal_brokers import open_journal as open_kafka_journal
from tests.unit.fleet.builders import EmptyScan, StubKafka
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, living_context

SECRET_CONFIG = SOURCE_CONFIG | {"connection.password": "hunter2"}


class KilledError(BaseException):
    """Ends the process at hand, as far as a test can."""


class Site:
    """One Connect cluster and one journal, and operators with a state folder each."""

    def __init__(self, folder, kind):
        self.folder = folder
        self.brokers = build_brokers() if kind == "kafka" else None
        self.game = LivingConnect()
        self.game.add("a", SECRET_CONFIG)

    def open_journal(self, _=None):
        return FileJournal(self.folder / "journal") if self.brokers is None else open_kafka_journal(self.brokers)

    def open(self, who="dev", context="dev", key=None, **changes):
        opened = living_context(self.folder)
        journal = replace(
            opened.journal,
            context=context,
            find_state_dir=lambda: self.folder / f"state-{who}",
            key=Secret(key) if key else None,
        )
        return Fleet(
            replace(opened, name=context, own_journal=journal, **changes),
            build_connect=lambda _: self.game,
            build_kafka=lambda _: StubKafka(),
            open_journal=self.open_journal,
            open_scan=lambda _, topic, __: EmptyScan(topic),
        )

    def read_key(self):
        return self.open_journal().read_key()

    def forge(self, record):
        """Replace the record of the key, as somebody who may write the journal can."""
        if self.brokers is None:
            (self.folder / "journal" / "key").write_bytes(record.to_bytes())
        else:
            stored = Outgoing(JournalNames().heads, key=KEY_KEY, value=record.to_bytes())
            writer = build_clients(self.brokers).open_record_writer()
            writer.write(stored)
            writer.close()

    def list_stored(self):
        """Everything that the journal holds."""
        if self.brokers is not None:
            return {topic: list(log) for topic, log in self.brokers.logs.items()}
        found = sorted((self.folder / "journal").rglob("*"))
        return {path: path.read_bytes() for path in found if path.is_file()}

    def leave_open(self, fleet):
        """A change whose process ended when it had its locks."""

        def kill(point, _number):
            if point == "after-open":
                raise KilledError

        set_hook(kill)
        try:
            with pytest.raises(KilledError):
                fleet.apply(set_tasks(fleet, "5"))
        finally:
            set_hook(None)
        fleet.close()
        return fleet.journal.list(only_open=True)[0].change


def current(fleet):
    return fleet._world.keys.read().current


@pytest.fixture(params=["file", "kafka"])
def site(tmp_path, request):
    return Site(tmp_path, request.param)


@pytest.fixture
def dev(site):
    with site.open() as fleet:
        yield fleet


def set_tasks(fleet, count):
    return fleet.connectors.set("a", {"tasks.max": count})


# --- another key ------------------------------------------------------------------------------------------------------


def do_apply(fleet, _site, **_):
    fleet.apply(set_tasks(fleet, "3"))


def do_review(fleet, site, **_):
    fleet.review(read_plan_file(site.folder / "plan"))


def do_undo(fleet, _site, closed, **_):
    fleet.undo(closed)


def do_save(fleet, site, **_):
    error = fleet.save(set_tasks(fleet, "3"), site.folder / "theirs")
    raise error


@pytest.mark.parametrize("act", [do_apply, do_review, do_undo, do_save])
def test_another_key_is_refused_before_anything_is_locked(site, dev, act):
    closed = dev.apply(set_tasks(dev, "2")).change
    assert dev.save(dev.connectors.pause("a"), site.folder / "plan") is None
    before, writes = site.list_stored(), site.game.writes
    with site.open("ci") as ci:
        with pytest.raises(RefusedError, match="the journal has another key than this context; no changes") as caught:
            act(ci, site, closed=closed)
        assert current(dev).fingerprint in caught.value.cause
        assert current(ci).fingerprint in caught.value.cause
        assert str(site.folder / "state-ci" / "journal.key") in caught.value.cause
        assert dev._actor.name in caught.value.hint
        assert "journal_key" in caught.value.hint
        assert "init --rotate-key" in caught.value.hint
    assert (site.list_stored(), site.game.writes) == (before, writes)


@pytest.mark.parametrize("verb", ["read_open", "resume", "unlock"])
def test_open_change_is_not_taken_over_with_another_key(site, dev, verb):
    change = site.leave_open(dev)
    before, writes = site.list_stored(), site.game.writes
    with site.open("ci") as ci:
        act = getattr(ci.journal, verb)
        with pytest.raises(RefusedError, match="the journal has another key than this context"):
            act(change, nonce=None) if verb == "unlock" else act(change)
    assert (site.list_stored(), site.game.writes) == (before, writes)
    assert dev.journal.resume(change).is_done


def test_first_change_records_the_key_of_a_journal_that_was_never_set_up(site, dev):
    assert site.read_key() is None
    dev.apply(set_tasks(dev, "2"))
    assert site.read_key().fingerprint == current(dev).fingerprint


def test_key_that_was_rotated_by_others_while_a_plan_was_reviewed_is_refused_at_the_opening(site, dev):
    dev.journal.make_setup()
    planned = set_tasks(dev, "2")
    old = current(dev)
    with site.open() as other:
        other.journal.rotate_key()
    assert current(dev) == old
    before = site.list_stored()
    with pytest.raises(RefusedError, match="the journal's key was rotated"):
        dev.apply(planned)
    # Even where the first check came before the rotation.
    with pytest.raises(RefusedError, match="another key than this process"):
        dev._changes._registrations.register(planned.plan)
    assert site.list_stored().keys() == before.keys()
    assert site.game.writes == 0


# --- what a writer of the journal can do ------------------------------------------------------------------------------


def test_replaced_record_does_not_make_a_foreign_key_accepted_for_entries(site, dev):
    closed = dev.apply(set_tasks(dev, "2")).change
    change = site.leave_open(dev)
    writes = site.game.writes
    with site.open("mallory") as mallory:
        site.forge(build_key_record(current(mallory), by="x", at="y"))
        for act in (lambda: mallory.undo(closed), lambda: mallory.journal.resume(change)):
            with pytest.raises(RefusedError, match="was written with another journal key than yours"):
                act()
        with pytest.raises(RefusedError, match="another key than this context"):
            dev.journal.resume(change)
    assert site.game.writes == writes


def test_record_of_our_fingerprint_that_was_not_signed_is_refused(site, dev):
    dev.journal.make_setup()
    site.forge(replace(site.read_key(), by="mallory"))
    with pytest.raises(TamperedJournalError, match="wasn't written by seamark"):
        dev.apply(set_tasks(dev, "2"))
    with pytest.raises(TamperedJournalError):
        dev.journal.rotate_key()


def test_replayed_record_does_not_bring_a_previous_key_back(site, dev):
    dev.journal.make_setup()
    replayed, old = site.read_key(), current(dev)
    dev.journal.rotate_key()
    new = current(dev)
    site.forge(replayed)
    with pytest.raises(RefusedError, match="has a previous key of this context") as caught:
        dev.apply(set_tasks(dev, "2"))
    assert caught.value.hint == "record the current key: seamark init --rotate-key"
    assert dev.journal.rotate_key().fingerprint == new.fingerprint
    assert dev._world.keys.read().keys == (new, old)
    assert dev.apply(set_tasks(dev, "2")).is_done


def test_open_change_of_a_previous_key_is_not_resumed(site, dev):
    """A leaked key is of no use after its rotation: only closed changes are checked with it."""
    dev.journal.make_setup()
    old = dev._world.keys.read()
    closed = dev.apply(set_tasks(dev, "2")).change
    dev.journal.rotate_key()
    opened = dev.journal.show(closed)[0]
    forger = SignedJournal(Unchecked(site.open_journal()), lambda: old)
    body = {key: value for key, value in opened.body.items() if key not in ("signature", "title", "locks", "nonce")}
    forged = Opening(dev._actor.new_id(), "t", "x", opened.at, "n", ("data.t",), body)
    forger.begin(forged).release()
    writes = site.game.writes
    with pytest.raises(RefusedError, match="was written with another journal key than yours"):
        dev.journal.resume(forged.change)
    assert site.game.writes == writes


class Unchecked:
    """A journal whose writer doesn't say which key it has."""

    def __init__(self, journal):
        self._journal = journal

    def begin(self, opening):
        return self._journal.begin(replace(opening, key=None))


# --- the rotation -----------------------------------------------------------------------------------------------------


def test_rotation_keeps_changes_of_before_undoable(site, dev):
    change = dev.apply(set_tasks(dev, "4"))
    old = current(dev)
    rotation = dev.journal.rotate_key()
    new = current(dev)
    assert (rotation.previous, rotation.fingerprint, new != old) == (old.fingerprint, new.fingerprint, True)
    record = site.read_key()
    assert (record.fingerprint, record.previous) == (new.fingerprint, old.fingerprint)
    # In another process, too.
    with site.open() as fleet:
        planned = fleet.undo(change)
        assert {p.expected for p in planned.plan.preconditions if p.kind == "sealed"} == {new.name}
        assert fleet.apply(planned).is_done
        assert site.game.configs["a"] == SECRET_CONFIG | {"name": "a"}
        entries = fleet.journal.show(fleet.journal.list()[0].change)
        assert all(f":{new.name}:" in entry.body["signature"] for entry in entries)


def test_undo_of_a_change_of_a_previous_key_detects_a_secret_that_has_moved_since(site, dev):
    change = dev.apply(set_tasks(dev, "2"))
    dev.journal.rotate_key()
    site.game.configs["a"]["connection.password"] = "hunter3"
    with pytest.raises(StalePlanError, match="out of date"):
        dev.undo(change)


def test_undo_plan_of_a_previous_key_is_stale_where_a_secret_moves_before_it_is_applied(site, dev):
    change = dev.apply(set_tasks(dev, "2"))
    dev.journal.rotate_key()
    planned = dev.undo(change)
    site.game.configs["a"]["connection.password"] = "hunter3"
    with pytest.raises(StalePlanError, match="out of date"):
        dev.apply(planned)


def test_plan_that_was_saved_before_a_rotation_is_refused(site, dev):
    assert dev.save(dev.connectors.pause("a"), site.folder / "plan") is None
    dev.journal.rotate_key()
    with pytest.raises(RefusedError, match="saved before the journal's key was rotated") as caught:
        dev.review(read_plan_file(site.folder / "plan"))
    assert caught.value.hint == "create a new plan and review it"


def test_key_is_not_rotated_while_a_change_is_open(site, dev):
    change = site.leave_open(dev)
    key = site.read_key()
    with pytest.raises(LockedError, match="can't be rotated while a change is open") as caught:
        dev.journal.rotate_key()
    assert f"journal resume {change}" in caught.value.hint
    assert site.read_key() == key
    assert not list((site.folder / "state-dev").rglob("*.next"))
    assert dev.journal.resume(change).is_done


def test_key_of_a_journal_without_one_is_not_rotated(dev):
    with pytest.raises(RefusedError, match="has no key yet") as caught:
        dev.journal.rotate_key()
    assert caught.value.hint == "record it: seamark init"


def test_other_journals_of_the_user_keep_the_shared_key(site, dev, tmp_path):
    dev.journal.make_setup()
    other = Site(tmp_path / "other", "file")
    other.folder.mkdir()
    with other.open(context="prod") as prod:
        object.__setattr__(prod.context.journal, "find_state_dir", lambda: site.folder / "state-dev")
        prod.journal.make_setup()
        shared = other.read_key().fingerprint
        assert shared == site.read_key().fingerprint
        dev.journal.rotate_key()
        assert site.read_key().fingerprint != shared
        assert prod.apply(set_tasks(prod, "2")).is_done
        assert other.read_key().fingerprint == shared


def test_holder_of_the_previous_key_is_told_who_rotated_it(site, dev):
    dev.journal.make_setup()
    text = (site.folder / "state-dev" / "journal.key").read_text()
    with site.open("ci", key=text) as ci:
        assert ci.apply(set_tasks(ci, "2")).is_done
        new = dev.journal.rotate_key().fingerprint
        with pytest.raises(RefusedError, match="the journal's key was rotated; no changes") as caught:
            ci.apply(set_tasks(ci, "3"))
    assert caught.value.cause.startswith(f"{dev._actor.name} recorded key {new}")


# --- a key that the context names -------------------------------------------------------------------------------------


def test_key_of_the_context_is_rotated_once_its_new_line_is_there(site):
    old, new = "the old key of the team", "the new key of the team"
    with site.open(key=old) as fleet:
        fleet.journal.make_setup()
        change = fleet.apply(set_tasks(fleet, "2"))
        with pytest.raises(RefusedError, match="seamark can't create a new key") as caught:
            fleet.journal.rotate_key()
        assert "openssl rand -hex 32" in caught.value.hint
    with site.open(key=f"{new}\n{old}\n") as fleet:
        with pytest.raises(RefusedError, match="has a previous key of this context"):
            fleet.apply(set_tasks(fleet, "3"))
        assert fleet.journal.rotate_key().fingerprint == SealKey(new.encode()).fingerprint
        assert fleet.apply(fleet.undo(change)).is_done
    assert not (site.folder / "state-dev" / "journal-keys").exists()


# --- processes that end in the middle ---------------------------------------------------------------------------------


def kill_after(monkeypatch, calls):
    """End the process before its nth sync, link or rename of a key file."""
    left = [calls]

    def kill(original):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            return original(*args, **kwargs)

        return call

    monkeypatch.setattr("seamark.changes.keys.os.link", kill(os.link))
    monkeypatch.setattr("seamark.changes.keys.Path.replace", kill(Path.replace))
    monkeypatch.setattr("seamark.changes.keys.sync_folder", kill(lambda _: None))
    set_hook(lambda point, _number: kill(lambda: None)() if point in KEY_POINTS else None)


@pytest.mark.parametrize("calls", range(12))
def test_rotation_that_is_killed_anywhere_is_finished_by_the_next_one(site, monkeypatch, calls):
    with site.open() as fleet:
        fleet.journal.make_setup()
        old = current(fleet)
        change = fleet.apply(set_tasks(fleet, "2")).change
        with monkeypatch.context() as patch:
            kill_after(patch, calls)
            try:
                fleet.journal.rotate_key()
            except KilledError:
                is_killed = True
            else:
                is_killed = False
            finally:
                set_hook(None)
    # Each later process either works with the journal's key, or says how to finish the rotation.
    with site.open() as fleet:
        if current(fleet).fingerprint == site.read_key().fingerprint:
            assert fleet.apply(set_tasks(fleet, "3")).is_done
        else:
            assert is_killed
            with pytest.raises(RefusedError, match="the rotation of the journal's key isn't finished") as caught:
                fleet.apply(set_tasks(fleet, "3"))
            assert caught.value.hint == "finish it: seamark init --rotate-key"
        rotation = fleet.journal.read_rotation()
        if is_killed:
            fleet.journal.rotate_key()
            if rotation.fingerprint:
                assert current(fleet).fingerprint == rotation.fingerprint
    with site.open() as fleet:
        assert current(fleet).fingerprint == site.read_key().fingerprint
        assert current(fleet) != old
        assert old in fleet._world.keys.read().previous
        fleet.apply(set_tasks(fleet, "2"))
        assert fleet.apply(fleet.undo(change)).is_done
    if calls == 11:
        assert not is_killed


def test_two_rotations_at_once_have_one_new_key(site, dev):
    dev.journal.make_setup()
    with site.open() as other:
        assert dev._world.keys.make_next() == other._world.keys.make_next()
        new = dev.journal.rotate_key().fingerprint
        other._world.keys.promote_next()
        assert current(other).fingerprint == new == site.read_key().fingerprint


def test_rotation_keeps_keys_that_the_key_file_got_since_it_was_begun(site, dev):
    dev.journal.make_setup()
    old, new = current(dev), dev._world.keys.make_next()
    extra = SealKey(bytes(32))
    with (site.folder / "state-dev" / "journal.key").open("a") as file:
        file.write(f"{extra.key.hex()}\n")
    with site.open() as fleet:
        fleet.journal.rotate_key()
        assert fleet._world.keys.read().keys == (new, old, extra)


# --- who may ----------------------------------------------------------------------------------------------------------


def test_rotation_needs_the_permission_and_the_name_of_a_protected_context(site, dev):
    dev.journal.make_setup()
    before = site.read_key()
    with site.open(read_only=True) as fleet, pytest.raises(PermissionDeniedError, match="rotate the journal's key"):
        fleet.journal.rotate_key()
    with site.open(protected=True) as fleet:
        with pytest.raises(RefusedError, match="is protected"):
            fleet.journal.rotate_key()
        assert site.read_key() == before
        fleet.journal.rotate_key(confirm="dev")
    assert site.read_key() != before


def test_setup_names_the_key_and_does_not_make_it(site, dev):
    setup = dev.journal.read_setup()
    assert [item.name for item in setup.missing][-1] == "key"
    assert not (site.folder / "state-dev").exists()
    made = dev.journal.make_setup()
    assert made[-1] == f"key {site.read_key().fingerprint}"
    assert dev.journal.read_setup().missing == ()
    assert dev.journal.make_setup() == ()
    with site.open("ci") as ci:
        (warning,) = ci.journal.read_setup().warnings
        assert "another key than this context" in warning
        with pytest.raises(RefusedError, match="another key than this context"):
            ci.journal.make_setup()


def test_entries_of_the_journal_hold_no_key(site, dev):
    dev.journal.make_setup()
    dev.apply(set_tasks(dev, "2"))
    dev.journal.rotate_key()
    keys = [key.key for key in dev._world.keys.read().keys]
    stored = repr(site.list_stored()).encode()
    assert len(keys) == 2
    assert not [key for key in keys if key.hex().encode() in stored or key in stored]
