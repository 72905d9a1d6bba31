"""A headless Chromium, driven through chromedriver's own HTTP interface, and a server for the files of a site."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

# Without the flags about the background, Chromium looks for servers that tests must not need.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
ANSWER_SECONDS = 60


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_):
        """Write nothing."""


@contextmanager
def serve(folder):
    """Serve a folder on a free port; give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Browser:
    """One window of Chromium."""

    def __init__(self, session):
        self._session = session

    def open(self, url):
        """Load a page."""
        ask(f"{self._session}/url", {"url": url})

    def evaluate(self, script):
        """Return the value of an expression of JavaScript."""
        return ask(f"{self._session}/execute/sync", {"script": f"return {script}", "args": []})

    def wait_for(self, script, seconds=ANSWER_SECONDS):
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            assert time.monotonic() < deadline, f"not true after {seconds} s: {script}"
            time.sleep(0.05)
        return value

    def emulate(self, *, width, height, scheme="light"):
        """Set the size of the window, as a device has it, and the preferred color scheme."""
        for command, parameters in (
            (
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
            ),
            ("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        ):
            ask(f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self, path):
        """Write what the window shows to a PNG file."""
        path.write_bytes(base64.b64decode(ask(f"{self._session}/screenshot")))


def ask(url, body=None):
    """Send a request to chromedriver and return the value of its answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
        return json.load(answer)["value"]


@contextmanager
def open_browser():
    """Start chromedriver and Chromium with an empty profile, and end both."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    assert all(programs.values()), "install Debian's packages chromium and chromium-driver, as .ci/setup does"
    with ExitStack() as stack:
        profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        driver = subprocess.Popen(
            [programs["chromedriver"], "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        stack.callback(driver.wait, 30)
        stack.callback(driver.terminate)
        stack.callback(driver.stdout.close)
        port = next(
            found[1] for line in driver.stdout if (found := re.search(r"started successfully on port (\d+)", line))
        )
        options = {"binary": programs["chromium"], "args": [*FLAGS, f"--user-data-dir={profile}"]}
        capabilities = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        session = ask(f"http://127.0.0.1:{port}/session", capabilities)["sessionId"]
        address = f"http://127.0.0.1:{port}/session/{session}"
        stack.callback(lambda: urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).close())
        yield Browser(address)
