"""Kinds of resources that spec files declare: the protocol between `specs` and the packages of the resources.

A package defines the section of its resources as a `SpecKind`: keys, JSON Schema, reading entries, and the actions that
lead from the running state to what the entries declare. `specs` finds files, reads them, orders the sections and
records which spec owns which resource; it knows kinds only from the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from seamark.changes.action import Action, Reads
from seamark.changes.effect import ClusterSurvey, Drift, Effect
from seamark.changes.environment import Environment
from seamark.changes.plan import PlannedChange
from seamark.core.files import FileLocation
from seamark.core.refs import parse_subject
from seamark.errors import SeamarkError, SpecError
from seamark.report.words import render_names

if TYPE_CHECKING:
    from seamark.context import Context


class SpecTable(Protocol):
    """A table of a spec file. Text values are returned with `${{ … }}` substituted."""

    def __contains__(self, key: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def check_keys(self, known: Mapping[str, str], *, what: str) -> None:
        """Refuse an unknown key.

        Raises:
            SpecError: there is one; the hint names a similar key.
        """
        ...

    def read_name(self, key: str) -> str:
        """Return the key itself, because tables of named entries use their names as keys."""
        ...

    def find_place(self, key: str) -> FileLocation:
        """Return the location of the key."""
        ...

    def is_null(self, key: str) -> bool:
        """Return whether the value is null or missing after the colon."""
        ...

    def is_table(self, key: str) -> bool:
        """Return whether the value is a table."""
        ...

    def is_list(self, key: str) -> bool:
        """Return whether the value is a list."""
        ...

    def read_table(self, key: str, *, what: str = "") -> SpecTable:
        """Return the table below a key. `what` names it in an error; the default is the key.

        Raises:
            SpecError: the value isn't a table.
        """
        ...

    def read_text(self, key: str, *, what: str = "") -> str:
        """Return the text of a key.

        Raises:
            SpecError: the value isn't a text, or is empty.
        """
        ...

    def read_texts(self, key: str, *, what: str) -> tuple[str, ...]:
        """Return the texts of a list.

        Raises:
            SpecError: one of them isn't a text, or is empty.
        """
        ...

    def read_config(self, key: str) -> dict[str, str]:
        """Return a table of text values, such as a config; an empty one if the key is missing.

        Raises:
            SpecError: it isn't a table, or a value isn't a text.
        """
        ...

    def find_text(self, key: str) -> str:
        """Return the text of a key; "" for a table or a list."""
        ...

    def build_error(self, problem: str, *, key: str = "", at_key: bool = False, hint: str = "") -> SpecError:
        """Build the error for the value of a key, for the key itself, or, without a key, for the table.

        `problem` must not repeat a value of a config, which may be a secret.
        """
        ...


class Declaration(Protocol):
    """What an entry of a section declares."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> FileLocation: ...


@dataclass(frozen=True, slots=True)
class SpecClaim:
    """The spec that owns a resource, and the change by which it last created or changed the resource."""

    spec: str
    change: str


class OwnershipPort(Protocol):
    """The resources that the spec of a plan owns, and those of other specs. Keys are owners as in `core.refs`."""

    @property
    def spec(self) -> str:
        """The ID of the spec."""
        ...

    @property
    def has_labels(self) -> bool:
        """Whether the journal has labels that this spec declared."""
        ...

    @property
    def own(self) -> Mapping[str, str]:
        """The change that last created or changed each resource of this spec."""
        ...

    @property
    def states(self) -> Mapping[str, str]:
        """The state that this spec gave each connector whose state it manages, when it was applied last."""
        ...

    def others(self) -> Mapping[str, SpecClaim]:
        """Return which resources other specs own now."""
        ...

    def read_applied(self, owners: Iterable[str]) -> Mapping[str, Any]:
        """Return the images of what this spec applied last, by owner, as far as the journal has them."""
        ...


