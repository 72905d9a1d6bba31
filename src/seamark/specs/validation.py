"""Validate the connectors of spec files with their plugins, without a plan: each error with its file and line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.changes.action import ConfigWrite
from seamark.changes.environment import Environment
from seamark.connect.clusters import Clusters
from seamark.connectors.config import ConfigFault, ConfigJudgement, DesiredConnector, build_config, validate_configs
from seamark.connectors.policy import find_violations
from seamark.connectors.spec import build_desired, select_owners
from seamark.core.files import FileLocation
from seamark.errors import SeamarkError
from seamark.specs.layers import ConfigLeaf
from seamark.specs.load import SpecFiles, build_paths, load_definitions
from seamark.specs.model import Definition, Maker
from seamark.specs.planner import check_sections

if TYPE_CHECKING:
    from seamark.context import Context


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """An error in a declared config. `place` is the line of the key, or of the connector if no file sets the key."""

    key: str
    message: str
    place: FileLocation


@dataclass(frozen=True, slots=True)
class ValidatedConnector:
    """What the policy and the plugin say of a declared connector.

    `unchecked` are keys whose errors say nothing, because they depend on `secret://` references. `error` is set if
    Connect didn't respond.
    """

    connector: DesiredConnector
    problems: tuple[ConfigProblem, ...] = ()
    unchecked: tuple[str, ...] = ()
    error: SeamarkError | None = None

    @property
    def is_valid(self) -> bool:
        """Whether neither the policy nor the plugin found an error."""
        return not self.problems and self.error is None


def validate_spec(
    what: SpecFiles,
    context: Context,
    *,
    clusters: Clusters,
    world: Environment,
    names: Sequence[str] = (),
    allow_python: bool = False,
) -> tuple[ValidatedConnector, ...]:
    """Validate the connectors that files declare.

    A config that violates the policy of the context isn't sent: plugins connect to the addresses in it while they
    validate. No `secret://` reference is resolved; plugins get a placeholder, as for a plan.

    Raises:
        SpecError, UsageError: A declaration can't be read.
    """
    may_run = allow_python or context.policy.python
    loaded = load_definitions(build_paths(what), environ=os.environ, allow_python=may_run, context=lambda: context)
    check_sections(loaded.spec, context)
    desired = build_desired((one.connector for one in loaded.definitions), tuple(context.connect))
    chosen = select_owners(desired, names)
    found = [
        (connector, definition)
        for (owner, connector), definition in zip(desired.items(), loaded.definitions, strict=True)
        if owner in chosen
    ]
    refused = _find_refused([connector for connector, _ in found], context)
    writes = [
        ConfigWrite(connector.cluster or "", connector.name, build_config(connector.name, connector.config))
        for connector, _ in found
        if connector.owner not in refused
    ]
    judged = dict(zip((write.subject for write in writes), validate_configs(writes, clusters, world), strict=True))
    return tuple(
        _build_result(connector, definition, refused=refused, judged=judged) for connector, definition in found
    )


def _find_refused(connectors: Iterable[DesiredConnector], context: Context) -> dict[str, list[ConfigFault]]:
    wanted = ((connector.name, connector.cluster, connector.config) for connector in connectors)
    refused: dict[str, list[ConfigFault]] = {}
    for breach in find_violations(wanted, context, reveal=False):
        fault = ConfigFault(breach.violation.key, f"{breach.violation.rule} {breach.violation.message}")
        refused.setdefault(f"{breach.cluster}/{breach.name}", []).append(fault)
    return refused


def _build_result(
    connector: DesiredConnector,
    definition: Definition,
    *,
    refused: dict[str, list[ConfigFault]],
    judged: dict[str, ConfigJudgement],
) -> ValidatedConnector:
    if connector.owner in refused:
        return ValidatedConnector(connector, _locate(refused[connector.owner], definition))
    judgement = judged[ConfigWrite(connector.cluster or "", connector.name, {}).subject]
    return ValidatedConnector(
        connector, _locate(judgement.faults, definition), judgement.unchecked, error=judgement.trouble
    )


def _locate(faults: Iterable[ConfigFault], definition: Definition) -> tuple[ConfigProblem, ...]:
    leaves = {**definition.inherited, **definition.own}
    return tuple(
        ConfigProblem(fault.key, fault.message, _find_place(leaves.get(fault.key), definition)) for fault in faults
    )


def _find_place(leaf: ConfigLeaf | None, definition: Definition) -> FileLocation:
    if leaf is None:
        return definition.connector.place
    if definition.maker is Maker.PROPERTIES:
        # Such files are read by lines, and their nodes have lines instead of offsets.
        return FileLocation(leaf.document.file, leaf.scalar.start, 1)
    return leaf.document.place(leaf.scalar)
