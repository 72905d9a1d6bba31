"""Free ports that two stacks never share.

A port that is free now can be taken a second later. Two things are done against it: ports come from
below the kernel's ephemeral range (32768 up), so no outgoing connection gets one by chance; and each
is held by a file lock for as long as the supervisor lives, so no other stack chooses it.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from seamark.errors import DevstackError

FIRST, LAST = 15000, 32000


class PortReservation:
    """Ports held for one stack until the process ends."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.gettempdir()) / "seamark-ports"
        self._folder.mkdir(mode=0o1777, exist_ok=True)
        self._held: list[int] = []

    def take(self) -> int:
        """One more port that is free and held."""
        for port in random.sample(range(FIRST, LAST), 500):
            if _is_free(port) and self._hold(port):
                return port
        raise DevstackError("no free port was found in 500 tries", hint=f"look at what listens on {FIRST}-{LAST}")

    def _hold(self, port: int) -> bool:
        file = os.open(self._folder / str(port), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._held.append(file)
        return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def answers(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