@dataclass(frozen=True, slots=True)
class SectionRequest:
    """The input for planning a section.

    With `adopt`, resources of other specs are taken over. `names` are names and globs, for kinds that accept them. With
    `prune`, resources that the spec doesn't declare are deleted, no matter how they were created. With `validate`,
    servers are asked whether they would accept what is declared. Resources that must run have `wait_seconds` to start.
    """

    reads: Reads
    ownership: OwnershipPort
    adopt: bool = False
    names: tuple[str, ...] = ()
    prune: bool = False
    validate: bool = False
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SectionPlan:
    """The actions of a section, what each of them found (`Action.inspect`), and notes for the reader of the plan.

    The lines of the plan are those of the actions, unless the kind sets its own `lines`. `last_notes` follow the notes
    of all sections. `drifts` are changes made outside the spec, `survey` is what was read, and `gone` are resources
    that the spec owned and that no longer exist. `states` are the managed states of connectors, by owner, and
    `has_labels` tells whether the journal has labels of the spec afterward. `blocked_by` is why something that the spec
    declares could not be planned: then the plan can be shown, but not applied. With `world`, the plan is completed from
    what was read there.
    """

    actions: tuple[Action, ...] = ()
    seen: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    lines: tuple[Effect, ...] | None = None
    last_notes: tuple[str, ...] = ()
    drifts: tuple[Drift, ...] = ()
    survey: tuple[ClusterSurvey, ...] = ()
    gone: frozenset[str] = frozenset()
    states: Mapping[str, str] = field(default_factory=dict)
    has_labels: bool = False
    blocked_by: SeamarkError | None = None
    world: Environment | None = field(default=None, repr=False)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The lines of the plan."""
        if self.lines is not None:
            return self.lines
        return tuple(line for one, seen in zip(self.actions, self.seen, strict=True) for line in one.effects(seen))


D = TypeVar("D", bound=Declaration)

CONNECTOR_PHASE = 20
"""The planning phase of connectors."""


class SpecKind(ABC, Generic[D]):
    """One kind of resource in spec files. A subclass is registered with `register_spec_kind`.

    `section` is its key in a file, and `noun` names one resource. Actions of a lower `phase` come first in a plan. A
    kind with `takes_names` can plan a part of its section by `SectionRequest.names`; other kinds are omitted from such
    a plan. `kept` describes what remains after `destroy` of a kind that it doesn't delete. Resources of an `is_owned`
    kind belong to the spec that declared them: `OwnershipPort` stores them as NOUN/NAME, so that `plan` can delete
    resources that were removed from the files. Their steps have that subject, and the trait `declares`. Connectors are
    owned as CLUSTER/NAME.
    """

    section: ClassVar[str]
    noun: ClassVar[str]
    phase: ClassVar[int]
    takes_names: ClassVar[bool] = False
    kept: ClassVar[str] = "stay"
    is_owned: ClassVar[bool] = False

    def check(self, wanted: Sequence[D], context: Context) -> None:
        """Check the declarations without contacting a server.

        Raises:
            SpecError: one of them can't be applied in this context.
        """
        del wanted, context

    @abstractmethod
    def plan(self, wanted: Sequence[D], request: SectionRequest) -> SectionPlan:
        """Plan the actions that lead from the running state to what is declared.

        Raises:
            RefusedError: a declared state can't be reached.
        """

    def destroy(self, wanted: Sequence[D], request: SectionRequest) -> SectionPlan:
        """Plan the actions that delete what is declared. Unless a kind overrides this, its resources are kept."""
        del request
        names = render_names([one.name for one in wanted])
        return SectionPlan(notes=(f"{self.section} {self.kept}: {names}",)) if wanted else SectionPlan()

    def check_plan(self, planned: PlannedChange, part: SectionPlan, request: SectionRequest) -> tuple[str, ...]:
        """Check a complete plan, of which the kind planned a part, and return additional notes.

        Raises:
            RefusedError: a server would not accept what is declared.
        """
        del planned, part, request
        return ()


class SectionKind(SpecKind[D]):
    """A kind that reads its section itself. Editors show `summary`."""

    summary: ClassVar[str]

    @abstractmethod
    def build_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of one entry."""

    @abstractmethod
    def read(self, file: SpecTable) -> Iterator[D]:
        """Yield what the section of a file declares. Called only for files that have the section.

        Raises:
            SpecError: an entry is invalid.
        """

    has_templates: ClassVar[bool] = False
    """Whether `each:` and spec programs declare entries of it, by `read_entry`."""

    def read_entry(self, name: str, table: SpecTable, place: FileLocation) -> D:
        """Read one entry that is declared outside its section: by a row of `each:`, or by a spec program.

        Raises:
            SpecError: The entry is invalid.
        """
        raise table.build_error(f"{self.noun} {name} can't be declared here")

    def build_from_program(self, name: str, place: FileLocation, fields: Mapping[str, Any]) -> D | None:
        """Build what a spec program declares with a `Resource` of this noun; return None if its fields are invalid."""
        del name, place, fields
        return None


_KINDS: dict[str, SpecKind[Any]] = {}


def register_spec_kind(kind: SpecKind[Any]) -> None:
    """Register a kind for spec files.

    Raises:
        ValueError: another kind has its section or its noun.
    """
    for known in _KINDS.values():
        if known.section == kind.section or known.noun == kind.noun:
            raise ValueError(f"two kinds of spec files are called {kind.section!r} or {kind.noun!r}")
    _KINDS[kind.section] = kind


def list_spec_kinds() -> tuple[SpecKind[Any], ...]:
    """Return every registered kind, in the order of their phases."""
    return tuple(sorted(_KINDS.values(), key=lambda kind: (kind.phase, kind.section)))


def is_connector_owner(owner: str) -> bool:
    """Return whether an owner in a spec is a connector: CLUSTER/NAME, not NOUN/NAME of another kind."""
    noun = parse_subject(owner).kind
    return all(noun != kind.noun for kind in _KINDS.values() if kind.is_owned)


# JSON Schema for editors. A text with a placeholder is valid for any value that is checked after substitution.

SLOT_PATTERN = r"\$\{\{ *(each|env|context|each\([A-Za-z0-9_.-]+\))\.[A-Za-z0-9_.-]+ *\}\}"
NUMBER_SCHEMA: Mapping[str, Any] = {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": SLOT_PATTERN}]
}
CONFIG_SCHEMA: Mapping[str, Any] = {
    "type": ["object", "null"],
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
}


def build_table_schema(
    described: Mapping[str, str], shapes: Mapping[str, Mapping[str, Any]], *, required: Sequence[str] = ()
) -> dict[str, Any]:
    """Build the schema of a table with exactly the keys that its reader knows."""
    table: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {"description": text, **shapes[key]} for key, text in described.items()},
    }
    return {**table, "required": list(required)} if required else table
