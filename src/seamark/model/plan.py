"""A plan: a frozen list of steps that can be printed, saved, reviewed, and refused when the world has moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seamark.errors import UsageError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class StepData:
    """One act of a plan, as it is saved and journalled: what kind, on what, with which arguments.

    `lane` groups steps that stand or fall together; a failure in one lane leaves the others alone.
    `always` marks a step that runs even after a failure before it in its lane, such as restoring a run state.
    `fallback` marks one that runs only after such a failure, where the lane had acted: the way back to what stood.
    `insists` marks one behind which there is no way back: where it fails, the change stays open, and a resume tries it
    again.
    """

    kind: str
    subject: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    lane: str = ""
    always: bool = False
    fallback: bool = False
    insists: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The step as JSON takes it."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "arguments": dict(self.arguments),
            "lane": self.lane,
            "always": self.always,
            "fallback": self.fallback,
            # Most plans have none: they look as they did before there was such a mark.
            **({"insists": True} if self.insists else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StepData:
        """Read what `to_dict` gave."""
        return cls(
            kind=data["kind"],
            subject=data["subject"],
            arguments=dict(data["arguments"]),
            lane=data.get("lane", ""),
            always=bool(data.get("always", False)),
            fallback=bool(data.get("fallback", False)),
            insists=bool(data.get("insists", False)),
        )


@dataclass(frozen=True, slots=True)
class Precondition:
    """What was so when the plan was made and must still be so when it is applied.

    `kind` and `subject` say what is compared, `expected` holds its fingerprint, `words` says it to a person.
    """

    kind: str
    subject: str
    expected: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done, in order, to which context.

    `locks` are the names of the things that are locked while it is applied. `notes` are sentences for the reader:
    what stays behind, what starts anew. `undoes` is the change that this plan takes back, if it does. `spec` says whose
    connectors these are, where the plan came from a spec: see `fleet/ownership.py`.
    """

    title: str
    context: str
    made_at: str
    made_by: str
    steps: tuple[StepData, ...]
    locks: tuple[str, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    notes: tuple[str, ...] = ()
    undoes: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON takes it, with its format version."""
        return {
            "format_version": FORMAT_VERSION,
            "title": self.title,
            "context": self.context,
            "made_at": self.made_at,
            "made_by": self.made_by,
            "locks": list(self.locks),
            "preconditions": [
                {"kind": p.kind, "subject": p.subject, "expected": p.expected, "words": p.words}
                for p in self.preconditions
            ],
            "steps": [step.to_dict() for step in self.steps],
            "notes": list(self.notes),
            "undoes": self.undoes,
            # A plan of no spec looks as it did before there were specs.
            **({"spec": dict(self.spec)} if self.spec else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Read what `to_dict` gave; a plan of another format is refused."""
        version = data.get("format_version")
        if version != FORMAT_VERSION:
            raise UsageError(
                f"this plan has format {version!r}, and this seamark reads format {FORMAT_VERSION}",
                hint="make the plan anew with this version",
            )
        return cls(
            title=data["title"],
            context=data["context"],
            made_at=data["made_at"],
            made_by=data["made_by"],
            steps=tuple(StepData.from_dict(step) for step in data["steps"]),
            locks=tuple(data["locks"]),
            preconditions=tuple(Precondition(**p) for p in data["preconditions"]),
            notes=tuple(data["notes"]),
            undoes=data.get("undoes", ""),
            spec=dict(data.get("spec", {})),
        )
