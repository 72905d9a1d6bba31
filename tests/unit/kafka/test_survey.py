"""Reads over everything: few calls, our own values, and no failure that hides the rest."""

from types import SimpleNamespace

import pytest

from seamark.errors import AuthorizationError, DeadlineError, NotFoundError, PartialError, UnreachableError
from seamark.kafka.bulk_reads import BulkReadAdmin
from seamark.kafka.groups import Committed, GroupType
from seamark.kafka.model import LogOffsets, OffsetAndTimestamp, OffsetSpec
from tests.unit.kafka.fakes import FakeBrokersClient, FakeError, done, failed, node, operations, topic


def open_admin(client):
    return BulkReadAdmin({"bootstrap.servers": "b:9092"}, build_client=client.build, timeout_seconds=1)


def entry(value, source=5):
    return SimpleNamespace(value=value, source=source, is_sensitive=False)


def at(offset, timestamp=-1):
    return done(SimpleNamespace(offset=offset, timestamp=timestamp, leader_epoch=None))


class TestTopics:
    def client(self, **changes):
        configs = {name: done({"min.insync.replicas": entry("2"), "retention.ms": entry("5", 1)}) for name in "ab"}
        found = {"a": done(topic("a", partitions=2, isr=(1,))), "b": done(topic("b", leader=None))}
        return FakeBrokersClient(**{"names": ("b", "a"), "topics": found, "configs": configs} | changes)

    def test_all_come_with_three_calls(self):
        client = self.client()

        reading = open_admin(client).read_all_topics()

        assert [found.name for found in reading] == ["a", "b"]
        assert [call for call, *_ in client.asked] == ["cluster", "topics", "configs"]
        first, second = reading.items
        assert first.own_configs == {"retention.ms": "5"}
        assert (first.min_isr, first.under_min_isr, first.under_replicated) == (2, (0, 1), (0, 1))
        assert (first.spots, second.led_spots, second.leaderless) == ((("a", 0), ("a", 1)), (), (0,))
        assert not first.is_internal

    def test_many_topics_are_asked_for_in_portions(self, monkeypatch):
        monkeypatch.setattr("seamark.kafka.bulk_reads._TOPICS_AT_ONCE", 2)
        names = "abcde"
        client = self.client(
            names=names,
            topics={name: done(topic(name)) for name in names},
            configs={name: done({"min.insync.replicas": entry("2")}) for name in names},
        )

        reading = open_admin(client).read_all_topics()

        assert [(found.name, found.min_isr) for found in reading] == [(name, 2) for name in names]
        # The next portion is asked for before the last one is unpacked.
        assert [call for call, *_ in client.asked] == ["cluster", *["topics", "configs"] * 3]

    def test_configs_are_not_asked_for_in_vain(self):
        client = self.client()

        reading = open_admin(client).read_all_topics(with_configs=False)

        assert [call for call, *_ in client.asked] == ["cluster", "topics"]
        assert reading.items[0].min_isr is None
        assert reading.items[0].under_min_isr == ()

    @pytest.mark.parametrize("what", ["topics", "configs"])
    def test_one_that_went_meanwhile_is_not_there(self, what):
        client = self.client()
        getattr(client, what)["b"] = failed("UNKNOWN_TOPIC_OR_PART")

        reading = open_admin(client).read_all_topics()

        assert [found.name for found in reading] == ["a"]
        assert reading.is_complete

    def test_one_that_is_denied_is_a_failure(self):
        client = self.client()
        client.topics["b"] = failed("TOPIC_AUTHORIZATION_FAILED")

        assert isinstance(open_admin(client).read_all_topics().failures["b"], AuthorizationError)

    def test_no_topic_is_an_empty_reading(self):
        assert len(open_admin(self.client(names=())).read_all_topics()) == 0

    def test_a_list_that_fails_is_our_error(self):
        with pytest.raises(DeadlineError, match="list the topics"):
            open_admin(self.client(names=FakeError("_TIMED_OUT"))).read_all_topics()


