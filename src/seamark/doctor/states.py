"""Connectors that do not run."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.connect.connector import Connector, State
from seamark.connectors.health import Health, build_health
from seamark.core.finding import Finding, Severity
from seamark.core.sensitive import mask_text
from seamark.doctor.check import Check, build_unexamined
from seamark.doctor.evidence import Evidence
from seamark.errors import SeamarkError

_STATES = "connectors.state"
_SEVERITIES = {Health.UNHEALTHY: Severity.ERROR, Health.DEGRADED: Severity.ERROR, Health.UNASSIGNED: Severity.WARNING}
# Beyond a screenful the list belongs into `seamark connectors list`.
_MOST_SHOWN = 20
# The first line of a trace is the exception; a message beyond this length is a dump of data.
_MOST_CHARACTERS = 200


def examine_states(evidence: Evidence) -> Iterator[Finding]:
    """connectors.state: no connector and no task has failed."""
    for cluster in evidence.clusters:
        if isinstance(cluster.connectors, SeamarkError):
            yield build_unexamined(_STATES, subject=cluster.name, error=cluster.connectors)
            continue
        healths = {connector.owner: build_health(connector.status) for connector in cluster.connectors}
        troubled = [found for found in cluster.connectors if healths[found.owner] in _SEVERITIES]
        for connector in troubled[:_MOST_SHOWN]:
            yield Finding(
                _STATES,
                _SEVERITIES[healths[connector.owner]],
                connector.owner,
                _describe(connector),
                _find_fix(connector),
            )
        if len(troubled) > _MOST_SHOWN:
            words = f"{len(troubled) - _MOST_SHOWN} more connectors do not run"
            yield Finding(
                _STATES, Severity.ERROR, cluster.name, words, f"seamark connectors list --cluster {cluster.name}"
            )
        if not troubled:
            yield Finding(
                _STATES, Severity.OK, cluster.name, f"none of {len(cluster.connectors)} connectors has failed"
            )


def _describe(connector: Connector) -> str:
    status = connector.status
    if status is None:
        return "has no status"
    failed = [task for task in status.tasks if task.state is State.FAILED]
    if status.state is State.FAILED:
        return f"FAILED{_first_line(status.trace)}"
    if failed:
        return f"{len(failed)} of {len(status.tasks)} tasks FAILED{_first_line(failed[0].trace)}"
    if not status.tasks:
        return f"{status.state} without a task: it moves no data"
    return f"{status.state}, tasks {', '.join(sorted({task.state.value for task in status.tasks}))}"


def _find_fix(connector: Connector) -> str:
    status = connector.status
    if status is not None and status.state is State.RUNNING and not status.tasks:
        # Seen on 4.3.1 where a broker died right behind a resume: no rebalance and no restart gave the task to anybody.
        return (
            f"if it stays so, a restart does not help: seamark connectors stop {connector.owner}, "
            f"then seamark connectors resume {connector.owner}"
        )
    return f"seamark connectors show {connector.owner}"


def _first_line(trace: str) -> str:
    line = trace.strip().partition("\n")[0]
    return f": {mask_text(line)[:_MOST_CHARACTERS]}" if line else ""


STATE_CHECKS = (Check(_STATES, examine_states),)
