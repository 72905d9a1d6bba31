"""The section `connectors` of spec files: what must be created, changed or deleted, compared with what runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from seamark.changes.action import Action
from seamark.changes.effect import ClusterSurvey, Drift, Effect
from seamark.changes.environment import SnapshotEnvironment
from seamark.changes.images import find_sealed, find_typed, split_secrets
from seamark.changes.plan import PlannedChange
from seamark.changes.spec_kind import (
    CONNECTOR_PHASE,
    OwnershipPort,
    SectionPlan,
    SectionRequest,
    SpecKind,
    is_connector_owner,
    register_spec_kind,
)
from seamark.connect.api import CONNECT, ConnectSnapshots
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector, State
from seamark.connectors.actions import ApplyConnector, ConnectorSeen, SetConnectorState, find_stable_seconds
from seamark.connectors.comparison import (
    ConnectorDifference,
    Readings,
    build_drift,
    build_gone,
    build_state_drift,
    build_survey,
    find_differences,
    find_surplus,
    group_owners,
    read_clusters,
    split_owner,
)
from seamark.connectors.config import DesiredConnector, build_config, check_configs
from seamark.connectors.consequences import CONNECTOR_SETTING, ConnectorSetting, Consequences
from seamark.connectors.labels import LabelPlan
from seamark.connectors.plans import build_topic_note
from seamark.connectors.policy import build_breaches, build_refusal, find_violations, refuse_violations
from seamark.connectors.read import find_run_state
from seamark.connectors.steps import PLUGIN_TYPES
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from seamark.policy.check import SECRET_SCHEME, check_secret_reference
from seamark.report.words import render_names

if TYPE_CHECKING:
    from seamark.context import Context

_STATES = ("", "RUNNING", "PAUSED", "STOPPED")
_GLOB = frozenset("*?[")


class ConnectorKind(SpecKind[DesiredConnector]):
    """Connectors of spec files. `specs` reads them, because defaults, bases and `each` apply to their configs."""

    section = "connectors"
    noun = "connector"
    phase = CONNECTOR_PHASE
    takes_names = True

    def check(self, wanted: Sequence[DesiredConnector], context: Context) -> None:
        """Check that each connector is for a Connect cluster of the context, and declared once."""
        build_desired(wanted, tuple(context.connect))

    def plan(self, wanted: Sequence[DesiredConnector], request: SectionRequest) -> SectionPlan:
        """Read each Connect cluster once, and compare it with the declarations."""
        setting = request.reads.use(CONNECTOR_SETTING)()
        desired = build_desired(wanted, setting.clusters.names)
        labels = LabelPlan(desired, request, clusters=setting.clusters.names)
        if request.prune and not desired:
            raise UsageError(
                "the spec has no connectors, so --prune would delete everything",
                hint="to delete the connectors of a spec: seamark destroy -f PATH",
            )
        own = find_connectors(request.ownership)
        # What a prune deletes is known only after the Connect clusters are read.
        known = {*desired, *own, *labels.own}
        chosen = known if request.prune else select_owners(known, request.names)
        readings = _read([*chosen, *(desired if request.prune else ())], setting.clusters, wanted=chosen)
        if request.prune:
            chosen = select_owners({*known, *readings.live}, request.names)
        world = _open_snapshot(setting, readings)
        selected = {owner: connector for owner, connector in desired.items() if owner in chosen}
        # The comparison resolves references, so those that are not allowed are rejected first.
        refuse_references(selected.values(), setting.context)
        changes = find_differences(selected, readings.live, world)
        _refuse_forbidden(changes, setting.context)
        surplus = {owner for owner in (readings.live if request.prune else own) if owner in chosen} - desired.keys()
        going, notes = _leave_foreign(find_surplus(surplus, readings.live), request.ownership)
        dropped = chosen.intersection(labels.own) - desired.keys()
        labeled = labels.plan(selected, gone=[*dropped, *(one.owner for one in going)])
        if not request.adopt:
            _refuse_foreign(changes, request.ownership)
            labels.refuse_foreign(labeled, selected)
        unchanged = selected.keys() - {difference.owner for difference in changes} - labeled.keys()
        survey = build_survey(readings, unchanged=unchanged, known=desired.keys() | request.ownership.own.keys())
        notes += _find_unstarted(selected, readings.live, setting.clusters, changes)
        draft = _Draft(setting, request, readings=readings, world=world)
        part = draft.build((*changes, *going), wanted=desired.keys(), survey=survey, notes=notes)
        part = labels.extend(part, labeled)
        return replace(part, states=_find_states(desired, selected, request.ownership))

    def destroy(self, wanted: Sequence[DesiredConnector], request: SectionRequest) -> SectionPlan:
        """Delete every declared connector that exists."""
        setting = request.reads.use(CONNECTOR_SETTING)()
        desired = build_desired(wanted, setting.clusters.names)
        if not desired:
            raise UsageError("the spec has no connectors", hint="pass the files of the connectors to delete")
        chosen = select_owners(desired, request.names)
        labels = LabelPlan(desired, request, clusters=setting.clusters.names)
        readings = _read(chosen, setting.clusters, wanted=chosen)
        going = find_surplus(chosen, readings.live)
        labeled = labels.plan({}, gone=chosen)
        if not request.adopt:
            _refuse_foreign(going, request.ownership)
        world = _open_snapshot(setting, readings)
        survey = build_survey(readings, unchanged=(), known=desired.keys())
        draft = _Draft(setting, request, readings=readings, world=world)
        return labels.extend(draft.build(going, wanted=desired.keys(), survey=survey), labeled)

    def check_plan(self, planned: PlannedChange, part: SectionPlan, request: SectionRequest) -> tuple[str, ...]:
        """Validate the configs of a complete plan with their plugins."""
        if not request.validate or part.world is None:
            return ()
        return check_configs(planned.needs.configs, request.reads.use(CONNECTOR_SETTING)().clusters, part.world)


register_spec_kind(ConnectorKind())


def find_connectors(ownership: OwnershipPort) -> dict[str, str]:
    """Return the connectors that a spec owns, each with the change that last created or changed it."""
    return {owner: change for owner, change in ownership.own.items() if is_connector_owner(owner)}


def check_connectors(
    connectors: Iterable[DesiredConnector], context: Context, *, names: Sequence[str] = ()
) -> tuple[DesiredConnector, ...]:
    """Return the declared connectors, each with its Connect cluster, checked against the policy.

    No server is asked, and no secret is resolved.

    Raises:
        RefusedError: A config violates the policy.
    """
    desired = build_desired(connectors, tuple(context.connect))
    chosen = select_owners(desired, names)
    found = tuple(connector for owner, connector in desired.items() if owner in chosen)
    for connector in found:
        build_config(connector.name, connector.config)
    wanted = ((connector.name, connector.cluster, connector.config) for connector in found)
    if breaches := find_violations(wanted, context, reveal=False):
        raise build_refusal(breaches, context=context.name)
    return found


def _find_states(
    desired: Mapping[str, DesiredConnector], selected: Collection[str], ownership: OwnershipPort
) -> dict[str, str]:
    """Return the managed states after this plan. Connectors that the plan doesn't select keep their record."""
    states = {
        owner: connector.managed_state if owner in selected else ownership.states.get(owner, "")
        for owner, connector in desired.items()
        if connector.manage_state
    }
    return {owner: state for owner, state in states.items() if state}


