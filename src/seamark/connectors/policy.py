"""The policy of a context, held against what is about to be written.

Undo plans and the steps that put a former config back are not held against it: what stood there before may come back.
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
"""Name, Connect cluster (None for the only one) and config of a connector that shall be written."""
Present = Mapping[tuple[str | None, str], Mapping[str, str]]
"""The configs that Connect holds, by cluster and name; the cluster as it stands in `Wanted`."""

NOTHING_PRESENT: Present = MappingProxyType({})
# More than a screen of them helps nobody.
_MOST_SHOWN = 20
_MANY = 12


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that one connector breaks."""

    name: str
    cluster: str | None
    violation: Violation

    @property
    def owner(self) -> str:
        """CLUSTER/NAME, or NAME where the cluster is not said. What can't be seen is spelled out."""
        name = self.name if self.name.isprintable() else ascii(self.name)
        return f"{self.cluster}/{name}" if self.cluster else name

    def __str__(self) -> str:
        """The rule, the connector, and what is wrong."""
        return f"{self.violation.rule} {self.owner}: {self.violation.message}"


def find_violations(
    connectors: Iterable[Wanted],
    context: Context,
    *,
    present: Present = NOTHING_PRESENT,
    reveal: bool = True,
) -> tuple[Breach, ...]:
    """Every rule that these connectors break, in their order.

    `present` are the configs that Connect holds: a connector keeps its name, and what stands there already is not
    refused again. Our own `secret://` references are looked up, each once, because what stands behind one is part of
    the config; not so with `reveal=False`.
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
        # A reference that is not allowed is not looked up.
        secrets = {key: look_up(config[key]) for key in hidden} if look_up and not refused else {}
        whole = {key: value for key, value in config.items() if key not in hidden} | secrets
    found = check_policy(whole, name=name, policy=policy, is_new=held is None)
    if held is not None:
        found = tuple(one for one in found if one.key not in whole or whole[one.key] != held.get(one.key))
    return [*refused, *(_hide(one) if one.key in hidden else one for one in found)]


def refuse_violations(connectors: Iterable[Wanted], context: Context, *, present: Present = NOTHING_PRESENT) -> None:
    """Refuse connectors that break the policy of the context. Nothing has been asked of Connect about them.

    Raises:
        RefusedError: one of them breaks a rule; the cause lists all.
    """
    found = find_violations(connectors, context, present=present)
    if found:
        raise build_refusal(found, context=context.name)


def refuse_name(name: str, cluster: str, context: Context) -> None:
    """Refuse the name of a connector that shall come into being, before Connect is asked whether there is one."""
    violation = check_name(name)
    if violation is not None:
        raise build_refusal([Breach(name, cluster, violation)], context=context.name)


def build_refusal(found: Sequence[Breach], *, context: str) -> RefusedError:
    """The error for what breaks the policy."""
    owners = list(dict.fromkeys(breach.owner for breach in found))
    what = f"connector {owners[0]}" if len(owners) == 1 else f"{len(owners)} connectors"
    shown = "; ".join(map(str, found[:_MOST_SHOWN]))
    more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return RefusedError(
        f"the policy of context {context} does not allow {what}",
        cause=shown + more,
        hint="; ".join(dict.fromkeys(breach.violation.hint for breach in found[:_MOST_SHOWN])),
        context={"rules": ", ".join(sorted({breach.violation.rule for breach in found}))},
    )


def check_new_names(names: Sequence[NewName], clusters: Clusters, context: Context) -> None:
    """Refuse names that no new connector may have, before any of them is part of a request.

    Raises:
        RefusedError: one of them breaks a rule; the cause lists all.
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
    """Refuse configs that the policy of the context doesn't allow. A config that Connect has already is allowed.

    Raises:
        RefusedError: one of them breaks a rule; the cause lists all.
    """
    held = _read_held(writes, clusters)
    wanted: list[Wanted] = []
    for write in writes:
        present = held.get((write.cluster, write.name), {})
        kept = {key: present[key] for key in write.keep if key in present}
        wanted.append((write.name, write.cluster, {**write.config, **kept}))
    refuse_violations(wanted, context, present=held)


def _read_held(steps: Sequence[PutConfig | ConfigWrite], clusters: Clusters) -> Present:
    """What Connect holds for the subjects of the steps that are there."""
    found: dict[tuple[str | None, str], Mapping[str, str]] = {}
    names: dict[str, set[str]] = {}
    for step in steps:
        names.setdefault(step.cluster, set()).add(step.name)
    for cluster, wanted in names.items():
        client = clusters.client(cluster)
        # One reading costs about as much as a dozen single looks.
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
    """What is said of a value that came from a secret names the rule alone."""
    return build_violation(violation.rule, violation.key)
