"""Plan repairs: rewrite the offset records of sources as Connect would have written them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seamark.changes.plan import PlannedChange
from seamark.connect.capability import Capability
from seamark.errors import UsageError
from seamark.offsets.model import DEFAULT_SAFETY, SafetyOptions
from seamark.offsets.read.preview import sum_previews
from seamark.offsets.repair.action import REMOVAL, RepairOffsets, RepairSeen, say_left
from seamark.offsets.repair.rules import AnomalousOwner, AnomalyFinder
from seamark.offsets.write.guards import build_config_pin
from seamark.offsets.write.rights import build_rights_notes

if TYPE_CHECKING:
    from seamark.offsets.port import OffsetDependencies
    from seamark.policy.permissions import Right

_LEVEL_NOTE = (
    f"misplaced records get the same value, and are out of date as soon as the connector stores another: {REMOVAL}"
)


@dataclass(frozen=True, slots=True)
class RepairChoice:
    """How records are repaired.

    `take` selects the value if records differ: `newest`, or a location such as `connect-offsets-3@117`.
    """

    take: str = ""
    safety: SafetyOptions = DEFAULT_SAFETY


@dataclass(frozen=True, slots=True)
class RepairPlanner:
    """Plans for anomalous records. Nothing is changed here; `fleet.apply` makes the changes."""

    deps: OffsetDependencies

    def repair(
        self, owners: Sequence[str] = (), *, everything: bool = False, choice: RepairChoice | None = None
    ) -> PlannedChange:
        """Plan to repair the records of these sources, or of all sources."""
        choice = choice or RepairChoice()
        if everything == bool(owners):
            raise UsageError("no owner given", hint="pass OWNER…, or --all")
        odd = AnomalyFinder(self.deps.clusters, connectors=self.deps.connectors, stores=self.deps.world.stores)
        found = odd.read_all(choice.take) if everything else odd.read(owners, choice.take)
        title = _build_title(owners, everything=everything)
        needed = [one for owner in found if (one := self._find_needed(owner)) is not None]
        reads = self.deps.planner.build_reads(self.deps.world)
        if not needed:
            planned = self.deps.planner.plan(title, (), reads=reads)
            return replace(planned, plan=replace(planned.plan, notes=say_left(found)))
        actions: list[RepairOffsets] = []
        known: dict[int, RepairSeen] = {}
        notes: list[str] = []
        for number, owner in enumerate(needed):
            action = self._build_action(owner, choice)
            seen = action.read(reads)
            actions.append(replace(action, planned=sum_previews(seen.previews) if seen.previews else None))
            known[number] = seen
            notes += self._build_notes(owner, action.needs(seen).rights)
        return self.deps.planner.plan(title, actions, notes=dict.fromkeys(notes), reads=reads, known=known)

    def _find_needed(self, owner: AnomalousOwner) -> AnomalousOwner | None:
        """Return the owner with the partitions that still need a repair; None if none does."""
        needed = tuple(one for one in owner.partitions if one.is_needed())
        return replace(owner, partitions=needed) if needed else None

    def _build_action(self, owner: AnomalousOwner, choice: RepairChoice) -> RepairOffsets:
        connector = owner.connector
        client = self.deps.clusters.client(connector.cluster)
        client.read_capabilities().require(Capability.STOP, doing=f"repair the offsets of {connector.owner}")
        return RepairOffsets(
            connector.cluster,
            connector.name,
            owner.topic,
            tuple(one.rule for one in owner.partitions),
            tolerance=choice.safety.tolerance,
            wait_seconds=choice.safety.wait_seconds,
            accepts_zombies=choice.safety.accepts_zombies,
            config=build_config_pin(connector.config, self.deps.world, cluster=connector.cluster),
        )

    def _build_notes(self, owner: AnomalousOwner, rights: Iterable[Right]) -> Iterator[str]:
        if owner.has_misplaced:
            yield _LEVEL_NOTE
        yield from build_rights_notes(rights, context=self.deps.context, brokers=self.deps.world.kafka)


def _build_title(owners: Sequence[str], *, everything: bool) -> str:
    if everything:
        return "repair the offsets of all sources"
    return f"repair the offsets of {owners[0] if len(owners) == 1 else f'{len(owners)} owners'}"