def build_desired(connectors: Iterable[DesiredConnector], names: Sequence[str]) -> dict[str, DesiredConnector]:
    """Return the connectors of a spec by CLUSTER/NAME. `names` are the Connect clusters of the context.

    Raises:
        UsageError: A Connect cluster is unknown, or a name occurs twice.
    """
    found: dict[str, DesiredConnector] = {}
    for connector in connectors:
        placed = replace(connector, cluster=_choose_cluster(connector, names), state=connector.state.upper())
        _check(placed)
        if placed.owner in found:
            raise UsageError(
                f"connector {placed.owner} is defined twice",
                cause=f"{found[placed.owner].place} and {placed.place}",
                hint="remove one of them, or give it another name",
            )
        found[placed.owner] = placed
    return found


def select_owners(owners: Iterable[str], names: Sequence[str]) -> set[str]:
    """Return the owners that match one of the names or globs; all of them without names.

    A plain name that matches nothing raises: it is probably misspelled.
    """
    known = list(owners)
    if not names:
        return set(known)
    chosen: set[str] = set()
    for name in names:
        fitting = {owner for owner in known if _fits(owner, name)}
        if not fitting and not _GLOB & set(name):
            raise NotFoundError(
                f"the spec has no connector {name}, and never created one",
                hint="list all of them: seamark plan -f PATH",
                context={"connector": name},
            )
        chosen |= fitting
    if not chosen:
        raise NotFoundError(f"no connector of the spec matches {', '.join(names)}", hint="check the patterns")
    return chosen


