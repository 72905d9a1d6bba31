"""Keys that were secrets before, told by a journal in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from seamark.errors import JournalError, NotFoundError
from seamark.fleet.sealed_keys import SealedKeys
from seamark.model.entry import Entry, EntryKind
from seamark.model.head import Head
from seamark.model.plan import Plan, StepData

SUBJECT = "connector/game/fs"
LOCK = "source.offsets.fs@workers"


class Book:
    """A journal of changes that each put one config of `fs`."""

    def __init__(self):
        self.changes = {}
        self.calls = Counter()

    def add(self, change, config, *, locks=(LOCK,), is_open=False, before=None):
        plan = Plan("t", "dev", made_at="", made_by="", steps=(StepData("put-config", SUBJECT, {}),))
        images = {"before": before and {"config": before}, "after": {"config": config}, "extra": None}
        bodies = [(EntryKind.OPEN, {"plan": plan.to_dict()}), (EntryKind.INTENT, {"step": 0, **images})]
        entries = tuple(
            Entry(change, number, kind=kind, at="", by="", body=body, previous="")
            for number, (kind, body) in enumerate(bodies)
        )
        kind = EntryKind.INTENT if is_open else EntryKind.CLOSE
        head = Head(change, "t", "", "", "", kind, 1, f"hash of {change}", tuple(locks), "")
        self.changes[change] = (head, entries)

    def heads(self, *, limit=None):
        self.calls["heads" if limit is None else "newest"] += 1
        return tuple(head for head, _ in list(self.changes.values())[::-1][:limit])

    def read(self, change):
        self.calls[f"read {change}"] += 1
        return self.changes[change][1]


SEAL = {"sealed": "hmac-sha256:k:1"}


def test_every_change_of_the_connector_tells_also_those_of_its_whole_cluster():
    book = Book()
    book.add("1", {"a": SEAL, "topic": "t"}, locks=["connect.workers"])
    book.add("2", {"a": "1", "b": "2"}, before={"a": "1", "b": SEAL})
    book.add("3", {"c": SEAL}, locks=["source.offsets.other@others"])
    keys = SealedKeys(lambda: book)
    assert keys.find(SUBJECT, [LOCK]) == {"a", "b"}
    assert keys.find("connector/game/another", [LOCK]) == frozenset()
    assert book.calls["read 3"] == 0


def test_a_closed_change_is_read_once_and_a_new_one_is_seen():
    book = Book()
    book.add("1", {"a": SEAL})
    book.add("2", {"b": SEAL}, is_open=True)
    keys = SealedKeys(lambda: book)
    assert keys.find(SUBJECT, [LOCK]) == keys.find(SUBJECT, [LOCK]) == {"a", "b"}
    assert (book.calls["heads"], book.calls["read 1"], book.calls["read 2"]) == (1, 1, 2)
    book.add("3", {"c": SEAL})
    assert keys.find(SUBJECT, [LOCK]) == {"a", "b", "c"}
    assert (book.calls["heads"], book.calls["read 1"]) == (2, 1)


def test_a_journal_that_is_not_there_yet_knows_none_and_one_that_fails_is_told():
    class Failing:
        def __init__(self, error):
            self.error = error

        def heads(self, *, limit=None):
            assert limit == 1
            raise self.error

    assert SealedKeys(lambda: Failing(NotFoundError("no topic"))).find(SUBJECT, [LOCK]) == frozenset()
    with pytest.raises(JournalError):
        SealedKeys(lambda: Failing(JournalError("no broker"))).find(SUBJECT, [LOCK])


def test_what_an_open_change_does_later_is_seen():
    book = Book()
    book.add("1", {"a": "1"}, is_open=True)
    keys = SealedKeys(lambda: book)
    assert keys.find(SUBJECT, [LOCK]) == frozenset()
    head, _ = book.changes["1"]
    book.add("1", {"a": SEAL})
    book.changes["1"] = (replace(head, last_kind=EntryKind.CLOSE), book.changes["1"][1])
    assert keys.find(SUBJECT, [LOCK]) == {"a"}
