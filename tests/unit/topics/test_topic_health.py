"""The health of topics: what each check says to what was read, and what is read at all."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from seamark.context import JournalSettings
from seamark.context.journal import JournalKind
from seamark.core.readings import Severity
from seamark.errors import NotFoundError, UnreachableError
from seamark.kafka.groups import Committed
from seamark.kafka.model import (
    Broker,
    KafkaCluster,
    LogOffsets,
    PartitionReading,
    PartitionStatus,
    TopicConfig,
    TopicSize,
    TopicStatus,
)
from seamark.topics.health import examine
from seamark.topics.health_model import HealthCheck, HealthEvidence, Reader
from seamark.topics.views import render_topic_health
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import SINK_CONFIG, LivingConnect, living_context, open_living_fleet

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
GIB = 1 << 30


def topic(name, *partitions, configs=None, internal=False):
    """A topic of (leader, replicas, isr)."""
    told = {"cleanup.policy": "delete", "min.insync.replicas": "2", "retention.ms": str(WEEK_MS)} | (configs or {})
    return TopicStatus(
        name,
        f"id-{name}",
        tuple(PartitionStatus(n, leader, replicas, isr) for n, (leader, replicas, isr) in enumerate(partitions)),
        configs={key: TopicConfig(value, "DYNAMIC_TOPIC_CONFIG") for key, value in told.items()},
        is_internal=internal,
    )


WELL = (1, (1, 2, 3), (1, 2, 3))


def look(tmp_path, *topics, brokers=(1, 2, 3), context=None, **changes):
    """The findings about some topics, by check."""
    cluster = KafkaCluster("k", tuple(Broker(number, "b", 9092) for number in brokers))
    evidence = HealthEvidence(
        context or living_context(tmp_path, offsets_topic=None),
        cluster,
        {found.name: found for found in topics},
        **changes,
    )
    return examine(evidence)


def one(health, check):
    (found,) = [found for found in health.findings if found.check is check]
    return found


def test_nothing_is_said_of_what_is_well(tmp_path):
    health = look(tmp_path, topic("t", WELL, WELL))
    assert (health.findings, health.topics, health.partitions) == ((), {"t": 2}, 2)


def test_a_partition_that_nobody_leads_is_in_all_three_lists(tmp_path):
    gone = (None, (2, 3), (2,))
    health = look(tmp_path, topic("t", WELL, gone), brokers=(1,))
    for check in (HealthCheck.LEADERLESS, HealthCheck.UNDER_MIN_ISR, HealthCheck.UNDER_REPLICATED):
        assert health.find(check) == (("t", 1),)
    found = one(health, HealthCheck.LEADERLESS)
    assert (found.severity, found.next_step) == (Severity.ERROR, "restart broker 3")
    assert health.findings[0] is found


def test_a_leaderless_partition_whose_copies_are_all_in_sync_names_its_brokers(tmp_path):
    health = look(tmp_path, topic("t", (None, (2,), (2,)), configs={"min.insync.replicas": "1"}), brokers=(1,))
    assert one(health, HealthCheck.LEADERLESS).next_step == "restart broker 2"


def test_missing_copies_name_the_brokers_that_are_gone_and_those_that_lag(tmp_path):
    health = look(tmp_path, topic("t", (1, (1, 2, 4), (1,))), brokers=(1, 2, 3))
    found = one(health, HealthCheck.UNDER_REPLICATED)
    assert found.what == "the replicas on brokers 2, 4 are missing or not in sync"
    assert found.next_step == "restart broker 4; broker 2 is running: wait, or check the broker log"
    isr = one(health, HealthCheck.UNDER_MIN_ISR)
    assert (isr.severity, isr.what) == (Severity.ERROR, "1 replica in sync, and min.insync.replicas is 2")


def test_a_copy_on_its_way_to_another_broker_is_not_missed(tmp_path):
    growing = topic("t", (1, (1, 2, 3), (1, 2)))
    assert not look(tmp_path, growing, moving={("t", 0): (3,)}).findings
    assert look(tmp_path, growing, moving={("t", 1): (3,)}).find(HealthCheck.UNDER_REPLICATED) == (("t", 0),)


def test_more_copies_asked_for_than_there_are_is_a_warning(tmp_path):
    lone = topic("t", (1, (1,), (1,)))
    assert (lone.under_min_isr, lone.refusing, render_topic_health(lone)) == ((0,), (), "▲ UNDER MIN ISR")
    found = one(look(tmp_path, lone), HealthCheck.UNDER_MIN_ISR)
    assert (found.severity, found.partitions) == (Severity.WARNING, (0,))
    assert "--config min.insync.replicas=1" in found.next_step


def test_topics_that_connect_and_kafka_live_on_must_be_compacted(tmp_path):
    context = living_context(tmp_path, offsets_topic="o", config_topic="c", status_topic="s")
    compact = {"cleanup.policy": "compact"}
    health = look(
        tmp_path,
        topic("o", WELL),
        topic("c", WELL, WELL, configs=compact),
        topic("__consumer_offsets", WELL, configs={"cleanup.policy": "compact,delete"}, internal=True),
        context=context,
    )
    said = {found.topic: (found.what, found.next_step) for found in health.findings}
    assert said["o"] == (
        "cleanup.policy is delete instead of compact",
        "seamark topics update o --config cleanup.policy=compact",
    )
    assert said["c"][0] == "the config topic has 2 partitions"
    assert said["s"][0] == "the topic does not exist"
    assert said["__consumer_offsets"][1].startswith("kafka-configs.sh")
    assert {found.severity for found in health.findings} == {Severity.ERROR}


def test_the_journal_must_be_kept_for_good(tmp_path):
    context = replace(
        living_context(tmp_path, offsets_topic=None), own_journal=JournalSettings("dev", kind=JournalKind.KAFKA)
    )
    heads = topic("seamark-journal-heads", WELL)
    health = look(tmp_path, topic("seamark-journal", WELL), heads, context=context)
    assert {(found.topic, found.what) for found in health.findings} == {
        ("seamark-journal", f"retention.ms is {WEEK_MS}"),
        ("seamark-journal-heads", "cleanup.policy is delete instead of compact"),
    }
    kept = topic("seamark-journal", WELL, configs={"retention.ms": "-1", "retention.bytes": "-1"})
    heads = topic("seamark-journal-heads", WELL, configs={"cleanup.policy": "compact"})
    assert not look(tmp_path, kept, heads, context=context).findings


def test_a_broker_that_lost_its_leaders_and_one_that_has_too_many_are_named(tmp_path):
    moved = [(2, (1, 2), (2, 1))] * 6 + [(1, (1, 2), (1, 2))] * 4
    health = look(tmp_path, topic("t", *moved, configs={"min.insync.replicas": "1"}), brokers=(1, 2))
    assert one(health, HealthCheck.LEADER_SKEW).what.startswith("broker 1 leads 4 of the 10 partitions")
    uneven = topic("t", *[(1, (1,), (1,))] * 60, configs={"min.insync.replicas": "1"})
    found = one(look(tmp_path, uneven), HealthCheck.LEADER_SKEW)
    assert found.what == "broker 1 leads 60 partitions; an even share is 20"


def test_skewed_bytes_are_named_by_broker_and_by_partition(tmp_path):
    sizes = {"t": TopicSize("t", {(0, 1): 10 * GIB, (1, 2): 1000, (2, 3): 1000, (3, 3): 1000})}
    health = look(tmp_path, topic("t", WELL, WELL, WELL, WELL), sizes=sizes)
    broker, partition = [found for found in health.findings if found.check is HealthCheck.SIZE_SKEW]
    assert broker.what == "broker 1 holds 10.0 GiB; an even share is 3.3 GiB"
    assert (partition.topic, partition.partitions, partition.severity) == ("t", (0,), Severity.INFO)


# --- readers, on brokers in memory


class Place:
    """Brokers with a topic t whose records have an age, and a fleet over them."""

    def __init__(self, folder):
        self.game = LivingConnect()
        self.brokers = FakeBrokers()
        self.fleet = open_living_fleet(folder, self.game, brokers=self.brokers, offsets_topic=None)

    def add_topic(self, ages_days, name="t", **changes):
        self.brokers.add_topic(name, **changes)
        self.brokers.topics[name].logs = [[int(time.time() * 1000 - age * DAY_MS) for age in ages_days]]

    def look(self):
        return self.fleet.topics.health()


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    with made.fleet:
        yield made


def test_a_commit_beyond_the_end_or_of_a_later_epoch_is_on_another_log(place):
    place.add_topic([1, 1, 1])
    place.brokers.add_group("beyond", {("t", 0): 9}, state="STABLE")
    place.brokers.add_group("other-shape", {("t", 4): 1})
    health = place.look()
    assert [(found.reader, found.severity, found.partitions) for found in health.findings] == [
        ("group/beyond", Severity.ERROR, (0,)),
        ("group/other-shape", Severity.WARNING, (4,)),
    ]
    assert {found.check for found in health.findings} == {HealthCheck.RECREATED}
    assert "stop its members, then seamark groups move beyond --to earliest" in health.findings[0].next_step


def test_an_epoch_that_the_leader_has_not_had_yet_is_another_log(tmp_path):
    reader = Reader("g", "EMPTY", {("t", 0): Committed(2, leader_epoch=7)})
    health = look(
        tmp_path, topic("t", WELL), readers=(reader,), bounds={("t", 0): LogOffsets(0, 9)}, epochs={("t", 0): 3}
    )
    assert (
        "the offset was committed in leader epoch 7, but the leader epoch is 3"
        in one(health, HealthCheck.RECREATED).what
    )
    fine = look(
        tmp_path, topic("t", WELL), readers=(reader,), bounds={("t", 0): LogOffsets(0, 9)}, epochs={("t", 0): 7}
    )
    assert not fine.findings


def test_records_that_went_before_somebody_read_them_are_counted(place):
    place.add_topic([1] * 10)
    place.brokers.topics["t"].starts[0] = 6
    place.game.add("reader", SINK_CONFIG)
    place.brokers.add_group("connect-reader", {("t", 0): 2}, state="STABLE")
    place.brokers.add_group("leftover", {("t", 0): 1})
    sink, leftover = place.look().findings
    assert (sink.severity, sink.reader) == (Severity.ERROR, "connector/game/reader")
    assert sink.what == "4 records deleted before connector/game/reader read them"
    assert (leftover.severity, leftover.next_step) == (
        Severity.INFO,
        "if group leftover is not used any more: seamark groups delete leftover",
    )


def test_unread_records_in_the_last_fifth_of_their_life_are_a_warning(place):
    place.add_topic([6.5, 6.4, 6.3, 3, 1])
    place.brokers.add_group("late", {("t", 0): 1}, state="STABLE")
    place.brokers.add_group("well", {("t", 0): 3}, state="STABLE")
    (found,) = place.look().findings
    assert (found.check, found.severity, found.reader) == (
        HealthCheck.READER_NEARLY_PASSED,
        Severity.WARNING,
        "group/late",
    )
    assert found.what == "2 records that group/late has not read are older than 80% of retention.ms (7 d)"
    place.brokers.topics["t"].configs["retention.ms"] = "-1"
    assert not place.look().findings
    place.brokers.topics["t"].configs = {"cleanup.policy": "compact"}
    assert not place.look().findings


def test_a_reader_as_far_behind_as_retention_bytes_is_a_warning(place):
    place.add_topic([1] * 10, configs={"retention.bytes": "1000"})
    place.brokers.add_group("late", {("t", 0): 1}, state="STABLE")
    place.brokers.add_group("well", {("t", 0): 5}, state="STABLE")
    (found,) = place.look().findings
    assert (found.reader, found.what) == (
        "group/late",
        "the lag of group/late is about 900 B, and retention.bytes is 1000 B",
    )


@pytest.mark.parametrize(
    ("at", "severity", "words"),
    [
        (1, Severity.WARNING, "older than 5 d wait for it"),
        (3, Severity.INFO, "the time since its last commit is unknown"),
    ],
)
def test_a_stopped_sink_that_read_nothing_recent_is_told_that_its_position_expires(place, at, severity, words):
    place.add_topic([20, 19, 18], configs={"retention.ms": "-1"})
    place.game.add("reader", SINK_CONFIG, state="STOPPED")
    place.brokers.add_group("connect-reader", {("t", 0): at})
    (found,) = place.look().findings
    assert (found.check, found.severity) == (HealthCheck.OFFSETS_EXPIRE, severity)
    assert words in found.what
    assert "7 d (offsets.retention.minutes)" in found.why


def test_a_stopped_sink_that_read_something_recent_is_safe(place):
    place.add_topic([20, 2, 1], configs={"retention.ms": "-1"})
    place.game.add("reader", SINK_CONFIG, state="STOPPED")
    place.brokers.add_group("connect-reader", {("t", 0): 2})
    assert not place.look().findings
    assert place.brokers.calls["read_broker_setting"] == 1


def test_a_stopped_sink_without_a_position_is_told(place):
    place.add_topic([1, 1])
    place.game.add("reader", SINK_CONFIG, state="STOPPED")
    place.game.add("at-work", SINK_CONFIG)
    (found,) = place.look().findings
    assert (found.check, found.severity, found.topic) == (HealthCheck.OFFSETS_EXPIRE, Severity.INFO, "t")
    assert found.what.startswith("connector/game/reader is stopped and has no committed offsets")
    place.brokers.failing["read_consumer_groups", ""] = UnreachableError("no coordinator")
    assert not place.look().findings


def test_the_brokers_are_asked_for_the_expiry_only_where_a_sink_is_not_at_work(place):
    place.add_topic([20, 19])
    place.game.add("reader", SINK_CONFIG)
    place.brokers.add_group("connect-reader", {("t", 0): 2}, state="STABLE")
    place.look()
    assert not place.brokers.calls["read_broker_setting"]


def test_what_can_not_be_read_is_a_failure_and_the_rest_is_told(place):
    place.add_topic([1, 1])
    place.brokers.topics["t"].leaderless = {0}
    place.game.failing["read_connectors", ""] = UnreachableError("nobody answers")
    place.brokers.failing["read_consumer_groups", ""] = UnreachableError("no coordinator")
    health = place.look()
    assert {*health.failures} == {"game", "groups"}
    assert health.find(HealthCheck.LEADERLESS) == (("t", 0),)


def test_what_went_meanwhile_is_no_failure(place, monkeypatch):
    place.add_topic([1, 1])
    place.brokers.add_group("g", {("t", 0): 1}, state="STABLE")
    gone = PartitionReading({}, failures={("t", 0): NotFoundError("no topic t")})
    monkeypatch.setattr(place.brokers, "read_log_offsets", lambda spots, *, at: gone)
    health = place.look()
    assert (health.findings, health.failures) == ((), {})


def test_health_can_be_narrowed_to_some_topics(place):
    place.add_topic([1])
    place.add_topic([1], name="u")
    for name in ("t", "u"):
        place.brokers.topics[name].leaderless = {0}
    health = place.look().narrow(["u*"])
    assert ({found.topic for found in health.findings}, health.topics) == ({"u"}, {"u": 1})
