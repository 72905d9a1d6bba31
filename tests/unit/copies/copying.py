"""Copies without servers: brokers and control topics in memory, and a Spark that writes control records alone."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager

from seamark.copies.plan.plan import build_tasks
from seamark.copies.plan.progress import read_progress
from seamark.copies.plan.registrations import decode_registrations, encode_registration
from seamark.errors import FencedError
from seamark.kafka_sink.control import Amount, Claim, ControlReading, ControlRecord, Copied, Run
from seamark.kafka_sink.routing import Partitioner, Routing

KNOWN = frozenset(
    {
        "cleanup.policy",
        "retention.ms",
        "retention.bytes",
        "message.timestamp.type",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "min.insync.replicas",
    }
)


class FakeHold:
    def __init__(self, logs, topic, plan):
        self.logs, self.topic, self.plan, self.closed = logs, topic, plan, False
        logs.holders[plan] = self

    def read(self):
        return self.logs.read_registered(self.topic).found.get(self.plan)

    def write(self, registration, *, former):
        if self.logs.holders[self.plan] is not self:
            raise FencedError("somebody else")
        pairs = encode_registration(registration, before=former.pieces if former else 0)
        self.logs.plans[self.topic] += pairs
        return self.read()

    def close(self):
        self.closed = True


class FakeLogs:
    """What `KafkaLogs` reads. `keys` are samples by topic; `records` are control records by job."""

    def __init__(self):
        self.keys, self.plans, self.records = {}, defaultdict(list), defaultdict(list)
        self.holders, self.asked, self.is_whole = {}, [], True

    def read_known_configs(self, topic):
        return KNOWN

    def read_samples(self, topic, *, ranges, most):
        self.asked.append((topic, dict(ranges), most))
        return self.keys.get(topic, ())

    def read_registered(self, control_topic):
        return decode_registrations(self.plans[control_topic], place=control_topic)

    def hold(self, control_topic, *, plan):
        return FakeHold(self, control_topic, plan)

    def read_records(self, control_topic, *, jobs):
        return {job: tuple(self.records[job]) for job in jobs}

    def look_at_records(self, control_topic, *, jobs):
        return ControlReading(self.read_records(control_topic, jobs=jobs), is_whole=self.is_whole)


def sample_keys(partitions, *, rule=Partitioner.MURMUR2, count=200):
    """Keys where a rule puts them."""
    routing = Routing(rule, partitions, partitions)
    keys = [f"key-{number}".encode() for number in range(count)]
    return [(routing.choose(key, source=0), key) for key in keys]


class FakeSpark:
    """Instead of Spark: each slice is one call that fills the target, up to `most` slices, then it is killed."""

    def __init__(self, brokers, logs):
        self.brokers, self.logs = brokers, logs
        self.sessions, self.copied, self.most = [], [], None
        self.on_copied = lambda: None

    @contextmanager
    def open(self, options, work):
        self.sessions.append((options, work.name))
        yield self

    def copy(self, plan, on_slice):
        progress = read_progress(plan.id, plan.slices, self.logs.records[plan.id])
        for done, part in enumerate(plan.slices[progress.done :], start=progress.done + 1):
            if self.most is not None and len(self.copied) >= self.most:
                raise KeyboardInterrupt
            self._write(plan, part)
            self.copied.append(part.id)
            on_slice(part, done, len(plan.slices))
            self.on_copied()
        return read_progress(plan.id, plan.slices, self.logs.records[plan.id])

    def _write(self, plan, part):
        logs = self.brokers.topics[plan.target.topic].logs
        tasks = build_tasks(plan.routing)
        for task in tasks:
            runs = []
            for one in part.ranges:
                if one.partition not in task.sources:
                    continue
                # All of a source goes to one target: enough for counts.
                target = plan.routing.targets_of(one.partition)[0]
                if target not in task.targets:
                    continue
                first = len(logs[target])
                logs[target] += [0] * one.size
                runs.append(Run(one.partition, target, one.size, one.begin, one.end - 1, first, first + one.size - 1))
            # The marker of the commit.
            for target in {run.target for run in runs}:
                logs[target].append(0)
            count = sum(run.count for run in runs)
            claim = Claim(plan.id, task=task.number, part=part.id)
            copied = Copied(len(tasks), tuple(sorted(runs, key=lambda run: (run.source, run.target))))
            self.logs.records[plan.id].append(ControlRecord(claim, Amount(count, count), is_done=True, copied=copied))


def plant(monkeypatch, brokers, logs):
    """Put all three in place of the real ones."""
    spark = FakeSpark(brokers, logs)
    monkeypatch.setattr("seamark.copies.plan.endpoints.KafkaLogs", lambda build_config: logs)
    monkeypatch.setattr("seamark.copies.run.runner.open_spark", spark.open)
    monkeypatch.setattr("seamark.copies.run.runner.build_ends", lambda context, control_topic: None)
    monkeypatch.setattr(
        "seamark.copies.run.runner.run_slices", lambda session, plan, ends, on_slice: spark.copy(plan, on_slice)
    )
    monkeypatch.setattr("seamark.copies.run.runner.require_spark", lambda: None)
    monkeypatch.setattr("seamark.copies.verify.report.require_spark", lambda: None)
    return spark
