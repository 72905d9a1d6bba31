"""Determine from the journal which connectors a spec has created.

A plan from a spec has the field `spec`:

    id      the spec
    base    the newest change of this spec when the plan was created, "" if there was none or it was unknown
    owned   CLUSTER/NAME of what the spec had created by then, each with the change that last created or changed it;
            and NOUN/NAME of what it had created of other kinds, such as pipeline/NAME
    back    in an undo: the owners of the connectors before the change that is undone
    states  the state of each connector whose state the spec manages, by CLUSTER/NAME
    labels  true if the journal has labels that the spec declared; without it they aren't read
    clusters  the identity of each Connect cluster in `owned`: other contexts may use the name for another one

The newest change of a spec therefore has nearly all the information. The changes between its base and itself are read,
too; there are some only if a plan was saved and others were applied before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamark.changes.codec import decode_fields, encode_fields
from seamark.changes.history import ChangeHistory, _find_owner, find_acts, read_past, read_plan
from seamark.changes.identity import ClusterNames, ConnectIdentity
from seamark.changes.journal import Entry, Head, JournalPort
from seamark.changes.plan import Plan
from seamark.changes.spec_kind import SpecClaim, is_connector_owner
from seamark.changes.step import STEPS, Intent
from seamark.core.refs import parse_owner, parse_subject
from seamark.errors import FormatVersionError, SeamarkError

# A spec in daily use is among the newest changes. If it is not, the whole journal is read. A change of a large fleet
# has a megabyte: 50 of them are read within a second or two.
_NEWEST_HEADS = 50
# No spec has this ID.
_NO_SPEC = " "


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of a spec: what it did to the config of each connector, by CLUSTER/NAME."""

    id: str
    past: ChangeHistory
    acts: Mapping[str, Sequence[Intent]]
    owned: Mapping[str, str]
    back: Mapping[str, str | None] | None

    @property
    def base(self) -> str:
        return str(self.past.plan.spec.get("base", ""))


