"""What each error of librdkafka becomes."""

import pytest

from seamark.errors import (
    AuthenticationError,
    AuthorizationError,
    DeadlineError,
    NotFoundError,
    RejectedError,
    UnreachableError,
)
from seamark.kafka.clients import ConnectionEvents
from seamark.kafka.failures import build_error
from tests.unit.kafka.fakes import FakeError


def build(name, text="why", **options):
    return build_error(FakeError(name, text), action="read the topic t", subject="t", operation="DESCRIBE", **options)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SASL_AUTHENTICATION_FAILED", AuthenticationError),
        ("UNSUPPORTED_SASL_MECHANISM", AuthenticationError),
        ("_SSL", AuthenticationError),
        ("GROUP_AUTHORIZATION_FAILED", AuthorizationError),
        ("CLUSTER_AUTHORIZATION_FAILED", AuthorizationError),
        ("_TRANSPORT", UnreachableError),
        ("_RESOLVE", UnreachableError),
        ("_ALL_BROKERS_DOWN", UnreachableError),
        ("_DESTROY_BROKER", UnreachableError),
        ("_TIMED_OUT", DeadlineError),
        ("REQUEST_TIMED_OUT", DeadlineError),
        ("UNKNOWN_TOPIC_OR_PART", NotFoundError),
        ("INVALID_TOPIC_EXCEPTION", RejectedError),
    ],
)
def test_kind_by_name(name, kind):
    error = build(name)
    assert type(error) is kind
    assert error.message
    assert error.hint
    assert error.cause == "why"
    assert error.context == {"kafka_error": name, "subject": "t"}


def test_a_cluster_operation_is_granted_on_the_cluster():
    assert build("CLUSTER_AUTHORIZATION_FAILED").hint.startswith("grant DESCRIBE on the cluster")


def test_a_timeout_with_a_login_refused_before_it_is_a_login_problem():
    error = build("_TIMED_OUT", last_event=FakeError("_AUTHENTICATION", "bad password"))
    assert isinstance(error, AuthenticationError)
    assert error.cause == "bad password"


def test_secrets_in_the_text_are_masked():
    assert build("INVALID_CONFIG", "sasl.jaas password=hunter2").cause == "sasl.jaas password=(sensitive)"


def test_read_of_a_topic_names_the_acl_operations():
    error = ConnectionEvents().build_read_error(FakeError("TOPIC_AUTHORIZATION_FAILED"), "orders")
    assert isinstance(error, AuthorizationError)
    assert error.message == "not allowed to read the topic orders"
    assert error.hint == "grant READ and DESCRIBE on the topic orders to the principal of this context"


def test_read_that_timed_out_reports_the_error_of_the_connection():
    events = ConnectionEvents()
    events.record(FakeError("_TRANSPORT", "connection refused"))
    error = events.build_read_error(FakeError("_TIMED_OUT"), "orders")
    assert isinstance(error, UnreachableError)
    assert "connection refused" in error.cause


def test_read_ends_at_once_if_the_brokers_refuse_the_connection():
    events = ConnectionEvents()
    events.check_readable("orders")
    events.record(FakeError("_SSL", "certificate has expired"))
    with pytest.raises(AuthenticationError) as caught:
        events.check_readable("orders")
    assert "read the topic orders" in caught.value.message
