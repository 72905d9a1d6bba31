"""The JSON Schema of a plan, as every command prints it with `-o json` (see `changes.views.build_plan_view`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import seamark.fleet.kinds  # noqa: F401 - registers all actions
from seamark.changes.action import list_action_kinds
from seamark.changes.effect import ChangeKind
from seamark.changes.plan import FORMAT_VERSION
from seamark.changes.spec_kind import build_table_schema
from seamark.changes.views import WORDS
from seamark.core.offsets import Certainty, Unit
from seamark.report.data import API_VERSION, render_json

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_VALUE = {"type": ["string", "null"]}
_OPEN = {"type": "object"}


def build_plan_schema() -> dict[str, Any]:
    """Build the schema of a plan."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "seamark plan",
        "description": "A plan as seamark prints it with -o json. `effects` is what a review needs; `actions`, `steps` "
        "and `preconditions` are what apply uses, and can change with format_version.",
        **_build_object(
            {
                "apiVersion": ("The version of all JSON documents.", {"enum": [API_VERSION]}),
                "kind": ("The type of the document.", {"enum": ["Plan"]}),
                "format_version": ("The version of actions and steps.", {"enum": [FORMAT_VERSION]}),
                "id": ("The ID of a saved plan in the journal; empty if it was never saved.", _TEXT),
                "title": ("What the plan is for.", _TEXT),
                "context": ("The context, by the name that its author used.", _TEXT),
                "made_at": ("When the plan was created: UTC, ISO 8601.", _TEXT),
                "made_by": ("USER@HOST:PID of its author.", _TEXT),
                "identity": ("The clusters that the plan is for. Apply refuses other ones.", _refer("identity")),
                "notes": ("What to know before approval.", _list(_TEXT)),
                "undoes": ("The change that this plan undoes; empty if none.", _TEXT),
                "effects": ("What is created, changed and deleted: one entry per resource.", _list(_refer("effect"))),
                "drift": ("What was changed outside of the spec since it was applied.", _list(_refer("drift"))),
                "clusters": ("The Connect clusters that were read for the spec.", _list(_refer("cluster"))),
                "spec": (
                    "The spec that the plan was created from.",
                    _build_object({"id": ("The ID under which the journal knows the spec.", _TEXT)}),
                ),
                "pace": (
                    "How fast the plan is applied, if that is limited.",
                    _build_object(
                        {
                            "parallel": ("How many resources change at once.", {"type": "integer", "minimum": 1}),
                            "wait_stable": ("Whether each group of so many waits until the workers are stable.", _FLAG),
                        }
                    ),
                ),
                "preconditions": ("What must still be true when the plan is applied.", _list(_refer("precondition"))),
                "locks": ("The resources that no other change may change meanwhile.", _list(_TEXT)),
                "actions": ("What apply does, one action per resource.", _list(_refer("action"))),
                "steps": ("The steps of the actions, in order.", _list(_refer("step"))),
                "step_counts": ("How many steps each action has.", _list(_COUNT)),
            },
            optional=("spec", "pace", "drift", "clusters", "actions", "step_counts"),
        ),
        "definitions": _build_definitions(),
    }


def render_plan_schema() -> str:
    """Return the schema as the text of its file."""
    return render_json(build_plan_schema())


