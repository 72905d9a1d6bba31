"""Accept an answer that something is missing only from a worker that has read its config topic.

A worker serves its REST API before it has read its internal topics. Until then `GET /connectors` lists the connectors
read so far, which may be none, a status is 404, and pause and resume don't find their connector: `AbstractHerder`
answers from `KafkaConfigBackingStore.snapshot()`, which grows with every record. Seen for 10 s with Connect 4.3.1 while
its broker was paused.

What the herder's thread answers is a proof: `DistributedHerder.run` serves requests only after `startServices()` has
read the status topic and the config topic to their ends, and after the worker has joined its group. `GET /health`
(3.9) and `GET /connectors/NAME` (all versions) wait for that thread, and so do creates, deletes and changes of configs,
which a follower passes on to the leader only from there. The proof holds for the process that gave it, and
a TCP connection leads to one process: it is remembered for the connection, not for the URL, which leads to another
process after a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn
from weakref import WeakSet

from seamark.connect import requests, wire
from seamark.connect.answers import HttpResponse, RequestFailure, Verdict, judge
from seamark.connect.caller import Caller, Timing, describe
from seamark.connect.model import Wait, WorkerHealth
from seamark.connect.requests import Request, RequestKind
from seamark.connect.transport import Transport
from seamark.errors import NotFoundError, SeamarkError, UnsettledError

# Answers of these kinds don't wait for the herder's thread, and lack what the worker has not read yet.
_SNAPSHOTS = frozenset({RequestKind.FLEET, RequestKind.TOPICS})
_CONNECTOR_KINDS = frozenset(
    {
        RequestKind.CONNECTOR,
        RequestKind.CONFIG,
        RequestKind.STATUS,
        RequestKind.STATE,
        RequestKind.RESTART,
        RequestKind.TOPICS,
        RequestKind.OFFSETS,
    }
)
# What the herder's thread has carried out or answered. With 16 writers, 500 creates need no `GET /health` of their own,
# which would wait for each rebalance.
_HERDER_KINDS = frozenset({RequestKind.CONNECTOR, RequestKind.CONFIG})
# `GET /health` gives up after 10 s (RestServer.DEFAULT_HEALTH_CHECK_TIMEOUT_MS).
_HERDER_SECONDS = 11.0
# The first look must not hold up a cluster with other workers. A herder that is not busy answers in milliseconds.
_FIRST_LOOK_SECONDS = 2.0
# httpx2 closes a connection that was idle for 5 s, and the proof ends with it.
_IDLE_SECONDS = 4.0
_MOST_WORKERS_AT_ONCE = 8
# WorkerStatus.healthy(). A gateway may answer /health itself, in other words.
_HEALTHY = "Worker has completed startup"
_NOT_READY = frozenset({"starting", "unhealthy"})
# Whether the connector exists doesn't matter: the herder's thread looks it up.
_PROBE = "seamark-readiness-probe"

ReadConfigNames = Callable[[], frozenset[str]]


@dataclass(slots=True)
class _Pending:
    """A call that waits for a worker to be ready."""

    doing: str
    began_at: float = field(default_factory=time.monotonic)
    reasons: Mapping[str, str] = field(default_factory=dict)


class Readiness:
    """Calls whose answers are complete. Thread-safe.

    Without `read_config_names`, which reads the names in the config topic, only the herder's thread is a proof.
    """

    def __init__(
        self,
        caller: Caller,
        transport: Transport,
        *,
        timing: Timing,
        cluster: str,
        read_config_names: ReadConfigNames | None = None,
    ) -> None:
        self._caller = caller
        self._transport = transport
        self._timing = timing
        self._cluster = cluster
        self._read_config_names = read_config_names
        self._lock = threading.Lock()
        self._proven: WeakSet[object] = WeakSet()
        self._proven_at = -_IDLE_SECONDS
        self._pending: dict[int, _Pending] = {}

    def waits(self) -> tuple[Wait, ...]:
        """Return the calls that wait for a worker to be ready. May be called from any thread."""
        now = time.monotonic()
        return tuple(
            Wait(self._cluster, one.doing, now - one.began_at, "; ".join(one.reasons.values()))
            for one in list(self._pending.values())
            if one.reasons
        )

    def call(self, request: Request, *, url: str | None = None) -> HttpResponse:
        """Return the answer of any worker, or of the one at `url`; what it lacks doesn't exist.

        Raises:
            NotFoundError: the connector doesn't exist.
            UnsettledError: no worker was ready before the deadline. A write was not carried out.
            SeamarkError: as for `Caller.call`.
        """
        is_snapshot = request.kind in _SNAPSHOTS
        if is_snapshot and time.monotonic() - self._proven_at > _IDLE_SECONDS:
            seconds = min(_FIRST_LOOK_SECONDS, self._timing.deadline_seconds)
            self._ask_herder(url or self._caller.workers.order()[0], seconds=seconds)
        with self._waiting(request) as pending:
            ready, is_last = url, False
            while True:
                missing: NotFoundError | None = None
                try:
                    answer = self._caller.call(request, url=ready)
                    self._remember_herder(request)
                    if not is_snapshot:
                        return answer
                except NotFoundError as error:
                    if request.kind not in _CONNECTOR_KINDS:
                        raise
                    missing = error
                if self._is_proven():
                    if missing is not None:
                        raise missing
                    return answer
                if missing is not None and request.writes:
                    self._check_absent(request, missing)
                if is_last:
                    raise self._build_unready(request, pending.reasons)
                ready = self._wait_until_ready(request, pending, urls=(url,) if url else ())
                # A server that closes every connection after one answer would never end.
                is_last = time.monotonic() >= self._find_deadline(pending)

    def ask_once(self, request: Request, *, url: str) -> HttpResponse:
        """Return the answer of one worker to a single attempt.

        Raises:
            UnsettledError: the worker is not known to be ready.
            SeamarkError: as for `Caller.ask_once`.
        """
        for _ in range(2):
            answer = self._caller.ask_once(request, url=url)
            if self._is_proven():
                return answer
            reason = self._ask_herder(url, seconds=_FIRST_LOOK_SECONDS)
            if reason:
                break
        raise self._build_unready(request, {url: reason or "the worker closed its connection"})

    # --- proofs ------------------------------------------------------------------------------------------------

    def _is_proven(self) -> bool:
        """Whether the last answer in this thread came over a connection to a process that is known to be ready."""
        connection = self._transport.connection
        with self._lock:
            if connection is None or connection not in self._proven:
                return False
            self._proven_at = time.monotonic()
            return True

    def _remember_herder(self, request: Request) -> None:
        """Remember the connection of an answer that the herder's thread gave."""
        if request.kind in _HERDER_KINDS:
            self._remember(self._transport.connection)

    def _remember(self, connection: object | None) -> None:
        if connection is not None:
            with self._lock:
                self._proven.add(connection)
                # What is read next usually comes over this connection, and then needs no `GET /health` first.
                self._proven_at = time.monotonic()

    def _wait_until_ready(self, request: Request, pending: _Pending, *, urls: Sequence[str]) -> str:
        for pause in self._timing.pauses():
            found, pending.reasons = self._find_ready(urls or self._caller.workers.order())
            if found is not None:
                return found
            if time.monotonic() + pause >= self._find_deadline(pending):
                break
            time.sleep(pause)
        raise self._build_unready(request, pending.reasons)

    def _find_deadline(self, pending: _Pending) -> float:
        return pending.began_at + self._timing.deadline_seconds

    def _find_ready(self, urls: Sequence[str]) -> tuple[str | None, dict[str, str]]:
        """Return the first worker that is ready, and why the others are not known to be."""
        # The first one alone: during a rebalance, another one may answer half a second later.
        if not self._ask_herder(urls[0], seconds=_FIRST_LOOK_SECONDS):
            return urls[0], {}
        with ThreadPoolExecutor(max_workers=min(len(urls), _MOST_WORKERS_AT_ONCE)) as pool:
            answers = pool.map(lambda url: self._ask_herder(url, seconds=_HERDER_SECONDS), urls)
            reasons = dict(zip(urls, answers, strict=True))
        for url, reason in reasons.items():
            if not reason:
                return url, {}
        if self._read_config_names is None:
            return None, reasons
        return self._find_complete(urls, reasons, self._read_config_names)

    def _ask_herder(self, url: str, *, seconds: float) -> str:
        """Return why a worker is not known to be ready; "" where the herder's thread has answered."""
        request = requests.health()
        outcome = self._send(url, request, seconds)
        judgement = judge(request, outcome)
        if not isinstance(outcome, HttpResponse) or judgement.verdict is Verdict.TRY_AGAIN or outcome.location_host:
            return describe(judgement)
        if judgement.verdict is Verdict.DONE:
            try:
                health = wire.build_health(outcome.body)
            except wire.MalformedBodyError:
                health = None
            if health is not None and health.status in _NOT_READY:
                return f"{health.status}: {health.message}"
            if health is not None and _is_ready(outcome, health):
                self._remember(self._transport.connection)
                return ""
        return self._probe_herder(url, seconds)

    def _probe_herder(self, url: str, seconds: float) -> str:
        """The same for a worker without `GET /health`, or behind a gateway that answers it."""
        request = requests.info(_PROBE)
        judgement = judge(request, self._send(url, request, seconds))
        is_missing = judgement.status == 404 and judgement.rule.error is NotFoundError
        if judgement.verdict is Verdict.DONE or is_missing:
            self._remember(self._transport.connection)
            return ""
        return describe(judgement)

    def _find_complete(
        self, urls: Sequence[str], reasons: dict[str, str], read_config_names: ReadConfigNames
    ) -> tuple[str | None, dict[str, str]]:
        """Find a worker whose list has every connector of the config topic: it has read that topic.

        It has read the status topic before. The config topic is read after the lists: a connector that was created
        meanwhile is in the topic alone, and the list is refused. An empty topic proves nothing, because every list has
        all of its connectors, even that of a worker that has read nothing.
        """
        listed = {url: found for url in urls if (found := self._list_names(url)) is not None}
        try:
            wanted = read_config_names()
        except SeamarkError as error:
            return None, {url: f"{reason}; {error.message}" for url, reason in reasons.items()}
        for url, (names, connection) in listed.items():
            lacking = wanted - names
            if wanted and not lacking:
                self._remember(connection)
                return url, {}
            reasons[url] += f"; its list lacks {len(lacking)} of {len(wanted)} connectors of the config topic"
        return None, reasons

    def _list_names(self, url: str) -> tuple[frozenset[str], object] | None:
        outcome = self._send(url, requests.names(), _HERDER_SECONDS)
        connection = self._transport.connection
        if not isinstance(outcome, HttpResponse) or outcome.status != 200 or connection is None:
            return None
        try:
            return frozenset(wire.build_names(outcome.body)), connection
        except wire.MalformedBodyError:
            return None

    # --- how ---------------------------------------------------------------------------------------------------

    def _check_absent(self, request: Request, missing: NotFoundError) -> NoReturn:
        """Raise what a 404 to a write means. It did not happen, and it is never sent again from here."""
        try:
            names = wire.build_names(self.call(requests.names()).body)
        except (SeamarkError, wire.MalformedBodyError) as error:
            raise self._build_not_carried_out(request, str(error)) from error
        # The herder, which has started where it answers, doesn't know the task of a connector that it knows.
        if request.subject not in names or "Unknown task:" in missing.cause:
            raise missing
        raise self._build_not_carried_out(request, missing.cause)

    def _build_not_carried_out(self, request: Request, cause: str) -> SeamarkError:
        return UnsettledError(
            f"can't {request.doing} in Connect cluster {self._cluster}: no changes were made",
            cause=f"a worker that may still be starting did not find the connector: {cause}",
            hint="wait until every worker has started, then run the command again",
            context={"cluster": self._cluster, "name": request.subject},
        )

    def _build_unready(self, request: Request, reasons: Mapping[str, str]) -> SeamarkError:
        return UnsettledError(
            f"can't {request.doing} in Connect cluster {self._cluster}: no worker has shown that it has read its "
            "config "
            "topic, so its answer may lack connectors",
            cause="; ".join(f"{url}: {reason}" for url, reason in reasons.items())
            or "every connection was closed after one answer",
            hint="wait until a worker has started (GET /health reports healthy), then run the command again",
            context={"cluster": self._cluster},
        )

    def _send(self, url: str, request: Request, seconds: float) -> HttpResponse | RequestFailure:
        connect_seconds = min(seconds, self._timing.connect_seconds)
        return self._transport.send(url, request, connect_seconds=connect_seconds, read_seconds=seconds)

    @contextmanager
    def _waiting(self, request: Request) -> Iterator[_Pending]:
        pending = _Pending(request.doing)
        self._pending[id(pending)] = pending
        try:
            yield pending
        finally:
            del self._pending[id(pending)]


def _is_ready(answer: HttpResponse, health: WorkerHealth) -> bool:
    return answer.status == 200 and health.is_healthy and health.message.startswith(_HEALTHY)
