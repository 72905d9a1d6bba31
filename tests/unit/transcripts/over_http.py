"""Counts for `python -m tools.walk`: requests, by FakeConnect behind the real client, and scans of topics."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager

from seamark.changes.file_journal import FileJournal
from seamark.fleet.fleet import Fleet
from seamark.kafka.groups import Committed
from tests.fakes.connect import FakeConnect
from tests.fakes.connect.state import FakeState
from tests.unit.copies.copying import FakeLogs
from tests.unit.fleet.builders import StubKafka
from tests.unit.fleet.living import living_context
from tests.unit.offsets.scans import FakeScan


@contextmanager
def serve_over_http(env, workers=1):
    """Give FakeConnect the connectors of an environment, and put the real client before it."""
    with FakeConnect(workers=workers) as fake:
        for name, config in env.game.configs.items():
            states = [task.state.value for task in env.game._build(name).status.tasks]
            fake.add_connector(name, config, state=env.game.states[name], tasks=states, offsets=find_offsets(env, name))
        fake.state.topics |= dict.fromkeys(env.brokers.topics, 0)
        env.patch.setattr(FakeState, "write_offset", store_too(env))
        env.patch.setattr("tests.unit.scenarios.environment.open_living_fleet", open_http_fleet)
        # The brokers know the workers of the group. A worker that they don't know may still run a stopped connector.
        loads = dict.fromkeys(fake.urls, frozenset())
        env.patch.setattr("seamark.kafka.worker_group.read_worker_loads", lambda *_, **__: loads)
        env.context = {**env.context, "urls": fake.urls}
        yield fake


def open_http_fleet(folder, *_, kafka=None, brokers=None, actor=None, scan=None, **changes):
    """Open a fleet as `open_living_fleet` does, with the real client of Connect."""
    return Fleet(
        living_context(folder, **changes),
        build_kafka=lambda settings: kafka or StubKafka(),
        build_brokers=lambda opened: brokers,
        open_journal=lambda opened: FileJournal(opened.journal.folder),
        open_scan=lambda config, topic, committed: scan,
        actor=actor,
    )


def find_offsets(env, name):
    """Return the offsets of a connector as Connect reports them."""
    group = env.brokers.groups.get(f"connect-{name}")
    if group is not None:
        return [
            {"partition": {"kafka_topic": topic, "kafka_partition": number}, "offset": {"kafka_offset": found.offset}}
            for (topic, number), found in group.offsets.items()
        ]
    found = [(json.loads(record.key), record.value) for record in env.scan.read_newest().records]
    return [{"partition": key[1], "offset": json.loads(value)} for key, value in found if key[0] == name and value]


def store_too(env):
    """Store what FakeConnect is told in the offsets topic or the group, as Connect does."""
    write = FakeState.write_offset

    def write_and_store(state, name, partition, offset):
        write(state, name, partition, offset)
        if "kafka_topic" not in partition:
            env.scan.put((name, partition), offset)
            return
        held, spot = (
            env.brokers.groups[f"connect-{name}"].offsets,
            (partition["kafka_topic"], partition["kafka_partition"]),
        )
        held.pop(spot, None)
        if offset is not None:
            held[spot] = Committed(offset["kafka_offset"])

    return write_and_store


def count_scans(env):
    """Count how often each topic is read, from here on: offsets topics, control topics, and samples of keys."""
    counts = Counter()

    def count(kind, verb, find_topic):
        real = getattr(kind, verb)

        def read(fake, *args, **more):
            counts[find_topic(fake, args)] += 1
            return real(fake, *args, **more)

        env.patch.setattr(kind, verb, read)

    for verb in ("read_newest", "read_all"):
        count(FakeScan, verb, lambda scan, _: scan.topic)
    for verb in ("read_samples", "read_registered", "read_records"):
        count(FakeLogs, verb, lambda _, args: args[0])
    return counts
