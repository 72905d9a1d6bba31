"""The journal of a context: a topic or a folder, opened when first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.changes.journal import Journal

if TYPE_CHECKING:
    from seamark.context import Context


def open_journal(context: Context) -> Journal:
    """The journal that the context names."""
    from seamark.context import JournalKind  # noqa: PLC0415

    settings = context.journal
    if settings.kind is JournalKind.FILE:
        from seamark.changes.file_journal import FileJournal  # noqa: PLC0415

        return FileJournal(settings.folder)
    # Loaded here: it takes the Kafka client with it.
    from seamark.changes.kafka_journal import JournalNames, KafkaJournal  # noqa: PLC0415

    names = JournalNames(journal=settings.topic, heads=settings.heads_topic)
    return KafkaJournal(context.kafka.client_config(), names=names)