def _choose_cluster(connector: DesiredConnector, names: Sequence[str]) -> str:
    if connector.cluster is not None:
        if connector.cluster in names:
            return connector.cluster
        cause = f"{connector.place} names {connector.cluster}; the context has: {', '.join(names) or 'none'}"
        raise UsageError(
            f"connector {connector.name} names a Connect cluster that the context doesn't have",
            cause=cause,
            hint="use one of these names, or add the cluster to the context",
        )
    if len(names) == 1:
        return names[0]
    raise UsageError(
        f"connector {connector.name} doesn't name its Connect cluster",
        cause=f"{connector.place}; the context has: {', '.join(names) or 'none'}",
        hint="set it in the file: cluster: NAME" if names else "add a Connect cluster to the context",
    )


def _check(connector: DesiredConnector) -> None:
    if not connector.config.get("connector.class"):
        raise UsageError(
            f"connector {connector.name} has no connector.class",
            cause=str(connector.place),
            hint="set it to the plugin's class",
        )
    if connector.state not in _STATES:
        raise UsageError(
            f"connector {connector.name} has an invalid state {connector.state}",
            cause=str(connector.place),
            hint=f"use one of {', '.join(_STATES[1:])}",
        )


def _fits(owner: str, name: str) -> bool:
    return fnmatchcase(owner, name) or fnmatchcase(split_owner(owner)[1], name)


def refuse_references(connectors: Iterable[DesiredConnector], context: Context) -> None:
    """Raise for references that the policy does not allow, before they are resolved."""
    found = [
        (connector.name, connector.cluster, violation, connector.config)
        for connector in connectors
        for key, value in connector.config.items()
        if value.startswith(SECRET_SCHEME)
        for violation in check_secret_reference(key, value, context.policy_of(connector.cluster))
    ]
    if found:
        raise build_refusal(build_breaches(found, context), context=context.name)


def _read(owners: Iterable[str], clusters: Clusters, *, wanted: Collection[str]) -> Readings:
    """Read the Connect clusters of these owners. One that the context no longer has can't be read or planned."""
    names = [name for name in group_owners(owners) if name in clusters.names]
    return read_clusters(clusters, sorted(names, key=clusters.names.index), wanted=sorted(wanted))


def _open_snapshot(setting: ConnectorSetting, readings: Readings) -> SnapshotEnvironment:
    """Return what the steps read from: the connectors that were compared, without another request."""
    return SnapshotEnvironment(setting.world, {CONNECT: ConnectSnapshots(setting.world, readings.connectors).open})


def _refuse_forbidden(changes: Sequence[ConnectorDifference], context: Context) -> None:
    refuse_violations(
        ((found.name, found.cluster, found.config) for found in changes),
        context,
        present={(found.cluster, found.name): found.present.config for found in changes if found.present},
    )


def _leave_foreign(
    surplus: Sequence[ConnectorDifference], ownership: OwnershipPort
) -> tuple[tuple[ConnectorDifference, ...], tuple[str, ...]]:
    """Return what may be deleted, and notes: what another spec owns by now is never deleted."""
    if not surplus:
        return (), ()
    others = ownership.others()
    kept = [difference for difference in surplus if difference.owner in others]
    notes = []
    for spec in sorted({others[difference.owner].spec for difference in kept}):
        owners = [difference.owner for difference in kept if others[difference.owner].spec == spec]
        notes.append(f"not changed, because spec {spec} owns them now: {render_names(owners)}")
    return tuple(difference for difference in surplus if difference.owner not in others), tuple(notes)


def _refuse_foreign(differences: Sequence[ConnectorDifference], ownership: OwnershipPort) -> None:
    """Raise for a connector that another spec owns: each would restore its own config, again and again."""
    if not differences:
        return
    others = ownership.others()
    taken = [difference for difference in differences if difference.owner in others]
    if not taken:
        return
    said = [f"{difference.owner}: spec {others[difference.owner].spec}" for difference in taken]
    places = [str(difference.wanted.place) for difference in taken if difference.wanted is not None]
    raise RefusedError(
        f"another spec owns {len(taken)} of these connectors; no changes were made",
        cause=render_names(said) + (f"; defined here in {render_names(list(dict.fromkeys(places)))}" if places else ""),
        hint="plan the spec that owns them, remove them from one of the two, or take them over: --adopt",
        context={"connectors": ", ".join(difference.owner for difference in taken)},
    )


