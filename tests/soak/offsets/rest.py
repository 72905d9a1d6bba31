"""Plain REST calls past seamark and past the proxies, to whichever worker is alive."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request

from seamark.devstack.process import wait_until

PATIENCE_SECONDS = 240
# While workers come and go, Connect refuses for a moment, or does not know yet.
PASSING = (404, 409, 500, 503)


class Rest:
    """The workers of a Connect cluster."""

    def __init__(self, urls):
        self._urls = urls

    def call(self, method, path, body=None):
        """What the first worker says that gives an answer; asked again while none does."""
        answers, said = [], []

        def is_answered():
            for url in self._urls:
                try:
                    answers.append(_send(url + path, method, body))
                except urllib.error.HTTPError as error:
                    said.append(f"{error.code} {error.read()[:200]}")
                    if error.code not in PASSING:
                        raise AssertionError(f"{method} {path}: {said[-1]}") from error
                except (OSError, http.client.HTTPException) as error:
                    said.append(str(error))
                else:
                    return True
            return False

        wait_until(is_answered, f"Connect answered {method} {path}", seconds=PATIENCE_SECONDS, every_seconds=0.5)
        return answers[0]

    def read_status(self, name):
        """The run state, and the state of every task."""
        status = self.call("GET", f"/connectors/{name}/status")
        return status["connector"]["state"], [task["state"] for task in status["tasks"]]


def _send(url, method, body):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method=method, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=100) as answer:
        text = answer.read()
    return json.loads(text) if text else None
