"""Scans of offsets topics whose answers are kept while one plan is in the making.

Planning looks at the same offsets several times: to find the new ones, to count what is between, to tell what a step
will find. Steps never read through this cache: what they read after a stop must be what the topic holds then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from seamark.kafka.raw_record import RawRecord, ScanResult
from seamark.kafka.topic_scan import Accept
from seamark.offsets.stores.key_filter import KeyFilter
from seamark.offsets.stores.topic_store import Scan

OpenScan = Callable[[Mapping[str, str], str, bool], Scan]
"""Opens the scan of a topic: the client's settings, the topic, and whether only committed records count."""


class ScanCache:
    """Opens scans that read each topic once for all the connectors that were announced."""

    def __init__(self, open_scan: OpenScan) -> None:
        self._open_scan = open_scan
        self._lock = threading.Lock()
        self._scans: dict[tuple[frozenset[tuple[str, str]], str, bool], _CachedScan] = {}
        self._owners: set[str] = set()

    def expect(self, owners: Collection[str]) -> None:
        """Announce the connectors that the plan is about: the first scan reads the records of all of them."""
        with self._lock:
            self._owners |= set(owners)

    def open(self, config: Mapping[str, str], topic: str, committed: bool) -> Scan:
        """Return the scan of a topic; equal arguments give the same one."""
        key = frozenset(config.items()), topic, committed
        with self._lock:
            if key not in self._scans:
                self._scans[key] = _CachedScan(self._open_scan(config, topic, committed), self._owners)
            return self._scans[key]


class _CachedScan:
    """One topic. It holds the newest records of the connectors that were asked for so far, and no others."""

    def __init__(self, scan: Scan, expected: set[str]) -> None:
        self._scan = scan
        self._expected = expected
        self._lock = threading.Lock()
        self._result: ScanResult | None = None
        self._owners: frozenset[str] | None = frozenset()

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._scan.topic

    def read_newest(self, accept: Accept | None = None) -> ScanResult:
        """Return the newest record of every key that is accepted."""
        if accept is not None and not isinstance(accept, KeyFilter):
            return self._scan.read_newest(accept)
        with self._lock:
            result = self._read(accept)
        if accept is None:
            return result
        return replace(result, records=tuple(one for one in result.records if one.key is None or accept(one.key)))

    def read_all(self, accept: Accept | None = None) -> Iterator[RawRecord]:
        """Return every record; a history is read once per plan anyway."""
        return self._scan.read_all(accept)

    def _read(self, accept: KeyFilter | None) -> ScanResult:
        if self._result is not None and (
            self._owners is None or (accept is not None and accept.owners <= self._owners)
        ):
            return self._result
        if accept is None:
            self._owners = None
            self._result = self._scan.read_newest(None)
        else:
            self._owners = accept.owners | frozenset(self._expected) | (self._owners or frozenset())
            self._result = self._scan.read_newest(KeyFilter(self._owners))
        return self._result
