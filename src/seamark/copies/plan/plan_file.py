"""The plan of a copy as a file."""

from __future__ import annotations

import json
from pathlib import Path

from seamark.changes.plan_file import write_private
from seamark.copies.plan.copy_plan import CopyPlan
from seamark.core.files import read_limited
from seamark.errors import UsageError

# Two million ranges of some 30 bytes each.
_LARGEST_BYTES = 256 * 1024 * 1024


def write_copy_plan(plan: CopyPlan, path: Path) -> None:
    """Write the plan; a file that is there is replaced."""
    text = json.dumps(plan.to_dict(), ensure_ascii=False, separators=(",", ":"))
    write_private(text + "\n", path, what="the plan")


def read_copy_plan(path: Path) -> CopyPlan:
    """Read what `write_copy_plan` wrote, or what `copy plan -o json` gave."""
    data = read_limited(path, most_bytes=_LARGEST_BYTES, what="a plan of a copy")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict) and body.get("kind") == "CopyPlan":
        body = body.get("plan")
    if not isinstance(body, dict):
        raise UsageError(
            f"{path} is no plan of a copy",
            cause="it is no JSON object",
            hint="make one: seamark copy plan … --out FILE",
        )
    return CopyPlan.from_dict(body, where=str(path))
