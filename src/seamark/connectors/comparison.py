"""Compare the connectors that a spec declares with the running ones, with one reading of each Connect cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from seamark.changes.effect import ClusterSurvey, Drift, DriftField
from seamark.changes.environment import Environment
from seamark.changes.images import (
    build_config_image,
    build_sealed_like,
    find_key_names,
    find_sealed,
    find_typed,
    is_sealed,
    reveal_config,
)
from seamark.connect.api import ConnectPort
from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector, Worker
from seamark.connectors.config import DesiredConnector, restore_masked
from seamark.connectors.read import tell_run_state
from seamark.connectors.steps import is_hidden, show_value
from seamark.core.refs import parse_owner
from seamark.core.secrets import MASK
from seamark.errors import NotFoundError, SeamarkError, UnreachableError
from seamark.report.words import render_names


def split_owner(owner: str) -> tuple[str, str]:
    """Split CLUSTER/NAME. Connector names may contain slashes, names of Connect clusters can't."""
    ref = parse_owner(owner)
    return ref.cluster, ref.name


def group_owners(owners: Iterable[str]) -> Mapping[str, list[str]]:
    """Group owners by Connect cluster."""
    groups: dict[str, list[str]] = {}
    for owner in owners:
        groups.setdefault(split_owner(owner)[0], []).append(owner)
    return groups


@dataclass(frozen=True, slots=True)
class ConnectorDifference:
    """A connector that differs from its spec: it is missing, its config or state differs, or it isn't in the spec.

    `wanted` is None if the connector is to be deleted, `present` if it does not exist. `config` is the config in the
    spec, with references; `revealed` is the config for Connect, including secrets. `is_config_equal` is set if only the
    state differs, and `state` is the state to set, "" if it is as declared or not managed.
    """

    owner: str
    present: Connector | None = field(repr=False)
    wanted: DesiredConnector | None
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    revealed: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_config_equal: bool = False
    state: str = ""

    @property
    def cluster(self) -> str:
        """Return the Connect cluster."""
        return split_owner(self.owner)[0]

    @property
    def name(self) -> str:
        """Return the connector's own name."""
        return split_owner(self.owner)[1]

    @property
    def subject(self) -> str:
        """Return its name in plans."""
        return f"connector/{self.owner}"


def find_differences(
    desired: Mapping[str, DesiredConnector], live: Mapping[str, Connector], world: Environment
) -> tuple[ConnectorDifference, ...]:
    """Return what must be created or changed, in spec order. Equal configs are omitted: a PUT restarts tasks."""
    found = []
    for owner, wanted in desired.items():
        present = live.get(owner)
        held = present.config if present else {}
        if present is not None and any(MASK in value for value in wanted.config.values()):
            # What `connectors show` masks depends on the types of the keys.
            find_typed(world, present.cluster, held)
        config = restore_masked({key: value for key, value in wanted.config.items() if key != "name"}, held)
        revealed = reveal_config(config, world)
        is_equal = present is not None and _is_equal(revealed, held)
        state = _find_state_to_set(wanted, present)
        if not is_equal or state:
            found.append(
                ConnectorDifference(owner, present, wanted, config, revealed, is_config_equal=is_equal, state=state)
            )
    return tuple(found)


def _find_state_to_set(wanted: DesiredConnector, present: Connector | None) -> str:
    """Return the declared state of a connector that has another one; "" if it keeps its state.

    Raises:
        UnsettledError: The target state is unknown at present.
    """
    if not wanted.managed_state or present is None or present.status is None:
        return ""
    now = tell_run_state(present.status, f"connector/{present.owner}")
    return wanted.managed_state if now != wanted.managed_state else ""


def find_surplus(owners: Collection[str], live: Mapping[str, Connector]) -> tuple[ConnectorDifference, ...]:
    """Return those of the owners that must be deleted."""
    return tuple(ConnectorDifference(owner, live[owner], None) for owner in sorted(owners) if owner in live)


def _is_equal(config: Mapping[str, str], present: Mapping[str, str]) -> bool:
    # Connect adds the name to the config that it is given.
    return config == {key: value for key, value in present.items() if key != "name"}


_CHANGED = "changed outside this spec"
_GONE = "deleted outside this spec"


