"""A plan that comes from a file is data from outside: it is checked before anybody is asked to say yes to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import seamark.fleet.action_kinds  # noqa: F401 - plans are decoded here
from seamark.changes.plan import Plan
from seamark.changes.plan_file import find_masked_keys, read_plan_file
from seamark.changes.precondition import BEFORE, aspect_of, is_expected
from seamark.changes.step import Step
from seamark.errors import RefusedError

_AGAIN = "make the plan anew"


def read_saved_plan(path: Path) -> Plan:
    """Read a plan file; every kind of action is known here."""
    return read_plan_file(path)


def refuse_hidden(plan: Plan) -> None:
    """Refuse a plan whose secrets were left out when it was saved."""
    hidden = find_masked_keys(plan)
    if hidden:
        raise RefusedError(
            "the plan does not hold the secrets it needs",
            cause=f"left out when it was saved: {', '.join(hidden)}",
            hint="make the plan anew and apply it at once, or write the values as secret:// references",
        )


def refuse_unexpected(plan: Plan, steps: Sequence[Step]) -> None:
    """Refuse a plan whose file lacks a precondition that its steps need."""
    wanted = {aspect_of(step) for step in steps if is_expected(step)}
    if missing := sorted(wanted - {found.subject for found in plan.preconditions if found.kind == BEFORE}):
        raise RefusedError(
            "the plan does not guard what it changes",
            cause=f"no precondition for {', '.join(missing)}",
            hint=f"{_AGAIN}: this one was edited",
        )
