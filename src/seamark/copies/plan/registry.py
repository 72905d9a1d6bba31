"""Find a plan by its file, its ID or the beginning of its ID, and register the next generation of a plan."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from seamark.changes.actor import Actor
from seamark.changes.plan import write_private
from seamark.copies.plan.endpoints import CopyLogs, RegistrationLease
from seamark.copies.plan.plan import CopyPlan
from seamark.copies.plan.planner import PlannedCopy
from seamark.copies.plan.registrations import Registered, Registration
from seamark.core.files import read_limited
from seamark.errors import NotFoundError, RefusedError, UsageError

# Two million ranges of about 30 bytes each.
_LARGEST_BYTES = 256 * 1024 * 1024


def write_copy_plan(plan: CopyPlan, path: Path) -> None:
    """Write the plan to a file. An existing file is replaced."""
    text = json.dumps(plan.to_dict(), ensure_ascii=False, separators=(",", ":"))
    write_private(text + "\n", path, what="the plan")


def read_copy_plan(path: Path) -> CopyPlan:
    """Read a file that `write_copy_plan` or `copies plan -o json` wrote."""
    data = read_limited(path, most_bytes=_LARGEST_BYTES, what="a plan of a copy")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict) and body.get("kind") == "CopyPlan":
        body = body.get("plan")
    if not isinstance(body, dict):
        raise UsageError(
            f"{path} is not a copy plan",
            cause="it does not contain a JSON object",
            hint="create one: seamark copies plan TOPIC --out FILE",
        )
    return CopyPlan.from_dict(body, where=str(path))


# A ULID or the beginning of one. A copy back to the original name has a suffix.
_ID = re.compile(r"[0-9A-Za-z]{1,26}(-back)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan and its registration; None for a plan that was never run."""

    plan: CopyPlan
    registration: Registration | None = None


PlanLike = str | Path | CopyPlan | PlannedCopy
"""A plan, its file, its ID, or the beginning of its ID."""


def find_plan(logs: CopyLogs, control_topic: str, what: PlanLike) -> KnownPlan:
    """Find a plan. The registered one is used where there is one, because it may have been extended since.

    Raises:
        NotFoundError: there is neither a file nor a registered plan of that name.
        RefusedError: the plan differs from the one that is registered under its ID.
        UsageError: several IDs begin so, or the file is invalid.
    """
    registered = logs.read_registered(control_topic)
    given = what.plan if isinstance(what, PlannedCopy) else what
    plan = given if isinstance(given, CopyPlan) else _read_file(given)
    if plan is not None:
        check_readable(registered, plan.id)
        found = registered.found.get(plan.id)
        return KnownPlan(plan) if found is None else KnownPlan(join_plans(plan, found), found)
    return pick_registered(registered, str(given), control_topic=control_topic)


def pick_registered(registered: Registered, text: str, *, control_topic: str) -> KnownPlan:
    """Return the plan whose ID is `text` or begins with it."""
    wanted = text.upper()
    known = {plan.upper(): plan for plan in (*registered.found, *registered.failures)}
    # A complete ID is unambiguous even if another ID begins with it.
    fits = [known[wanted]] if wanted in known else sorted(known[plan] for plan in known if plan.startswith(wanted))
    if not fits:
        raise NotFoundError(
            f"copy {text} does not exist",
            cause=f"it is not among the {len(registered.found)} plans in control topic {control_topic}, and not a file",
            hint="list the copies with seamark copies status, or pass the plan file",
        )
    if len(fits) > 1:
        raise UsageError(f"{text} is ambiguous: {', '.join(fits)}", hint="pass more characters of the ID")
    (plan,) = fits
    check_readable(registered, plan)
    return KnownPlan(read_body(registered.found[plan]), registered.found[plan])


def check_readable(registered: Registered, plan: str) -> None:
    """Raise the reason why the registration of a plan can't be read.

    This check comes before the registration is taken: to take it fences the process that runs the plan.
    """
    if plan in registered.failures:
        raise registered.failures[plan]


def read_body(registration: Registration) -> CopyPlan:
    """Return the plan of a registration."""
    return CopyPlan.from_dict(dict(registration.body), where=f"the registered plan {registration.plan}")


def join_plans(own: CopyPlan, registration: Registration) -> CopyPlan:
    """Return the registered plan if ours is an earlier generation of it; otherwise it is unknown what was copied."""
    known = read_body(registration)
    same = (own.source, own.routing, own.target.topic, own.target.partitions) == (
        known.source,
        known.routing,
        known.target.topic,
        known.target.partitions,
    )
    if not same or known.slices[: len(own.slices)] != own.slices:
        raise RefusedError(
            f"plan {own.id} differs from the plan that is registered with this ID",
            cause="its topics, its routing or its slices differ",
            hint=f"continue the registered plan: seamark copies run {own.id}; or create a new plan",
        )
    return known


def register(hold: RegistrationLease, plan: CopyPlan, *, former: Registration | None, actor: Actor) -> Registration:
    """Write the plan as the next generation."""
    registration = Registration(
        plan.id,
        generation=former.generation + 1 if former else 1,
        registered_at=actor.timestamp(),
        by=actor.name,
        body=plan.to_dict(),
    )
    return hold.write(registration, former=former)


def _read_file(what: str | Path) -> CopyPlan | None:
    """Return the plan of a file; None if the text is an ID."""
    path = Path(what).expanduser()
    is_id = isinstance(what, str) and _ID.fullmatch(what) is not None
    if is_id and not path.is_file():
        return None
    return read_copy_plan(path)
