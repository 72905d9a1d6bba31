"""What is different between a spec and what runs, in memory, as maps of texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from seamark.changes.images import find_typed, reveal_config
from seamark.changes.world import World
from seamark.connect.connector import Connector
from seamark.connectors.config import restore_masked
from seamark.connectors.spec import DesiredConnector
from seamark.core.sensitive import MASK
from seamark.specs.plan.desired import split_owner


@dataclass(frozen=True, slots=True)
class Difference:
    """One connector that is not as it should be: it is missing, it is another, or it should not be there.

    `wanted` is None where it shall go, `present` where it is not there. `config` is what the spec says, with its
    references; `revealed` is what Connect shall get, secrets and all.
    """

    owner: str
    present: Connector | None = field(repr=False)
    wanted: DesiredConnector | None
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    revealed: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def cluster(self) -> str:
        """The Connect cluster."""
        return split_owner(self.owner)[0]

    @property
    def name(self) -> str:
        """The connector's own name."""
        return split_owner(self.owner)[1]

    @property
    def subject(self) -> str:
        """As plans name it."""
        return f"connector/{self.owner}"


def find_differences(
    desired: Mapping[str, DesiredConnector], live: Mapping[str, Connector], world: World
) -> tuple[Difference, ...]:
    """What must be created or changed, in the order of the spec. What is equal is left out: a PUT would restart it."""
    found = []
    for owner, wanted in desired.items():
        present = live.get(owner)
        held = present.config if present else {}
        if present is not None and any(MASK in value for value in wanted.config.values()):
            # What `connectors show` hides depends on the types.
            find_typed(world, present.cluster, held)
        config = restore_masked({key: value for key, value in wanted.config.items() if key != "name"}, held)
        revealed = reveal_config(config, world)
        if present is None or not _is_equal(revealed, held):
            found.append(Difference(owner, present, wanted, config, revealed))
    return tuple(found)


def find_surplus(owners: Collection[str], live: Mapping[str, Connector]) -> tuple[Difference, ...]:
    """What must go, of those owners."""
    return tuple(Difference(owner, live[owner], None) for owner in sorted(owners) if owner in live)


def _is_equal(config: Mapping[str, str], present: Mapping[str, str]) -> bool:
    # Connect adds the name to what it is given.
    return config == {key: value for key, value in present.items() if key != "name"}
