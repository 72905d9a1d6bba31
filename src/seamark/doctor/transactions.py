"""Transactions that nobody ended: whoever reads committed records waits behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.core.finding import Finding, Severity
from seamark.doctor.check import Check, build_unexamined
from seamark.doctor.evidence import Evidence, TransactionsEvidence
from seamark.errors import SeamarkError
from seamark.kafka.open_transaction import OpenTransaction
from seamark.kafka.spot import Edge
from seamark.kafka.topic import TopicStatus
from seamark.report.words import render_count, render_duration

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort

_TRANSACTIONS = "kafka.transactions"
# Tasks end theirs with every batch, or every `offset.flush.interval.ms`, a minute by default: younger ones are theirs.
_OLD_SECONDS = 90.0
# The brokers let no transaction run longer than `transaction.max.timeout.ms`, 15 minutes by default. One that is older
# and that no coordinator tells of has none.
_HANGING_SECONDS = 1200.0
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TransactionsReader:
    """Looks where topics have an end that readers of committed records do not reach, and who keeps them from it."""

    brokers: Callable[[], BrokersPort]
    now: Callable[[], float]

    def read(self, topics: Sequence[TopicStatus]) -> TransactionsEvidence:
        """The open transactions of these topics."""
        kafka = self.brokers()
        spots = [spot for topic in topics for spot in topic.led_spots]
        stable = kafka.read_log_offsets(spots, at=Edge.STABLE).require_complete(what="the last stable offsets")
        ends = kafka.read_log_offsets(spots, at=Edge.LATEST).require_complete(what="the ends")
        held = [
            spot
            for spot in spots
            if (end := ends[spot]) is not None and (last := stable[spot]) is not None and last.offset < end.offset
        ]
        # What ended between the two looks is not open any more.
        return TransactionsEvidence(self.now(), len(spots), kafka.read_open_transactions(held) if held else ())


def examine_transactions(evidence: Evidence) -> Iterator[Finding]:
    """kafka.transactions: nobody is kept from the end of an internal topic by a transaction that nobody ends."""
    found = evidence.transactions
    if isinstance(found, SeamarkError):
        yield build_unexamined(_TRANSACTIONS, subject=evidence.context.name, error=found)
        return
    if found is None:
        return
    told = [_describe(one, found.at_seconds, evidence.address) for one in found.open]
    young = [one for one in told if one.severity is Severity.INFO]
    yield from (one for one in told if one not in young[_SHOWN:])
    if len(young) > _SHOWN:
        words = f"{len(young) - _SHOWN} more are open and as young: tasks at work"
        yield Finding(_TRANSACTIONS, Severity.INFO, evidence.context.name, words)
    if not found.open:
        words = f"no transaction is open on {render_count(found.partitions, 'partition')} of internal topics"
        yield Finding(_TRANSACTIONS, Severity.OK, evidence.context.name, words)


def _describe(found: OpenTransaction, now: float, address: str) -> Finding:
    place = f"{found.topic}-{found.partition}"
    seconds = None if found.since_ms is None else max(0.0, now - found.since_ms / 1000)
    age = "for nobody knows how long" if seconds is None else f"for {render_duration(seconds)}"
    name = f"transactional.id {found.transactional_id}, " if found.transactional_id else ""
    words = (
        f"a transaction is open {age}: {name}producer id {found.producer_id}, from offset {found.start_offset} on; "
        "exactly-once tasks, REST and whoever else reads committed records wait behind it"
    )
    abort = (
        f"kafka-transactions.sh --bootstrap-server {address} abort --topic {found.topic} "
        f"--partition {found.partition} --start-offset {found.start_offset}"
    )
    if not found.is_known:
        return _describe_unknown(place, words, abort, is_old=seconds is None or seconds > _HANGING_SECONDS)
    left = _find_left(found, now)
    wait = f"the brokers end it within {render_duration(left)} (transaction.timeout.ms)" if left is not None else ""
    if seconds is not None and seconds <= _OLD_SECONDS:
        return Finding(_TRANSACTIONS, Severity.INFO, place, words, wait or "look again in a minute")
    fix = f"end or restart its producer; {wait}; or, if it is gone for good: {abort}"
    return Finding(_TRANSACTIONS, Severity.WARNING, place, words, fix)


def _describe_unknown(place: str, words: str, abort: str, *, is_old: bool) -> Finding:
    """One that no coordinator tells of: it hangs, or we may not know its transactional.id."""
    if is_old:
        return Finding(
            _TRANSACTIONS, Severity.ERROR, place, f"{words}; no coordinator has it: nothing ends it", f"end it: {abort}"
        )
    words = f"{words}; no coordinator tells of it: nothing ends it, or you may not DESCRIBE its transactional.id"
    return Finding(
        _TRANSACTIONS, Severity.WARNING, place, words, f"look again in 20 min; if it is still there: {abort}"
    )


def _find_left(found: OpenTransaction, now: float) -> float | None:
    """How long until the brokers end it; they look every ten seconds."""
    if found.began_ms is None or found.timeout_ms is None:
        return None
    return max(0.0, (found.began_ms + found.timeout_ms) / 1000 - now) + 10.0


TRANSACTION_CHECKS = (Check(_TRANSACTIONS, examine_transactions),)
