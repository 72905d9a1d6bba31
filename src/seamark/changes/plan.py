"""A plan: a frozen list of actions that can be printed, saved, reviewed, and refused when it is out of date."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seamark.changes.action import Action, build_action
from seamark.changes.identity import Identity
from seamark.changes.step_data import Precondition, StepData
from seamark.core.format_version import StoredFormat, check_format
from seamark.core.strict import read_object, read_text, read_texts
from seamark.errors import RefusedError

FORMAT_VERSION = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done, in order, to which context.

    `actions` are what the plan is made of. `steps` and `locks` are derived from them when the plan is prepared
    (`prepare.py`): the journal holds them, so that a resume derives nothing again, and a plan file does not.
    `step_counts` says how many of the steps belong to each action. `preconditions` are what was seen when the plan was
    created. `notes` are sentences for the reader. `undoes` is the change that this plan takes back, if it does. `spec`
    says whose connectors these are, where the plan came from a spec: see `specs/ownership.py`. `identity` says which
    clusters the plan is for; `context` is only the name under which its author knew them. `id` is that of a saved plan
    in the journal; "" where the plan was never saved, or is a proposal.
    """

    title: str
    context: str
    made_at: str
    made_by: str
    steps: tuple[StepData, ...] = ()
    locks: tuple[str, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    notes: tuple[str, ...] = ()
    undoes: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    step_counts: tuple[int, ...] = ()
    identity: Identity = field(default_factory=Identity)
    id: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps and not self.actions

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as the journal holds it, with its format version."""
        return {
            **self._build_header(),
            "locks": list(self.locks),
            "steps": [step.to_dict() for step in self.steps],
            **({"step_counts": list(self.step_counts)} if self.actions else {}),
        }

    def to_file(self) -> dict[str, Any]:
        """Return the plan as a file holds it: only what can't be derived, and a hash that reveals an edit."""
        return {**self._build_header(), "sha256": self.sha256}

    @property
    def sha256(self) -> str:
        """The hash of what a file holds."""
        return _hash(self._build_header())

    def _build_header(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "id": self.id,
            "title": self.title,
            "context": self.context,
            "made_at": self.made_at,
            "made_by": self.made_by,
            "identity": self.identity.to_dict(),
            "preconditions": [
                {"kind": p.kind, "subject": p.subject, "expected": p.expected, "words": p.words}
                for p in self.preconditions
            ],
            "notes": list(self.notes),
            "undoes": self.undoes,
            **({"actions": [action.to_dict() for action in self.actions]} if self.actions else {}),
            **({"spec": dict(self.spec)} if self.spec else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "the plan") -> Plan:
        """Read what `to_dict` returned. `where` is its location, for errors.

        Raises:
            FormatVersionError: the plan has another format.
        """
        check_format(StoredFormat("plan", FORMAT_VERSION), data, where=where)
        plan = cls(
            **{name: read_text(data[name], what=name) for name in ("title", "context", "made_at", "made_by")},
            steps=tuple(StepData.from_dict(step) for step in data.get("steps", ())),
            locks=read_texts(data.get("locks", []), what="locks"),
            preconditions=tuple(_read_precondition(one) for one in data["preconditions"]),
            notes=read_texts(data["notes"], what="notes"),
            undoes=read_text(data.get("undoes", ""), what="undoes"),
            spec=dict(data.get("spec", {})),
            actions=tuple(build_action(one) for one in data.get("actions", ())),
            step_counts=tuple(data.get("step_counts", ())),
            identity=Identity.from_dict(data["identity"]),
            id=read_text(data.get("id", ""), what="id"),
        )
        if ((plan.steps and plan.actions) or plan.step_counts) and not plan._has_own_steps():
            raise RefusedError(f"{where} was edited", cause="its steps don't belong to its actions")
        return plan

    def _has_own_steps(self) -> bool:
        """Return whether each step belongs to an action: as many as are counted, each in the sequence of its action."""
        counts = self.step_counts
        if any(type(count) is not int or count < 0 for count in counts):
            return False
        if len(counts) != len(self.actions) or sum(counts) != len(self.steps):
            return False
        owners = [action.sequence for action, count in zip(self.actions, counts, strict=True) for _ in range(count)]
        return owners == [step.lane for step in self.steps]

    @classmethod
    def from_file(cls, data: Mapping[str, Any], *, where: str = "the plan") -> Plan:
        """Read what `to_file` returned. `where` is its location, for errors.

        Raises:
            FormatVersionError: the plan has another format.
            RefusedError: the file was edited.
        """
        body = {key: value for key, value in data.items() if key != "sha256"}
        plan = cls.from_dict(body, where=where)
        # Of the plan as well: steps, locks and unknown fields are in the hash of the content only.
        if {data.get("sha256"), _hash(body)} != {plan.sha256}:
            raise RefusedError(
                "the plan file was edited; no changes were made",
                cause="its content doesn't match its SHA-256",
                hint="create a new plan and review it",
            )
        return plan


def _read_precondition(data: Any) -> Precondition:
    names = ("kind", "subject", "expected", "words")
    found = read_object(data, keys=names, what="a precondition")
    return Precondition(**{name: read_text(found[name], what=f"{name} of a precondition") for name in names})


def _hash(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # A file may hold half of a surrogate pair, which is refused elsewhere.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