def _find_unstarted(
    desired: Mapping[str, DesiredConnector],
    live: Mapping[str, Connector],
    clusters: Clusters,
    differences: Sequence[ConnectorDifference],
) -> tuple[str, ...]:
    """Return notes on connectors that an interrupted apply created without their declared offsets.

    Raises:
        RefusedError: One of them would be started, and read everything again.
    """
    # A paused one too: it would look like a connector that has run.
    started = {one.owner for one in differences if one.state}
    notes = []
    for owner, wanted in desired.items():
        present = live.get(owner)
        is_stopped = present is not None and present.status is not None and present.status.state is State.STOPPED
        if not wanted.offsets or not is_stopped or _has_offsets(clusters, owner, wanted):
            continue
        if owner in started:
            raise RefusedError(
                f"{owner} would start without the offsets that the spec declares; no changes were made",
                cause="it is STOPPED and has none of them: it was created, but its offsets were not written or were "
                "deleted since",
                hint=f"delete it and apply again: seamark connectors delete {owner}; or remove offsets: from the spec",
            )
        notes.append(f"{owner} is STOPPED without the declared offsets; to start there, delete it and apply again")
    return tuple(notes)


def _has_offsets(clusters: Clusters, owner: str, wanted: DesiredConnector) -> bool:
    """Return whether a stopped connector has any of the declared offsets; True if its workers can't tell."""
    cluster, name = split_owner(owner)
    try:
        held = clusters.client(cluster).read_offsets(name)
    except UnsupportedError:
        return True
    declared = [one.partition for one in wanted.offsets]
    return any(one.offset is not None and one.partition in declared for one in held)


