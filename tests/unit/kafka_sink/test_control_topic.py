"""A control topic keeps what it is given: one that is made is safe, and one that would forget is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seamark.core.readings import Reading
from seamark.errors import AuthorizationError, NotFoundError, RefusedError, RejectedError
from seamark.kafka.model import TopicStatus
from seamark.kafka.topics import TopicFound
from seamark.kafka_sink.control_reads import ensure_control_topic, read_control_id

KEPT = {"cleanup.policy": "compact", "retention.ms": "604800000", "retention.bytes": "-1"}


class Admin:
    """Brokers that make what they are told, and tell it."""

    def __init__(self, *found, brokers=3):
        self.found = {topic.name: topic for topic in found}
        self.brokers = brokers
        self.made = []

    def read_found(self, names):
        return {name: self.found[name] for name in names if name in self.found}

    def read_cluster(self):
        return SimpleNamespace(brokers=tuple(range(self.brokers)))

    def create_topics(self, specs):
        for spec in specs:
            self.made.append(spec)
            self.found[spec.name] = TopicFound(spec.name, spec.partitions, spec.replication_factor, dict(spec.configs))


@pytest.mark.parametrize(("brokers", "copies", "least"), [(1, 1, "1"), (2, 2, "1"), (3, 3, "2"), (9, 3, "2")])
def test_new_topic_outlives_a_broker(brokers, copies, least):
    admin = Admin(brokers=brokers)
    ensure_control_topic(admin, "c")
    [made] = admin.made
    assert (made.name, made.partitions, made.replication_factor) == ("c", 8, copies)
    # Rows that outlive their control record would be written twice.
    assert made.configs["min.insync.replicas"] == least
    assert made.configs["unclean.leader.election.enable"] == "false"
    assert made.configs["cleanup.policy"] == "compact"
    ensure_control_topic(admin, "c")
    assert len(admin.made) == 1


@pytest.mark.parametrize(
    ("configs", "cause"),
    [
        ({"cleanup.policy": "delete"}, "retention.ms=604800000"),
        ({"cleanup.policy": "compact,delete"}, "retention.ms=604800000"),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1000"}, "retention.bytes=1000"),
    ],
)
def test_topic_that_forgets_is_refused(configs, cause):
    admin = Admin(TopicFound("c", 8, 3, {**KEPT, **configs}))
    with pytest.raises(RejectedError, match="deletes old records") as caught:
        ensure_control_topic(admin, "c")
    assert caught.value.cause == cause


@pytest.mark.parametrize("configs", [{}, {"cleanup.policy": "delete", "retention.ms": "-1"}])
def test_topic_that_keeps_everything_is_taken(configs):
    admin = Admin(TopicFound("c", 12, 3, {**KEPT, **configs}))
    ensure_control_topic(admin, "c")
    assert not admin.made


def test_topic_with_too_few_partitions_is_refused():
    with pytest.raises(RejectedError, match="4 partitions, and at least 8 are required"):
        ensure_control_topic(Admin(TopicFound("c", 4, 3, KEPT)), "c")


class Answers:
    """Brokers that answer one thing after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def read_topics(self, names):
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return Reading(items=(TopicStatus(names[0], answer, ()),))
        return Reading(failures={names[0]: answer})


def test_id_of_the_control_topic_is_asked_for_until_a_broker_knows_it():
    busy = NotFoundError("x", context={"kafka_error": "LEADER_NOT_AVAILABLE"})
    assert read_control_id(Answers(busy, "now"), "c") == "now"
    with pytest.raises(AuthorizationError):
        read_control_id(Answers(AuthorizationError("no")), "c")


def test_control_topic_that_was_made_anew_under_a_job_is_refused():
    assert read_control_id(Answers("then"), "c", expected="then") == "then"
    with pytest.raises(RefusedError, match="was recreated while the job ran"):
        read_control_id(Answers("now"), "c", expected="then")
