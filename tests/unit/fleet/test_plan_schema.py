"""docs/schema/seamark-plan.schema.json fits all plans that the scenarios and transcripts have recorded."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.fleet.plan_schema import build_plan_schema
from tests.unit.json_schema import fits_schema

ROOT = Path(__file__).parents[3]
RECORDED = [
    *sorted((ROOT / "tests" / "unit" / "scenarios" / "recorded").glob("*.txt")),
    *sorted((ROOT / "tools" / "transcripts" / "recorded").glob("*.txt")),
]
SCHEMA = build_plan_schema()


def read_plans(path):
    """The plans among the JSON documents of a recorded file."""
    found = re.findall(r"^\{$.*?^\}$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    documents = [json.loads(text) for text in found]
    return [one for one in documents if one.get("kind") == "Plan"]


PLANS = {path.name: plans for path in RECORDED if (plans := read_plans(path))}


def test_the_schema_is_up_to_date():
    # In a process of its own: the kinds of actions that other tests define are part of the schema of this one.
    command = [str(Path(sys.executable).with_name("seamark")), "schema", "--plan"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / "schema" / "seamark-plan.schema.json").read_text(encoding="utf-8") == printed, (
        "run: seamark schema --plan > docs/schema/seamark-plan.schema.json"
    )


def test_there_are_many_plans():
    assert len(PLANS) >= 60
    assert sum(map(len, PLANS.values())) >= 250


@pytest.mark.parametrize("name", PLANS)
def test_every_recorded_plan_fits(name):
    assert [plan for plan in PLANS[name] if not fits_schema(SCHEMA, plan)] == []


def list_fields(schema, name=""):
    """Each field of the schema, with the object it belongs to."""
    for key, part in schema.get("properties", {}).items():
        yield f"{name}.{key}"
        yield from list_fields(part, f"{name}.{key}")
    for key, part in schema.get("definitions", {}).items():
        yield from list_fields(part, key)


def list_found(schema, value, name=""):
    """Each field of the schema that a plan has."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = SCHEMA["definitions"][name]
    if isinstance(value, list):
        for part in value:
            yield from list_found(schema.get("items", {}), part, name)
    elif isinstance(value, dict):
        for key, part in value.items():
            if key in schema.get("properties", {}):
                yield f"{name}.{key}"
                yield from list_found(schema["properties"][key], part, f"{name}.{key}")
            elif isinstance(schema.get("additionalProperties"), dict):
                yield from list_found(schema["additionalProperties"], part, name)


def test_every_field_of_the_schema_is_recorded_in_a_plan():
    found = {field for plans in PLANS.values() for plan in plans for field in list_found(SCHEMA, plan)}
    assert sorted(set(list_fields(SCHEMA)) - found) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan.update(more=1),
        lambda plan: plan.pop("effects"),
        lambda plan: plan.update(format_version=2),
        lambda plan: plan["effects"][0].update(action="replace"),
        lambda plan: plan["effects"][0].update(tasks=-1),
        lambda plan: plan["effects"][0]["fields"][0].pop("sensitive"),
        lambda plan: plan["actions"][0].update(action="unknown"),
        lambda plan: plan["steps"][0].update(number=1),
        lambda plan: plan["drift"][0]["fields"][0].update(live=4),
        lambda plan: plan["identity"]["connect"]["game"].update(url="http://connect"),
    ],
)
def test_broken_plans_do_not_fit(change):
    plan = copy.deepcopy(next(plan for plan in PLANS["apply-drift.txt"] if plan["drift"] and plan["effects"]))
    assert fits_schema(SCHEMA, plan)
    change(plan)
    assert not fits_schema(SCHEMA, plan)
