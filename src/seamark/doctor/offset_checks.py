"""Check offsets topics (records that tasks or REST don't find, the cost of their history) and pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.core.readings import Finding, Severity
from seamark.doctor.evidence import (
    Check,
    ClusterEvidence,
    Evidence,
    OffsetsEvidence,
    TransactionsEvidence,
    build_unexamined,
)
from seamark.doctor.topic_checks import TransactionsReader
from seamark.errors import SeamarkError
from seamark.kafka.model import TopicStatus
from seamark.offsets.model import OffsetAnomaly, OffsetFinding
from seamark.report.words import render_count, render_duration

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort
    from seamark.offsets.stores.stores import OffsetStores

_RECORDS, _HISTORY = "offsets.records", "offsets.history"
# What a task or REST reads wrongly; the other anomalies are harmless.
_BAD = frozenset(
    {
        OffsetAnomaly.DUPLICATE_ENCODING,
        OffsetAnomaly.MISPLACED,
        OffsetAnomaly.HIDDEN_BY_TOMBSTONE,
        OffsetAnomaly.OPEN_TRANSACTION,
    }
)
_SHOWN = 3
_DAY_MS = 24 * 3600 * 1000
_LAG = "min.compaction.lag.ms"
# A useful history in days: a mistake of Friday is found on Monday, and seldom after a week.
_DAYS = 7
# A conservative choice, not a measurement of workers: seamark's own reader skips 400,000 records per second and core.
_RECORDS_PER_SECOND = 100_000
# A worker reads its topic before it does anything else; more than this delays every start and every deployment.
_MOST_SECONDS = 60.0
# More records than this are not scanned for a routine check. This many take about ten seconds.
_MOST_RECORDS = 3_000_000


@dataclass(frozen=True, slots=True)
class OffsetsReader:
    """Reads what the checks need from the offsets topic of a Connect cluster."""

    stores: OffsetStores
    brokers: Callable[[], BrokersPort]
    now: Callable[[], float]

    def read(self, cluster: ClusterEvidence, topic: TopicStatus) -> OffsetsEvidence:
        """Read the records, unless there are too many, and how many were written in a day."""
        kafka = self.brokers()
        bounds = kafka.read_bounds(topic.spots).require_complete(what="the bounds")
        then = kafka.read_log_offsets(topic.spots, at=round(self.now() * 1000) - _DAY_MS)
        # Offsets keep counting whatever compaction removes. If nothing was written since, there is no such record.
        written = sum(bounds[spot].latest - stamp.offset for spot, stamp in then.found.items() if stamp is not None)
        most = sum(found.latest - found.earliest for found in bounds.values())
        if most > _MOST_RECORDS:
            return OffsetsEvidence(most=most, written_per_day=written)
        reading = self.stores.find_topic(cluster.name).read()
        return OffsetsEvidence(most, written, reading)

    def read_transactions(self, topics: Sequence[TopicStatus]) -> TransactionsEvidence:
        """Read the open transactions on internal topics."""
        return TransactionsReader(self.brokers, self.now).read(topics)


def examine_records(evidence: Evidence) -> Iterator[Finding]:
    """Check offsets.records: every offset is where its task and REST look it up."""
    for cluster in evidence.clusters:
        found = evidence.offsets.get(cluster.name)
        if isinstance(found, SeamarkError):
            yield build_unexamined(_RECORDS, subject=cluster.name, error=found)
        elif found is not None and found.reading is None:
            words = f"not examined: the topic may have {render_count(found.most, 'record')}"
            fix = "run seamark offsets export --all, which reports anomalies and takes some minutes"
            yield Finding(_RECORDS, Severity.INFO, _topic_of(cluster), words, fix)
        elif found is not None and found.reading is not None:
            yield from _describe_anomalies(cluster, found.reading.findings, keys=len(found.reading.offsets))


def _describe_anomalies(
    cluster: ClusterEvidence, findings: tuple[OffsetFinding, ...], *, keys: int
) -> Iterator[Finding]:
    counts = Counter(finding.anomaly for finding in findings)
    for anomaly, count in sorted(counts.items()):
        owners = sorted({finding.connector or "?" for finding in findings if finding.anomaly is anomaly})
        shown = ", ".join(owners[:_SHOWN]) + (f" and {len(owners) - _SHOWN} more" if len(owners) > _SHOWN else "")
        first = next(finding.message for finding in findings if finding.anomaly is anomaly)
        yield Finding(
            _RECORDS,
            Severity.WARNING if anomaly in _BAD else Severity.INFO,
            _topic_of(cluster),
            f"{anomaly.value} ({render_count(count, 'time')}: {shown}): {first}",
            "list the records with seamark offsets show OWNER --raw; docs/reference/offsets.md explains each finding",
        )
    if not counts:
        words = f"{render_count(keys, 'offset')}, each with one key on the correct partition"
        yield Finding(_RECORDS, Severity.OK, _topic_of(cluster), words)


def examine_history(evidence: Evidence) -> Iterator[Finding]:
    """Check offsets.history: how far back previous offsets can be read, and the cost of a longer history."""
    for cluster in evidence.clusters:
        found, topic = evidence.offsets.get(cluster.name), evidence.topics.get(_topic_of(cluster))
        if isinstance(found, SeamarkError):
            yield build_unexamined(_HISTORY, subject=cluster.name, error=found)
        elif found is not None and isinstance(topic, TopicStatus):
            yield _price(topic, found)


def _price(topic: TopicStatus, found: OffsetsEvidence) -> Finding:
    held = int(topic.config(_LAG) or 0)
    keys = len(found.reading.offsets) if found.reading is not None else found.most
    records = keys + max(_DAYS, held / _DAY_MS) * found.written_per_day
    seconds = records / _RECORDS_PER_SECOND
    kept = (
        f"{_LAG} keeps every write of the last {render_duration(held / 1000)}"
        if held
        else f"{_LAG} is 0: previous offsets are kept only until the next compaction"
    )
    cost = (
        f"{render_count(found.written_per_day, 'write')} in the last day; {_DAYS} days of them would be up to "
        f"{render_count(round(records), 'record')}, which every worker reads on startup, in about "
        f"{render_duration(max(1.0, seconds))}"
    )
    if seconds > _MOST_SECONDS:
        fix = "keep it, and run seamark offsets export --all every night, which stores offsets without that cost"
        return Finding(_HISTORY, Severity.WARNING if held else Severity.INFO, topic.name, f"{kept}; {cost}", fix)
    if held:
        return Finding(_HISTORY, Severity.OK, topic.name, f"{kept}; {cost}")
    fix = f"to keep them for {_DAYS} days: seamark topics update {topic.name} --config {_LAG}={_DAYS * _DAY_MS}"
    return Finding(_HISTORY, Severity.INFO, topic.name, f"{kept}; {cost}", fix)


def _topic_of(cluster: ClusterEvidence) -> str:
    return cluster.settings.offsets_topic or cluster.name


OFFSET_CHECKS = (Check(_RECORDS, examine_records), Check(_HISTORY, examine_history))


_PIPELINES = "pipelines.state"


def examine_pipelines(evidence: Evidence) -> Iterator[Finding]:
    """Check pipelines.state: registered pipelines run, and retention deletes nothing that they have not processed."""
    if isinstance(evidence.pipelines, SeamarkError):
        yield build_unexamined(_PIPELINES, subject=evidence.context.name, error=evidence.pipelines)
        return
    has_stores = evidence.context.databases or evidence.context.lakes
    if isinstance(evidence.kafka, SeamarkError) and has_stores:
        yield build_unexamined(_PIPELINES, subject=evidence.context.name, error=evidence.kafka)
    yield from evidence.pipelines


PIPELINE_CHECKS = (Check(_PIPELINES, examine_pipelines),)