@dataclass(slots=True)
class SpecOwnership:
    """What one spec owns, and what others own. Everything is read on demand, and once.

    `trouble` is why the journal could not be read, "" if it could.
    """

    spec: str
    _journal: JournalPort | None = field(default=None, repr=False)
    trouble: str = ""
    base: str = ""
    own: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    has_labels: bool = False
    _heads: tuple[Head, ...] = ()
    _read: dict[str, _Change] = field(default_factory=dict, repr=False)
    _others: dict[str, SpecClaim] | None = None
    _names: ClusterNames | None = field(default=None, repr=False)
    _own_clusters: dict[str, ConnectIdentity | None] = field(default_factory=dict, repr=False)
    # Identities of Connect clusters that this context doesn't have under that name.
    _known: dict[str, ConnectIdentity] = field(default_factory=dict, repr=False)

    def others(self) -> Mapping[str, SpecClaim]:
        """Return, by CLUSTER/NAME, the other spec that last created or changed it, if that was after this one did."""
        if self._others is None:
            self._others = {}
            try:
                self._others = self._read_others()
            except FormatVersionError:
                raise
            except SeamarkError as error:
                self.trouble = error.message
        return self._others

    def read_applied(self, owners: Iterable[str]) -> dict[str, Any]:
        """Return the images of configs that this spec applied last, by owner. What the journal lacks is omitted."""
        images: dict[str, Any] = {}
        try:
            for owner in owners:
                change = self.own.get(owner)
                intents = self._read_change(change).acts.get(owner) if change else None
                if intents and intents[-1].after is not None:
                    images[owner] = intents[-1].after
        except FormatVersionError:
            raise
        except SeamarkError as error:
            self.trouble = error.message
        return images

    def build_field(
        self, owned: Mapping[str, str], *, states: Mapping[str, str], has_labels: bool = False
    ) -> dict[str, Any]:
        """Build the field `spec` of a plan that is created now.

        `states` are the managed states after it, and `has_labels` tells whether it leaves labels of the spec.
        """
        clusters = {parse_owner(owner).cluster for owner in owned if is_connector_owner(owner)} - {""}
        found = {name: self._identify(name) or self._known.get(name) for name in sorted(clusters)}
        return {
            "id": self.spec,
            "base": self.base,
            "owned": dict(sorted(owned.items())),
            **({"states": dict(sorted(states.items()))} if states else {}),
            **({"labels": True} if has_labels else {}),
            "clusters": {name: encode_fields(one) for name, one in found.items() if one is not None},
        }

    def _identify(self, name: str) -> ConnectIdentity | None:
        if self._names is None or name not in self._names.names:
            return None
        if name not in self._own_clusters:
            self._own_clusters[name] = self._names.identify(name)
        return self._own_clusters[name]

    def _localize(self, owner: str, clusters: Mapping[str, ConnectIdentity]) -> str:
        """Return the name of a plan's owner in this context.

        An owner in a Connect cluster that this context doesn't have gets a name that no connector of the context can
        have.
        """
        ref = parse_owner(owner)
        wanted = clusters.get(ref.cluster)
        if wanted is None or self._names is None:
            return owner
        for name in sorted(self._names.names, key=lambda one: one != ref.cluster):
            own = self._identify(name)
            if own is not None and wanted.matches(own):
                return f"{name}/{ref.name}"
        # If the identity of the Connect cluster of that name is unknown, nothing is planned for it either.
        is_other = ref.cluster in self._names.names and self._identify(ref.cluster) is not None
        cluster = f"{ref.cluster}@{wanted.group or wanted.kafka_cluster_id}" if is_other else ref.cluster
        self._known[cluster] = wanted
        return f"{cluster}/{ref.name}"

    def _read_others(self) -> dict[str, SpecClaim]:
        found: dict[str, SpecClaim] = {}
        for spec in sorted({head.spec for head in self._heads if head.spec} - {self.spec}):
            owned = self._fold([head for head in self._heads if head.spec == spec])
            for owner, change in owned.items():
                # IDs are in the order of time: the last spec owns it.
                if change > max(self.own.get(owner, ""), found[owner].change if owner in found else ""):
                    found[owner] = SpecClaim(spec, change)
        return found

    def _take_own(self, heads: tuple[Head, ...], *, is_all: bool) -> bool:
        """Process the heads of this spec, newest first. Return False if more heads are needed."""
        self._heads = heads
        mine = [head for head in heads if head.spec == self.spec]
        if not is_all:
            base = self._read_change(mine[0].change).base if mine else ""
            if base not in {head.change for head in mine}:
                return False
        self.own = self._fold(mine)
        self.base = mine[0].change if mine else ""
        self.states = self._read_states(self.base)
        self.has_labels = bool(self.base) and has_labels(self._read_change(self.base).past.plan)
        return True

    def _read_states(self, change: str) -> dict[str, str]:
        """Return the managed states that a change recorded."""
        if not change:
            return {}
        plan = self._read_change(change).past.plan
        states, clusters = plan.spec.get("states", {}), _read_clusters(plan)
        if not isinstance(states, Mapping):
            return {}
        return {self._localize(str(owner), clusters): str(state) for owner, state in states.items()}

    def _fold(self, heads: Sequence[Head]) -> dict[str, str]:
        """Return what a spec owns, from its changes, newest first."""
        if not heads:
            return {}
        newest = self._read_change(heads[0].change)
        since = [newest]
        for head in heads[1:]:
            if head.change == newest.base:
                break
            since.append(self._read_change(head.change))
        owned = dict(newest.owned)
        for change in reversed(since):
            owned = _fold_acts(owned, change)
        return owned

    def _read_change(self, change: str) -> _Change:
        if change not in self._read and self._journal is not None:
            past = read_past(self._journal.read(change))
            clusters, back = _read_clusters(past.plan), past.plan.spec.get("back")
            self._read[change] = _Change(
                change,
                past,
                {self._localize(owner, clusters): acts for owner, acts in find_acts(past).items()},
                {self._localize(owner, clusters): by for owner, by in read_owned(past.plan).items()},
                {self._localize(owner, clusters): by for owner, by in back.items()}
                if isinstance(back, Mapping)
                else None,
            )
        return self._read[change]


def _read_clusters(plan: Plan) -> dict[str, ConnectIdentity]:
    found = plan.spec.get("clusters", {})
    owned = {str(name): decode_fields(ConnectIdentity, one) for name, one in found.items()}
    return {**owned, **plan.identity.connect}


