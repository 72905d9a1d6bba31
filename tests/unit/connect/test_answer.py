"""What an answer means, row by row."""

from __future__ import annotations

import json

import pytest

from seamark.connect import requests
from seamark.connect.answers import ANSWER_RULES, HttpResponse, Phase, RequestFailure, Verdict, judge
from seamark.core.offsets import Offset
from seamark.errors import (
    AlreadyExistsError,
    AuthenticationError,
    AuthorizationError,
    NotFoundError,
    RefusedError,
    RejectedError,
    UnreachableError,
    UnsupportedError,
)

READ = requests.config("x")
WRITE = requests.put_config("x", {"a": "b"})
PATCH = requests.patch_offsets("x", [Offset({"f": "a"}, {"p": 1})])
READ_OFFSETS = requests.offsets("x")
HEALTH = requests.health()
DONE, NO, UNKNOWN, AGAIN = Verdict.DONE, Verdict.DID_NOT_HAPPEN, Verdict.UNKNOWN, Verdict.TRY_AGAIN
JETTY_PAGE = "<html><head><title>Error 404 Not Found</title></head><body>HTTP ERROR 404 Not Found</body></html>"
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
ZOMBIE = (
    "Failed to alter consumer group offsets for connector x either because its tasks haven't stopped completely yet or "
    "the connector was resumed before the request to alter its offsets could be successfully completed. If the "
    "connector is in a stopped state, this operation can be safely retried. If it doesn't eventually succeed, the "
    "Connect cluster may need to be restarted to get rid of the zombie sink tasks."
)


def connect_error(status: int, message: str | None) -> HttpResponse:
    body = json.dumps({"error_code": status, "message": message}).encode()
    return HttpResponse(status, "application/json", body)


# status, message, verdict for a read, verdict for a write, error
ROWS = [
    (400, "Connectors must be in the STOPPED state before their offsets can be modified.", NO, NO, RejectedError),
    (400, "Partitions / offsets need to be provided for an alter offsets request", NO, NO, RejectedError),
    (400, "Connector configuration is invalid and contains the following 1 error(s):\nno", NO, NO, RejectedError),
    (401, "", NO, NO, AuthenticationError),
    (403, "", NO, NO, AuthorizationError),
    (403, "Topic tracking is disabled.", NO, NO, UnsupportedError),
    (403, "Topic tracking reset is disabled.", NO, NO, UnsupportedError),
    (404, "Connector x not found", AGAIN, AGAIN, NotFoundError),
    (404, "Unknown connector x", AGAIN, AGAIN, NotFoundError),
    (404, "Unknown connector: x", AGAIN, AGAIN, NotFoundError),
    (404, "No status found for connector x", AGAIN, AGAIN, NotFoundError),
    (404, "HTTP 404 Not Found", NO, NO, UnsupportedError),
    (404, "invalid log level 'loud'.", NO, NO, RejectedError),
    (405, "HTTP 405 Method Not Allowed", NO, NO, UnsupportedError),
    (408, "", AGAIN, UNKNOWN, UnreachableError),
    (409, "Connector x already exists", NO, NO, AlreadyExistsError),
    (
        409,
        "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.",
        AGAIN,
        AGAIN,
        RejectedError,
    ),
    (
        409,
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
        AGAIN,
        AGAIN,
        RejectedError,
    ),
    (
        409,
        STALE,
        AGAIN,
        AGAIN,
        RejectedError,
    ),
    (409, "Fencing failed because new task configurations were generated for the connector", NO, NO, RejectedError),
    (415, "HTTP 415 Unsupported Media Type", NO, NO, RejectedError),
    (429, "", AGAIN, AGAIN, UnreachableError),
    (500, "Request cannot be completed because a rebalance is expected", AGAIN, AGAIN, RejectedError),
    (500, "Request timed out", AGAIN, UNKNOWN, UnreachableError),
    (500, "Request timed out. The worker is currently starting, which began at 1970", AGAIN, UNKNOWN, UnreachableError),
    (500, "Error trying to forward REST request: Connector x not found", AGAIN, AGAIN, NotFoundError),
    (500, "Error trying to forward REST request: Unknown connector: x", AGAIN, AGAIN, NotFoundError),
    (500, "Error trying to forward REST request: Connector x already exists", NO, NO, AlreadyExistsError),
    (
        500,
        "Error trying to forward REST request: Cannot complete request momentarily due to stale configuration",
        AGAIN,
        AGAIN,
        RejectedError,
    ),
    (500, "Error trying to forward REST request: something else", NO, UNKNOWN, RejectedError),
    (500, "IO Error trying to forward REST request: java.io.EOFException", AGAIN, UNKNOWN, UnreachableError),
    (
        500,
        "IO Error trying to forward REST request: java.net.ConnectException: Connection refused",
        AGAIN,
        AGAIN,
        UnreachableError,
    ),
    (500, 'Unrecognized field "zz" (class Create), not marked as ignorable', NO, NO, RejectedError),
    (500, "Cannot deserialize value of type `java.lang.String` from Object value", NO, NO, RejectedError),
    (500, 'Cannot invoke "X.offsets()" because "offsets" is null', NO, NO, RejectedError),
    # A null pointer somewhere else proves nothing about what was done before it.
    (500, 'Cannot invoke "Foo.bar()" because "this.foo" is null', NO, UNKNOWN, RejectedError),
    (500, "Failed to find any class that implements Connector and which name matches Foo", NO, NO, RejectedError),
    (500, "Failed to write to config topic", NO, UNKNOWN, RejectedError),
    (500, None, NO, UNKNOWN, RejectedError),
    (502, "", AGAIN, UNKNOWN, UnreachableError),
    (503, "This worker is still starting up", AGAIN, UNKNOWN, UnreachableError),
    (504, "", AGAIN, UNKNOWN, UnreachableError),
]