class _Draft:
    """The connectors of one plan while it is built."""

    def __init__(
        self, setting: ConnectorSetting, request: SectionRequest, *, readings: Readings, world: SnapshotEnvironment
    ) -> None:
        self._context = setting.context
        self._clusters = setting.clusters
        self._create_at = setting.create_at
        self._request = request
        self._ownership = request.ownership
        self._readings = readings
        self._world = world
        # Once for each class, not for each of a thousand new connectors.
        self._find_type: Callable[[str, str], ConnectorType] = cache(request.reads.use(PLUGIN_TYPES))
        self._reads = request.reads.over(world).having(PLUGIN_TYPES, self._find_type)
        self._consequences = Consequences(setting)

    def build(
        self,
        differences: Sequence[ConnectorDifference],
        *,
        wanted: Collection[str],
        survey: tuple[ClusterSurvey, ...],
        notes: tuple[str, ...] = (),
    ) -> SectionPlan:
        """Return the actions that remove these differences. `wanted` is what the whole spec declares."""
        self._check_states(differences)
        configs = [difference for difference in differences if not difference.is_config_equal]
        applied = self._ownership.read_applied(difference.owner for difference in configs)
        drifts = (*self._find_drifts(configs, applied), *self._find_state_drifts(differences))
        starting = [found for found in configs if found.present is None and found.wanted and found.wanted.offsets]
        configs = [found for found in configs if found not in starting]
        actions = [self._build_action(difference, applied.get(difference.owner)) for difference in configs]
        seen = [
            action.see(self._reads, difference.present) for action, difference in zip(actions, configs, strict=True)
        ]
        states = [self._build_state_action(difference) for difference in differences if difference.state]
        states_seen = [action.read(self._reads) for action in states]
        creates = [self._build_create_at(difference) for difference in starting]
        creates_seen = [action.read(self._reads) for action, _ in creates]
        lines = self._build_effects(configs, actions, seen)
        return SectionPlan(
            (*actions, *(action for action, _ in creates), *states),
            (*seen, *creates_seen, *states_seen),
            (*notes, *(note for _, found in creates for note in found)),
            lines=(
                *lines,
                *(line for (action, _), one in zip(creates, creates_seen, strict=True) for line in action.effects(one)),
                *(line for action, one in zip(states, states_seen, strict=True) for line in action.effects(one)),
            ),
            last_notes=tuple(self._consequences.notes),
            drifts=drifts,
            survey=survey,
            gone=frozenset(self._find_gone(wanted)),
            world=self._world,
        )

    def _find_gone(self, wanted: Collection[str]) -> Iterator[str]:
        """Yield what the spec owned and what no longer exists: unless it is declared, the spec owns it no longer."""
        for owner in find_connectors(self._ownership):
            is_read = split_owner(owner)[0] in self._readings.connectors
            if owner not in wanted and owner not in self._readings.live and is_read:
                yield owner

    def _build_action(self, difference: ConnectorDifference, applied: Mapping[str, object] | None) -> ApplyConnector:
        # A value that the spec once had as a reference is a secret, even if its key doesn't indicate it.
        secret = find_sealed(_config_of(applied))
        if difference.wanted is None:
            return ApplyConnector(difference.cluster, difference.name, None, secret=secret)
        config = build_config(difference.name, difference.config)
        kept: tuple[str, ...] = ()
        if difference.present is not None:
            held = {key: value for key, value in difference.present.config.items() if key != "name"}
            config, kept = split_secrets(
                config, held, find_typed(self._world, difference.cluster, held, difference.revealed)
            )
        return ApplyConnector(
            difference.cluster,
            difference.name,
            config,
            keep=kept,
            secret=secret,
            state=difference.wanted.state or "RUNNING",
            wait_seconds=self._request.wait_seconds,
            stable_seconds=find_stable_seconds(self._context.journal.in_flight_seconds),
        )

    def _build_create_at(self, difference: ConnectorDifference) -> tuple[Action, tuple[str, ...]]:
        """Return the action that creates a connector which starts at declared offsets, and its notes."""
        assert difference.wanted is not None  # noqa: S101 - a connector to be deleted has no declared offsets
        config = build_config(difference.name, difference.config)
        connector = Connector(difference.name, difference.cluster, self._find_kind(difference), config)
        state = difference.wanted.state or "RUNNING"
        return self._create_at(connector, difference.wanted.offsets, state, wait_seconds=self._request.wait_seconds)

    def _build_state_action(self, difference: ConnectorDifference) -> SetConnectorState:
        # A connector whose config changes as well is waited for once: after it was resumed.
        return SetConnectorState(
            difference.cluster,
            difference.name,
            difference.state,
            wait_seconds=self._request.wait_seconds,
            stable_seconds=find_stable_seconds(self._context.journal.in_flight_seconds),
        )

    def _find_state_drifts(self, differences: Sequence[ConnectorDifference]) -> Iterator[Drift]:
        """Yield the connectors whose state differs from the one that this spec set last."""
        for difference in differences:
            applied = self._ownership.states.get(difference.owner)
            change = self._ownership.own.get(difference.owner)
            status = None if difference.present is None else difference.present.status
            live = None if status is None else find_run_state(status)
            if difference.state and change is not None and live is not None and applied not in (None, live):
                yield build_state_drift(
                    difference.subject, applied=str(applied), live=live, wanted=difference.state, change=change
                )

    def _build_effects(
        self,
        differences: Sequence[ConnectorDifference],
        actions: Sequence[ApplyConnector],
        seen: Sequence[ConnectorSeen],
    ) -> tuple[Effect, ...]:
        lines = {action.subject: action.effects(one) for action, one in zip(actions, seen, strict=True)}
        news = [action for action, one in zip(actions, seen, strict=True) if one.present is None]
        kinds = {difference.subject: self._find_kind(difference) for difference in differences}
        created = self._consequences.build_creates([(action, lines[action.subject]) for action in news], kinds)
        gone = [found.present for found in differences if found.wanted is None and found.present is not None]
        self._consequences.note_deletes(gone)
        self._consequences.note_undo(zip(actions, seen, strict=True))
        for found in differences:
            if found.present is not None and found.wanted is not None:
                self._consequences.notes += build_topic_note(found.present, found.config)
        return tuple(line for subject, found in lines.items() for line in created.get(subject, found))

    def _find_drifts(
        self, differences: Sequence[ConnectorDifference], applied: Mapping[str, Mapping[str, object]]
    ) -> tuple[Drift, ...]:
        found: list[Drift] = []
        for difference in differences:
            change = self._ownership.own.get(difference.owner)
            if change is None or difference.owner not in applied or difference.owner in self._ownership.others():
                continue
            if difference.present is None:
                found.append(build_gone(difference.subject, change=change))
                continue
            drift = build_drift(
                difference.subject,
                _config_of(applied[difference.owner]),
                live=difference.present.config,
                wanted=difference.revealed,
                change=change,
                cluster=difference.cluster,
                world=self._world,
            )
            if drift is not None:
                found.append(drift)
        return tuple(found)

    def _find_kind(self, difference: ConnectorDifference) -> ConnectorType:
        if difference.present is not None:
            return difference.present.type
        return self._find_type(difference.cluster, difference.revealed.get("connector.class", ""))

    def _check_states(self, differences: Sequence[ConnectorDifference]) -> None:
        asked: set[str] = set()
        for found in differences:
            if found.state == "STOPPED":
                capabilities = self._clusters.client(found.cluster).read_capabilities()
                capabilities.require(Capability.STOP, doing=f"stop connector {found.name}")
            if found.present is not None or found.wanted is None or found.wanted.state in ("", "RUNNING"):
                continue
            if found.cluster not in asked:
                asked.add(found.cluster)
                capabilities = self._clusters.client(found.cluster).read_capabilities()
                doing = f"create connector {found.name} as {found.wanted.state}"
                capabilities.require(Capability.INITIAL_STATE, doing=doing)


def _config_of(image: Mapping[str, object] | None) -> Mapping[str, object]:
    found = image["config"] if image else {}
    return found if isinstance(found, Mapping) else {}
