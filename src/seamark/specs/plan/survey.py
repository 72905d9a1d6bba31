"""One reading of every Connect cluster that a plan is about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from seamark.changes.effect import ClusterSurvey
from seamark.connect.api import ConnectPort
from seamark.connect.clusters import Clusters
from seamark.connect.connector import Connector
from seamark.connect.worker import Worker
from seamark.errors import NotFoundError, SeamarkError, UnreachableError
from seamark.specs.plan.desired import group_owners

# Enough to recognise what is left out; the number says the rest.
_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class Readings:
    """What was read: the connectors by CLUSTER/NAME, and by cluster; the workers by cluster."""

    live: Mapping[str, Connector]
    connectors: Mapping[str, tuple[Connector, ...]]
    workers: Mapping[str, tuple[Worker, ...]]


def read_clusters(clusters: Clusters, names: Sequence[str], *, wanted: Collection[str]) -> Readings:
    """Read these clusters, each once. A plan for a half of them could be wrong for the whole: it is refused."""
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
    """What was looked at. `unchanged` are as they should be; `known` is what the spec names or has made."""
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


def shorten(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {len(names) - _SHOWN_NAMES} more"


def _read_cluster(client: ConnectPort) -> tuple[tuple[Worker, ...], tuple[Connector, ...]]:
    connectors = client.read_connectors()
    # Connect leaves a connector without a status out of the reading; without its name it would look like a new one.
    hidden = set(client.read_names()) - {connector.name for connector in connectors}
    return client.read_workers(), (*connectors, *_read_hidden(client, sorted(hidden)))


def _read_hidden(client: ConnectPort, names: Sequence[str]) -> Iterator[Connector]:
    for name in names:
        # Whoever was deleted between the two looks is not there.
        with suppress(NotFoundError):
            yield client.read_connector(name)


def _build_failure(failures: Mapping[str, SeamarkError], *, wanted: Collection[str], asked: int) -> SeamarkError:
    if asked == 1:
        # With one cluster the plain reason is what people need to see.
        return next(iter(failures.values()))
    missing = [owner for name, owners in group_owners(wanted).items() if name in failures for owner in owners]
    kind = UnreachableError if all(error.retryable for error in failures.values()) else SeamarkError
    reasons = "; ".join(f"{name}: {error.message}" for name, error in failures.items())
    return kind(
        f"no plan can be made: {len(failures)} of {asked} Connect clusters could not be read; nothing was changed",
        cause=f"{reasons}; not planned: {shorten(missing) or 'what may be there'}",
        hint="choose what stands in the others, as in: seamark plan -f PATH 'CLUSTER/*'",
        context={"clusters": ", ".join(failures)},
    )
