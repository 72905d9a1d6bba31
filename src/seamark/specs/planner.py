"""Plan from a spec: each kind plans its section, and the sections become one plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seamark.changes.environment import Clock
from seamark.changes.identity import ClusterNames
from seamark.changes.journal import JournalPort
from seamark.changes.plan import PlannedChange
from seamark.changes.planner import Planner
from seamark.changes.spec_kind import SectionPlan, SectionRequest, SpecKind
from seamark.changes.timing import plan_patiently
from seamark.connectors.config import DesiredConnector
from seamark.connectors.spec import check_connectors
from seamark.errors import UsageError
from seamark.report.words import render_names
from seamark.specs.keys import list_kinds
from seamark.specs.load import SpecSource, build_title, read_spec
from seamark.specs.model import Spec
from seamark.specs.ownership import SpecOwnership, read_claims

if TYPE_CHECKING:
    from seamark.context import Context

# Time for a rebalance, a restart and the first connection of a task; a database that does not respond has timed out by
# then, too.
WAIT_SECONDS = 60.0

_Parts = Mapping[SpecKind[Any], SectionPlan]


class SpecPlans:
    """Builds plans from specs. It reads, and changes nothing."""

    def __init__(
        self,
        context: Context,
        *,
        planner: Planner,
        clock: Clock,
        journal: Callable[[], JournalPort],
        names: ClusterNames | None = None,
    ) -> None:
        self._context = context
        self._planner = planner
        self._clock = clock
        self._journal = journal
        self._names = names

    def plan(
        self,
        what: SpecSource,
        *,
        prune: bool = False,
        names: Sequence[str] = (),
        adopt: bool = False,
        allow_python: bool = False,
        validate: bool = True,
        wait_seconds: float = WAIT_SECONDS,
    ) -> PlannedChange:
        """Return the plan from what runs to what the spec declares.

        Raises:
            SpecError, UsageError: A declaration can't be applied in this context.
            RefusedError: Another spec owns one of these resources, or a policy or a plugin rejects it.
            UnreachableError: A Connect cluster or the brokers did not respond.
        """
        spec = _read(what, self._context, allow_python=allow_python)
        title = build_title("apply", what)

        def build() -> PlannedChange:
            check_sections(spec, self._context)
            claims = read_claims(spec.id, self._journal, self._names)
            request = SectionRequest(
                self._planner.open_reads(1),
                claims,
                adopt=adopt,
                names=tuple(names),
                prune=prune,
                validate=validate,
                wait_seconds=wait_seconds,
            )
            parts = {kind: _plan_section(kind, spec, request) for kind in _list_in_order_of_reading()}
            planned = self._assemble(title, parts, claims)
            notes = [note for kind, part in parts.items() for note in kind.check_plan(planned, part, request)]
            return replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, *notes)))

        return plan_patiently(build, self._clock)

    def destroy(
        self, what: SpecSource, *, names: Sequence[str] = (), adopt: bool = False, allow_python: bool = False
    ) -> PlannedChange:
        """Return the plan that deletes every existing connector of the spec.

        Raises:
            UsageError: The spec declares no connector.
            RefusedError: Another spec owns one of them.
        """
        spec = _read(what, self._context, allow_python=allow_python)
        title = build_title("destroy", what)

        def build() -> PlannedChange:
            claims = read_claims(spec.id, self._journal, self._names)
            request = SectionRequest(
                self._planner.open_reads(1), claims, adopt=adopt, names=tuple(names), wait_seconds=WAIT_SECONDS
            )
            kinds = _list_in_order_of_reading()
            parts = {kind: kind.destroy(spec.find(kind.section), request) for kind in kinds}
            return self._assemble(title, parts, claims)

        return plan_patiently(build, self._clock)

    def _assemble(self, title: str, parts: _Parts, claims: SpecOwnership) -> PlannedChange:
        """Return the plan of all sections. Their actions are in the order of the phases."""
        ordered = [parts[kind] for kind in sorted(parts, key=lambda kind: kind.phase)]
        gone = {owner for part in ordered for owner in part.gone}
        reads = self._planner.open_reads(1)
        for part in ordered:
            reads = reads if part.world is None else reads.over(part.world)
        planned = self._planner.plan(
            title,
            [action for part in ordered for action in part.actions],
            spec=claims.build_field(
                {owner: change for owner, change in claims.own.items() if owner not in gone},
                states={owner: state for part in ordered for owner, state in part.states.items()},
                has_labels=any(part.has_labels for part in ordered),
            ),
            reads=reads,
            known=dict(enumerate(seen for part in ordered for seen in part.seen)),
        )
        notes = (
            *_build_journal_notes(claims),
            *(note for part in parts.values() for note in part.notes),
            *(note for part in parts.values() for note in part.last_notes),
        )
        return replace(
            planned,
            plan=replace(planned.plan, notes=notes),
            effects=tuple(effect for part in ordered for effect in part.effects),
            drifts=tuple(drift for part in ordered for drift in part.drifts),
            survey=tuple(found for part in ordered for found in part.survey),
            blocked_by=next((part.blocked_by for part in ordered if part.blocked_by is not None), None),
        )


def check_spec(
    what: SpecSource, context: Context, *, names: Sequence[str] = (), allow_python: bool = False
) -> tuple[DesiredConnector, ...]:
    """Return the connectors that a spec declares, checked against the policy. No server is asked.

    Raises:
        SpecError, UsageError: A declaration can't be applied in this context.
        RefusedError: A config violates the policy.
    """
    spec = _read(what, context, allow_python=allow_python)
    check_sections(spec, context)
    return check_connectors(spec.connectors, context, names=names)


def _read(what: SpecSource, context: Context, *, allow_python: bool) -> Spec:
    return read_spec(what, allow_python=allow_python or context.policy.python, context=context)


def check_sections(spec: Spec, context: Context) -> None:
    """Check the declarations of all kinds, without a server.

    Raises:
        UsageError: No kind has a section of that name, or a Connect cluster has the name of a kind.
        SpecError: A declaration can't be applied in this context.
    """
    kinds = list_kinds()
    if unknown := sorted(spec.sections.keys() - {kind.section for kind in kinds}):
        raise UsageError(
            f"spec {spec.id} has an unknown section {unknown[0]}",
            hint=f"known sections: {', '.join(kind.section for kind in kinds)}",
        )
    for kind in kinds:
        if kind.is_owned and kind.noun in context.connect:
            raise UsageError(
                f"invalid name of a Connect cluster: {kind.noun}",
                cause=f"{kind.noun}/NAME is an entry of {kind.section}",
                hint="rename the Connect cluster in the context",
            )
        kind.check(spec.find(kind.section), context)


def _list_in_order_of_reading() -> list[SpecKind[Any]]:
    """Return the kinds, those that accept names first: a wrong name is reported before anything else is read."""
    return sorted(list_kinds(), key=lambda kind: not kind.takes_names)


def _plan_section(kind: SpecKind[Any], spec: Spec, request: SectionRequest) -> SectionPlan:
    """Plan one section. A plan by names skips the kinds that accept none, with a note."""
    wanted = spec.find(kind.section)
    if kind.takes_names or not request.names:
        return kind.plan(wanted, request)
    if not wanted:
        return SectionPlan()
    names = render_names([one.name for one in wanted])
    return SectionPlan(notes=(f"{kind.section} are not part of a plan by names: {names}",))


def _build_journal_notes(claims: SpecOwnership) -> tuple[str, ...]:
    if not claims.trouble:
        return ()
    return (f"the journal can't be read ({claims.trouble}): deletions and drift are unknown",)
