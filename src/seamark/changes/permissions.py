"""The check of a plan against the roles of a context, and the confirmation that a protected context needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.changes.access import build_denied
from seamark.changes.plan import Plan
from seamark.changes.step import STEPS
from seamark.core.refs import Ref, parse_subject
from seamark.errors import RefusedError
from seamark.policy.permission import Access, find_confirmation

if TYPE_CHECKING:
    from seamark.context import Context


def check_plan(plan: Plan, access: Access, context: Context) -> None:
    """Refuse a plan with an action that no role allows.

    Raises:
        PermissionDeniedError: an action isn't allowed on one of its resources, or the context is read-only.
    """
    denied: dict[str, None] = {}
    end = 0
    for action, count in zip(plan.actions, plan.step_counts, strict=True):
        steps, end = plan.steps[end : end + count], end + count
        targets = {_find_target(step.subject, context) for step in steps if STEPS[step.kind].acts}
        denied |= dict.fromkeys(access.find_denied(action.find_permissions(), sorted(targets, key=str)))
    if denied:
        raise build_denied(plan.title, tuple(denied))


def find_plan_confirmation(plan: Plan, context: Context) -> str:
    """Return the name that confirms a plan."""
    return find_confirmation((action.subject for action in plan.actions), context.name)


def check_confirmed(plan: Plan, context: Context, confirm: str) -> None:
    """Refuse a change of a protected context that isn't confirmed by name.

    Raises:
        RefusedError: the name is missing or another one.
    """
    check_named(context, find_plan_confirmation(plan, context), confirm)


def check_named(context: Context, wanted: str, confirm: str) -> None:
    """Refuse what isn't confirmed with a name, where the context is protected.

    Raises:
        RefusedError: the name is missing or another one.
    """
    if context.protected and confirm != wanted:
        raise RefusedError(
            f"context {context.name} is protected; no changes were made",
            cause=f"the change is confirmed with {confirm!r}" if confirm else "the change isn't confirmed by name",
            hint=f"review the plan, then confirm it: --confirm {wanted}",
            context={"confirm": wanted},
        )


def _find_target(subject: str, context: Context) -> Ref:
    """Return the resource under the context's own name of its Connect cluster: a plan of others may use another one."""
    found = parse_subject(subject)
    settings = context.connect.get(found.cluster)
    return Ref(found.kind, found.name, (settings.known_as or found.cluster) if settings else found.cluster)
