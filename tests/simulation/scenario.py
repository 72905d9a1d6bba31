"""What one run is about: connectors, a plan, faults, and how people recover.

A value, made from a seed or by Hypothesis.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seamark.changes.step import Step
from seamark.connectors.run_state import RestartFailed, SetRunState
from seamark.connectors.steps import CreateConnector, DeleteConnector, PutConfig
from tests.simulation.faults import FOREIGN, KILLS, Fault, Kind
from tests.simulation.world import CANARY, CLUSTER

STATES = ("RUNNING", "PAUSED", "STOPPED")
NAMES = ("orders", "stock")
SECRET_KEYS = ("greeting",)


class Shape(StrEnum):
    """What is done to one connector, in one lane."""

    STATE = "state"
    PUT = "put"
    GUARDED_PUT = "stop, put, restore"
    GUARDED_TWICE = "stop, put, put again, restore"
    CREATE = "create"
    CREATE_AND_SET = "create, state"
    DELETE = "delete"
    REPLACE = "delete, create"
    SET_AND_DELETE = "state, delete"
    RESTART = "restart"


class Secrets(StrEnum):
    """What kind of secret a config has."""

    NONE = "none"
    LITERAL = "literal"
    KEPT = "kept"
    CHANGED = "changed"
    REFERENCE = "reference"
    OURS = "ours, under a harmless name"


CREATING = frozenset({Shape.CREATE, Shape.CREATE_AND_SET})


class Kept(StrEnum):
    """Where the journal is kept."""

    FILES = "files"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class Lane:
    """One connector: what it is, and what is done to it."""

    shape: Shape
    state: str = "RUNNING"
    wanted: str = "PAUSED"
    secrets: Secrets = Secrets.NONE
    failed: int = 0


class Way(StrEnum):
    """How somebody deals with an open change."""

    RESUME = "resume"
    ABANDON = "abandon"


@dataclass(frozen=True, slots=True)
class Round:
    """One attempt to recover."""

    way: Way
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run. `seed` makes what is left to chance: lags, ids, what other people do."""

    seed: int
    lanes: tuple[Lane, ...]
    faults: tuple[Fault, ...] = ()
    rounds: tuple[Round, ...] = ()
    undo: bool = False
    undo_faults: tuple[Fault, ...] = ()
    locks_cluster: bool = False
    journal: Kept = Kept.FILES

    @property
    def kinds(self) -> frozenset[Kind]:
        """Every kind of fault that may strike."""
        faults = (*self.faults, *self.undo_faults, *(fault for turn in self.rounds for fault in turn.faults))
        return frozenset(fault.kind for fault in faults)


@dataclass(frozen=True, slots=True)
class Built:
    """The steps of one lane, each with whether it is an `always` one."""

    name: str
    steps: tuple[tuple[Step, bool], ...]
    config: Mapping[str, str] = field(default_factory=dict)


def build_config(lane: Lane, *, version: int) -> dict[str, str]:
    """A config of a version; the secret changes with it where it is meant to."""
    config = {"connector.class": "Sim", "tasks.max": "2", "version": str(version)}
    match lane.secrets:
        case Secrets.LITERAL | Secrets.KEPT:
            config["db.password"] = f"{CANARY}same"
        case Secrets.CHANGED:
            config["db.password"] = f"{CANARY}{version}"
        case Secrets.REFERENCE:
            config["db.password"] = "${file:/etc/db.properties:password}"
        case Secrets.OURS:
            config["greeting"] = "secret://env/GREETING"
        case Secrets.NONE:
            pass
    return config


def build_lane(name: str, lane: Lane) -> Built:
    """The steps of a lane; what restores the run state is done always."""
    steps = {
        "state": SetRunState(CLUSTER, name, lane.wanted),
        "stop": SetRunState(CLUSTER, name, "STOPPED"),
        "put": _build_put(name, lane, version=1),
        "put again": _build_put(name, lane, version=2),
        "restore": SetRunState(CLUSTER, name, lane.state),
        "create": CreateConnector(CLUSTER, name, build_config(lane, version=1), state=lane.state),
        # Whoever deletes by the name alone can't know of a secret under a harmless key; who has the file can.
        "delete": DeleteConnector(CLUSTER, name, secret=SECRET_KEYS),
        "restart": RestartFailed(CLUSTER, name),
    }
    words = lane.shape.split(", ")
    return Built(name, tuple((steps[word], word == "restore") for word in words), build_config(lane, version=0))


def _build_put(name: str, lane: Lane, *, version: int) -> PutConfig:
    config = build_config(lane, version=version)
    if lane.secrets is Secrets.KEPT:
        del config["db.password"]
        return PutConfig(CLUSTER, name, config, keep=("db.password",))
    return PutConfig(CLUSTER, name, config)


_QUIET = (*(kind for kind in Kind if kind not in FOREIGN), Kind.SLOW_STATUS)
_LOUD = (*_QUIET, *(kind for kind in sorted(FOREIGN) for _ in range(6)))
_KILLS = tuple(sorted(KILLS))
# Who takes a change over measures the age of its entries; another leader has another clock.
_LEADERS = (Kind.LEADER_MOVED,) * 6
# An entry of the Kafka journal is two requests, and the way into its gate some thirty.
_MORE_CALLS = 4


def build_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    lanes = tuple(_choose_lane(rng) for _ in range(1 if rng.random() < 0.6 else 2))
    # Foreign changes weaken what can be said of the end, so most runs have none.
    kinds = _LOUD if rng.random() < 0.2 else _QUIET
    journal = Kept.FILES if seed % 3 == 2 else Kept.KAFKA
    calls = 12 * len(lanes) if lanes[0].shape not in (Shape.GUARDED_PUT, Shape.GUARDED_TWICE) else 34
    more = _MORE_CALLS if journal is Kept.KAFKA else 1
    faults = tuple(_choose_fault(rng, kinds, calls * more) for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3))))
    rounds = tuple(
        Round(
            rng.choice((Way.RESUME, Way.RESUME, Way.RESUME, Way.ABANDON)),
            tuple(_choose_fault(rng, _LEADERS + kinds, 20 * more) for _ in range(rng.choice((0, 1, 1, 2)))),
        )
        for _ in range(rng.choice((0, 0, 1, 2)))
    )
    undo = rng.random() < 0.35
    undo_faults = (_choose_fault(rng, kinds, 25 * more),) if undo and rng.random() < 0.6 else ()
    return Scenario(seed, lanes, faults, rounds, undo, undo_faults, locks_cluster=rng.random() < 0.1, journal=journal)


def _choose_lane(rng: random.Random) -> Lane:
    shape = rng.choice((*Shape, Shape.GUARDED_PUT, Shape.GUARDED_PUT, Shape.PUT))
    return Lane(
        shape,
        state=rng.choice(("RUNNING", *STATES)),
        wanted=rng.choice(STATES),
        secrets=rng.choice((Secrets.NONE, Secrets.NONE, *Secrets)),
        failed=rng.choice((0, 1, 2)),
    )


def _choose_fault(rng: random.Random, kinds: tuple[Kind, ...], calls: int) -> Fault:
    kind = rng.choice(_KILLS) if rng.random() < 0.25 else rng.choice(kinds)
    return Fault(rng.randint(1, calls), kind, rng.random())
