"""Check what is about to be written against the policy of a context.

Undo plans and the steps that restore a previous config are not checked: what was there before is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from seamark.changes.action import ConfigWrite, NewName
from seamark.connect.api import ConnectPort
from seamark.connect.clusters import Clusters
from seamark.connectors.steps import PutConfig
from seamark.errors import NotFoundError, RefusedError
from seamark.policy.check import REFERENCE_RULE, SECRET_SCHEME, check_policy, check_secret_reference
from seamark.policy.policy import Policy
from seamark.policy.rules import Violation, build_violation, check_name

if TYPE_CHECKING:
    from seamark.context import Context

Wanted = tuple[str, str | None, Mapping[str, str]]
"""Name, Connect cluster (None for the only one) and config of a connector to be written."""
Present = Mapping[tuple[str | None, str], Mapping[str, str]]
"""The configs that Connect has, by Connect cluster and name; the Connect cluster is the one in `Wanted`."""

NOTHING_PRESENT: Present = MappingProxyType({})
# More would not fit on a screen.
_MOST_SHOWN = 20
_MANY = 12


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that one connector violates."""

    name: str
    cluster: str | None
    violation: Violation

    @property
    def owner(self) -> str:
        """Return CLUSTER/NAME, or NAME if the Connect cluster is not set. Invisible characters are escaped."""
        name = self.name if self.name.isprintable() else ascii(self.name)
        return f"{self.cluster}/{name}" if self.cluster else name

    def __str__(self) -> str:
        """Return the rule, the connector, and what is wrong."""
        return f"{self.violation.rule} {self.owner}: {self.violation.message}"


def find_violations(
    connectors: Iterable[Wanted],
    context: Context,
    *,
    present: Present = NOTHING_PRESENT,
    reveal: bool = True,
) -> tuple[Breach, ...]:
    """Return every rule that these connectors violate, in their order.

    `present` are the configs that Connect has: a connector keeps its name, and existing values are not rejected.
    seamark's own `secret://` references are resolved, each once, because their values are part of the config; with
    `reveal=False` they are not.
    """
    revealed: dict[str, str] = {}
    found = [
        (name, cluster, violation, config)
        for name, cluster, config in connectors
        for violation in _check(
            name,
            config,
            policy=context.policy_of(cluster),
            held=present.get((cluster, name)),
            look_up=partial(_reveal, context=context, revealed=revealed) if reveal else None,
        )
    ]
    return build_breaches(found, context)


def build_breaches(
    found: Sequence[tuple[str, str | None, Violation, Mapping[str, str]]], context: Context
) -> tuple[Breach, ...]:
    """Return the breaches of violations, each given with its connector, Connect cluster and config.

    For references, the hint is one line for all references of a Connect cluster, and the file to add it to.
    """
    references: dict[str | None, dict[str, None]] = {}
    for _, cluster, violation, config in found:
        if violation.rule == REFERENCE_RULE:
            references.setdefault(cluster, {})[config[violation.key]] = None
    hints = {cluster: context.build_reference_hint(tuple(names), cluster) for cluster, names in references.items()}
    return tuple(
        Breach(name, cluster, replace(one, hint=hints[cluster]) if one.rule == REFERENCE_RULE else one)
        for name, cluster, one, _ in found
    )


def _check(
    name: str,
    config: Mapping[str, str],
    *,
    policy: Policy,
    held: Mapping[str, str] | None,
    look_up: Callable[[str], str] | None,
) -> Iterable[Violation]:
    hidden = [key for key, value in config.items() if value.startswith(SECRET_SCHEME)]
    refused = [one for key in hidden for one in check_secret_reference(key, config[key], policy)]
    whole = config
    if hidden:
        # A reference that is not allowed is not resolved.
        secrets = {key: look_up(config[key]) for key in hidden} if look_up and not refused else {}
        whole = {key: value for key, value in config.items() if key not in hidden} | secrets
    found = check_policy(whole, name=name, policy=policy, is_new=held is None)
    if held is not None:
        found = tuple(one for one in found if one.key not in whole or whole[one.key] != held.get(one.key))
    return [*refused, *(_hide(one) if one.key in hidden else one for one in found)]