def read_claims(spec: str, journal: Callable[[], JournalPort], names: ClusterNames | None = None) -> SpecOwnership:
    """Read what this spec owns. If the journal can't be read, `trouble` has the reason: planning is still possible."""
    try:
        opened = journal()
        claims = SpecOwnership(spec, opened, _names=names)
        heads = opened.heads(limit=_NEWEST_HEADS)
        if not claims._take_own(heads, is_all=len(heads) < _NEWEST_HEADS):  # noqa: SLF001 - the one function that builds it
            claims._take_own(opened.heads(), is_all=True)  # noqa: SLF001
    except FormatVersionError:
        # A newer seamark version may have changed what this spec owns.
        raise
    except SeamarkError as error:
        return SpecOwnership(spec, trouble=error.message, _names=names)
    return claims


def find_spec(owner: str, journal: Callable[[], JournalPort], names: ClusterNames | None = None) -> str:
    """Return the spec that owns a connector or pipeline, from the newest changes; "" if none of them owns it."""
    opened = journal()
    claims = SpecOwnership(_NO_SPEC, opened, _names=names)
    claims._take_own(opened.heads(limit=_NEWEST_HEADS), is_all=True)  # noqa: SLF001 - as `read_claims` does
    found = claims._read_others().get(owner)  # noqa: SLF001
    return found.spec if found else ""


def has_labels(plan: Plan) -> bool:
    """Return whether the journal had labels of the plan's spec after the plan."""
    return plan.spec.get("labels") is True


def read_owned(plan: Plan) -> dict[str, str]:
    """Return what the plan's spec owned when the plan was created."""
    owned = plan.spec.get("owned", {})
    return {str(owner): str(change) for owner, change in owned.items()} if isinstance(owned, Mapping) else {}


def _fold_acts(owned: Mapping[str, str], change: _Change) -> dict[str, str]:
    """Return what a spec owns after one more of its changes."""
    after = dict(owned)
    for owner, intents in change.acts.items():
        if intents[0].before == intents[-1].after:
            # It was rolled back, so it had no effect.
            continue
        holder = None if intents[-1].after is None else change.id
        former = change.back.get(owner) if change.back is not None else holder
        if former is None:
            after.pop(owner, None)
        else:
            after[owner] = str(former)
    return after


def build_undo_field(entries: Sequence[Entry], claims: SpecOwnership, owners: Iterable[str]) -> dict[str, Any]:
    """Build the field `spec` of an undo plan: what the change touched gets its previous owner again."""
    plan = read_plan(entries)
    before = read_owned(plan)
    # What the change did to these connectors is undone, so their state is no longer the one that the spec gave them.
    undone = {parse_subject(step.subject).owner for step in plan.steps}
    states = {owner: state for owner, state in claims.states.items() if owner not in undone}
    # An undo may restore labels.
    labels = claims.has_labels or has_labels(plan) or any(STEPS[step.kind].aspect == "labels" for step in plan.steps)
    return {
        **claims.build_field(claims.own, states=states, has_labels=labels),
        "back": {owner: before.get(owner) for owner in sorted(owners)},
    }


def refresh_spec(plan: Plan, journal: Callable[[], JournalPort], names: ClusterNames | None = None) -> Plan:
    """Return a saved plan with what its spec owns now: the journal counts, not the file."""
    if not plan.spec:
        return plan
    claims = read_claims(str(plan.spec.get("id", "")), journal, names)
    if not plan.undoes:
        states = plan.spec.get("states", {})
        managed = states if isinstance(states, Mapping) else claims.states
        return replace(plan, spec=claims.build_field(claims.own, states=managed, has_labels=has_labels(plan)))
    return replace(plan, spec=build_undo_field(journal().read(plan.undoes), claims, find_owners(plan)))


def find_owners(plan: Plan) -> tuple[str, ...]:
    """Return CLUSTER/NAME of every connector whose config a plan changes, and pipeline/NAME of every pipeline."""
    return tuple(dict.fromkeys(_find_owner(step) for step in plan.steps if STEPS[step.kind].declares))