def build_drift(
    subject: str,
    applied: Mapping[str, Any],
    *,
    live: Mapping[str, str],
    wanted: Mapping[str, str],
    change: str,
    cluster: str,
    world: Environment,
) -> Drift | None:
    """Build the drift of one connector; None if it is as the spec left it. `wanted` is empty for one to be deleted."""
    hidden = find_sealed(applied)
    held = {key: value for key, value in live.items() if key != "name"}
    now = build_config_image(held, world, cluster=cluster, secret=hidden)
    then = build_config_image(wanted, world, cluster=cluster, secret=hidden)
    # An image in the journal may be older than the type information of its keys.
    applied = build_sealed_like(applied, now, world)
    fields = tuple(
        DriftField(
            key,
            applied=show_value(key, applied.get(key)),
            live=show_value(key, now.get(key)),
            wanted=show_value(key, then.get(key)),
            is_sensitive=any(is_hidden(key, image.get(key)) for image in (applied, now)),
        )
        for key in sorted(applied.keys() | now.keys())
        if _differs(applied.get(key), now.get(key))
    )
    return Drift(subject, _CHANGED, change, fields) if fields else None


def build_state_drift(subject: str, *, applied: str, live: str, wanted: str, change: str) -> Drift:
    """Build the drift of a connector that was paused, stopped or resumed after the spec set its state."""
    return Drift(subject, _CHANGED, change, (DriftField("state", applied=applied, live=live, wanted=wanted),))


def build_gone(subject: str, *, change: str) -> Drift:
    """Build the drift of a connector that the spec created and that no longer exists."""
    return Drift(subject, _GONE, change)


def _differs(applied: Any, live: Any) -> bool:
    if applied == live:
        return False
    # Two values sealed with different keys can't be compared.
    return not (is_sealed(applied) and is_sealed(live) and find_key_names(applied) != find_key_names(live))


@dataclass(frozen=True, slots=True)
class Readings:
    """What was read: the connectors by CLUSTER/NAME and by Connect cluster; the workers by Connect cluster."""

    live: Mapping[str, Connector]
    connectors: Mapping[str, tuple[Connector, ...]]
    workers: Mapping[str, tuple[Worker, ...]]


def read_clusters(clusters: Clusters, names: Sequence[str], *, wanted: Collection[str]) -> Readings:
    """Read these Connect clusters, each once. Raises if one fails, because a partial plan could be wrong."""
    answers = clusters.ask(_read_cluster, names=names)
    if answers.failures:
        raise _build_failure(answers.failures, wanted=wanted, asked=len(names))
    return Readings(
        live={found.owner: found for _, connectors in answers.results.values() for found in connectors},
        connectors={name: connectors for name, (_, connectors) in answers.results.items()},
        workers={name: workers for name, (workers, _) in answers.results.items()},
    )


def build_survey(
    readings: Readings, *, unchanged: Collection[str], known: Collection[str]
) -> tuple[ClusterSurvey, ...]:
    """Summarize what was read. `unchanged` are as declared; `known` is what the spec declares or has created."""
    counts = {name: len(owners) for name, owners in group_owners(unchanged).items()}
    return tuple(
        ClusterSurvey(
            name=name,
            version=", ".join(sorted({worker.version for worker in readings.workers[name] if worker.version})),
            workers=sum(worker.is_up for worker in readings.workers[name]),
            connectors=len(connectors),
            unchanged=counts.get(name, 0),
            foreign=sum(connector.owner not in known for connector in connectors),
        )
        for name, connectors in readings.connectors.items()
    )


def _read_cluster(client: ConnectPort) -> tuple[tuple[Worker, ...], tuple[Connector, ...]]:
    connectors = client.read_connectors()
    # Connect's bulk response omits a connector without a status; without its name it would look like a new one.
    hidden = set(client.read_names()) - {connector.name for connector in connectors}
    return client.read_workers(), (*connectors, *_read_hidden(client, sorted(hidden)))


def _read_hidden(client: ConnectPort, names: Sequence[str]) -> Iterator[Connector]:
    for name in names:
        # A connector that was deleted between the two requests does not exist.
        with suppress(NotFoundError):
            yield client.read_connector(name)


def _build_failure(failures: Mapping[str, SeamarkError], *, wanted: Collection[str], asked: int) -> SeamarkError:
    if asked == 1:
        # With one Connect cluster, the plain cause is the most useful error.
        return next(iter(failures.values()))
    missing = [owner for name, owners in group_owners(wanted).items() if name in failures for owner in owners]
    kind = UnreachableError if all(error.retryable for error in failures.values()) else SeamarkError
    reasons = "; ".join(f"{name}: {error.message}" for name, error in failures.items())
    return kind(
        f"can't create a plan: {len(failures)} of {asked} Connect clusters could not be read; no changes were made",
        cause=f"{reasons}; not planned: {render_names(missing) or 'connectors that may exist there'}",
        hint="plan the connectors of the other clusters, as in: seamark plan -f PATH 'CLUSTER/*'",
        context={"clusters": ", ".join(failures)},
    )
