"""The real Kafka journal of one simulated process, on brokers in memory, with everything that can go wrong on the way.

Every request to the brokers is a call of its process, and so is every sleep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError

from seamark.changes.environment import Clock
from seamark.changes.journal import Entry, EntryKind
from seamark.changes.kafka_journal import JournalNames, JournalTiming, KafkaJournal
from seamark.changes.kafka_journal.clients import JournalClients
from seamark.kafka.log import Clocks
from tests.fakes.kafka.brokers import Line, MemoryBrokers, Message, NoAnswer, Refused, Request
from tests.simulation.clock import Timeline
from tests.simulation.faults import PLAYED, Call, Fault, Kind, Process, Violation
from tests.simulation.journal import Store, Stored

NAMES = JournalNames()
# The real rules with shorter times, in the same proportions: so a wait has fewer looks.
TIMING = JournalTiming(
    lease_seconds=2.0,
    fresh_seconds=0.6,
    enter_seconds=6.0,
    transaction_seconds=3.0,
    write_seconds=5.0,
    patience_seconds=6.0,
)
CLEANUP_SECONDS = 2.0
# A request takes this long.
_ANSWER_SECONDS = 0.005
# The shortest sleep. The real one is left to chance, which a seed would not give again.
_SLEEP_SECONDS = 0.25
# How long the brokers can't be reached at most, and how slow they are at most: longer than any timeout of the journal.
_OUTAGE_SECONDS = 12.0
_SLOW_SECONDS = 15.0
# How far an NTP client may set the clock of a broker forward while it leads the topic (`board.py` relies on it), and by
# how much the clock of the next leader may be ahead.
_STEP_SECONDS = 9.9
_LEADER_SECONDS = 3600.0
# The default of message.timestamp.after.max.ms since Kafka 4.0.
FUTURE_SECONDS = 3600.0

_CALLS = {
    Request.METADATA: Call.ASK,
    Request.OFFSETS: Call.ASK,
    Request.FETCH: Call.FETCH,
    Request.PRODUCE: Call.PRODUCE,
    Request.INIT: Call.TAKE,
    Request.COMMIT: Call.COMMIT,
    Request.ABORT: Call.ABORT,
}
_DENIALS = {
    Request.INIT: KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Request.PRODUCE: KafkaError.TOPIC_AUTHORIZATION_FAILED,
}


class KafkaStore(Store):
    """What the journal's topics hold, entry by entry, in the order in which transactions were committed."""

    def __init__(self, timeline: Timeline, *, future_seconds: float | None) -> None:
        super().__init__(timeline)
        self.refuses_future = future_seconds is not None
        self.brokers = MemoryBrokers(
            now=lambda: timeline.now,
            append_time=(NAMES.heads,),
            future_seconds=future_seconds,
            cleanup_seconds=CLEANUP_SECONDS,
            on_commit=self._take_in,
        )

    def _take_in(self, owner: str, records: Sequence[tuple[str, Message]]) -> None:
        for topic, message in records:
            if topic != NAMES.journal:
                continue
            data = message.value() or b""
            entry = Entry.from_bytes(data)
            if entry.kind is EntryKind.OPEN:
                if entry.change in self.changes:
                    raise Violation(f"I7: change {entry.change} is opened twice")
                locks, nonce = tuple(entry.body["locks"]), entry.body["nonce"]
                self.changes[entry.change] = Stored(entry.change, locks, nonce)
            stored = self.changes[entry.change]
            if entry.kind is EntryKind.TAKEN:
                stored.nonce = entry.body["nonce"]
            self.keep(stored, entry, data=data, writer=owner, at=message.appended_at)