@pytest.mark.parametrize(("status", "message", "read", "write", "error"), ROWS, ids=lambda value: str(value)[:50])
def test_connect_errors_mean_what_the_table_says(status, message, read, write, error):
    answer = connect_error(status, message)
    assert judge(READ, answer).verdict is read
    judgement = judge(WRITE, answer)
    assert judgement.verdict is write
    assert judgement.rule.error is error


@pytest.mark.parametrize("status", [400, 404, 409])
def test_a_write_answered_with_400_404_or_409_is_never_unknown(status):
    for message in ("anything", "", None):
        assert judge(WRITE, connect_error(status, message)).verdict in (NO, AGAIN)


@pytest.mark.parametrize("status", range(500, 600))
def test_a_write_answered_with_an_unknown_5xx_is_never_repeated_and_never_taken_as_done(status):
    assert judge(WRITE, connect_error(status, "words nobody has heard")).verdict is UNKNOWN


@pytest.mark.parametrize(
    ("message", "verdict", "error"),
    [
        (ZOMBIE, AGAIN, RejectedError),
        (ZOMBIE.replace("alter", "reset"), AGAIN, RejectedError),
        ("Failed to alter consumer group offsets for connector x", UNKNOWN, RejectedError),
        ("Failed to modify offsets for sink connector x", UNKNOWN, RejectedError),
        ("Offsets may only contain primitive types as values, but field position contains MAP", NO, RejectedError),
        (
            "Failed to modify offsets for connector x because it doesn't support external modification of offsets",
            NO,
            UnsupportedError,
        ),
    ],
)
def test_changes_of_offsets_are_told_apart_by_text(message, verdict, error):
    judgement = judge(PATCH, connect_error(500, message))
    assert judgement.verdict is verdict
    if verdict is NO:
        assert judgement.rule.error is error


def test_a_zombie_sink_task_may_have_left_a_part_changed():
    assert judge(PATCH, connect_error(500, ZOMBIE)).rule.is_partial


def test_a_404_page_is_a_worker_that_starts_and_never_a_missing_connector():
    page = HttpResponse(404, "text/html;charset=iso-8859-1", JETTY_PAGE.encode())
    for request in (READ, WRITE):
        judgement = judge(request, page)
        assert judgement.verdict is AGAIN
        assert judgement.rule.name == "starting"
        assert "<" not in judgement.text


