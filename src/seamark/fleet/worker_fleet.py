"""Open a worker's properties file as a fleet of one worker, with the available journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import NotFoundError
from seamark.fleet.fleet import Fleet
from seamark.kip199.worker import build_worker_context, choose_journal, name_workers

if TYPE_CHECKING:
    from seamark.changes.journal import JournalPort
    from seamark.context import Context


def open_worker_fleet(
    config: Path, *, change: str = "", only_looks: bool = False, note: Callable[[str], None] = lambda _: None
) -> Fleet:
    """Open the fleet of one worker. Its journal is the one in Kafka if that is set up, else one in files.

    `change` is the ID of a change to find: then the journal that contains it is used. With `only_looks` no journal is
    needed. `note` receives messages for the user.
    """
    context = name_workers(build_worker_context(config))
    is_standalone = any(one.offsets_file is not None for one in context.connect.values())
    settings, said = choose_journal(None if only_looks else context.kafka, may_be_away=is_standalone)
    if said:
        note(said)
    return Fleet(replace(context, own_journal=settings), open_journal=lambda opened: _open_journal(opened, change))


def _open_journal(context: Context, change: str) -> JournalPort:
    from seamark.changes.setup import make_setup, open_journal  # noqa: PLC0415
    from seamark.context import JournalKind  # noqa: PLC0415

    if context.journal.kind is JournalKind.FILE:
        make_setup(context)
    journal = open_journal(context)
    if change and context.journal.kind is JournalKind.KAFKA:
        try:
            journal.read(change)
        except NotFoundError:
            # It may have been created while the brokers were down, or before the journal was set up in Kafka.
            journal.close()
            in_files = replace(context.journal, kind=JournalKind.FILE)
            return _open_journal(replace(context, own_journal=in_files), "")
    return journal
