"""What every journal must do with its key: one key per journal, recorded with the first change or by `init`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.changes.signing import SealKey, build_key_record
from seamark.errors import LockedError, NotFoundError, RefusedError
from tests.fakes.changes.openings import AT, end, new_lock, opening

OLD, NEW, OTHER = SealKey(b"the old key of it"), SealKey(b"the new key of it"), SealKey(b"a key of others..")


def record_of(key, previous=None, by="ann@north:1"):
    return build_key_record(key, by=by, at=AT, previous=previous)


def opening_of(key):
    return replace(opening(new_lock()), key=record_of(key))


class KeyCases:
    """The cases of the key. The journals of a test share one store."""

    def test_journal_without_a_record_has_no_key(self, journal):
        assert journal.read_key() is None
        end(journal.begin(opening(new_lock())))
        assert journal.read_key() is None

    def test_first_change_records_its_key(self, journal, other):
        first = opening_of(OLD)
        writer = journal.begin(first)
        assert other.read_key() == first.key
        end(writer)
        end(other.begin(opening_of(OLD)))
        assert other.read_key() == first.key

    def test_recorded_key_is_read_by_others_and_recorded_once(self, journal, other):
        record = record_of(OLD)
        journal.record_key(record)
        assert other.read_key() == record
        other.record_key(record_of(OLD, by="ben@south:2"))
        assert journal.read_key() == record

    def test_change_of_another_key_takes_no_lock(self, journal, other):
        journal.record_key(record_of(OLD))
        late = opening_of(OTHER)
        with pytest.raises(RefusedError, match="another key") as caught:
            other.begin(late)
        assert OLD.fingerprint in caught.value.cause
        assert OTHER.fingerprint in caught.value.cause
        assert not other.open_heads()
        with pytest.raises(NotFoundError):
            other.read(late.change)
        end(journal.begin(replace(opening_of(OLD), locks=late.locks)))

    def test_another_key_is_not_recorded_over_the_first(self, journal, other):
        journal.record_key(record_of(OLD))
        for record in (record_of(OTHER), record_of(OTHER, previous=NEW)):
            with pytest.raises(RefusedError, match="recorded by another process"):
                other.record_key(record)
        assert journal.read_key() == record_of(OLD)

    def test_rotated_key_is_the_only_one_that_changes(self, journal, other):
        end(journal.begin(opening_of(OLD)))
        other.record_key(record_of(NEW, previous=OLD))
        assert journal.read_key() == record_of(NEW, previous=OLD)
        with pytest.raises(RefusedError, match="another key"):
            journal.begin(opening_of(OLD))
        end(other.begin(opening_of(NEW)))

    def test_key_is_not_rotated_while_a_change_is_open(self, journal, other):
        held = opening_of(OLD)
        writer = journal.begin(held)
        with pytest.raises(LockedError, match="while a change is open") as caught:
            other.record_key(record_of(NEW, previous=OLD))
        assert held.change in caught.value.cause
        assert held.change in caught.value.hint
        assert other.read_key().fingerprint == OLD.fingerprint
        end(writer)
        other.record_key(record_of(NEW, previous=OLD))

    def test_rotation_that_is_recorded_twice_is_one(self, journal, other):
        journal.record_key(record_of(OLD))
        journal.record_key(record_of(NEW, previous=OLD))
        other.record_key(record_of(NEW, previous=OLD))
        assert other.read_key().fingerprint == NEW.fingerprint
