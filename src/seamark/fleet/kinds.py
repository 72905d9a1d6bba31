"""Every kind of step and action. Importing this module registers all of them, so that any plan can be decoded."""

# ruff: noqa: F401 - each module registers its kinds when it is imported
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import seamark.connectors.actions
import seamark.connectors.labels
import seamark.connectors.loggers
import seamark.connectors.run_state
import seamark.connectors.steps
import seamark.copies.cutover.action
import seamark.copies.cutover.checks
import seamark.copies.cutover.steps
import seamark.copies.cutover.undo
import seamark.dead_letters.action
import seamark.dead_letters.search
import seamark.dead_letters.steps
import seamark.groups.actions
import seamark.kip199.action
import seamark.kip199.steps
import seamark.lifecycle.actions
import seamark.lifecycle.deletion
import seamark.lifecycle.relocate
import seamark.offsets.repair.action
import seamark.offsets.write.action
import seamark.offsets.write.guards
import seamark.offsets.write.records
import seamark.offsets.write.steps
import seamark.pipelines.actions
import seamark.pipelines.rebuild
import seamark.topics.actions
from seamark.changes.setup import open_journal
from seamark.changes.signing import SignedJournal
from seamark.changes.step import STEPS

if TYPE_CHECKING:
    from seamark.changes.journal import JournalPort
    from seamark.changes.keys import Keys
    from seamark.context import Context

__all__ = ["STEPS", "open_signed_journal"]


def open_signed_journal(
    context: Context, keys: Keys, open_other: Callable[[Context], JournalPort] | None
) -> SignedJournal:
    """Open the journal of a context, or another one for it. Its changes can be decoded."""
    return SignedJournal((open_other or open_journal)(context), keys.read)
