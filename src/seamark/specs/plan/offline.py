"""What can be said of a spec without asking any server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connectors.config import build_config
from seamark.connectors.policy import build_breaches, build_refusal, find_violations
from seamark.connectors.spec import DesiredConnector
from seamark.pipelines.declared import check_landings
from seamark.policy.policy_reference import SECRET_SCHEME, check_secret_reference
from seamark.specs.plan.desired import build_desired, select_owners
from seamark.specs.spec import Spec

if TYPE_CHECKING:
    from seamark.context import Context


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
