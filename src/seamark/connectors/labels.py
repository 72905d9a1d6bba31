"""Labels of connectors: seamark's own, kept in the journal. Connect never gets them, so that no task restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from seamark.changes.action import LOCKS, Needs, Reads, StandaloneStep, StepSeen, action_kind, needs_permission
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.history import read_past
from seamark.changes.identity import ClusterNames, ConnectIdentity
from seamark.changes.locks import find_wide_labels_lock, is_labels_lock
from seamark.changes.outcome import Outcome
from seamark.changes.spec_kind import SectionPlan, SectionRequest
from seamark.changes.step import STEPS, ConnectorSubject, Intent, Observed, Step, step_kind
from seamark.core.refs import CONNECTOR, Port, Ref, parse_owner, parse_subject
from seamark.errors import FormatVersionError, JournalError, NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.policy.permissions import Permission
from seamark.report.words import render_names

if TYPE_CHECKING:
    from seamark.changes.journal import Head
    from seamark.changes.signing import SignedJournal
    from seamark.connectors.config import DesiredConnector

ASPECT = "labels"


@dataclass(frozen=True, slots=True)
class RegisteredLabels:
    """The labels of a connector in the journal, and the spec that declared them, "" without labels."""

    labels: Mapping[str, str]
    spec: str = ""

    @property
    def image(self) -> dict[str, Any]:
        """Return them as steps compare them. It is never None: labels come and go without their connector."""
        return {"labels": dict(self.labels), "spec": self.spec}

    @classmethod
    def from_image(cls, image: Any) -> RegisteredLabels:
        """Build them from an image."""
        return cls({str(key): str(value) for key, value in image["labels"].items()}, str(image["spec"]))


NO_LABELS = RegisteredLabels({})


@dataclass(frozen=True, slots=True)
class _Written:
    """Labels as one change wrote them, for a connector of the Connect cluster that the change names `cluster`."""

    cluster: str
    name: str
    identity: ConnectIdentity | None
    registered: RegisteredLabels


class LabelReader:
    """Reads the labels of all connectors of a context from its journal. The newest change of a connector counts.

    Only changes that held a lock of labels are read. Changes name Connect clusters as another context does, so that
    they are compared by identity.
    """

    def __init__(self, journal: Callable[[], SignedJournal], *, names: Callable[[], ClusterNames]) -> None:
        self._journal = journal
        self._find_names = names
        self._lock = threading.Lock()
        # What was read for `find`, and the changes that this process had begun by then.
        self._known: tuple[int, dict[str, RegisteredLabels], frozenset[str]] | None = None

    def read(self) -> Mapping[str, RegisteredLabels]:
        """Return the labels of every connector that has some, by CLUSTER/NAME, as the journal has them now.

        Raises:
            SeamarkError: the journal can't be read.
        """
        with self._lock:
            found, _ = self._read()
        return {owner: one for owner, one in found.items() if one.labels}

    def find(self, cluster: str, name: str) -> RegisteredLabels:
        """Return the labels of a connector, read once per change.

        A change holds the lock of the labels that it writes, so no other process changes them meanwhile. What was read
        before it began isn't used.

        Raises:
            SeamarkError: the journal can't be read, or it isn't known which Connect cluster this is.
        """
        with self._lock:
            if self._known is not None and self._known[0] == self._journal().begun:
                _, found, unknown = self._known
            else:
                found, unknown = self._read()
        return _choose(found, unknown, cluster, name)

    def read_all(self, owners: Sequence[Ref]) -> Sequence[RegisteredLabels]:
        """Return the labels of connectors as the journal has them now.

        Raises:
            SeamarkError: the journal can't be read, or it isn't known which Connect cluster one of them is in.
        """
        with self._lock:
            found, unknown = self._read()
        return [_choose(found, unknown, owner.cluster, owner.name) for owner in owners]

    def remember(self, cluster: str, name: str, registered: RegisteredLabels) -> None:
        """Take over what a step of the current change has written."""
        with self._lock:
            if self._known is not None:
                self._known[1][f"{cluster}/{name}"] = registered

    def _read(self) -> tuple[dict[str, RegisteredLabels], frozenset[str]]:
        journal = self._journal()
        begun = journal.begun
        heads = _read_heads(journal)
        found: dict[str, RegisteredLabels] = {}
        own: dict[tuple[str, ConnectIdentity | None], str] = {}
        unknown: set[str] = set()
        for head in heads:
            if not any(is_labels_lock(lock) for lock in head.locks):
                continue
            for one in _list_written(journal, head.change):
                key = (one.cluster, one.identity)
                if key not in own:
                    own[key] = self._localize(one, unknown)
                found.setdefault(f"{own[key]}/{one.name}", one.registered)
        self._known = (begun, found, frozenset(unknown))
        return found, self._known[2]

    def _localize(self, one: _Written, unknown: set[str]) -> str:
        """Return the name of a Connect cluster in this context; one that no cluster of it can have for another one.

        Connect clusters that can't be identified now are added to `unknown`: these may be their labels.
        """
        silent, names = [], self._find_names()
        for name in sorted(names.names, key=lambda own: own != one.cluster):
            own = names.identify(name)
            if own is None:
                silent.append(name)
            elif one.identity is not None and one.identity.matches(own):
                return name
        unknown.update(silent)
        return f"/{one.cluster}/{one.identity}"


def _read_heads(journal: SignedJournal) -> tuple[Head, ...]:
    try:
        return journal.heads()
    except NotFoundError as error:
        raise JournalError(
            "the labels can't be read, because the journal is not set up",
            cause=error.message,
            hint="create the journal's topics: seamark init",
        ) from error


def _list_written(journal: SignedJournal, change: str) -> list[_Written]:
    """Return the labels that a change wrote, the last ones first."""
    past = read_past(journal.read(change))
    written = []
    for number, (intent, _) in sorted(past.intents.items(), reverse=True):
        step = past.plan.steps[number]
        kind = STEPS.get(step.kind)
        if kind is not None and kind.aspect == ASPECT and past.outcomes.get(number) is Outcome.DONE:
            ref = parse_subject(step.subject)
            identity = past.plan.identity.connect.get(ref.cluster)
            written.append(_Written(ref.cluster, ref.name, identity, RegisteredLabels.from_image(intent.after)))
    return written


def _choose(
    found: Mapping[str, RegisteredLabels], unknown: frozenset[str], cluster: str, name: str
) -> RegisteredLabels:
    if cluster in unknown:
        raise UnreachableError(
            f"the labels of {cluster}/{name} can't be determined",
            cause=f"Connect cluster {cluster} didn't report its identity",
            hint="check the Connect cluster: seamark doctor",
        )
    return found.get(f"{cluster}/{name}", NO_LABELS)


LABELS: Port[LabelReader] = Port("labels")
"""Reads the labels of connectors."""


@action_kind("label-connector")
@needs_permission(Permission.CHANGE_CONFIG)
@step_kind("label-connector")
@dataclass(frozen=True, slots=True)
class LabelConnector(ConnectorSubject, StandaloneStep):
    """Set all labels of a connector; without `labels` it has none. `spec` is the spec that declares them.

    The journal is where they are kept: from the intent on they are set, and no server gets a request.
    """

    aspect: ClassVar[str] = ASPECT
    settle_seconds: ClassVar[float] = 1.0
    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name", "labels"})

    labels: Mapping[str, str]
    spec: str = ""

    @property
    def registered(self) -> RegisteredLabels:
        """Return what the journal has afterward."""
        return RegisteredLabels(self.labels, self.spec)

    def describe(self) -> str:
        """Return a short description of the step."""
        return f"set the labels of {self.subject}" if self.labels else f"remove the labels of {self.subject}"

    def find_new_labels(self) -> Mapping[str, str]:
        """Return the labels that the connector gets: a role must match them, too."""
        return self.labels

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[StepSeen]:
        """Return the intent and the locks of each action; the journal is read once for all of them."""
        held = reads.world.use(LABELS).read_all([Ref(CONNECTOR, one.name, one.cluster) for one in actions])
        return [action.see(reads, one) for action, one in zip(actions, held, strict=True)]

    def see(self, reads: Reads, held: RegisteredLabels) -> StepSeen:
        """Return the intent and the lock, if the connector has these labels now."""
        intent = Intent(held.image, self.registered.image)
        return StepSeen(intent, frozenset({reads.use(LOCKS).find_labels(self.cluster, self.name)}))

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        """Return the lock of each connector's labels."""
        return [frozenset({reads.use(LOCKS).find_labels(one.cluster, one.name)}) for one in actions]

    def needs(self, seen: StepSeen) -> Needs:
        """Return the lock of the labels, or that of all labels of the Connect cluster if several change."""
        return Needs(seen.locks, wide_lock=next(map(find_wide_labels_lock, seen.locks), ""))

    def build_effect(self, seen: StepSeen) -> Effect:
        """Build the line of the labels."""
        return Effect(ChangeKind.CHANGE, self.subject, "labels; no task restarts", build_label_fields(seen.intent))

    def intend(self, world: Environment) -> Intent:
        """Read the present labels."""
        return Intent(world.use(LABELS).find(self.cluster, self.name).image, self.registered.image)

    def perform(self, world: Environment, intent: Intent) -> None:
        """Send nothing: the intent is the change."""
        del intent
        world.use(LABELS).remember(self.cluster, self.name, self.registered)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        """Return that it is done, because its intent is in the journal."""
        del world, intent
        return Observed.AFTER

    def undo(self, intent: Intent) -> Step | None:
        """Return the step that restores the previous labels."""
        if intent.before == intent.after:
            return None
        held = RegisteredLabels.from_image(intent.before)
        return LabelConnector(self.cluster, self.name, held.labels, held.spec)


