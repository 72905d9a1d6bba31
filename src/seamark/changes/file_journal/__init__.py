"""The journal in a folder: one file a change, for one machine. NFS and other shared file systems are not supported."""

from seamark.changes.file_journal.head import FileHead
from seamark.changes.file_journal.journal import FileJournal
from seamark.changes.file_journal.stored import TornTail
from seamark.changes.file_journal.writer import FileJournalWriter

__all__ = ["FileHead", "FileJournal", "FileJournalWriter", "TornTail"]
