"""Toxiproxy through its API: more doors before anything, and what happens in them."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
import uuid


class Toxiproxy:
    """The proxy of a stack."""

    def __init__(self, api):
        self._api = api

    def open_door(self, url):
        """A door of one's own before a URL."""
        name = f"door-{uuid.uuid4().hex[:8]}"
        upstream = url.removeprefix("http://")
        made = self._call("POST", "/proxies", {"name": name, "listen": "127.0.0.1:0", "upstream": upstream})
        return Door(self, name, f"http://{made['listen']}")

    def _call(self, method, path, body=None):
        request = urllib.request.Request(
            self._api + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None


class Door:
    """One proxy."""

    def __init__(self, toxiproxy, name, url):
        self._toxiproxy = toxiproxy
        self.name = name
        self.url = url

    def poison(self, kind, **attributes):
        """Do this to every answer that goes through it."""
        body = {"name": kind, "type": kind, "stream": "downstream", "attributes": attributes}
        self._toxiproxy._call("POST", f"/proxies/{self.name}/toxics", body)

    def cure(self, kind):
        """Let answers through again."""
        self._toxiproxy._call("DELETE", f"/proxies/{self.name}/toxics/{kind}")

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

    def close(self):
        self._toxiproxy._call("DELETE", f"/proxies/{self.name}")
