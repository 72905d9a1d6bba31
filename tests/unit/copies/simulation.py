"""A copy in memory, record by record: what translation is held against."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from seamark.copies.plan.plan import build_tasks
from seamark.copies.plan.progress import Recount, read_progress
from seamark.kafka_sink.control import Amount, Checksum, Claim, ControlRecord, Copied, Run
from seamark.kafka_sink.routing import Partitioner, Routing
from seamark.spark.slices import OffsetRange

PLAN = "01PLAN"


@lru_cache(maxsize=100_000)
def route(routing, key, source):
    return routing.choose(key, source=source)


@dataclass
class Simulation:
    """A source topic as {partition: [(offset, key), …]}, and what a copy makes of it."""

    routing: Routing
    source: dict[int, list[tuple[int, bytes | None]]]
    ranges: list[OffsetRange]
    slices: tuple = ()
    # By target partition: target offset → (source partition, source offset).
    target: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    aborted: set[tuple[int, int]] = field(default_factory=set)
    control: list[ControlRecord] = field(default_factory=list)

    def copy(self, *, random, upto=None):
        """Work off the slices, with the markers of transactions, and here and there an attempt that was aborted."""
        for target in range(self.routing.targets):
            self.target.setdefault(target, {})
            self.ends.setdefault(target, 0)
        tasks = build_tasks(self.routing)
        owners = {(source, target): task.number for task in tasks for source in task.sources for target in task.targets}
        for one in self.slices[:upto]:
            work = {task.number: [] for task in tasks}
            for part in one.ranges:
                for offset, key in self._within(part):
                    target = route(self.routing, key, part.partition)
                    # A record that the graph does not foresee has no owner.
                    work[owners[part.partition, target]].append((part.partition, offset, target))
            for task, records in work.items():
                runs = self._write(records, random)
                self.control.append(build_record(PLAN, one.id, task=task, tasks=len(tasks), runs=runs))

    def _within(self, part):
        log = self.source[part.partition]
        first, last = (bisect_left(log, at, key=lambda entry: entry[0]) for at in (part.begin, part.end))
        return log[first:last]

    def _write(self, records, random):
        """One transaction."""
        runs = {}
        for source, offset, target in records:
            is_first = not any(pair[1] == target for pair in runs)
            if is_first and random.random() < 0.2:
                self._waste(target, random.randint(2, 5))  # an aborted attempt, and its marker
            if random.random() < 0.03:
                self._waste(target, 1)  # the late marker of another transaction
            runs.setdefault((source, target), []).append((offset, self.ends[target]))
            self.target[target][self.ends[target]] = (source, offset)
            self.ends[target] += 1
        for target in {pair[1] for pair in runs}:
            self.ends[target] += 1
        return tuple(_build_run(pair, part) for pair, found in sorted(runs.items()) for part in _part(found))

    def _waste(self, target, count):
        """Offsets that no record of the copy has."""
        for _ in range(count):
            self.aborted.add((target, self.ends[target]))
            self.ends[target] += 1

    def progress(self):
        return read_progress(PLAN, self.slices, self.control)

    def recount(self, questions):
        """The port: read the source again, as it is now."""
        return {question: self._recount(question.run, question.source_offset) for question in questions}

    def _recount(self, run, offset):
        found = [
            at
            for at, key in self.source[run.source]
            if run.first_source <= at <= run.last_source and route(self.routing, key, run.source) == run.target
        ]
        return Recount(sum(at < offset for at in found), sum(at >= offset for at in found))


def build_record(plan, slice_id, *, task, tasks, runs=(), hash_name="xxhash64"):
    """The control record of a task of a copy."""
    copied = Copied(tasks, runs=tuple(runs), hash_name=hash_name)
    return ControlRecord(Claim(plan, task, part=slice_id), Amount(copied.count), is_done=True, copied=copied)


def _part(found):
    """Cut where the target offsets have a gap."""
    gaps = [place for place in range(1, len(found)) if found[place][1] != found[place - 1][1] + 1]
    return [found[first:last] for first, last in pairwise([0, *gaps, len(found)])]


def _build_run(pair, found):
    return Run(
        *pair,
        len(found),
        first_source=found[0][0],
        last_source=found[-1][0],
        first_target=found[0][1],
        last_target=found[-1][1],
        checksum=Checksum.of(array("q", (hash((pair, offset)) for offset, _ in found))),
    )


def build_source(random, *, sources, rule=Partitioner.MURMUR2, is_strict=True, grown_from=None, most=40):
    """A topic with keys where the rule puts them (or anywhere), some without, and gaps between the offsets.

    One that has grown holds the keys of its youth where they were.
    """
    keys = [f"k{number}".encode() for number in range(25)]
    placed = Routing(rule, sources, sources)
    former = Routing(rule, sources, grown_from or sources)
    by_partition = {p: [k for k in keys if p in {route(placed, k, 0), route(former, k, 0)}] for p in range(sources)}
    source, ranges = {}, []
    gaps = random.random() < 0.5
    for partition in range(sources):
        usual = (by_partition[partition] if is_strict else keys) or [None]
        begin = offset = random.randint(0, 100)
        log = []
        for _ in range(random.randint(0, most)):
            offset += random.choice([0, 0, 0, 1, 4]) if gaps else 0
            log.append((offset, None if random.random() < 0.1 else random.choice(usual)))
            offset += 1
        source[partition] = log
        ranges.append(OffsetRange(partition, begin, offset + (random.randint(0, 2) if gaps else 0)))
    return source, ranges
