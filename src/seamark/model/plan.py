"""The parts of a plan that the journal holds: steps, and what must still be so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