class TestBrokerSettings:
    def ask(self, one, two):
        client = FakeBrokersClient(configs={"1": one, "2": two})
        return open_admin(client).read_broker_setting("offsets.retention.minutes")

    def told(self, value):
        return done({"offsets.retention.minutes": entry(value)})

    def test_the_smallest_counts_where_brokers_differ(self):
        assert self.ask(self.told("10080"), self.told("900")) == "900"

    def test_one_answer_is_enough(self):
        assert self.ask(failed("_TIMED_OUT"), self.told("60")) == "60"
        assert self.ask(failed("_TIMED_OUT"), done({})) == ""

    def test_no_answer_is_an_error(self):
        with pytest.raises(DeadlineError, match="configs of broker 1"):
            self.ask(failed("_TIMED_OUT"), failed("_TIMED_OUT"))


class TestOffsets:
    def test_each_partition_has_a_time_of_its_own_and_all_are_one_call(self):
        client = FakeBrokersClient(offsets={("t", 0): at(4, 1000), ("t", 1): at(-1)})
        reading = open_admin(client).read_offsets_at({("t", 0): 900, ("t", 1): 5000})
        assert reading.found == {("t", 0): OffsetAndTimestamp(4, 1000), ("t", 1): None}
        assert [call for call, *_ in client.asked] == ["offsets"]
        assert open_admin(client).read_offsets_at({}).found == {}

    def test_bounds_are_two_calls_for_all(self):
        client = FakeBrokersClient(
            offsets={
                ("a", 0, "EarliestSpec"): at(3),
                ("a", 0, "LatestSpec"): at(9),
                ("b", 1, "EarliestSpec"): at(0),
                ("b", 1, "LatestSpec"): at(0),
            }
        )

        reading = open_admin(client).read_bounds([("a", 0), ("b", 1), ("a", 0)])

        assert reading.require_complete(what="bounds") == {("a", 0): LogOffsets(3, 9), ("b", 1): LogOffsets(0, 0)}
        assert reading.found["a", 0].records == 6
        assert client.asked == [("offsets", [("a", 0), ("b", 1)])] * 2

    def test_a_partition_that_fails_does_not_hide_the_others(self):
        client = FakeBrokersClient(offsets={("a", 0): at(1), ("gone", 0): failed("UNKNOWN_TOPIC_OR_PART")})

        reading = open_admin(client).read_bounds([("a", 0), ("gone", 0)])

        assert reading.found == {("a", 0): LogOffsets(1, 1)}
        assert isinstance(reading.failures["gone", 0], NotFoundError)
        assert not reading.is_complete
        with pytest.raises(PartialError, match="could not read bounds of gone-0"):
            reading.require_complete(what="bounds")

    def test_an_answer_without_an_offset_is_a_failure_of_its_partition(self):
        client = FakeBrokersClient(
            offsets={("a", 0): at(1), ("b", 0): at(-1), ("c", 0, "EarliestSpec"): at(0), ("c", 0, "LatestSpec"): at(-1)}
        )

        reading = open_admin(client).read_bounds([("a", 0), ("b", 0), ("c", 0)])

        assert reading.found == {("a", 0): LogOffsets(1, 1)}
        assert {type(error) for error in reading.failures.values()} == {UnreachableError}
        assert set(reading.failures) == {("b", 0), ("c", 0)}

    def test_partitions_that_took_all_others_with_them_are_left_out_and_the_rest_asked_again(self):
        answers = [failed("_NOENT", "No leaders found"), at(4)]
        client = FakeBrokersClient(
            topics={"a": done(topic("a")), "b": done(topic("b", leader=None)), "gone": failed("UNKNOWN_TOPIC_OR_PART")},
            offsets={("b", 0): failed("_NOENT"), ("gone", 0): failed("_NOENT")},
        )
        client.list_offsets = lambda request, ask=client.list_offsets, **options: (
            client.offsets.update({("a", 0): answers.pop(0)}),
            ask(request),
        )[1]

        reading = open_admin(client).read_log_offsets([("a", 0), ("b", 0), ("gone", 0)], at=OffsetSpec.LATEST)

        assert reading.found == {("a", 0): OffsetAndTimestamp(4)}
        assert set(reading.failures) == {("b", 0), ("gone", 0)}

    def test_a_partition_whose_leader_has_moved_is_asked_for_again(self):
        answers = [failed("NOT_LEADER_FOR_PARTITION"), failed("LEADER_NOT_AVAILABLE"), at(4)]
        client = FakeBrokersClient(offsets={("b", 0): at(1)})
        client.list_offsets = lambda request, ask=client.list_offsets, **options: (
            client.offsets.update({("a", 0): answers.pop(0)}),
            ask(request),
        )[1]

        reading = open_admin(client).read_log_offsets([("a", 0), ("b", 0)], at=OffsetSpec.LATEST)

        assert reading.found == {("a", 0): OffsetAndTimestamp(4), ("b", 0): OffsetAndTimestamp(1)}
        assert reading.is_complete
        assert client.asked == [("offsets", [("a", 0), ("b", 0)]), ("offsets", [("a", 0)]), ("offsets", [("a", 0)])]

    def test_one_that_never_finds_its_leader_is_a_failure_in_the_end(self):
        client = FakeBrokersClient(offsets={("a", 0): failed("LEADER_NOT_AVAILABLE"), ("b", 0): at(1)})

        reading = open_admin(client).read_log_offsets([("a", 0), ("b", 0)], at=OffsetSpec.LATEST)

        assert isinstance(reading.failures["a", 0], UnreachableError)
        assert reading.failures["a", 0].retryable

    def test_where_nothing_is_well_the_first_answer_stays(self):
        client = FakeBrokersClient(
            topics={"gone": failed("UNKNOWN_TOPIC_OR_PART")}, offsets={("gone", 0): failed("UNKNOWN_TOPIC_OR_PART")}
        )

        assert isinstance(open_admin(client).read_log_offsets([("gone", 0)], at=5).failures["gone", 0], NotFoundError)

    @pytest.mark.parametrize(
        ("asked", "spec"),
        [
            (OffsetSpec.EARLIEST, "EarliestSpec"),
            (OffsetSpec.LATEST, "LatestSpec"),
            (OffsetSpec.NEWEST, "MaxTimestampSpec"),
        ],
    )
    def test_edges(self, asked, spec):
        client = FakeBrokersClient(offsets={("a", 0, spec): at(7, 1234), ("a", 0): at(0)})

        assert open_admin(client).read_log_offsets([("a", 0)], at=asked).found == {
            ("a", 0): OffsetAndTimestamp(7, 1234)
        }

    def test_no_record_of_that_time_is_none(self):
        client = FakeBrokersClient(offsets={("a", 0, "TimestampSpec"): at(-1), ("a", 1, "TimestampSpec"): at(4, 99)})

        reading = open_admin(client).read_log_offsets([("a", 0), ("a", 1)], at=50)

        assert reading.found == {("a", 0): None, ("a", 1): OffsetAndTimestamp(4, 99)}

    def test_nothing_asked_is_no_call(self):
        client = FakeBrokersClient()
        assert open_admin(client).read_bounds([]).found == {}
        assert client.asked == []