def refuse_violations(connectors: Iterable[Wanted], context: Context, *, present: Present = NOTHING_PRESENT) -> None:
    """Raise for connectors that violate the policy of the context, before any request to Connect about them.

    Raises:
        RefusedError: One of them violates a rule; the cause lists all.
    """
    found = find_violations(connectors, context, present=present)
    if found:
        raise build_refusal(found, context=context.name)


def refuse_name(name: str, cluster: str, context: Context) -> None:
    """Raise for an invalid name of a new connector, before Connect is asked whether it exists."""
    violation = check_name(name)
    if violation is not None:
        raise build_refusal([Breach(name, cluster, violation)], context=context.name)


def build_refusal(found: Sequence[Breach], *, context: str) -> RefusedError:
    """Build the error for policy violations."""
    owners = list(dict.fromkeys(breach.owner for breach in found))
    what = f"connector {owners[0]}" if len(owners) == 1 else f"{len(owners)} connectors"
    shown = "; ".join(map(str, found[:_MOST_SHOWN]))
    more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return RefusedError(
        f"the policy of context {context} doesn't allow {what}",
        cause=shown + more,
        hint="; ".join(dict.fromkeys(breach.violation.hint for breach in found[:_MOST_SHOWN])),
        context={"rules": ", ".join(sorted({breach.violation.rule for breach in found}))},
    )


def check_new_names(names: Sequence[NewName], clusters: Clusters, context: Context) -> None:
    """Raise for names that no new connector may have, before any of them is part of a request.

    Raises:
        RefusedError: One of them violates a rule; the cause lists all.
    """
    found: list[Breach] = []
    for new in names:
        violation = check_name(new.name)
        if violation is None or (not new.is_certain and new.name in clusters.client(new.cluster).read_names()):
            continue
        found.append(Breach(new.name, new.cluster, violation))
    if found:
        raise build_refusal(found, context=context.name)


def check_config_writes(writes: Sequence[ConfigWrite], clusters: Clusters, context: Context) -> None:
    """Raise for configs that the policy of the context doesn't allow. A config that Connect already has is allowed.

    Raises:
        RefusedError: One of them violates a rule; the cause lists all.
    """
    held = _read_held(writes, clusters)
    wanted: list[Wanted] = []
    for write in writes:
        present = held.get((write.cluster, write.name), {})
        kept = {key: present[key] for key in write.keep if key in present}
        wanted.append((write.name, write.cluster, {**write.config, **kept}))
    refuse_violations(wanted, context, present=held)


def _read_held(steps: Sequence[PutConfig | ConfigWrite], clusters: Clusters) -> Present:
    """Return the configs that Connect has for the existing connectors of the steps."""
    found: dict[tuple[str | None, str], Mapping[str, str]] = {}
    names: dict[str, set[str]] = {}
    for step in steps:
        names.setdefault(step.cluster, set()).add(step.name)
    for cluster, wanted in names.items():
        client = clusters.client(cluster)
        # One bulk request costs about as much as a dozen single ones.
        if len(wanted) > _MANY:
            configs = {connector.name: connector.config for connector in client.read_connectors()}
        else:
            configs = {name: config for name in wanted if (config := _read_config(client, name))}
        for name in wanted & configs.keys():
            found[cluster, name] = configs[name]
    return found


def _read_config(client: ConnectPort, name: str) -> Mapping[str, str]:
    try:
        return client.read_config(name)
    except NotFoundError:
        return {}


def _reveal(reference: str, *, context: Context, revealed: dict[str, str]) -> str:
    if reference not in revealed:
        revealed[reference] = context.reveal(reference)
    return revealed[reference]


def _hide(violation: Violation) -> Violation:
    """Reduce a violation about a secret value to the name of the rule."""
    return build_violation(violation.rule, violation.key)