def _build_definitions() -> dict[str, Any]:
    sensitive = ("Whether the values are masked.", _FLAG)
    return {
        "effect": _build_object(
            {
                "action": ("What happens to the resource.", {"enum": [WORDS[kind] for kind in ChangeKind]}),
                "subject": ("The resource, as connector/CLUSTER/NAME or topic/NAME.", _TEXT),
                "effect": ("What that means for operation.", _TEXT),
                "tasks": ("How many tasks start or restart.", _COUNT),
                "fields": ("The values that change.", _list(_refer("field"))),
                "outlook": ("What that means for the data, if offsets change.", _list(_TEXT)),
            },
            optional=("outlook",),
        ),
        "field": _build_object(
            {
                "key": ("The config key, the state, or the partition of an offset.", _TEXT),
                "before": ("The present value; null if there is none.", _VALUE),
                "after": ("The new value; null if there is none.", _VALUE),
                "sensitive": sensitive,
                "note": ("Why the values differ, if that isn't obvious.", _TEXT),
                "preview": ("How many records are between two offsets.", _refer("preview")),
            },
            optional=("note", "preview"),
        ),
        "preview": _build_object(
            {
                "direction": (
                    "Whether these records are processed again or skipped.",
                    {"enum": ["again", "skipped", "same", "unknown"]},
                ),
                "unit": ("What is counted.", {"enum": [unit.value for unit in Unit]}),
                "figure": ("How many; null if that can't be determined.", {"type": ["integer", "null"]}),
                "certainty": (
                    "What the figure is; bound: so many at most.",
                    {"enum": [certainty.value for certainty in Certainty]},
                ),
                "reason": ("Why the figure isn't exact.", _TEXT),
            }
        ),
        "drift": _build_object(
            {
                "subject": ("The resource.", _TEXT),
                "words": ("What was done to it.", _TEXT),
                "change": ("The last change that applied the spec to it.", _TEXT),
                "fields": ("The values that were changed.", _list(_refer("drift-field"))),
            }
        ),
        "drift-field": _build_object(
            {
                "key": ("The config key or the state.", _TEXT),
                "applied": ("The value that the change applied; null if none.", _VALUE),
                "live": ("The present value; null if none.", _VALUE),
                "wanted": ("The value of the spec; null if none.", _VALUE),
                "sensitive": sensitive,
            }
        ),
        "cluster": _build_object(
            {
                "name": ("Its name in the context.", _TEXT),
                "version": ("The Connect version of its workers.", _TEXT),
                "workers": ("How many workers it has.", _COUNT),
                "connectors": ("How many connectors were read.", _COUNT),
                "unchanged": ("How many of them are as the spec declares.", _COUNT),
                "foreign": ("How many of them the spec doesn't declare.", _COUNT),
            }
        ),
        "identity": _build_object(
            {
                "kafka_cluster_id": ("The ID of the Kafka cluster; empty if the context names no brokers.", _TEXT),
                "connect": (
                    "The Connect clusters by the names that the plan uses.",
                    {"type": "object", "additionalProperties": _refer("connect-identity")},
                ),
            }
        ),
        "connect-identity": _build_object(
            {
                "kafka_cluster_id": ("The ID of the workers' Kafka cluster.", _TEXT),
                "group": ("The group.id of the workers.", _TEXT),
                "worker_ids": ("The IDs of the workers, if the group isn't known.", _list(_TEXT)),
                "file": ("The offset file of a standalone worker.", _TEXT),
            }
        ),
        "precondition": _build_object(
            {
                "kind": ("What is compared.", _TEXT),
                "subject": ("The resource and the aspect that is compared.", _TEXT),
                "expected": ("A fingerprint of it.", _TEXT),
                "words": ("The precondition as a sentence.", _TEXT),
            }
        ),
        # Their other fields depend on the kind, and secrets in them are masked.
        "action": {
            "type": "object",
            "properties": {"action": {"description": "The kind.", "enum": sorted(list_action_kinds())}},
            "required": ["action"],
        },
        "step": _build_object(
            {
                "kind": ("What the step does.", _TEXT),
                "subject": ("The resource.", _TEXT),
                "arguments": ("With which values; secrets are masked.", _OPEN),
                "lane": ("The sequence it belongs to. The steps of a sequence run one after the other.", _TEXT),
                "always": ("Whether it also runs after a step of its sequence has failed.", _FLAG),
                "fallback": ("Whether it runs only after a step of its sequence has failed.", _FLAG),
                "insists": ("Whether the change stays open until it is done: it can't be rolled back.", _FLAG),
            },
            optional=("insists",),
        ),
    }


def _build_object(
    fields: Mapping[str, tuple[str, Mapping[str, Any]]], *, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Build the schema of an object from the description and the shape of each field."""
    return build_table_schema(
        {name: description for name, (description, _) in fields.items()},
        {name: shape for name, (_, shape) in fields.items()},
        required=[name for name in fields if name not in optional],
    )


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _refer(name: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{name}"}
