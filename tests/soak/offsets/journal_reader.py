"""The journal of one owner, read on from where it was read last."""

from __future__ import annotations

from seamark.changes.kafka_journal.entries import ChunkAssembly
from seamark.devstack.process import wait_until
from seamark.errors import SeamarkError
from seamark.kafka.log import PartitionLog
from tests.fault.history import Change, read_history

# A transaction of a process that was killed holds the end back for half a minute; a dead broker for longer.
PATIENCE_SECONDS = 240


class JournalReader:
    """Gives every change of a rig's owner, in the order of the journal. For one thread."""

    def __init__(self, rig):
        self._rig = rig
        self._log = None
        self._next = 0
        self._assembly = ChunkAssembly(rig.topic)
        self._rows = {}
        self.trouble = None

    def read(self):
        """The changes up to now."""
        if self._rig.journal == "file":
            return read_history(self._rig)
        wait_until(self._is_read, f"{self._rig.topic} was read", seconds=PATIENCE_SECONDS, every_seconds=0.5)
        changes = [
            Change(change, entries=tuple(entry for _, entry in rows), begins=rows[0][0], ends=rows[-1][0])
            for change, rows in self._rows.items()
        ]
        return sorted(changes, key=lambda change: change.begins)

    def close(self):
        if self._log is not None:
            self._log.close()
            self._log = None

    def _is_read(self):
        try:
            if self._log is None:
                self._log = PartitionLog(
                    {"bootstrap.servers": self._rig.stack.kafka.bootstrap_servers}, self._rig.topic
                )
            _, high = self._log.read_bounds()
            for record in self._log.read(self._next, high):
                self._next = record.offset + 1
                if (entry := self._assembly.add(record)) is not None:
                    self._rows.setdefault(entry.change, []).append((record.offset, entry))
        except SeamarkError as error:
            self.trouble = error
            self.close()
            return False
        return True
