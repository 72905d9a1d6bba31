"""The types that users of the public API get.

mypy checks this module in lint, with `src` (`files` in pyproject.toml), so it costs no run of its own. The functions
with `assert_type` are never called.
"""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import assert_type

import seamark
from seamark.changes.outcome import ChangeResult
from seamark.changes.plan import Plan, PlannedChange
from seamark.connectors.config import DesiredConnector
from seamark.context import Context
from seamark.copies.service import Copies
from seamark.core.readings import Finding, Reading
from seamark.doctor.service import Doctor
from seamark.fleet.fleet import Fleet
from seamark.fleet.journal import Journal
from seamark.groups.lag import GroupLag
from seamark.offsets.exports import OffsetExport
from seamark.overview.status import FleetStatus
from seamark.specs import connector, load_spec, topic
from seamark.specs.model import Spec
from seamark.specs.program import Resource, SpecEnvironment

ROOT = Path(__file__).parents[2]


def check_opening(context: Context) -> None:
    assert_type(seamark.open(), Fleet)
    assert_type(seamark.open("dev"), Fleet)
    assert_type(seamark.open(context=context), Fleet)
    assert_type(seamark.__version__, str)
    with seamark.open() as fleet:
        assert_type(fleet, Fleet)
        assert_type(fleet.context, Context)


def check_reading(fleet: seamark.Fleet) -> None:
    assert_type(fleet.status(), FleetStatus)
    assert_type(fleet.lag(), Reading[GroupLag])
    assert_type(fleet.check_connectivity(), tuple[Finding, ...])
    assert_type(fleet.check([Path("fleet.yml")]), tuple[DesiredConnector, ...])
    assert_type(fleet.copies, Copies)
    assert_type(fleet.doctor, Doctor)
    assert_type(fleet.journal, Journal)
    assert_type(fleet.offsets.export(["orders"]), OffsetExport)


def check_changing(fleet: seamark.Fleet, plan: Plan) -> None:
    planned = fleet.plan([Path("fleet.yml")], prune=True)
    assert_type(planned, PlannedChange)
    assert_type(planned.plan, Plan)
    assert_type(fleet.review(plan), PlannedChange)
    assert_type(fleet.destroy([Path("fleet.yml")]), PlannedChange)
    assert_type(fleet.connectors.pause(["orders"]), PlannedChange)
    assert_type(fleet.topics.create("orders", partitions=6), PlannedChange)
    assert_type(fleet.groups.delete("billing"), PlannedChange)
    assert_type(fleet.offsets.move("orders", back="1h"), PlannedChange)
    result = fleet.apply(planned)
    assert_type(result, ChangeResult)
    assert_type(fleet.apply(plan), ChangeResult)
    assert_type(fleet.undo(result), PlannedChange)


def resources(env: SpecEnvironment) -> list[Resource]:
    """A spec program, as users write it."""
    assert_type(env["REGION"], str)
    assert_type(env.get("REGION"), str | None)
    assert_type(env.list("SHARDS"), list[str])
    assert_type(topic("orders", partitions=6), Resource)
    return [connector(f"orders-{shard}", {"tasks.max": 1}) for shard in env.list("SHARDS")]


def check_files() -> None:
    assert_type(load_spec([Path("fleet.yml")], environ={}), Spec)


def test_mypy_checks_this_module() -> None:
    files = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["files"]
    assert str(Path(__file__).relative_to(ROOT)) in files


def test_names_that_are_loaded_late_are_those_that_mypy_sees() -> None:
    # The stub `__init__.pyi` could name another class than the package gives.
    assert seamark.Fleet is Fleet
    assert inspect.signature(seamark.open).return_annotation == "Fleet"
