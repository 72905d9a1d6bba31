"""Bare REST calls, so that what is tested does not test itself."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

# A create costs a rebalance, and other tests of the run may be causing some too.
DEADLINE_SECONDS = 90


def call(url, *, method="GET", body=None):
    """One call. Gives the status and the answer."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, method=method, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=100) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, None


def call_until(url, is_done, **options):
    """Call until the answer is the one that is waited for: a rebalance and a worker that lags give others first."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        status, answer = call(url, **options)
        if is_done(status, answer):
            return answer
        assert time.monotonic() < deadline, f"{url} still answers {status} {answer} after {DEADLINE_SECONDS} s"
        time.sleep(0.2)
