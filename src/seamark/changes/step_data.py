"""The parts of a plan that the journal holds: steps, and what must still be so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seamark.core.strict import read_text, read_truth
from seamark.errors import UsageError

_STEP_FIELDS = frozenset({"kind", "subject", "arguments", "lane", "always", "fallback", "insists"})


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
        """Read what `to_dict` gave.

        Raises:
            UsageError: a field is unknown, missing or of another type.
        """
        if not data.keys() <= _STEP_FIELDS:
            raise UsageError(
                "a step of the plan can't be read", cause="it has unknown fields", hint="create a new plan"
            )
        arguments = data.get("arguments")
        if not isinstance(arguments, Mapping):
            raise UsageError("a step of the plan can't be read", cause="it has no arguments", hint="create a new plan")
        return cls(
            kind=read_text(data.get("kind"), what="the kind of a step"),
            subject=read_text(data.get("subject"), what="the subject of a step"),
            arguments=dict(arguments),
            lane=read_text(data.get("lane", ""), what="the sequence of a step"),
            always=read_truth(data.get("always", False), what="`always` of a step"),
            fallback=read_truth(data.get("fallback", False), what="`fallback` of a step"),
            insists=read_truth(data.get("insists", False), what="`insists` of a step"),
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
