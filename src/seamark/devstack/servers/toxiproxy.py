"""Toxiproxy before Connect workers or brokers: proxies that can delay, refuse or cut off connections.

Built once by Go into the cache. A worker advertises the address of its proxy to the others, so that requests that a
follower forwards to the leader go through a proxy, too.
"""

from __future__ import annotations

import json
from pathlib import Path

from seamark.devstack.downloads import cache_folder, fill, run_tool
from seamark.devstack.process import PortReservation, Server, answers
from seamark.devstack.stack import ToxiproxyEndpoint

VERSION = "2.5.0"
_MODULE = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"


def read_toxiproxy() -> Path:
    """Return Toxiproxy's program, built if it is not cached. Go verifies the module with its checksum database."""
    return fill(cache_folder() / "bin" / f"toxiproxy-{VERSION}", _build) / "server"


def _build(target: Path) -> None:
    run_tool(["go", "install", _MODULE], "build toxiproxy", env={"GOBIN": str(target), "GOFLAGS": "-trimpath"})


class Doors:
    """The proxies of one stack: which worker is behind which port."""

    def __init__(self, ports: PortReservation) -> None:
        self._ports = ports
        self._doors: dict[str, tuple[int, int]] = {}

    def open(self, worker: str, port: int) -> int:
        """Add a proxy for a worker that listens at `port`; return the port at which others reach it."""
        door = self._ports.take()
        self._doors[worker] = (door, port)
        return door

    def build_server(self, *, folder: Path, program: Path) -> tuple[ToxiproxyEndpoint, Server]:
        """Return how toxiproxy starts, with all proxies enabled."""
        data = folder / "toxiproxy"
        data.mkdir()
        proxies = [
            {"name": name, "listen": f"127.0.0.1:{door}", "upstream": f"127.0.0.1:{port}", "enabled": True}
            for name, (door, port) in self._doors.items()
        ]
        (data / "doors.json").write_text(json.dumps(proxies))
        port = self._ports.take()
        server = Server(
            name="toxiproxy",
            kind="toxiproxy",
            command=(
                *(str(program), "-host", "127.0.0.1", "-port", str(port)),
                # `GET /metrics` counts the bytes of closed connections: a test detects whether its fault affected any
                # traffic.
                *("-proxy-metrics", "-config", str(data / "doors.json")),
            ),
            log=folder / "logs" / "toxiproxy.log",
            data=data,
            port=port,
            version=VERSION,
            is_ready=lambda _running: answers(port) and all(answers(door) for door, _ in self._doors.values()),
        )
        doors = {name: f"http://127.0.0.1:{door}" for name, (door, _) in self._doors.items()}
        return ToxiproxyEndpoint(f"http://127.0.0.1:{port}", doors=doors), server
