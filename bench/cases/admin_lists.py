"""`admin-lists`: topics, groups and lag of a large cluster against the bare admin calls that they need."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.fixtures.fleets.admin import PARTITIONS, Made, make_admin
from bench.fixtures.fleets.bare_admin import BareAdmin, Rounds
from bench.fixtures.fleets.counting import open_counting
from bench.harness.definition import Bench, Leg, Prepared, Ratio, WrongResultError
from seamark.context import Context, open_context
from seamark.devstack import StackSpec, start_stack
from seamark.fleet import Fleet, open_fleet

TOPICS = 2000
GROUPS = 500
# A list of groups takes 5 ms or so: that many of them last a second. The other two do by themselves.
LISTS = 200
# How far what is told may be off: see `seamark.groups.lag`.
NEAR = 0.02
# What may be asked once for each group. librdkafka counts no OffsetFetch of an admin client, but its FindCoordinator.
# All else is asked a few times: metadata, configs, lists, and rounds of times.
OF_A_GROUP = ("FindCoordinator", "OffsetFetch")
OTHER_REQUESTS = 30

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """What was made, our fleet on it and the bare clients, all kept open over all reads."""

    made: Made
    fleet: Fleet
    bare: BareAdmin


@dataclass(frozen=True, slots=True)
class Taken:
    """What a leg read, by name, and at what time."""

    what: str
    facts: Facts
    count: int
    at_ms: float


def read_topics(stage: Stage) -> Taken:
    """`topics list`."""
    reading = stage.fleet.topics.list()
    facts = {
        one.name: (
            len(one.status.partitions),
            one.status.replication_factor,
            one.status.configs["cleanup.policy"].value,
        )
        for one in reading.require_complete(what="the topics")
    }
    return Taken("topics", facts, 1, time.time() * 1000)


def read_groups(stage: Stage) -> Taken:
    """`groups list`, repeated."""
    readings = [stage.fleet.groups.list().require_complete(what="the groups") for _ in range(LISTS)]
    facts = {one.name: one.listing.state for one in readings[-1]}
    return Taken("groups", facts, sum(map(len, readings)), time.time() * 1000)


def read_lag(stage: Stage) -> Taken:
    """`seamark lag`."""
    found = stage.fleet.lag().require_complete(what="the lag")
    facts = {one.name: (one.total, len(one.lag), one.delay.seconds if one.delay else None) for one in found}
    return Taken("lag", facts, 1, time.time() * 1000)


def read_bare_topics(stage: Stage) -> Taken:
    """The same of the bare client: the names, what they are, their configs."""
    return Taken("topics", stage.bare.read_topics(), 1, time.time() * 1000)


def read_bare_groups(stage: Stage) -> Taken:
    """The same of the bare clients, repeated: the groups of one, the share groups of the other."""
    found = [stage.bare.read_groups() for _ in range(LISTS)]
    return Taken("groups", found[-1], sum(map(len, found)), time.time() * 1000)


def read_bare_lag(stage: Stage) -> Taken:
    """The same of the bare client: groups, commits, ends, and as many questions for times."""
    return Taken("lag", stage.bare.read_lag(), 1, time.time() * 1000)


def check_taken(stage: Stage, taken: Taken) -> None:
    """Everything that was made is there, as it is."""
    wanted: dict[str, Any]
    facts = {name: fact for name, fact in taken.facts.items() if name.startswith("bench-")}
    if taken.what == "topics":
        wanted = dict.fromkeys(stage.made.topics, (PARTITIONS, 1, "delete"))
    elif taken.what == "groups":
        wanted = dict.fromkeys(stage.made.groups, "EMPTY")
        if taken.count < LISTS * len(wanted):
            raise WrongResultError(f"{taken.count} groups in {LISTS} lists of {len(wanted)}")
    else:
        wanted = {
            name: (stage.made.find_lag(name), PARTITIONS * len(topics)) for name, topics in stage.made.groups.items()
        }
        _check_seconds(stage.made, facts, taken.at_ms)
        facts = {name: fact[:2] for name, fact in facts.items()}
    if facts != wanted:
        wrong = sorted(name for name in facts.keys() | wanted.keys() if facts.get(name) != wanted.get(name))
        raise WrongResultError(f"{len(wrong)} {taken.what}, first {wrong[0]}: {facts.get(wrong[0])}")


def _check_seconds(made: Made, facts: Facts, at_ms: float) -> None:
    age = (at_ms - made.next_ms) / 1000
    for name, (_, _, seconds) in facts.items():
        # Bare calls tell no seconds: that is what ours make of the answers.
        if seconds is not None and abs(seconds - age) > max(NEAR * age, 30):
            raise WrongResultError(f"{name} is told to be {seconds:g} s behind, and it is {age:g} s")
    if facts and len({seconds is None for _, _, seconds in facts.values()}) > 1:
        raise WrongResultError("of some groups the seconds are told, of others not")


def check_requests(made: Made, counted: Mapping[str, Mapping[str, int]]) -> None:
    """No list asks for each partition, and only lag asks for each group: for its coordinator and its commits."""
    for what, requests in counted.items():
        for_groups = {name: requests.get(name, 0) for name in OF_A_GROUP}
        others = sum(requests.values()) - sum(for_groups.values())
        allowed = len(made.groups) + OTHER_REQUESTS if what == "lag" else OTHER_REQUESTS
        if others > OTHER_REQUESTS or max(for_groups.values()) > allowed:
            raise WrongResultError(f"{what} took too many requests: {dict(requests)}")


@contextmanager
def open_stage(size: int) -> Iterator[Prepared[Stage]]:
    """A broker of its own: 12,000 partitions would be in the way of others."""
    with start_stack(StackSpec(brokers=1, workers=0, full_jit=True), name="admin-lists") as stack:
        address = stack.kafka.bootstrap_servers
        made = make_admin(address, topics=size, groups=size * GROUPS // TOPICS)
        context = open_context(stack.context, cwd=Path(stack.context_file).parent, environ={})
        rounds = _look_closely(made, context)
        with open_fleet(context=context) as fleet, BareAdmin(address, rounds=rounds) as bare:
            pids = {server.name: server.pid for server in stack.servers}
            yield Prepared(Stage(made, fleet, bare), pids=pids, versions={"kafka": stack.kafka.version})


def _look_closely(made: Made, context: Context) -> Rounds:
    """Read each list once with a client that counts its requests. Gives the times that lag asks for."""
    with open_counting(context) as (fleet, counter):
        counted = {
            "topics": counter.count(fleet.topics.list),
            "groups": counter.count(fleet.groups.list),
            "lag": counter.count(fleet.lag),
        }
        check_requests(made, counted)
        print(f"requests: {counted}", file=sys.stderr)
        return counter.rounds


BENCH: Bench[Stage, Taken] = Bench(
    name="admin-lists",
    compares=(
        f"A broker with {TOPICS:,} topics of {PARTITIONS} partitions, and {GROUPS} groups that have read half of all "
        f"records: `fleet.topics.list()`, `fleet.groups.list()` ({LISTS} times a run) and `fleet.lag()` with seconds, "
        "each against the bare calls of the same admin clients that it needs. The figures are bare seconds over our "
        "seconds. Requests are counted first: none is made for each partition."
    ),
    setup=open_stage,
    check=check_taken,
    legs=(
        Leg("bare topics", read_bare_topics),
        Leg("topics", read_topics),
        Leg("bare groups", read_bare_groups),
        Leg("groups", read_groups),
        Leg("bare lag", read_bare_lag),
        Leg("lag", read_lag),
    ),
    ratios=(
        Ratio("topics list", over="bare topics", under="topics", bar=0.75),
        Ratio("groups list", over="bare groups", under="groups", bar=0.75),
        Ratio("lag", over="bare lag", under="lag", bar=0.75),
    ),
    sizes=(TOPICS,),
    quick_sizes=(200,),
    # The lowest and the highest of 6 enclose the median with 97 %.
    pairs=6,
    # The broker's compiler is at it for the first dozen of reads.
    warmups=3,
)
