"""What a spec wants in this context: every connector with its Connect cluster, by CLUSTER/NAME."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connectors.config import DesiredConnector, build_config
from seamark.connectors.policy import build_breaches, build_refusal, find_violations
from seamark.core.refs import parse_owner
from seamark.errors import NotFoundError, UsageError
from seamark.pipelines.declared import check_landings
from seamark.policy.check import SECRET_SCHEME, check_secret_reference
from seamark.specs.model import Spec

if TYPE_CHECKING:
    from seamark.context import Context


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


def check_spec(
    spec: Spec, context: Context, clusters: Clusters, *, names: Sequence[str] = ()
) -> tuple[DesiredConnector, ...]:
    """The connectors that a spec wants, each with its cluster, held against the policy. No secret is looked up.

    Pipelines are checked too, and not given.
    """
    desired = build_desired(spec, clusters)
    check_landings(context, spec.landings)
    chosen = select_owners(desired, names)
    found = tuple(connector for owner, connector in desired.items() if owner in chosen)
    for connector in found:
        build_config(connector.name, connector.config)
    wanted = ((connector.name, connector.cluster, connector.config) for connector in found)
    if breaches := find_violations(wanted, context, reveal=False):
        raise build_refusal(breaches, context=context.name)
    return found


def refuse_references(connectors: Iterable[DesiredConnector], context: Context) -> None:
    """Refuse references that the policy does not allow, before anybody looks behind them."""
    found = [
        (connector.name, connector.cluster, violation, connector.config)
        for connector in connectors
        for key, value in connector.config.items()
        if value.startswith(SECRET_SCHEME)
        for violation in check_secret_reference(key, value, context.policy_of(connector.cluster))
    ]
    if found:
        raise build_refusal(build_breaches(found, context), context=context.name)


SpecSource = Spec | str | Path | Sequence[str | Path]
"""What a plan is made from: a spec, a file or folder, or several of them."""


def read_spec(what: SpecSource, *, allow_python: bool = False) -> Spec:
    """The spec itself, or what the files say."""
    if isinstance(what, Spec):
        return what
    from seamark.specs import load_spec  # noqa: PLC0415

    return load_spec(_build_paths(what), environ=os.environ, allow_python=allow_python)


def build_title(verb: str, what: SpecSource) -> str:
    """The title of the plan, by which the journal's reader knows it."""
    named = f"spec {what.id}" if isinstance(what, Spec) else ", ".join(str(path) for path in _build_paths(what))
    return f"{verb} {named}"


def _build_paths(what: str | Path | Sequence[str | Path]) -> list[Path]:
    given = [what] if isinstance(what, str | Path) else what
    paths = [Path(path).expanduser() for path in given]
    if not paths:
        raise UsageError("no file is named", hint="give files or folders of a spec")
    return paths
