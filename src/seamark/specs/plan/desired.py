"""What a spec wants in this context: every connector with its Connect cluster, by CLUSTER/NAME."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from seamark.connect.clusters import Clusters
from seamark.connectors.spec import DesiredConnector
from seamark.core.refs import parse_owner
from seamark.errors import NotFoundError, UsageError
from seamark.specs.spec import Spec

_STATES = ("", "RUNNING", "PAUSED", "STOPPED")
_GLOB = frozenset("*?[")


def build_desired(spec: Spec, clusters: Clusters) -> dict[str, DesiredConnector]:
    """The connectors of a spec by CLUSTER/NAME. Refused where a cluster is not known or a name stands twice."""
    found: dict[str, DesiredConnector] = {}
    for connector in spec.connectors:
        placed = replace(connector, cluster=_choose_cluster(connector, clusters), state=connector.state.upper())
        _check(placed)
        if placed.owner in found:
            raise UsageError(
                f"connector {placed.owner} is defined twice",
                cause=f"{found[placed.owner].place} and {placed.place}",
                hint="take one of them out, or give it another name",
            )
        found[placed.owner] = placed
    return found


def select_owners(owners: Iterable[str], names: Sequence[str]) -> set[str]:
    """Those of the owners that fit one of the names or globs; all of them without names.

    A plain name that fits nothing is an error: most likely it is misspelt.
    """
    known = list(owners)
    if not names:
        return set(known)
    chosen: set[str] = set()
    for name in names:
        fitting = {owner for owner in known if _fits(owner, name)}
        if not fitting and not _GLOB & set(name):
            raise NotFoundError(
                f"the spec has no connector {name}, and never made one",
                hint="seamark plan without names shows all of them",
                context={"connector": name},
            )
        chosen |= fitting
    if not chosen:
        raise NotFoundError(f"no connector of the spec fits {', '.join(names)}", hint="look at the globs")
    return chosen


def split_owner(owner: str) -> tuple[str, str]:
    """Cluster and name of CLUSTER/NAME. Names may hold slashes, names of clusters do not."""
    ref = parse_owner(owner)
    return ref.cluster, ref.name


def group_owners(owners: Iterable[str]) -> Mapping[str, list[str]]:
    """The owners of each cluster."""
    groups: dict[str, list[str]] = {}
    for owner in owners:
        groups.setdefault(split_owner(owner)[0], []).append(owner)
    return groups


def _choose_cluster(connector: DesiredConnector, clusters: Clusters) -> str:
    if connector.cluster is not None:
        if connector.cluster in clusters.names:
            return connector.cluster
        cause = f"{connector.place} names {connector.cluster}; the context has: {', '.join(clusters.names) or 'none'}"
        raise UsageError(
            f"connector {connector.name} is for a Connect cluster that the context does not have",
            cause=cause,
            hint="use one of these names, or add the cluster to the context",
        )
    if len(clusters.names) == 1:
        return clusters.names[0]
    raise UsageError(
        f"connector {connector.name} does not say for which Connect cluster it is",
        cause=f"{connector.place}; the context has: {', '.join(clusters.names) or 'none'}",
        hint="name it in the file: cluster: NAME" if clusters.names else "add a Connect cluster to the context",
    )


def _check(connector: DesiredConnector) -> None:
    if not connector.config.get("connector.class"):
        raise UsageError(
            f"connector {connector.name} has no connector.class",
            cause=str(connector.place),
            hint="name the plugin's class",
        )
    if connector.state not in _STATES:
        raise UsageError(
            f"connector {connector.name} can't begin as {connector.state}",
            cause=str(connector.place),
            hint=f"one of {', '.join(_STATES[1:])}",
        )


def _fits(owner: str, name: str) -> bool:
    return fnmatchcase(owner, name) or fnmatchcase(split_owner(owner)[1], name)