def build_label_fields(intent: Intent) -> tuple[FieldChange, ...]:
    """Return each label that changes, and the spec that declares the labels if only that changes."""
    before, after = (RegisteredLabels.from_image(image) for image in (intent.before, intent.after))
    keys = sorted({*before.labels, *after.labels})
    fields = tuple(
        FieldChange(f"labels.{key}", before.labels.get(key), after.labels.get(key))
        for key in keys
        if before.labels.get(key) != after.labels.get(key)
    )
    return fields or (FieldChange("labels of spec", before.spec or None, after.spec or None),)


class LabelPlan:
    """Compares the labels that a spec declares with those in the journal.

    The journal is not read for a spec that declares no labels and has none there. If it can't be read, no labels are
    planned, and a note reports that. Such a plan can't be applied if labels are declared.
    """

    def __init__(
        self, desired: Mapping[str, DesiredConnector], request: SectionRequest, *, clusters: Collection[str]
    ) -> None:
        """Read the labels. `clusters` are the Connect clusters of the context."""
        self._request = request
        self._clusters = clusters
        self._ownership = request.ownership
        self._declares = any(one.labels for one in desired.values())
        self._held: Mapping[str, RegisteredLabels] = {}
        self._trouble: SeamarkError | None = None
        self._is_blocked = False
        if not self._declares and not self._ownership.has_labels:
            return
        try:
            self._held = request.reads.world.use(LABELS).read()
        except FormatVersionError:
            raise
        except SeamarkError as error:
            self._trouble = error

    @property
    def own(self) -> tuple[str, ...]:
        """Return the connectors of this context with labels that this spec declared."""
        return tuple(owner for owner in self._labeled if parse_owner(owner).cluster in self._clusters)

    @property
    def _labeled(self) -> tuple[str, ...]:
        """Return all connectors with labels that this spec declared, also those that this context doesn't have."""
        return tuple(owner for owner, held in self._held.items() if held.spec == self._ownership.spec)

    def plan(self, selected: Mapping[str, DesiredConnector], *, gone: Iterable[str]) -> dict[str, LabelConnector]:
        """Return the actions by connector: `selected` get the declared labels, those that are `gone` lose theirs."""
        if self._trouble is not None:
            self._is_blocked = any(one.labels for one in selected.values())
            return {}
        wanted = {owner: one.labels for owner, one in selected.items()} | {
            owner: {} for owner in gone if owner in self._held
        }
        actions = {}
        for owner, labels in wanted.items():
            held = self._held.get(owner, NO_LABELS)
            is_other = held.spec not in ("", self._ownership.spec)
            if labels == held.labels or (owner in selected and not labels and is_other):
                # Labels of another spec stay, unless this one declares its own.
                continue
            ref = parse_owner(owner)
            spec = self._ownership.spec if labels else ""
            actions[owner] = LabelConnector(ref.cluster, ref.name, labels, spec)
        return actions

    def refuse_foreign(self, actions: Mapping[str, LabelConnector], selected: Mapping[str, DesiredConnector]) -> None:
        """Refuse other labels for connectors of another spec: each would restore its own, again and again.

        Raises:
            RefusedError: another spec owns one of the connectors, or declared its labels.
        """
        specs = {owner: held.spec for owner in actions if (held := self._held.get(owner)) is not None}
        others = self._ownership.others() if actions else {}
        specs |= {owner: others[owner].spec for owner in actions if owner in others}
        taken = {
            owner: spec for owner, spec in specs.items() if owner in selected and spec not in ("", self._ownership.spec)
        }
        if not taken:
            return
        places = dict.fromkeys(str(selected[owner].place) for owner in taken)
        raise RefusedError(
            f"another spec labels or owns {len(taken)} of these connectors; no changes were made",
            cause=f"{render_names([f'{owner}: spec {spec}' for owner, spec in taken.items()])}; "
            f"labels defined here in {render_names(list(places))}",
            hint="plan the spec that owns them, remove them from one of the two, or take them over: --adopt",
            context={"connectors": ", ".join(taken)},
        )

    def extend(self, part: SectionPlan, actions: Mapping[str, LabelConnector]) -> SectionPlan:
        """Return the plan of the connectors with these actions. A connector that it changes anyway keeps one line."""
        # Labels in another context count, too: that context would read them no longer.
        left = set(self._labeled) - actions.keys()
        notes: tuple[str, ...] = ()
        has_labels = self._declares or bool(left)
        if self._trouble is not None:
            notes = (f"labels were checked, but will not be set: {self._trouble.message}",)
            has_labels = self._ownership.has_labels
        reads = self._request.reads
        seen = [one.see(reads, self._held.get(owner, NO_LABELS)) for owner, one in actions.items()]
        fields = {one.subject: build_label_fields(two.intent) for one, two in zip(actions.values(), seen, strict=True)}
        lines = [_add_fields(line, fields.pop(line.subject, ())) for line in part.effects]
        for one, two in zip(actions.values(), seen, strict=True):
            lines += one.effects(two) if one.subject in fields else ()
        return replace(
            part,
            actions=(*part.actions, *actions.values()),
            seen=(*part.seen, *seen),
            notes=(*part.notes, *notes),
            lines=tuple(lines),
            has_labels=has_labels,
            blocked_by=self._trouble if self._is_blocked else None,
        )


def _add_fields(line: Effect, fields: tuple[FieldChange, ...]) -> Effect:
    """Return the line of a connector with its labels. That of a deleted one says enough."""
    return line if line.sign is ChangeKind.DELETE else replace(line, fields=(*line.fields, *fields))