class SimLine(Line):
    """The connection of one process to the brokers."""

    def __init__(self, process: Process, timeline: Timeline, brokers: MemoryBrokers) -> None:
        self.owner = process.name
        self._process = process
        self._timeline = timeline
        self._brokers = brokers
        self._down_until = 0.0
        self._part: float | None = None

    def send(self, request: Request, act: Callable[[], Any], *, timeout: float) -> Any:
        """Send a request, with what goes wrong on the way or on the way back."""
        fault = self._process.call(_CALLS[request])
        if fault is None:
            return self._reach(act, timeout)
        if fault.kind in PLAYED:
            return self._reach_and_stop(act, timeout, fault)
        return self._strike(fault, request, act, timeout)

    def cut(self, records: list[Message]) -> list[Message]:
        """Give a part of the records, where that is the fault."""
        part, self._part = self._part, None
        return records if part is None else records[: int(part * len(records))]

    def wait(self, seconds: float) -> None:
        """Wait for records in a poll."""
        self._timeline.advance(max(seconds, _SLEEP_SECONDS))

    def _reach(self, act: Callable[[], Any], timeout: float) -> Any:
        """Send it, and again until the brokers can be reached, as librdkafka does."""
        timeline = self._timeline
        if timeline.now < self._down_until:
            timeline.advance(min(timeout, self._down_until - timeline.now))
            if timeline.now < self._down_until:
                raise NoAnswer
        timeline.advance(_ANSWER_SECONDS)
        return act()

    def _reach_and_stop(self, act: Callable[[], Any], timeout: float, fault: Fault) -> Any:
        """The process is stopped while the answer is on its way."""
        answer = self._reach(act, timeout)
        began_at = self._timeline.now
        self._process.play(fault)
        # Of an answer that came and a time that is over, the client sees either first.
        if self._timeline.now - began_at > timeout and fault.size * 1000 % 1 < 0.5:
            raise NoAnswer
        return answer

    def _strike(self, fault: Fault, request: Request, act: Callable[[], Any], timeout: float) -> Any:
        if fault.kind is Kind.JOURNAL_SLOW:
            return self._be_slow(act, timeout, seconds=fault.size * _SLOW_SECONDS)
        if fault.kind is Kind.JOURNAL_UNSURE:
            return self._be_slow(act, timeout, seconds=timeout + 1)
        if fault.kind is Kind.DENIED:
            raise Refused(_DENIALS[request])
        if fault.kind in (Kind.JOURNAL_LATE, Kind.KILL_LATE):
            self._land_late(act, fault)
            if fault.kind is Kind.KILL_LATE:
                self._process.kill()
            self._timeline.advance(timeout)
            raise NoAnswer
        self._change_brokers(fault)
        answer = self._reach(act, timeout)
        if fault.kind is Kind.KILL_AFTER:
            self._process.kill()
        return answer

    def _change_brokers(self, fault: Fault) -> None:
        if fault.kind is Kind.JOURNAL_FAILS:
            self._down_until = self._timeline.now + fault.size * _OUTAGE_SECONDS
        elif fault.kind is Kind.JOURNAL_PARTIAL:
            self._part = fault.size
        elif fault.kind is Kind.LEADER_MOVED:
            self._brokers.leader_epoch += 1
            self._brokers.clock_offset += fault.size * _LEADER_SECONDS
        elif fault.kind is Kind.BROKER_STEPPED:
            self._brokers.clock_offset += fault.size * _STEP_SECONDS

    def _be_slow(self, act: Callable[[], Any], timeout: float, *, seconds: float) -> Any:
        """A slow answer. One that is later than the timeout is lost, and the request is carried out."""
        self._timeline.advance(min(seconds, timeout / 2))
        answer = self._reach(act, timeout)
        if seconds > timeout:
            self._timeline.advance(timeout / 2)
            raise NoAnswer
        return answer

    def _land_late(self, act: Callable[[], Any], fault: Fault) -> None:
        """The request stays in a buffer for a while. What it can still do then, the brokers decide."""

        def land() -> None:
            try:
                act()
            except Refused:
                return

        self._timeline.at(self._timeline.now + fault.size * _OUTAGE_SECONDS, land)


def open_kafka_journal(process: Process, store: KafkaStore, clock: Clock, *, now: Callable[[], float]) -> KafkaJournal:
    """The Kafka journal as one process has it. Its topics count as checked; `now` is the wall clock of the process."""
    timeline = store.timeline
    line = SimLine(process, timeline, store.brokers)

    def sleep(seconds: float) -> None:
        clock.sleep(max(seconds, _SLEEP_SECONDS))

    journal = KafkaJournal({}, now=now)
    journal._clients = JournalClients(
        {"bootstrap.servers": "sim:9092"},
        NAMES,
        timing=TIMING,
        cluster_id="sim",
        clocks=Clocks(now=lambda: timeline.now, since_boot=lambda: timeline.now, sleep=sleep),
        build_producer=store.brokers.build_producer(line),
        build_consumer=store.brokers.build_consumer(line),
        run=run_in_turn,
    )
    return journal


def run_in_turn(jobs: Sequence[Callable[[], None]]) -> list[BaseException]:
    """Run jobs one after the other. A kill ends all of them."""
    errors: list[BaseException] = []
    for job in jobs:
        try:
            job()
        except Exception as error:  # noqa: BLE001 - as the real one, which returns what each thread raised
            errors.append(error)
    return errors
