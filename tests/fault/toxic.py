"""Toxiproxy through its API: more doors before anything, and what happens in them."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
import uuid
from collections import Counter
from dataclasses import asdict, dataclass, field

# Where a child process finds the order for its failpoint.
CUT_VARIABLE = "SEAMARK_TEST_CUT"
UPSTREAM, DOWNSTREAM = "upstream", "downstream"
BOTH = (UPSTREAM, DOWNSTREAM)
_METRIC = re.compile(r"^toxiproxy_proxy_(received|sent)_bytes_total\{(.*)\} (\S+)$", re.MULTILINE)


class Toxiproxy:
    """The proxy of a stack."""

    def __init__(self, api):
        self.api = api

    def open_door(self, url):
        """A door of one's own before a URL."""
        name = f"door-{uuid.uuid4().hex[:8]}"
        upstream = url.removeprefix("http://")
        made = self.call("POST", "/proxies", {"name": name, "listen": "127.0.0.1:0", "upstream": upstream})
        return Door(self, name, f"http://{made['listen']}")

    def read_bytes(self, names):
        """Return the bytes of closed connections of these proxies: (stream, "received" or "sent") to a count."""
        found = Counter()
        for side, labels, count in _METRIC.findall(self.call("GET", "/metrics", is_json=False)):
            told = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if told["proxy"] in names:
                found[told["direction"], side] += int(float(count))
        return found

    def call(self, method, path, body=None, *, is_json=True):
        request = urllib.request.Request(
            self.api + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
        if not is_json:
            return text
        return json.loads(text) if text else None


class Door:
    """One proxy."""

    def __init__(self, toxiproxy, name, url):
        self._toxiproxy = toxiproxy
        self.name = name
        self.url = url

    def poison(self, kind, *, stream=DOWNSTREAM, **attributes):
        """Do this to everything that goes through it in one direction: answers go downstream."""
        body = {"name": f"{kind}-{stream}", "type": kind, "stream": stream, "attributes": attributes}
        self._toxiproxy.call("POST", f"/proxies/{self.name}/toxics", body)

    def cure(self, kind, *, stream=DOWNSTREAM):
        """Let it through again."""
        self._toxiproxy.call("DELETE", f"/proxies/{self.name}/toxics/{kind}-{stream}")

    def poison_until(self, is_over, kind, **attributes):
        """Break what goes through until something is so, at most ten seconds; returns at once."""
        self.poison(kind, **attributes)

        def heal():
            deadline = time.monotonic() + 10
            while not is_over() and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.2)
            self.cure(kind)

        thread = threading.Thread(target=heal, daemon=True)
        thread.start()

    def redirect(self, url):
        """Send what comes in to another address. Open connections end."""
        self._toxiproxy.call("POST", f"/proxies/{self.name}", {"upstream": url.removeprefix("http://")})

    def reset(self):
        """Remove every toxic and end every connection, so that all its bytes are counted."""
        path = f"/proxies/{self.name}"
        for toxic in self._toxiproxy.call("GET", path)["toxics"]:
            self._toxiproxy.call("DELETE", f"{path}/toxics/{toxic['name']}")
        for is_enabled in (False, True):
            self._toxiproxy.call("POST", path, {"enabled": is_enabled})

    def close(self):
        self._toxiproxy.call("DELETE", f"/proxies/{self.name}")


@dataclass(frozen=True)
class Cut:
    """What happens to a link: a kind of toxic, and in which directions."""

    kind: str
    streams: tuple[str, ...] = BOTH
    attributes: dict = field(default_factory=dict)


class Link:
    """All proxies between two parties. They are cut together and healed together."""

    def __init__(self, api, names):
        self._api, self.names = api, tuple(names)
        self._toxiproxy = Toxiproxy(api)
        self._doors = [Door(self._toxiproxy, name, "") for name in names]
        self._before = Counter()

    def build_order(self, cut):
        """Return a cut of this link as JSON, for `run_order` in another process."""
        return json.dumps({"api": self._api, "names": self.names, "cut": asdict(cut)})

    def note_bytes(self):
        """Remember what went through so far. What is lost afterwards is counted."""
        self._before = self._toxiproxy.read_bytes(self.names)

    def cut(self, cut):
        """Cut it. Each direction of each proxy takes some milliseconds, and open connections are cut too."""
        for door in self._doors:
            for stream in cut.streams:
                door.poison(cut.kind, stream=stream, **cut.attributes)

    def is_cut(self):
        """Whether all its proxies have a toxic, of whichever process."""
        told = self._toxiproxy.call("GET", "/proxies")
        return all(told[name]["toxics"] for name in self.names)

    def heal(self):
        """Remove every toxic and end every connection. Whatever was swallowed stays lost."""
        for door in self._doors:
            door.reset()

    def count_bytes(self):
        """Return by stream how many bytes came in since `note_bytes`, and how many of them never went out."""
        # A connection is counted when its two copying threads have noticed its end.
        time.sleep(0.3)
        new = self._toxiproxy.read_bytes(self.names)
        new.subtract(self._before)
        return {stream: (new[stream, "received"], new[stream, "received"] - new[stream, "sent"]) for stream in BOTH}


def run_order(text):
    """Carry out what `Link.build_order` wrote."""
    order = json.loads(text)
    Link(order["api"], order["names"]).cut(Cut(**order["cut"]))
