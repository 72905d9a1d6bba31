"""What the client sends, and what it doesn't, around the deadline of a request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from seamark.connect import requests
from seamark.connect.answers import Phase, RequestFailure
from seamark.connect.caller import Caller, FailoverUrls, Timing
from seamark.connect.transport import Transport
from seamark.core.offsets import Offset
from seamark.core.time import Deadline, limit_requests
from seamark.errors import DeadlineError, UnknownOutcomeError

STALE = {"error_code": 409, "message": "Cannot complete request momentarily due to stale configuration"}
PARTIAL = {
    "error_code": 500,
    "message": "Failed to alter consumer group offsets for connector x ... this operation can be safely retried.",
}
STOP = requests.change_state("x", "stop")
PATCH = requests.patch_offsets("x", [Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 1})])


class Worker:
    """A worker on a real socket that keeps every byte it gets, and answers each whole request with 202."""

    def __init__(self) -> None:
        self.received = b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.ended = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                while data := connection.recv(65536):
                    self.received += data
                    if b"\r\n\r\n" in self.received and not self.received.startswith(b"PATCH"):
                        connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            self.ended.set()

    def close(self) -> None:
        self._server.close()


@contextmanager
def open_worker() -> Iterator[tuple[Worker, Transport]]:
    worker = Worker()
    try:
        with Transport((worker.url,)) as transport:
            yield worker, transport
    finally:
        worker.close()


def send(transport: Transport, worker: Worker, request, answers: list[bool]):
    left = iter(answers)
    return transport.send(worker.url, request, connect_seconds=5, read_seconds=5, may_send=lambda: next(left))


def test_nothing_is_sent_where_the_process_was_stopped_while_it_connected():
    with open_worker() as (worker, transport):
        outcome = send(transport, worker, STOP, [True, False])
        assert isinstance(outcome, RequestFailure)
        assert outcome.phase is Phase.TOO_LATE
        assert worker.ended.wait(5)
        assert worker.received == b""


def test_a_body_that_is_held_back_leaves_the_outcome_unknown():
    with open_worker() as (worker, transport):
        outcome = send(transport, worker, PATCH, [True, True, False])
        assert isinstance(outcome, RequestFailure)
        assert outcome.phase is Phase.SENT
        assert worker.ended.wait(5)
        assert worker.received.startswith(b"PATCH ")
        assert b"kafka_offset" not in worker.received


def test_a_request_in_time_is_sent_on_the_connection_that_was_made():
    with open_worker() as (worker, transport):
        first = send(transport, worker, STOP, [True, True])
        # A request without a body is whole when its headers are sent; nothing is asked after them.
        second = send(transport, worker, STOP, [True, True])
        assert (first.status, second.status) == (202, 202)
        assert worker.received.count(b"PUT /connectors/x/stop") == 2


class Clock:
    """A clock that a test moves; sleeping moves it too, and by more where the process is stopped."""

    def __init__(self, *, stopped_seconds: float = 0.0) -> None:
        self.now_seconds = 1000.0
        self.stopped_seconds = stopped_seconds

    def now(self) -> float:
        return self.now_seconds

    def sleep(self, seconds: float) -> None:
        self.now_seconds += seconds + self.stopped_seconds


def build_caller(clock: Clock, *bodies: dict) -> tuple[Caller, list[str]]:
    answers, asked = iter(bodies), []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.path}")
        body = next(answers, None)
        return httpx2.Response(202) if body is None else httpx2.Response(body["error_code"], json=body)

    transport = Transport(("http://one:1",), transport=httpx2.MockTransport(handle))
    workers = FailoverUrls(("http://one:1",), cluster="game")
    timing = Timing(deadline_seconds=60.0)
    return Caller(workers, transport, timing=timing, cluster="game", now=clock.now, sleep=clock.sleep), asked


@pytest.mark.parametrize("request_", [STOP, PATCH, requests.config("x")], ids=["stop", "patch", "read"])
def test_no_attempt_follows_a_pause_in_which_the_deadline_passed(request_):
    clock = Clock(stopped_seconds=30.0)
    caller, asked = build_caller(clock, STALE)

    with limit_requests(Deadline(clock.now() + 20.0, clock.now)), pytest.raises(DeadlineError) as caught:
        caller.call(request_)

    assert len(asked) == 1
    assert "nothing more was sent" in caught.value.message
    assert "stale configuration" in caught.value.cause
    assert "asked 1 times" in caught.value.cause


def test_a_write_outside_of_a_change_ends_at_the_deadline_of_its_own_call():
    clock = Clock(stopped_seconds=90.0)
    caller, asked = build_caller(clock, STALE)

    with pytest.raises(DeadlineError):
        caller.call(STOP)

    assert len(asked) == 1


def test_a_read_outside_of_a_change_is_asked_again_after_a_stop():
    clock = Clock(stopped_seconds=90.0)
    caller, asked = build_caller(clock, STALE)

    assert caller.call(requests.config("x")).status == 202
    assert len(asked) == 2


def test_a_deadline_that_passes_after_a_partial_answer_leaves_the_outcome_unknown():
    clock = Clock(stopped_seconds=30.0)
    caller, asked = build_caller(clock, PARTIAL)

    with limit_requests(Deadline(clock.now() + 20.0, clock.now)), pytest.raises(UnknownOutcomeError):
        caller.call(PATCH)

    assert len(asked) == 1


def test_the_pauses_end_at_the_nearer_deadline():
    clock = Clock()
    caller, _ = build_caller(clock, *[STALE] * 1000)
    began_at = clock.now()

    with limit_requests(Deadline(began_at + 5.0, clock.now)), pytest.raises(DeadlineError):
        caller.call(STOP)

    assert clock.now() - began_at <= 5.0
