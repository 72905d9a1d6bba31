"""The doctor: read everything once, then run every check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.core.readings import Finding
from seamark.doctor.evidence import (
    BuildKafka,
    Check,
    ReadMembers,
    ReadOffsets,
    ReadPipelines,
    ReadTransactions,
    read_evidence,
    read_reachability,
    run_check,
)
from seamark.doctor.offset_checks import OFFSET_CHECKS, PIPELINE_CHECKS
from seamark.doctor.security_checks import PERMISSION_CHECKS, SECURITY_CHECKS
from seamark.doctor.topic_checks import GROUP_CHECKS, TOPIC_CHECKS, TRANSACTION_CHECKS
from seamark.doctor.worker_checks import (
    BALANCE_CHECKS,
    CLOCK_CHECKS,
    PLUGIN_CHECKS,
    REACHABILITY_CHECKS,
    STATE_CHECKS,
    VERSION_CHECKS,
)

if TYPE_CHECKING:
    from seamark.context import Context

CHECKS: tuple[Check, ...] = (
    *REACHABILITY_CHECKS,
    *VERSION_CHECKS,
    *TOPIC_CHECKS,
    *PLUGIN_CHECKS,
    *BALANCE_CHECKS,
    *GROUP_CHECKS,
    *OFFSET_CHECKS,
    *TRANSACTION_CHECKS,
    *PERMISSION_CHECKS,
    *CLOCK_CHECKS,
    *SECURITY_CHECKS,
    *STATE_CHECKS,
    *PIPELINE_CHECKS,
)
"""seamark's own checks, in the order their findings are shown."""

_ADDED: dict[str, Check] = {}

_REACH = ("connect.reachable", "kafka.reachable")


def register_check(check: Check) -> None:
    """Add a check to every examination of this process. Its findings are shown after those of `CHECKS`.

    Raises:
        ValueError: Another check has that name.
    """
    if any(known.name == check.name for known in list_checks()):
        raise ValueError(f"duplicate check {check.name!r}")
    _ADDED[check.name] = check


def list_checks() -> tuple[Check, ...]:
    """Return every check, in the order their findings are shown."""
    return (*CHECKS, *_ADDED.values())


class Doctor:
    """Finds what is wrong with one context, with a fix for each finding."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        build_kafka: BuildKafka,
        read_offsets: ReadOffsets | None = None,
        read_transactions: ReadTransactions | None = None,
        read_pipelines: ReadPipelines | None = None,
        read_members: ReadMembers | None = None,
    ) -> None:
        """Create the doctor. Without `read_offsets`, neither offsets topics nor internal transactions are read."""
        self._context = context
        self._read_transactions = read_transactions
        self._read_pipelines = read_pipelines
        self._read_members = read_members
        self._read_offsets = read_offsets
        self._clusters = clusters
        self._build_kafka = build_kafka

    def examine(self) -> tuple[Finding, ...]:
        """Return the findings of every check. A check always reports something, even if all is fine or it can't run."""
        evidence = read_evidence(
            self._context,
            clusters=self._clusters,
            build_kafka=self._build_kafka,
            read_offsets=self._read_offsets,
            read_transactions=self._read_transactions,
            read_pipelines=self._read_pipelines,
            read_members=self._read_members,
        )
        return tuple(finding for check in list_checks() for finding in run_check(check, evidence))

    def check_connectivity(self) -> tuple[Finding, ...]:
        """Check only whether every worker and the brokers respond."""
        evidence = read_reachability(self._context, clusters=self._clusters, build_kafka=self._build_kafka)
        checks = [check for check in CHECKS if check.name in _REACH]
        return tuple(finding for check in checks for finding in run_check(check, evidence))
