"""The journal in Kafka: a topic of entries, a small heads topic, and locks by transactional ID."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping

from seamark.changes.journal import Entry, EntryKind, Head, KeyRecord, Opening, is_change_id
from seamark.changes.kafka_journal.clients import JournalClients, check_topics, refuse_differences
from seamark.changes.kafka_journal.entries import (
    KafkaJournalWriter,
    build_lost,
    check_tail,
    read_change,
    read_heads,
    resolve_change,
)
from seamark.changes.kafka_journal.locks import begin_change, record_key, take_change
from seamark.changes.kafka_journal.names import JournalNames, JournalTiming
from seamark.errors import NotFoundError, UsageError
from seamark.kafka.topics import TopicAdmin


class KafkaJournal:
    """A `JournalPort` in two topics of the Kafka cluster whose resources are changed. Threads may share it.

    Connections are opened when they are needed. `config` is the context's client settings, including secrets; they are
    never shown.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        names: JournalNames | None = None,
        timing: JournalTiming | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._clients = JournalClients(dict(config), names or JournalNames(), timing=timing or JournalTiming())
        self._now = now
        self._mutex = threading.Lock()
        self._writers: set[KafkaJournalWriter] = set()

    def __repr__(self) -> str:
        return f"KafkaJournal({self._clients.names!r})"

    def begin(self, opening: Opening) -> KafkaJournalWriter:
        """Take the locks and write the `open` entry. See `JournalPort.begin`."""
        if not is_change_id(opening.change):
            raise UsageError(f"invalid change ID {opening.change!r}", hint="use a ULID in capital letters")
        return self._keep(begin_change(self._checked(), opening, now=self._now))

    def take_over(
        self, change: str, *, nonce: str, by: str, at: str, expected_nonce: str | None = None
    ) -> KafkaJournalWriter:
        """Fence the holder, alive or not, and write a `taken` entry. See `JournalPort.take_over`."""
        clients = self._checked()
        with clients.open_journal_log() as log:
            whole = resolve_change(log, change)
        writer = take_change(clients, whole, nonce=nonce, by=by, at=at, expected_nonce=expected_nonce, now=self._now)
        return self._keep(writer)

    def read(self, change: str) -> tuple[Entry, ...]:
        """Read every entry of a change and check the hash chain and the head. See `JournalPort.read`."""
        with self._clients.open_journal_log() as log:
            whole = resolve_change(log, change)
            # Read the head first, then the entries: the entry that the head names must be among them.
            head = self._clients.read_board().heads.get(whole)
            try:
                entries = read_change(log, whole)
            except NotFoundError:
                if head is None:
                    raise
                raise build_lost(head, log.topic) from None
        if entries[-1].kind is not EntryKind.CLOSE:
            check_tail(entries, head)
        return entries

    def heads(self, *, limit: int | None = None) -> tuple[Head, ...]:
        """Return changes, the newest first. With a limit, only the newest part of the journal is read."""
        with self._clients.open_journal_log() as log:
            return read_heads(log, limit=limit)

    def open_heads(self) -> tuple[Head, ...]:
        """Return every open change, the newest first. Reads only the small heads topic."""
        return self._clients.read_board().open_heads()

    def read_key(self) -> KeyRecord | None:
        """Return the record in the heads topic. See `JournalPort.read_key`."""
        return self._clients.read_board().key

    def record_key(self, record: KeyRecord) -> None:
        """Write the record while no change can begin. See `JournalPort.record_key`."""
        record_key(self._checked(), record)

    def close(self) -> None:
        """Release the locks of all writers. Open changes stay open."""
        while self._writers:
            self._writers.pop().release()

    def _keep(self, writer: KafkaJournalWriter) -> KafkaJournalWriter:
        with self._mutex:
            self._writers = {former for former in self._writers if not former.is_released} | {writer}
        return writer

    def _checked(self) -> JournalClients:
        """Return the clients, after checking the topics and reading the Kafka cluster ID."""
        with self._mutex:
            if not self._clients.cluster_id:
                with TopicAdmin(self._clients.config) as admin:
                    refuse_differences(check_topics(admin, names=self._clients.names))
                    cluster_id = admin.read_cluster().cluster_id
                self._clients = dataclasses.replace(self._clients, cluster_id=cluster_id)
            return self._clients
