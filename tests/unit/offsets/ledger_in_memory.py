"""A ledger in memory, as `LandingDatabase` keeps one, and brokers with such ledgers beside them."""

from __future__ import annotations

from dataclasses import replace

from seamark.core.readings import Reading
from seamark.errors import NotFoundError
from seamark.offsets.stores.ledger import LedgerBrokers, LedgerOffsets


class MemoryLedger:
    def __init__(self, *entries):
        self.entries = {entry.key: entry for entry in entries}

    def read(self):
        return dict(self.entries)

    def claim(self, firsts):
        for first in firsts:
            found = self.entries.get(first.key, first)
            self.entries[first.key] = replace(found, epoch=found.epoch + 1)
        return [self.entries[first.key] for first in firsts]

    def place(self, entries, *, gone=()):
        for entry in entries:
            found = self.entries.get(entry.key, entry)
            placed = replace(found, next_offset=entry.next_offset, epoch=found.epoch + 1, moves=found.moves + 1)
            self.entries[entry.key] = placed
        for entry in gone:
            self.entries.pop(entry.key, None)

    def move(self, key, *, to):
        """What a run does, that has claimed it."""
        self.entries[key] = replace(self.entries[key], next_offset=to, moves=self.entries[key].moves + 1)

    @property
    def offsets(self):
        return {(entry.topic, entry.topic_id, entry.partition): entry.next_offset for entry in self.entries.values()}


class RoutedFake(LedgerBrokers):
    """Also what the fake of the brokers has for tests alone."""

    def __getattr__(self, name):
        return getattr(self._brokers, name)


def route(brokers, ledgers, *, failures=None):
    """Brokers whose pipelines have these ledgers, by owner."""

    def find(owner, *, may_begin=False):
        del may_begin
        if owner not in ledgers:
            raise NotFoundError(f"no ledger has offsets of {owner}")
        return ledgers[owner]

    ledgers_there = LedgerOffsets(
        find,
        read_topics=brokers.read_topics,
        list_owners=lambda: Reading(tuple(ledgers), failures=failures or {}),
    )
    return RoutedFake(brokers, ledgers_there)
