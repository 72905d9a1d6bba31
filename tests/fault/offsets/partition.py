"""Partitions of the network: the cuts, who notes what came through, and the checks that every case ends with."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager

from seamark.connect.transport import Transport
from tests.fault.toxic import DOWNSTREAM, UPSTREAM, Cut, Door, Link, Toxiproxy
from tests.soak.intents import check_intents, read_spooled
from tests.soak.offsets import offset_history
from tests.soak.proxy import Proxy

# Nothing comes through and nobody is told. One-way, only requests or only answers are lost.
SILENCE = Cut("timeout", attributes={"timeout": 0})
REQUESTS_LOST = Cut("timeout", (UPSTREAM,), {"timeout": 0})
ANSWERS_LOST = Cut("timeout", (DOWNSTREAM,), {"timeout": 0})
RESET = Cut("reset_peer", attributes={"timeout": 0})
# What a change asks of Connect; the rest is the tests' own.
VERBS = ("stop", "offsets", "resume")
BROKERS = (1, 2, 3)


def build_tool_link(stack):
    """The link between commands that use `door_servers` and the brokers."""
    return Link(stack.toxiproxy.api, [f"broker-{number}" for number in BROKERS])


def build_worker_link(stack):
    """The link between the proxied worker and the brokers."""
    return Link(stack.toxiproxy.api, [f"worker-broker-{number}" for number in BROKERS])


class Recorder:
    """Notes every request that changes something, between the doors of the workers and the workers."""

    def __init__(self, stack):
        self._stack = stack
        self.proxies = []

    def __enter__(self):
        with ExitStack() as exits:
            toxiproxy = Toxiproxy(self._stack.toxiproxy.api)
            for number, _ in enumerate(self._stack.connect["connect"].urls, start=1):
                worker = f"http://127.0.0.1:{self._stack.server(f'worker-{number}').port}"
                proxy = exits.enter_context(Proxy(worker))
                door = Door(toxiproxy, f"worker-{number}", "")
                door.redirect(proxy.url)
                exits.callback(door.redirect, worker)
                self.proxies.append(proxy)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_):
        self._exits.close()

    def read(self, lane, verb=None):
        """Return what was asked of Connect for a connector by changes, in its order."""
        found = [
            request
            for proxy in self.proxies
            for request in proxy.requests.get(lane.name, ())
            if request.verb in VERBS and verb in (None, request.verb)
        ]
        return sorted(found, key=lambda request: request.at)


def find_violations(lane, recorder):
    """Sentences for breaks of I1 and I7. I2, I3, I6 and I8 are those of `Lane.settle`."""
    changes, spooled = lane.read_changes(), read_spooled(lane.folder)
    wrong = [f"I1: {words}" for words in check_intents(changes, recorder.read(lane), spooled)]
    told = {change for change, _, _ in spooled}
    # A person closed it and was told that nobody can tell how a step ended.
    unsettled = tuple(change.id for change in changes if change.entries[-1].body.get("unsettled"))
    broken = [words for words in offset_history.find_breaks(changes, spooled=told) if not words.startswith(unsettled)]
    return wrong + [f"I7: {words}" for words in broken]


class Bystander:
    """A connector that nobody changes, and what it held at the beginning (I5)."""

    def __init__(self, lane):
        self._lane = lane
        self._before = self._read()

    def _read(self):
        return self._lane.read_offset(), self._lane.count()

    def find_changes(self):
        """Return a sentence if it isn't as it was."""
        after = self._read()
        return [] if after == self._before else [f"I5: {self._lane.name} was {self._before} and is {after}"]


class Sending:
    """Calls a function right before the change of a thread sends a request: behind its intent and every look."""

    def __init__(self, monkeypatch):
        self._acts = {}
        send = Transport.send

        def watch(transport, url, request, **options):
            act = self._acts.get(threading.get_ident())
            if act is not None and request.writes:
                act(request.path.rpartition("/")[2])
            return send(transport, url, request, **options)

        monkeypatch.setattr(Transport, "send", watch)

    @contextmanager
    def act_before(self, verb, act):
        """Call it once, before the first request of this thread with that verb."""
        calls = []

        def check(found):
            if found == verb and not calls:
                calls.append(found)
                act()

        self._acts[threading.get_ident()] = check
        try:
            yield
        finally:
            del self._acts[threading.get_ident()]
