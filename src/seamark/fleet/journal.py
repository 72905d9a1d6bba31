"""The public API for the journal: finished changes, and those that were not finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from seamark.changes.actor import Actor
from seamark.changes.history import read_open, read_plan
from seamark.changes.journal import OPEN_STATE, Entry, Head, HeadFilter, JournalPort, OpenChange, format_timestamp
from seamark.changes.keys import build_key_item, check_key, read_rotation, record_first_key, rotate_key
from seamark.changes.outcome import ChangeResult, Progress
from seamark.changes.permissions import build_access, check_permission
from seamark.changes.plan import Plan
from seamark.changes.planner import check_named
from seamark.changes.setup import JournalSetup, KeyRotation, make_setup, read_setup
from seamark.core.refs import EVERY_OWNER, OwnerPatterns
from seamark.errors import JournalError, NotFoundError
from seamark.fleet.changes import Changes
from seamark.policy.permissions import Permission
from seamark.report.text import escape_json

if TYPE_CHECKING:
    from seamark.changes.keys import Keys
    from seamark.connect.model import Connector
    from seamark.context import Context


# Each search reads this many times as many changes as the one before: all but the last cost a seventh of it.
_GROWTH = 8


class Journal:
    """The journal of one context."""

    def __init__(
        self,
        context: Context,
        *,
        find_changes: Callable[[Plan], Changes],
        journal: Callable[[], JournalPort],
        keys: Callable[[], Keys],
        actor: Callable[[], Actor],
        find_patterns: Callable[[Sequence[str | Connector]], OwnerPatterns],
    ) -> None:
        """Create the API. `find_changes` returns what changes the clusters of a plan, or raises for other clusters.

        `find_patterns` returns how locks name the owners of this context.
        """
        self._context = context
        self._find_changes = find_changes
        self._journal = journal
        self._keys = keys
        self._actor = actor
        self._find_patterns = find_patterns

    def list(
        self,
        owners: Sequence[str | Connector] = (),
        *,
        limit: int | None = None,
        only_open: bool = False,
        since: datetime | None = None,
        by: str = "",
        state: str = "",
    ) -> tuple[Head, ...]:
        """Return changes, newest first; with `only_open` those that are not finished.

        `owners` are connectors, `group/NAME`, `pipeline/NAME` and `topic/NAME`, also with globs. `since` is when a
        change was opened, `by` who holds or held it, `state` is `open` or how it ended.
        """
        wanted = HeadFilter(
            self._find_patterns(owners) if owners else EVERY_OWNER,
            since=format_timestamp(since.timestamp()) if since else "",
            by=by,
            state=OPEN_STATE if only_open else state,
        )
        with self._explain_missing():
            if wanted.state == OPEN_STATE:
                # They have a small topic of their own.
                return tuple(head for head in self._journal().open_heads() if wanted.accepts(head))[:limit]
            return self._find_heads(wanted, limit)

    def _find_heads(self, wanted: HeadFilter, limit: int | None) -> tuple[Head, ...]:
        """Return the newest accepted changes. Only as much of the journal is read as needed, if there is a limit."""
        if wanted.is_empty or limit is None:
            return tuple(head for head in self._journal().heads(limit=limit) if wanted.accepts(head))
        size = limit
        while True:
            size *= _GROWTH
            heads = self._journal().heads(limit=size)
            found = tuple(head for head in heads if wanted.accepts(head))
            is_past = bool(heads) and heads[-1].opened_at < wanted.since
            if len(found) >= limit or len(heads) < size or is_past:
                return found[:limit]

    def show(self, change: str) -> tuple[Entry, ...]:
        """Return every entry of a change, with its chain verified. The ID may be abbreviated."""
        with self._explain_missing():
            return self._journal().read(change)

    def read_open(self, change: str) -> OpenChange:
        """Return the remaining work of an open change of this context's clusters.

        Raises:
            RefusedError: The change is for other clusters, or it wasn't written with the journal's key.
        """
        self._open(change)
        return read_open(self.show(change))

    def resume(self, change: str, *, progress: Progress | None = None, confirm: str = "") -> ChangeResult:
        """Resume an open change and finish it. Its holder, if it is alive, is fenced.

        In a protected context `confirm` is the name of the change's one resource, else that of the context.
        """
        return self._open(change, confirm).recovery(progress).resume(change)

    def unlock(
        self,
        change: str,
        *,
        nonce: str | None,
        force: bool = False,
        progress: Progress | None = None,
        confirm: str = "",
    ) -> ChangeResult:
        """Take over an open change and close it as it is. Raises unless its holder has that nonce.

        With `force` it is closed even if the outcome of a step is unknown.
        """
        return self._open(change, confirm).recovery(progress).abandon(change, expected_nonce=nonce, force=force)

    def _open(self, change: str, confirm: str | None = None) -> Changes:
        """Return what resumes an open change, after checking that the change is for this context's clusters."""
        entries = self.show(change)
        changes = self._find_changes(read_plan(entries))
        changes.check_open(entries, confirm)
        return changes

    def export(self, change: str) -> str:
        """Return a change as it is stored, one entry per line, with control and direction characters as JSON escapes.

        The chain can be checked elsewhere: decoded and encoded again with sorted keys, no spaces and UTF-8, an entry
        has the bytes that were hashed.
        """
        return "".join(f"{escape_json(entry.to_bytes().decode())}\n" for entry in self.show(change))

    def read_setup(self) -> JournalSetup:
        """Return what the journal needs before the first change, and which of it exists."""
        setup = read_setup(self._context)
        item, warning = build_key_item(self._journal(), self._keys())
        return replace(setup, items=(*setup.items, item), warnings=(*setup.warnings, *((warning,) if warning else ())))

    def make_setup(self) -> tuple[str, ...]:
        """Create the journal's topics or its folder, and record its key. Returns the names of what was created.

        Raises:
            PermissionDeniedError: No role allows it, or the context is read-only.
            RefusedError: The journal has another key.
        """
        check_permission(build_access(self._context), Permission.ADMINISTER, doing="set up the journal")
        check_key(self._journal(), self._keys())
        made = make_setup(self._context)
        key = record_first_key(self._journal(), self._keys(), self._actor())
        return (*made, key) if key else made

    def read_rotation(self) -> KeyRotation:
        """Return what `rotate_key` would do. Changes nothing.

        Raises:
            RefusedError: The journal has no key, or one that this context doesn't have, or seamark can't write the key.
            LockedError: A change is open.
        """
        with self._explain_missing():
            return read_rotation(self._journal(), self._keys(), context=self._context.name)

    def rotate_key(self, *, confirm: str = "") -> KeyRotation:
        """Give the journal a new key, or finish an interrupted rotation.

        Earlier changes can still be undone. Earlier saved plans can't be applied. In a protected context `confirm` is
        the name of the context.

        Raises:
            PermissionDeniedError: No role allows it, or the context is read-only.
            RefusedError, LockedError: As for `read_rotation`, or the context is protected and the name is missing.
        """
        check_permission(build_access(self._context), Permission.ADMINISTER, doing="rotate the journal's key")
        check_named(self._context, self._context.name, confirm)
        with self._explain_missing():
            return rotate_key(self._journal(), self._keys(), self._actor(), context=self._context.name)

    @contextmanager
    def _explain_missing(self) -> Iterator[None]:
        """Add a hint to errors if the journal's topics do not exist yet."""
        try:
            yield
        except NotFoundError as error:
            topics = (self._context.journal.topic, self._context.journal.heads_topic)
            if error.context.get("subject") not in topics:
                raise
            raise JournalError(
                f"the journal is not set up: no topic {error.context['subject']}",
                hint="create the journal's topics: seamark init",
                context=error.context,
            ) from error
