"""Saved plans: registered in the journal, so that a plan file is applied only if seamark saved it, and only once.

People and systems without write access to the journal handle plan files: in a pull request, or as an artifact of a CI
job. The SHA-256 inside the file reveals only accidental edits. So the journal records the plan's ID and hash when the
plan is saved, as a separate change that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from seamark.changes.actor import Actor
from seamark.changes.images import find_key_names
from seamark.changes.journal import Ending, Entry, EntryKind, JournalPort, Opening
from seamark.changes.locks import plan_lock
from seamark.changes.plan import Plan
from seamark.changes.signing import KeyRing, check_signatures
from seamark.errors import NotFoundError, RefusedError

_REGISTERED = "registered"
# A day rarely has more applied changes than this. If it has, more heads are read.
_HEADS = 200


class Registrations:
    """The saved plans of one journal."""

    def __init__(
        self,
        journal: Callable[[], JournalPort],
        *,
        actor: Actor,
        find_keys: Callable[[], KeyRing],
        now: Callable[[], float],
        ttl_seconds: float,
    ) -> None:
        self._journal = journal
        self._actor = actor
        self._find_keys = find_keys
        self._now = now
        self._ttl_seconds = ttl_seconds

    def register(self, plan: Plan) -> Plan:
        """Record a plan that is about to be saved, and return the plan with its ID.

        Raises:
            SeamarkError: the journal can't be written. Without the record, the plan file is only a proposal.
        """
        saved = replace(plan, id=self._actor.new_id())
        opening = Opening(
            change=saved.id,
            title=f"save the plan: {plan.title}",
            by=self._actor.name,
            at=self._actor.timestamp(),
            nonce=self._actor.new_nonce(),
            locks=(plan_lock(saved.id),),
            body={_REGISTERED: {"sha256": saved.sha256}},
        )
        writer = self._journal().begin(opening)
        try:
            writer.append(EntryKind.CLOSE, {"ending": str(Ending.DONE)})
        finally:
            writer.release()
        return saved

    def check(self, plan: Plan) -> None:
        """Refuse a plan file that isn't registered, was applied before, or is too old.

        Raises:
            RefusedError: the plan must not be applied.
        """
        if not plan.id:
            raise RefusedError(
                "the plan file is only a proposal: it was saved without access to the journal; no changes were made",
                hint="apply the spec and compare: seamark apply -f PATH --expect FILE",
            )
        entries = self._read(plan.id)
        if entries[0].body[_REGISTERED].get("sha256") != plan.sha256:
            raise RefusedError(
                "the plan file was edited; no changes were made",
                cause=f"its SHA-256 isn't the one that the journal has for plan {plan.id}",
                hint="create a new plan and review it",
            )
        age = timedelta(seconds=self._now()) - _read_time(entries[0].at)
        if age.total_seconds() > self._ttl_seconds:
            raise RefusedError(
                f"the plan is older than {timedelta(seconds=self._ttl_seconds)}; no changes were made",
                cause=f"plan {plan.id} was saved at {entries[0].at}",
                hint="create a new plan and review it (plan_ttl in the context sets the limit)",
            )
        self.check_unused(plan)

    def check_unused(self, plan: Plan, own: str = "") -> None:
        """Refuse a plan that was applied before.

        `own` is the current change, which holds the lock of the plan.

        Raises:
            RefusedError: another change applied it.
        """
        if used := self._find_use(plan.id, own=own):
            raise RefusedError(
                f"the plan was applied before, as change {used}; no changes were made",
                hint="create a new plan and review it",
                context={"change": used},
            )

    def _read(self, plan: str) -> tuple[Entry, ...]:
        try:
            entries = self._journal().read(plan)
        except NotFoundError:
            entries = ()
        if not entries or entries[0].change != plan or not is_registration(entries[0].body):
            raise RefusedError(
                f"plan {plan} is not registered in this journal; no changes were made",
                cause="it was saved in another context, or its file was edited",
                hint="create a new plan and review it",
            )
        keys = self._find_keys()
        # The clusters may have changed since, and the plan's secrets are sealed with the previous key.
        if find_key_names(entries[0].body) & {key.name for key in keys.previous}:
            raise RefusedError(
                f"plan {plan} was saved before the journal's key was rotated; no changes were made",
                hint="create a new plan and review it",
            )
        check_signatures(entries, keys.current.seal)
        return entries

    def _find_use(self, plan: str, *, own: str) -> str:
        """Return the change that applied a plan, or "" if none did.

        Change IDs sort by time, so the search ends at heads older than the plan.
        """
        limit, lock = _HEADS, plan_lock(plan)
        while True:
            heads = self._journal().heads(limit=limit)
            for head in heads:
                if lock in head.locks and head.change not in (plan, own):
                    return head.change
            if len(heads) < limit or heads[-1].change < plan:
                return ""
            limit *= 4


def is_registration(body: Any) -> bool:
    """Return whether the body of a first entry belongs to a saved plan, not to a change."""
    return isinstance(body, dict) and isinstance(body.get(_REGISTERED), dict)


def check_expected(planned: Plan, expected: Plan) -> None:
    """Refuse a plan that differs from the proposal it is compared with.

    Raises:
        RefusedError: the actions or the clusters differ; the error names them.
    """
    differences = list(_compare(planned, expected))
    if differences:
        raise RefusedError(
            "the plan differs from the expected one; no changes were made",
            cause="; ".join(differences),
            hint="review the new plan: seamark plan -f PATH",
        )


def _compare(planned: Plan, expected: Plan) -> Sequence[str]:
    mine = {f"{action.subject} ({action.kind})": action.to_dict() for action in planned.actions}
    theirs = {f"{action.subject} ({action.kind})": action.to_dict() for action in expected.actions}
    found = [f"only in the new plan: {name}" for name in mine if name not in theirs]
    found += [f"only in the expected plan: {name}" for name in theirs if name not in mine]
    found += [f"different: {name}" for name in mine if name in theirs and mine[name] != theirs[name]]
    if not found and [one.to_dict() for one in planned.actions] != [one.to_dict() for one in expected.actions]:
        found.append("a different order or number of actions")
    if planned.identity != expected.identity:
        found.append("different clusters")
    return found


def _read_time(text: str) -> timedelta:
    return datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
