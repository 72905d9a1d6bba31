"""The configs of the target: the source's, and safe for old records until the cut-over."""

from __future__ import annotations

import pytest

from seamark.copies.plan.target_configs import ConfigChoice, TargetBrokers, choose_configs
from seamark.kafka.model import TopicConfig

FOREVER = "9223372036854775807"
KNOWN = frozenset(
    {
        "cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type", "min.insync.replicas",
        "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "retention.ms", "retention.bytes",
        "segment.bytes", "remote.storage.enable", "min.compaction.lag.ms",
        "leader.replication.throttled.replicas",
    }
)  # fmt: skip
OLD = KNOWN - {"message.timestamp.after.max.ms", "message.timestamp.before.max.ms"} | {
    "message.timestamp.difference.max.ms"
}


def own(value, **more):
    return TopicConfig(value, "DYNAMIC_TOPIC_CONFIG", **more)


def by_broker(value):
    return TopicConfig(value, "STATIC_BROKER_CONFIG")


def default(value):
    return TopicConfig(value, "DEFAULT_CONFIG")


def choose(source, *, known=KNOWN, defaults=None, copies=3):
    return choose_configs(source, TargetBrokers(known, defaults), replication_factor=copies)


def values(chosen):
    return {one.key: (one.value, one.final) for one in chosen.choices}


def test_a_plain_topic_is_made_safe_and_then_as_before():
    chosen = choose({})
    assert values(chosen) == {
        "message.timestamp.after.max.ms": (FOREVER, None),
        "message.timestamp.before.max.ms": (FOREVER, None),
        "message.timestamp.type": ("CreateTime", None),
        "retention.bytes": ("-1", None),
        "retention.ms": ("-1", None),
    }
    assert all(one.why for one in chosen.choices)
    assert (chosen.notes, chosen.refusals) == ((), ())


def test_own_configs_are_copied_and_those_held_come_back():
    chosen = choose(
        {
            "retention.ms": own("3600000"),
            "segment.bytes": own("1000000"),
            "max.message.bytes": own("5000000"),
            "message.timestamp.after.max.ms": own("60000"),
            "min.insync.replicas": by_broker("2"),
            "compression.type": default("producer"),
        }
    )
    found = values(chosen)
    assert found["retention.ms"] == ("-1", "3600000")
    assert found["segment.bytes"] == ("1000000", "1000000")
    assert found["max.message.bytes"] == ("5000000", "5000000")
    assert found["message.timestamp.after.max.ms"] == (FOREVER, "60000")
    # In the same cluster the target gets them from the same brokers.
    assert "min.insync.replicas" not in found
    assert "compression.type" not in found


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compaction_waits(policy):
    chosen = choose({"cleanup.policy": own(policy), "min.compaction.lag.ms": own("5")})
    assert values(chosen)["cleanup.policy"] == ("delete", policy)
    assert values(chosen)["min.compaction.lag.ms"] == ("5", "5")
    assert any("compacted" in note for note in chosen.notes)


@pytest.mark.parametrize(("given", "told"), [({"delete.retention.ms": own("60000")}, "60000"), ({}, "86400000")])
def test_deletions_that_the_source_forgets_meanwhile_are_told_of(given, told):
    notes = choose({"cleanup.policy": own("compact"), **given}).notes
    assert any(f"removes tombstones after delete.retention.ms={told}" in note for note in notes)
    assert not any("removes tombstones" in note for note in choose(given).notes)


def test_compaction_by_the_brokers_waits_too():
    assert values(choose({"cleanup.policy": by_broker("compact")}))["cleanup.policy"] == ("delete", None)


def test_times_of_the_brokers_are_kept_as_times_of_records():
    chosen = choose({"message.timestamp.type": own("LogAppendTime")})
    assert values(chosen)["message.timestamp.type"] == ("CreateTime", "LogAppendTime")
    assert any("keep their LogAppendTime" in note for note in chosen.notes)


def test_older_brokers_have_one_bound_for_timestamps():
    found = values(choose({}, known=OLD))
    assert found["message.timestamp.difference.max.ms"] == (FOREVER, None)
    assert "message.timestamp.after.max.ms" not in found


def test_what_names_replicas_is_left_out():
    assert "leader.replication.throttled.replicas" not in values(
        choose({"leader.replication.throttled.replicas": own("0:1")})
    )


def test_what_can_not_be_copied_is_said():
    chosen = choose({"confluent.tier.enable": own("true"), "segment.bytes": own("", is_sensitive=True)})
    assert chosen.notes == (
        "confluent.tier.enable=true is not copied: the brokers of the target do not support it",
        "segment.bytes is not copied: the brokers do not return its value",
    )


def test_another_cluster_gets_what_its_brokers_would_not_give():
    source = {
        "min.insync.replicas": by_broker("2"),
        "segment.bytes": by_broker("7"),
        "max.message.bytes": default("1048588"),
        "compression.type": by_broker("lz4"),
    }
    defaults = {"min.insync.replicas": "1", "segment.bytes": "7", "max.message.bytes": "1000"}
    found = values(choose(source, defaults=defaults))
    assert found["min.insync.replicas"] == ("2", "2")
    assert found["max.message.bytes"] == ("1048588", "1048588")
    assert found["compression.type"] == ("lz4", "lz4")
    assert "segment.bytes" not in found


@pytest.mark.parametrize(
    ("source", "defaults", "copies", "refused"),
    [
        ({"min.insync.replicas": own("2")}, None, 1, True),
        ({"min.insync.replicas": by_broker("2")}, None, 1, True),
        ({"min.insync.replicas": own("2")}, None, 2, False),
        ({}, {"min.insync.replicas": "3"}, 2, False),
        ({}, None, 1, False),
    ],
)
def test_more_insync_than_copies_is_refused(source, defaults, copies, refused):
    refusals = choose(source, defaults=defaults, copies=copies).refusals
    assert bool(refusals) == refused
    if refused:
        assert "min.insync.replicas=2 is more than the replication factor of the target, 1" in refusals[0]


def test_brokers_that_tell_nothing_are_refused():
    assert "do not report which configs" in choose({}, known=frozenset()).refusals[0]


def test_tiered_topics_are_said():
    assert any("tiered" in note for note in choose({"remote.storage.enable": own("true")}).notes)


def test_choices_survive_json():
    for one in choose({"cleanup.policy": own("compact")}).choices:
        assert ConfigChoice.from_list(one.to_list()) == one
