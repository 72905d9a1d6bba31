"""The journal in a folder: one file per change, for one machine. NFS and other shared file systems aren't supported."""

from seamark.changes.file_journal.entries import FileJournalWriter, TornTail
from seamark.changes.file_journal.journal import FileHead, FileJournal

__all__ = ["FileHead", "FileJournal", "FileJournalWriter", "TornTail"]
