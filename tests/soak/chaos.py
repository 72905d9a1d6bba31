"""Servers that die: one at a time, and the next only when everything is whole again."""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

from seamark.devstack.client import ask
from seamark.devstack.process import wait_until
from seamark.errors import DevstackError

# A few changes in peace between two deaths, and forty of these in three quarters of an hour.
SERVERS_EVERY_SECONDS = 21.0
# The shortest and the longest time between two deaths, as shares of their mean: 12 to 30 s by default.
_SPREAD = (12 / 21, 30 / 21)
DEAD_SECONDS = (0.5, 8.0)
WHOLE_SECONDS = 240
KINDS = ("worker", "leader", "broker", "coordinator")


class Chaos:
    """Kills a worker, the leader of the workers, a broker or the coordinator of a group, and starts it again."""

    def __init__(self, stack, *, proxies, groups, brokers, rng, every_seconds=SERVERS_EVERY_SECONDS):
        self.counts = Counter()
        self.deaths = []
        self.trouble = ""
        self._stack = stack
        self._proxies = {f"worker-{number}": proxy for number, proxy in enumerate(proxies, start=1)}
        self._groups = groups
        self._brokers = brokers
        self._rng = rng
        self._every_seconds = every_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Kill no more; what is dead is started again first."""
        self._over.set()
        self._thread.join(WHOLE_SECONDS * 2)

    def died_within(self, seconds, at):
        """Whether a server died in so many seconds before a time."""
        return any(0 <= at - death <= seconds for death in self.deaths)

    def _go_on(self):
        try:
            while self._every_seconds and not self._over.wait(draw_pause(self._rng, self._every_seconds)):
                kind = KINDS[sum(self.counts.values()) % len(KINDS)]
                self._strike(kind, self._choose(kind))
        except Exception:  # noqa: BLE001 - a run without its deaths must not look like one with them
            self.trouble = traceback.format_exc()
            print(f"CHAOS ENDED {self.trouble}", flush=True)

    def _choose(self, kind):
        workers = sorted(self._proxies)
        if kind == "leader":
            return self._find_leader()
        if kind == "worker":
            return self._rng.choice([name for name in workers if name != self._find_leader()])
        if kind == "coordinator":
            return f"broker-{self._brokers.find_coordinator(self._rng.choice(self._groups))}"
        return f"broker-{self._rng.randint(1, 3)}"

    def _find_leader(self):
        """The worker that the newest assignment in the workers' logs names."""
        found = []
        for name in self._proxies:
            log = Path(self._stack.server(name).log).read_text(errors="replace")
            found += re.findall(r"\[([\d\-]+ [\d:,]+)\].*leaderUrl='http://[^:]+:(\d+)/'", log)[-1:]
        port = int(max(found)[1])
        return next(name for name in self._proxies if self._stack.server(name).port == port)

    def _strike(self, kind, name):
        folder = Path(self._stack.folder)
        print(f"{time.strftime('%H:%M:%S')} kills the {kind} {name}", flush=True)
        ask(folder, "kill", name)
        self.deaths.append(time.time())
        proxy = self._proxies.get(name)
        if proxy is not None:
            proxy.close()
        self.counts[kind] += 1
        time.sleep(self._rng.uniform(*DEAD_SECONDS))
        self._restart(folder, name)
        if proxy is not None:
            proxy.open()
        self.deaths.append(time.time())
        wait_until(
            self._brokers.are_whole, "every partition had all its replicas", seconds=WHOLE_SECONDS, every_seconds=1
        )

    def _restart(self, folder, name):
        def is_back():
            try:
                ask(folder, "restart", name)
            except (DevstackError, OSError) as error:
                print(f"{name} did not start: {error}", flush=True)
                return False
            return True

        wait_until(is_back, f"{name} was back", seconds=WHOLE_SECONDS * 2, every_seconds=1)


def draw_pause(rng, every_seconds):
    """Draw how long all servers run until the next one is killed; `every_seconds` on average."""
    return rng.uniform(*(share * every_seconds for share in _SPREAD))
