"""Plans that Hypothesis draws, moved and undone on real servers: what was held is held again.

By the topic that means to the byte, by REST the same JSON, for a sink the same commits; no record is as good as a
tombstone. The connectors are made once and stay stopped, so that a plan costs no rebalance. Six plans go on at once,
each on owners of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from seamark.core.offsets import spell_identity
from seamark.offsets.codec.codec import decode_key, decode_value, encode_key, encode_rest_key
from seamark.offsets.model import WriteRoute
from tests.integration.offset_rig import OffsetRig, without_tombstones
from tests.integration.waits import DEADLINE_SECONDS, commit_offsets

MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
STRING = "org.apache.kafka.connect.storage.StringConverter"
SLOTS = 4
LOG = 60
EXAMPLES = 11
KINDS = ("rest", "rest", "topic", "topic", "sink", "sink")
# The same offset in other bytes: what a worker, an older one, another tool or a person may have written.
STYLES = ('{{"offset":{0}}}', '{{"offset": {0}}}', '{{ "offset" : {0} }}', '{{"offset":7,"offset":{0}}}')
VERBS = ("move", "shift", "forget", "forget-some", "import", "copy", "both")


@dataclass(frozen=True)
class Draft:
    """One plan: what is held before it, what it wants, and how."""

    verb: str
    held: tuple[int | None, ...]
    wanted: tuple[int | None, ...]
    chosen: tuple[bool, ...]
    by: int
    styles: tuple[str, ...]


def slots(numbers):
    return st.tuples(*[st.one_of(st.none(), numbers)] * SLOTS)


DRAFTS = st.builds(
    Draft,
    verb=st.sampled_from(VERBS),
    # Something is held, and what is wanted is something else.
    held=slots(st.integers(0, 19)).filter(any),
    wanted=slots(st.integers(20, 39)).filter(any),
    chosen=st.tuples(*[st.booleans()] * SLOTS).filter(any),
    by=st.integers(1, 20),
    styles=st.tuples(*[st.sampled_from(STYLES)] * SLOTS),
)


@dataclass
class Tally:
    """What was done."""

    plans: Counter = field(default_factory=Counter)
    verbs: Counter = field(default_factory=Counter)
    partitions: int = 0
    lanes: int = 0


class Crew:
    """One owner, another one to copy from, and the fleet that moves them."""

    kind = ""

    def __init__(self, stack, folder, number):
        self.rig = OffsetRig(stack, folder, in_flight="10s")
        self.number, self.round = number, 0

    def run(self, draft, tally):
        """Bring about what is held, make the plan, apply it, look, undo it, and look again."""
        self.round += 1
        if self.expect(draft) == draft.held:
            # It would be a plan without a step.
            draft = replace(draft, verb="move")
        self.hold(draft)
        before = self.look()
        planned = self.rig.plan(lambda: self.plan(draft))
        step = next(step for step in planned.steps if step.kind == "write-offsets")
        assert step.route is (WriteRoute.TOPIC if self.kind == "topic" else WriteRoute.REST)
        result = self.rig.apply(planned)
        self.check_moved(draft)
        assert self.look() != before
        self.rig.undo(result)
        assert self.look() == before, draft
        tally.plans[self.kind] += 1
        tally.verbs[draft.verb] += 1
        tally.partitions += sum(len(step.offsets) for step in planned.steps if step.kind == "write-offsets")
        tally.lanes += len({step.lane for step in planned.plan.steps})
        self.clear()

    def expect(self, draft):
        """What the owner holds after the plan, by slot."""
        held = draft.held
        if draft.verb == "move":
            slot, value = self.pick_one(draft), self.pick_value(draft)
            return tuple(value if number == slot else held[number] for number in range(SLOTS))
        if draft.verb == "shift":
            return tuple(None if found is None else found + draft.by for found in held)
        if draft.verb == "forget":
            return (None,) * SLOTS
        if draft.verb == "forget-some":
            slot = self.pick_one(draft)
            return tuple(None if number == slot else held[number] for number in range(SLOTS))
        if draft.verb == "import":
            return tuple(draft.wanted[number] if draft.chosen[number] else held[number] for number in range(SLOTS))
        if draft.verb == "copy":
            return tuple(held[number] if found is None else found for number, found in enumerate(draft.wanted))
        return draft.wanted

    @staticmethod
    def pick_one(draft):
        """A slot that is held."""
        return next(number for number, found in enumerate(draft.held) if found is not None)

    @staticmethod
    def pick_value(draft):
        return next(found for found in draft.wanted if found is not None)

    def plan(self, draft):
        offsets, name = self.rig.fleet.offsets, self.owner
        if draft.verb == "move":
            to = {self.field: self.pick_value(draft)}
            return offsets.move(name, to=to, partitions=[json.dumps(self.partition(self.pick_one(draft)))])
        if draft.verb == "shift":
            return offsets.move(name, shift=draft.by)
        if draft.verb == "forget":
            return offsets.reset(name)
        if draft.verb == "forget-some":
            return offsets.reset(name, partitions=[json.dumps(self.partition(self.pick_one(draft)))])
        if draft.verb == "copy":
            return offsets.copy(self.origin, name)
        wanted = [
            {"partition": self.partition(number), "offset": None if found is None else {self.field: found}}
            for number, found in enumerate(draft.wanted)
            if draft.verb == "both" or draft.chosen[number]
        ]
        content = {name: wanted}
        if draft.verb == "both":
            content[self.origin] = [
                {"partition": self.origin_partition(number), "offset": {self.field: 40 + number}}
                for number in range(SLOTS)
            ]
        file = self.rig.folder / f"import-{self.round}.json"
        file.write_text(json.dumps(content))
        return offsets.import_file(file)


class SourceCrew(Crew):
    """MirrorMaker sources, whose partitions have three fields. Each round has partitions that nobody has seen."""

    field = "offset"

    def __init__(self, stack, folder, number):
        super().__init__(stack, folder, number)
        self.owner, self.origin = self.rig.name("owner"), self.rig.name("origin")
        for name in (self.owner, self.origin):
            servers = {f"{side}.cluster.bootstrap.servers": self.rig.brokers.bootstrap for side in ("source", "target")}
            config = {"connector.class": MIRROR, "tasks.max": "1", "topics": "nothing", **servers}
            config |= {"source.cluster.alias": name, "target.cluster.alias": "us"}
            self.rig.client.create_connector(name, config, initial_state="STOPPED")
        # Right behind a create Connect has no status yet.
        for name in (self.owner, self.origin):
            self.rig.stop(name)

    def partition(self, slot, name=None):
        return {"cluster": name or self.owner, "partition": slot, "topic": f"t{self.round}"}

    def origin_partition(self, slot):
        return self.partition(slot, self.origin)

    def key(self, slot):
        return encode_rest_key(self.owner, self.partition(slot))

    def hold(self, draft):
        for slot, (found, style) in enumerate(zip(draft.held, draft.styles, strict=True)):
            # The topic can only be written over what is there: a tombstone at least.
            if found is not None or self.kind == "topic":
                self.rig.write_raw(self.key(slot), None if found is None else style.format(found).encode())
        for slot, found in enumerate(draft.wanted):
            if found is not None:
                key = encode_rest_key(self.origin, self.origin_partition(slot))
                self.rig.write_raw(key, b'{"offset":%d}' % found)

    def look(self):
        """By the topic every byte; by REST what it means, and nothing is as good as a tombstone."""
        raw = self.rig.read_raw(self.owner)
        others = decode_all(self.rig.read_raw(self.origin))
        return (raw if self.kind == "topic" else decode_all(raw)), others

    def check_moved(self, draft):
        wanted = {
            spell_identity(self.partition(slot)): {"offset": found}
            for slot, found in enumerate(self.expect(draft))
            if found is not None
        }
        raw = self.rig.read_raw(self.owner)
        assert decode_all(raw) == wanted
        if self.kind == "topic":
            assert {key for _, key in raw} <= {encode_task_key(key) for _, key in raw}, "REST's spelling came beside it"

    def clear(self):
        for name in (self.owner, self.origin):
            for partition, key in without_tombstones(self.rig.read_raw(name)):
                self.rig.brokers.write(self.rig.endpoint.offsets_topic, (key, None), partition=partition)


class RestCrew(SourceCrew):
    """Keys as REST spells them."""

    kind = "rest"


class TopicCrew(SourceCrew):
    """Keys with their fields in another order."""

    kind = "topic"

    def key(self, slot):
        return encode_task_key(super().key(slot))


def encode_task_key(raw):
    """The same key with its fields the other way round."""
    key = decode_key(raw).key
    return encode_key(key.connector, {name: key.partition[name] for name in sorted(key.partition, reverse=True)})


def decode_all(raw):
    """What records mean: offsets by partition."""
    return {
        spell_identity(decode_key(key).key.partition): decode_value(value).offset
        for (_, key), value in without_tombstones(raw).items()
    }


class SinkCrew(Crew):
    """A file sink and its group, and another group to copy from."""

    kind, field = "sink", "kafka_offset"

    def __init__(self, stack, folder, number):
        super().__init__(stack, folder, number)
        bootstrap = self.rig.brokers.bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.owner = self.rig.name("sink")
        self.topic = self.rig.brokers.make_topic(self.owner, partitions=SLOTS, **{"cleanup.policy": "delete"})
        self.groups = (f"connect-{self.owner}", f"{self.owner}-other")
        self.origin = f"group/{self.groups[1]}"
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        for number in range(LOG * SLOTS):
            producer.produce(self.topic, b"v", partition=number % SLOTS)
        assert producer.flush(DEADLINE_SECONDS) == 0
        config = {"connector.class": FILE_SINK, "tasks.max": "1", "topics": self.topic, "file": str(folder / "out.txt")}
        config |= {"key.converter": STRING, "value.converter": STRING}
        self.rig.client.create_connector(self.owner, config, initial_state="STOPPED")
        # Right behind a create Connect has no status yet.
        self.rig.stop(self.owner)

    def partition(self, slot):
        return {"kafka_topic": self.topic, "kafka_partition": slot}

    origin_partition = partition

    def hold(self, draft):
        self.clear()
        for group, found in zip(self.groups, (draft.held, draft.wanted), strict=True):
            places = [TopicPartition(self.topic, slot, at) for slot, at in enumerate(found) if at is not None]
            commit_offsets(self.admin, group, places)

    def look(self):
        return tuple(self.read(group) for group in self.groups)

    def read(self, group):
        found = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
        return {one.partition: one.offset for one in found.result(DEADLINE_SECONDS).topic_partitions if one.offset >= 0}

    def check_moved(self, draft):
        wanted = {slot: found for slot, found in enumerate(self.expect(draft)) if found is not None}
        assert self.read(self.groups[0]) == wanted

    def clear(self):
        for future in self.admin.delete_consumer_groups(list(self.groups)).values():
            error = future.exception(DEADLINE_SECONDS)
            assert error is None or error.args[0].name() == "GROUP_ID_NOT_FOUND", error


CREWS = {"rest": RestCrew, "topic": TopicCrew, "sink": SinkCrew}


@pytest.fixture(scope="module")
def crews(stack, tmp_path_factory):
    folder = tmp_path_factory.mktemp("moved")
    with ThreadPoolExecutor(len(KINDS)) as pool:
        made = list(pool.map(lambda one: CREWS[one[1]](stack, folder / f"crew-{one[0]}", one[0]), enumerate(KINDS)))
        yield made
        for crew in made:
            crew.clear()
            crew.rig.close()


@pytest.mark.timeout(900)
def test_sixty_plans_are_moved_and_undone(crews):
    tally, failures = Tally(), []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        # A smaller one that fails too would be looked for among real servers for an hour.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drafts=st.tuples(*[DRAFTS] * len(KINDS)))
    def move_and_undo(drafts):
        if failures:
            # Hypothesis does it once more to report it, over what the failed one left behind: the first one is told.
            raise failures[0]
        with ThreadPoolExecutor(len(KINDS)) as pool:
            futures = [pool.submit(crew.run, draft, tally) for crew, draft in zip(crews, drafts, strict=True)]
        failures.extend(error for future in futures if (error := future.exception()) is not None)
        if failures:
            raise failures[0]

    move_and_undo()
    assert sum(tally.plans.values()) >= 60, tally
    assert min(tally.plans[kind] for kind in CREWS) >= 15, tally
    assert set(tally.verbs) == set(VERBS), tally
    assert tally.partitions >= 100, tally
    assert tally.lanes > sum(tally.plans.values()), tally
    print(tally)