def listing(name, *, state="EMPTY", kind="CLASSIC", simple=False):
    return SimpleNamespace(
        group_id=name,
        state=SimpleNamespace(_name_=state),
        type=SimpleNamespace(_name_=kind),
        is_simple_consumer_group=simple,
    )


def spot(name, number, offset, *, metadata=None, epoch=None, error=None):
    return SimpleNamespace(
        topic=name, partition=number, offset=offset, metadata=metadata, leader_epoch=epoch, error=error
    )


class TestGroups:
    def test_the_list_tells_state_type_and_protocol(self):
        answer = SimpleNamespace(
            valid=[listing("z", state="STABLE", kind="CONSUMER"), listing("a", kind="BRANDNEW", simple=True)], errors=[]
        )

        first, second = open_admin(FakeBrokersClient(answers={"list": done(answer)})).read_consumer_groups()

        assert (first.name, first.state, first.type, first.protocol) == ("a", "EMPTY", GroupType.UNKNOWN, "")
        assert (second.name, second.state, second.type, second.protocol) == (
            "z",
            "STABLE",
            GroupType.CONSUMER,
            "consumer",
        )

    @pytest.mark.parametrize(
        "trouble", [RuntimeError(FakeError("_TRANSPORT", "gone")), FakeError("_TRANSPORT", "gone")]
    )
    def test_a_broker_that_does_not_tell_is_a_failure(self, trouble):
        answer = SimpleNamespace(valid=[listing("a")], errors=[trouble])

        reading = open_admin(FakeBrokersClient(answers={"list": done(answer)})).read_consumer_groups()

        assert len(reading) == 1
        assert isinstance(reading.failures["broker 1"], UnreachableError)

    def test_members_and_what_they_read(self):
        member = SimpleNamespace(
            member_id="m",
            client_id="c",
            host="/10.0.0.1",
            group_instance_id=None,
            assignment=SimpleNamespace(topic_partitions=[spot("t", 1, 0), spot("t", 0, 0)]),
        )
        described = SimpleNamespace(
            group_id="g",
            state=SimpleNamespace(name="STABLE"),
            type=SimpleNamespace(name="CONSUMER"),
            is_simple_consumer_group=False,
            partition_assignor="uniform",
            coordinator=node(3),
            members=[member],
            authorized_operations=operations("READ"),
        )
        client = FakeBrokersClient(groups={"g": done(described), "no": failed("GROUP_AUTHORIZATION_FAILED")})

        reading = open_admin(client).read_members(["g", "no", "g"])

        (group,) = reading.items
        assert (group.assignor, group.coordinator, group.type, group.is_quiet) == (
            "uniform",
            3,
            GroupType.CONSUMER,
            False,
        )
        assert group.members[0].assignment == (("t", 0), ("t", 1))
        assert group.members[0].host == "10.0.0.1"
        assert isinstance(reading.failures["no"], AuthorizationError)

    def test_commits_of_many_groups_with_all_that_is_told(self):
        found = SimpleNamespace(topic_partitions=[spot("t", 0, 5, metadata="m", epoch=3), spot("t", 1, -1001)])
        client = FakeBrokersClient(
            committed={"a": done(found), "b": done(SimpleNamespace(topic_partitions=[spot("t", 0, 1, epoch=-1)]))}
        )

        first, second = open_admin(client).read_committed({"a": None, "b": [("t", 0)]})

        assert first.offsets == {("t", 0): Committed(5, "m", 3)}
        assert second.offsets == {("t", 0): Committed(1)}
        assert client.asked == [("committed", "a", None, False), ("committed", "b", [("t", 0)], False)]

    def test_no_partition_asked_for_is_no_call(self):
        client = FakeBrokersClient()
        (found,) = open_admin(client).read_committed({"a": []})
        assert (found.group, found.offsets, client.asked) == ("a", {}, [])

    def test_one_partition_in_trouble_fails_its_group_alone(self):
        bad = SimpleNamespace(topic_partitions=[spot("t", 0, -1001, error=FakeError("UNSTABLE_OFFSET_COMMIT", "open"))])
        good = SimpleNamespace(topic_partitions=[])
        client = FakeBrokersClient(committed={"a": done(bad), "b": done(good), "c": failed("_TIMED_OUT")})

        reading = open_admin(client).read_committed(dict.fromkeys("abc"), only_stable=True)

        assert [found.group for found in reading] == ["b"]
        assert "t-0" in reading.failures["a"].message
        assert isinstance(reading.failures["c"], DeadlineError)
        assert all(asked[-1] for asked in client.asked)

    def test_groups_are_asked_in_portions(self, monkeypatch):
        monkeypatch.setattr("seamark.kafka.bulk_reads._GROUPS_AT_ONCE", 2)
        names = [f"g{number}" for number in range(5)]
        client = FakeBrokersClient(committed={name: done(SimpleNamespace(topic_partitions=[])) for name in names})

        assert [found.group for found in open_admin(client).read_committed(dict.fromkeys(names))] == names
