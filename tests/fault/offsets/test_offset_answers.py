"""Connect answers wrongly while offsets are changed: 500 before and after it acted, cut answers, storms of 409.

Each way on each request of a change: the stop, the write of a move, the write of a forget, the resume. Sixteen
connectors are worked on at once, each by an operator of its own, behind a door of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product

import pytest

from tests.fault.offsets.offset_lane import Lane
from tests.fault.toxic import Toxiproxy
from tests.soak.proxy import BUSY, EARLY, ERROR, Proxy

# Sixteen at once, some rounds more than once, and the servers' start: beside neighbours that takes its time.
pytestmark = [pytest.mark.offset_fault, pytest.mark.timeout(900)]

RESET = "reset"
# What goes wrong, with each request that changes something and with the verb of the change. "Endless" lasts until the
# operator has given up.
ROUNDS = (("stop", "move"), ("offsets", "move"), ("offsets", "forget"), ("resume", "move"))
WAYS = (EARLY, ERROR, RESET, BUSY)
# As many 409s as a rebalance of some seconds gives: the client repeats after 0.1 s, 0.2 s, 0.4 s and so on.
STORM = 5
ENDLESS = 1000
TRIES = 5


class Spoiler:
    """What shall become of the next requests, by connector and verb."""

    def __init__(self):
        self.ways = defaultdict(deque)
        self.doors = {}
        self.seen = Counter()
        self.proxies = []

    def __call__(self, name, verb):
        ways = self.ways[name, verb]
        if not ways:
            return ""
        way = ways.popleft()
        self.seen[name, verb, way] += 1
        if way != RESET:
            return way
        before = self.count(name)
        door, kind = self.doors[name]
        attributes = {"bytes": 30} if kind == "limit_data" else {"timeout": 0}
        door.poison_until(lambda: self.count(name) > before, kind, **attributes)
        return ""

    def count(self, name):
        """How many requests were answered so far."""
        return sum(len(proxy.requests.get(name, ())) for proxy in self.proxies)

    def was_hindered(self, name, since):
        """Whether Connect itself refused something after so many requests, as it does while a rebalance goes on."""
        sent = [request for proxy in self.proxies for request in proxy.requests.get(name, ())]
        return any(not request.spoiled and "error_code" in request.said for request in sent[since:])

    def was_applied(self, name, verb):
        """Whether Connect carried out the newest request: a rebalance may have made it refuse what was spoiled."""
        sent = [request for proxy in self.proxies for request in proxy.requests.get(name, ()) if request.verb == verb]
        return sent[-1].spoiled not in (EARLY, BUSY) and "error_code" not in sent[-1].said

    def order(self, name, verb, way, *, times):
        self.ways[name, verb] = deque([way] * times)


@pytest.fixture
def spoiler(own_stack):
    """A proxy before each worker's door that gives the answers which are ordered."""
    spoiler = Spoiler()
    with ExitStack() as stack:
        spoiler.proxies = [stack.enter_context(Proxy(url, spoil=spoiler)) for url in own_stack.connect["connect"].urls]
        yield spoiler


@pytest.fixture
def lanes(own_stack, spoiler, tmp_path):
    """Two sources and two sinks for each way, half of them asking the second worker."""
    toxiproxy, lanes = Toxiproxy(own_stack.toxiproxy.api), {}
    with ExitStack() as stack, ThreadPoolExecutor(16) as pool:
        for kind, way, half in product(("source", "sink"), WAYS, (0, 1)):
            door = toxiproxy.open_door(spoiler.proxies[half].url)
            stack.callback(door.close)
            lane = lanes[way, kind, half] = Lane(own_stack, tmp_path, kind=kind, urls=[door.url])
            # Both ways in which a connection can break: after some bytes of an answer, and with a reset.
            spoiler.doors[lane.name] = door, "limit_data" if kind == "source" else "reset_peer"
        list(pool.map(Lane.create, lanes.values()))
        yield lanes
        list(pool.map(Lane.delete, lanes.values()))


# How a change ends, whether it is moved at last, and how often somebody must resume it.
DONE = ("done",), True, 0
FAILED = ("failed", "partly"), False, 0
LEFT = (None,), True, 1


def run_round(lane, way, spoiler, *, verb, change):
    """One change with one fault; gives whether Connect carried out the request in question.

    None where Connect itself hindered it: its rebalances may last longer than the 8 s for which a request is repeated
    here, and then the change ends elsewhere than at the fault.
    """
    # Storms that last until the operator has given up, and such that it can wait for.
    is_endless = way == BUSY and (verb == "resume" or change == "forget")
    spoiler.order(lane.name, verb, way, times=ENDLESS if is_endless else STORM if way == BUSY else 1)
    seen, since = spoiler.seen[lane.name, verb, way], spoiler.count(lane.name)
    ended = lane.change(change)
    spoiler.ways[lane.name, verb].clear()
    where = f"{lane.kind}, {way} on {verb} of a {change}: {ended}"
    has_happened = spoiler.seen[lane.name, verb, way] > seen
    was_applied = has_happened and spoiler.was_applied(lane.name, verb)
    endings, moved, resumes = DONE if was_applied else LEFT if verb == "resume" else FAILED
    settled = lane.settle(ended)
    is_expected = has_happened and ended.ending in endings and settled == (moved, resumes)
    # A task that a rebalance ends within its first second stores what it has by then: nobody can tell it from a zombie.
    is_hindered = spoiler.was_hindered(lane.name, since) or "sooner than a new task stores offsets" in ended.said
    if not is_expected and not ended.is_done and is_hindered:
        return None
    assert is_expected, f"it {'happened' if has_happened else 'never happened'}, {settled}: {where}"
    return was_applied


def run_rounds(lane, way, spoiler, rounds):
    """All rounds of one connector; gives how many. A fault after the act is repeated until Connect did act."""
    for verb, change in rounds:
        for _ in range(TRIES):
            was_applied = run_round(lane, way, spoiler, verb=verb, change=change)
            if was_applied or (was_applied is False and way not in (ERROR, RESET)):
                break
        else:
            raise AssertionError(f"{lane.name}: Connect refused to {verb} {TRIES} times")
    return len(rounds)


def find_unintended(lane, spoiler):
    """The requests that went on to Connect without an intent of their own. What a 409 refused may be repeated."""
    sent = [request for proxy in spoiler.proxies for request in proxy.requests.get(lane.name, ())]
    acts = Counter(request.verb for request in sent if not request.may_be_repeated and request.spoiled != BUSY)
    return {verb: (count, intents) for verb, count in acts.items() if count > (intents := lane.count_intents()[verb])}


def test_wrong_answers_never_make_a_wrong_change(lanes, spoiler):
    with ThreadPoolExecutor(len(lanes)) as pool:
        runs = [pool.submit(run_rounds, lane, way, spoiler, ROUNDS[half::2]) for (way, _, half), lane in lanes.items()]
        rounds = sum(run.result() for run in runs)
    assert rounds == len(WAYS) * len(ROUNDS) * 2
    assert [find_unintended(lane, spoiler) for lane in lanes.values()] == [{}] * len(lanes)
    assert sum(spoiler.seen.values()) >= rounds