def test_jettys_own_json_404_is_a_worker_that_starts_too():
    body = json.dumps({"url": "/connectors/x", "status": "404", "message": "Not Found"}).encode()
    judgement = judge(READ, HttpResponse(404, "application/json", body))
    assert judgement.verdict is AGAIN
    assert judgement.rule.name == "starting"


def test_an_empty_500_is_asked_again_by_a_read_and_unknown_to_a_write():
    assert judge(READ, HttpResponse(500)).verdict is AGAIN
    assert judge(WRITE, HttpResponse(500)).verdict is UNKNOWN


def test_a_200_that_is_a_page_is_an_error():
    page = HttpResponse(200, "text/html", b"<html>Please log in</html>")
    assert judge(READ, page).verdict is NO
    assert judge(READ, page).rule.error is UnreachableError
    assert judge(WRITE, page).verdict is UNKNOWN


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_success_with_json_or_nothing_is_done(status):
    assert judge(WRITE, HttpResponse(status, "application/json", b'{"a":1}')).verdict is DONE
    assert judge(WRITE, HttpResponse(status)).verdict is DONE
    assert judge(WRITE, HttpResponse(status, "", b'{"a":1}')).verdict is DONE


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error_that_names_the_host(status):
    answer = HttpResponse(status, location_host="evil.example:81")
    assert judge(READ, answer).verdict is NO
    assert judge(READ, answer).text == "redirect to evil.example:81"
    assert judge(WRITE, answer).verdict is UNKNOWN


@pytest.mark.parametrize(("status", "word"), [(200, "healthy"), (503, "starting"), (500, "unhealthy")])
def test_health_is_an_answer_whatever_its_status(status, word):
    body = json.dumps({"status": word, "message": "m"}).encode()
    assert judge(HEALTH, HttpResponse(status, "application/json", body)).verdict is DONE


def test_health_of_a_worker_that_has_none_is_unsupported():
    assert judge(HEALTH, connect_error(404, "HTTP 404 Not Found")).rule.error is UnsupportedError


def test_without_a_connection_even_a_write_may_go_on():
    failure = RequestFailure(Phase.CONNECTING, "refused")
    assert judge(READ, failure).verdict is AGAIN
    assert judge(WRITE, failure).verdict is AGAIN
    assert judge(WRITE, failure).rule.elsewhere


def test_a_write_that_was_sent_and_not_answered_is_unknown():
    failure = RequestFailure(Phase.SENT, "read timeout")
    assert judge(READ, failure).verdict is AGAIN
    assert judge(WRITE, failure).verdict is UNKNOWN


def test_an_answer_too_large_is_refused():
    assert judge(READ, RequestFailure(Phase.TOO_LARGE, "x")).rule.error is RefusedError
    assert judge(WRITE, RequestFailure(Phase.TOO_LARGE, "x")).verdict is UNKNOWN


def test_a_validation_is_a_put_that_may_be_repeated():
    request = requests.validate("Plugin", {"a": "b"})
    assert judge(request, connect_error(500, "Request timed out")).verdict is AGAIN
    assert judge(request, RequestFailure(Phase.SENT, "x")).verdict is AGAIN


def test_secrets_that_were_sent_do_not_come_back_in_the_text():
    request = requests.create("x", {"connection.password": "hunter22", "file": "f"}, initial_state=None)
    judgement = judge(request, connect_error(400, "Invalid value hunter22 for configuration connection.password"))
    assert "hunter22" not in judgement.text
    assert "(sensitive)" in judgement.text


def test_every_status_has_a_rule_and_long_texts_are_cut():
    for status in range(100, 600):
        for request in (READ, WRITE, PATCH, HEALTH, READ_OFFSETS):
            assert judge(request, connect_error(status, "x" * 5000)).verdict in set(Verdict)
            assert len(judge(request, connect_error(status, "x" * 5000)).text) < 2100


def test_rule_names_are_unique():
    names = [rule.name for rule in ANSWER_RULES]
    assert len(names) == len(set(names))
