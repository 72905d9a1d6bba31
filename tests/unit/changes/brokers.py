"""Brokers in memory: what the steps and the services act on in unit tests, and a world around them."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from seamark.changes.actor import Actor
from seamark.changes.executor import Executor
from seamark.changes.file_journal import FileJournal
from seamark.changes.recovery import Recovery
from seamark.changes.timing import ChangeTiming
from seamark.core.readings import Reading
from seamark.errors import AlreadyExistsError, NotFoundError, RejectedError, UnknownOutcomeError
from seamark.kafka.groups import Committed, Group, GroupListing, GroupOffsets, GroupStatus, GroupType
from seamark.kafka.model import (
    Broker,
    KafkaCluster,
    LogOffsets,
    OffsetAndTimestamp,
    OffsetSpec,
    PartitionReading,
    PartitionStatus,
    TopicConfig,
    TopicSize,
    TopicStatus,
)
from tests.ports import MethodPorts
from tests.step_list import build_step_list, plan_actions, plan_undo

# So much faster does the clock of these brokers go than ours while somebody sleeps.
SPEED = 50
TIMING = ChangeTiming(
    in_flight_seconds=10.0,
    begin_seconds=100.0,
    send_seconds=10.0,
    shows_seconds=2.0,
    foreign_seconds=1.0,
    look_seconds=0.25,
)
DEFAULTS = {"cleanup.policy": "delete", "min.insync.replicas": "1", "retention.ms": "604800000"}


@dataclass
class FakeTopic:
    """A topic. `logs` holds the timestamps of its records, by partition; `starts` their first offsets."""

    id: str
    logs: list[list[int]]
    replication_factor: int = 1
    configs: dict[str, str] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    leaderless: set[int] = field(default_factory=set)
    is_internal: bool = False


@dataclass
class FakeGroup:
    """A group and its commits."""

    state: str = "EMPTY"
    type: GroupType = GroupType.CLASSIC
    members: tuple = ()
    offsets: dict = field(default_factory=dict)


class FakeBrokers:
    """What `seamark.kafka.brokers.Brokers` does, at once and in memory.

    `failing` holds errors by verb and name. A verb and name in `lost` acts, and the answer is lost. `before` are calls
    that happen right before one, once.
    """

    def __init__(self):
        self.topics = {}
        self.groups = {}
        self.settings = {"offsets.retention.minutes": "10080"}
        self.failing = {}
        self.lost = set()
        self.before = {}
        self.calls = Counter()
        self.writes = []
        self._made = 0

    # --- what there is

    def add_topic(self, name, *, partitions=1, records=0, **changes):
        self._made += 1
        logs = [[1000 * number for number in range(records)] for _ in range(partitions)]
        self.topics[name] = FakeTopic(f"id-{self._made}", logs, **changes)

    def add_group(self, name, offsets=None, **changes):
        found = {spot: at if isinstance(at, Committed) else Committed(at) for spot, at in (offsets or {}).items()}
        self.groups[name] = FakeGroup(offsets=found, **changes)

    # --- reads

    def read_cluster(self):
        return KafkaCluster("kafka-1", brokers=(Broker(1, "b", 9092),), controller=1, operations=frozenset())

    def read_topics(self, names):
        self._called("read_topics", ",".join(names))
        failures = {name: NotFoundError(f"no topic {name}") for name in names if name not in self.topics}
        return Reading(tuple(self._build_topic(name) for name in names if name in self.topics), failures=failures)

    def read_all_topics(self, *, with_configs=True):
        self._called("read_all_topics", "")
        return Reading(tuple(self._build_topic(name) for name in sorted(self.topics)))

    def read_end_offsets(self, spots):
        return {spot: found.latest for spot, found in self.read_bounds(spots).found.items()}

    def read_bounds(self, spots):
        self._called("read_bounds", "")
        found, failures = {}, {}
        for topic, number in spots:
            if topic not in self.topics:
                failures[topic, number] = NotFoundError(f"no topic {topic}")
                continue
            at = self.topics[topic]
            if not 0 <= number < len(at.logs):
                failures[topic, number] = NotFoundError(f"no partition {topic}-{number}")
                continue
            found[topic, number] = LogOffsets(at.starts.get(number, 0), len(at.logs[number]))
        return PartitionReading(found, failures=failures)

    def read_open_transactions(self, spots):
        self._called("read_open_transactions", "")
        return ()

    def read_log_offsets(self, spots, *, at):
        found = {}
        for (topic, number), bounds in self.read_bounds(spots).found.items():
            log = self.topics[topic].logs[number]
            if at is OffsetSpec.EARLIEST:
                stamp = OffsetAndTimestamp(bounds.earliest)
            elif at in (OffsetSpec.LATEST, OffsetSpec.STABLE):
                stamp = OffsetAndTimestamp(bounds.latest)
            elif at is OffsetSpec.NEWEST:
                stamp = OffsetAndTimestamp(log.index(max(log)), max(log)) if log else None
            else:
                hit = next((n for n in range(bounds.earliest, bounds.latest) if log[n] >= at), None)
                stamp = None if hit is None else OffsetAndTimestamp(hit, log[hit])
            found[topic, number] = stamp
        return PartitionReading(found)

    def read_offsets_at(self, times):
        found = {spot: self.read_log_offsets([spot], at=at).found[spot] for spot, at in times.items()}
        return PartitionReading(found)

    def read_moving(self):
        self._called("read_moving", "")
        return {}

    def read_broker_setting(self, key):
        self._called("read_broker_setting", key)
        return self.settings.get(key, "")

    def read_sizes(self, topics):
        sizes = {name: {(n, 1): 100 * len(log) for n, log in enumerate(self.topics[name].logs)} for name in topics}
        return Reading(tuple(TopicSize(name, found) for name, found in sizes.items()))

    def read_groups(self, names):
        self._called("read_groups", ",".join(names))
        found = [self.groups.get(name, FakeGroup(state="DEAD")) for name in names]
        return Reading(
            tuple(GroupStatus(name, one.state, len(one.members)) for name, one in zip(names, found, strict=True))
        )

    def read_consumer_groups(self):
        self._called("read_consumer_groups", "")
        listings = (
            GroupListing(name, one.state, one.type, "consumer" if one.members else "")
            for name, one in sorted(self.groups.items())
            if one.type is not GroupType.SHARE
        )
        return Reading(tuple(listings))

    def read_all_groups(self):
        share = (
            GroupListing(name, one.state, one.type, "share")
            for name, one in self.groups.items()
            if one.type is GroupType.SHARE
        )
        items = sorted((*self.read_consumer_groups().items, *share), key=lambda found: found.name)
        return Reading(tuple(items))

    def read_members(self, groups):
        found = {name: self.groups.get(name, FakeGroup(state="DEAD")) for name in groups}
        return Reading(
            tuple(
                Group(name, one.state, one.type, "consumer" if one.members else "", "range", 1, one.members)
                for name, one in found.items()
            )
        )

    def read_committed(self, groups, *, only_stable=False, with_metadata=True):
        self._called("read_committed", ",".join(groups))
        items = []
        for name, spots in groups.items():
            held = self.groups[name].offsets if name in self.groups else {}
            items.append(GroupOffsets(name, {s: at for s, at in held.items() if spots is None or s in spots}))
        return Reading(tuple(items))

    def close(self):
        self.calls["close"] += 1

    # --- writes

    def create_topic(self, name, *, partitions=None, replication_factor=None, configs=None):
        def act():
            if name in self.topics:
                raise AlreadyExistsError(f"{name} is there")
            self.add_topic(
                name,
                partitions=1 if partitions is None else partitions,
                replication_factor=1 if replication_factor is None else replication_factor,
                configs=dict(configs or {}),
            )

        self._write("create_topic", name, act)

    def delete_topic(self, name):
        def act():
            self._require_topic(name)
            del self.topics[name]
            for group in self.groups.values():
                group.offsets = {spot: at for spot, at in group.offsets.items() if spot[0] != name}

        self._write("delete_topic", name, act)

    def grow_topic(self, name, *, partitions):
        def act():
            topic = self._require_topic(name)
            if partitions <= len(topic.logs):
                raise RejectedError(f"{name} has {len(topic.logs)} partitions")
            topic.logs += [[] for _ in range(partitions - len(topic.logs))]

        self._write("grow_topic", name, act)

    def alter_topic_config(self, name, *, values=None, remove=()):
        def act():
            topic = self._require_topic(name)
            topic.configs = {key: value for key, value in topic.configs.items() if key not in remove} | (values or {})

        self._write("alter_topic_config", name, act)

    def alter_group_offsets(self, group, offsets):
        if offsets:
            self._write(
                "alter_group_offsets", group, lambda: self._group(group).offsets.update(offsets), spots=tuple(offsets)
            )

    def mirror_group_offsets(self, group, offsets):
        self.alter_group_offsets(group, offsets)

    def read_mirrored_offsets(self, group):
        self._called("read_mirrored_offsets", group)
        return dict(self.groups[group].offsets) if group in self.groups else {}

    def delete_group_offsets(self, group, spots):
        def act():
            if group not in self.groups:
                raise NotFoundError(f"no group {group}", context={"kafka_error": "GROUP_ID_NOT_FOUND"})
            for spot in spots:
                self.groups[group].offsets.pop(spot, None)

        if spots:
            self._write("delete_group_offsets", group, act, spots=tuple(spots))

    def delete_group(self, group):
        def act():
            if group not in self.groups:
                raise NotFoundError(f"no group {group}")
            del self.groups[group]

        self._write("delete_group", group, act)

    # --- how

    def _group(self, name):
        return self.groups.setdefault(name, FakeGroup())

    def _write(self, verb, name, act, **rest):
        self._called(verb, name)
        self.writes.append((verb, name, *rest.values()))
        act()
        if (verb, name) in self.lost:
            self.lost.discard((verb, name))
            raise UnknownOutcomeError("the answer was lost")

    def _called(self, verb, name):
        self.calls[verb] += 1
        if (verb, name) in self.before:
            self.before.pop((verb, name))()
        if (verb, name) in self.failing:
            raise self.failing[verb, name]

    def _require_topic(self, name):
        if name not in self.topics:
            raise NotFoundError(f"no topic {name}")
        return self.topics[name]

    def _build_topic(self, name):
        topic = self.topics[name]
        replicas = tuple(range(1, topic.replication_factor + 1))
        partitions = tuple(
            PartitionStatus(n, None if n in topic.leaderless else 1, replicas=replicas, isr=replicas)
            for n in range(len(topic.logs))
        )
        configs = {key: TopicConfig(value, "DEFAULT_CONFIG") for key, value in DEFAULTS.items()}
        configs |= {key: TopicConfig(value, "DYNAMIC_TOPIC_CONFIG") for key, value in topic.configs.items()}
        return TopicStatus(name, topic.id, partitions, configs=configs, is_internal=topic.is_internal)


class BrokerWorld(MethodPorts):
    """An `Environment` of brokers alone, with a quick clock and a journal in a folder."""

    def __init__(self, brokers, folder=None):
        self.brokers = brokers
        self._folder = folder
        self._skipped = 0.0

    @property
    def clock(self):
        return self

    def now(self):
        # A look takes as long as it takes: a busy machine must not make five seconds of a tenth.
        return time.time() + self._skipped

    def sleep(self, seconds):
        time.sleep(seconds / SPEED)
        self._skipped += seconds * (1 - 1 / SPEED)

    def kafka(self):
        return self.brokers

    def plan(self, *steps):
        """One lane for each step."""
        actions = [build_step_list(step.subject, [step], locks=(step.subject.replace("/", "."),)) for step in steps]
        return plan_actions(actions, world=self, title="brokers")[0]

    def apply(self, *steps, plan=None):
        """Plan the steps and carry them out, through the journal."""
        return self._build_executor().apply(plan or self.plan(*steps))

    def undo(self, result):
        """Take a change back."""
        return self.apply(plan=plan_undo(Recovery(self._build_executor()), result.change))

    def _build_executor(self):
        return Executor(FileJournal(self._folder), self, actor=Actor("me"), timing=TIMING)
