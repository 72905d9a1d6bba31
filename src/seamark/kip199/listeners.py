"""Where the REST API of a worker is, by its properties alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.context.worker import WorkerFile

_LOCAL = "127.0.0.1"
_ANY = frozenset({"", "0.0.0.0", "::", "[::]"})  # noqa: S104 - what a worker binds to, not we
_DEFAULT = "http://:8083"
_LISTENER = re.compile(r"(?P<scheme>https?)://(?P<host>\[[^\]]*\]|[^:/]*):(?P<port>\d{1,5})/?", re.IGNORECASE)


def build_urls(worker: WorkerFile) -> tuple[str, ...]:
    """The addresses of the worker, the likeliest first: as it tells them to others, then on this machine."""
    told = _find(worker, "rest.advertised.host.name")
    port = _find(worker, "rest.advertised.port")
    wanted = _find(worker, "rest.advertised.listener").lower()
    found = [one for one in _find_listeners(worker) if not wanted or one[0] == wanted] or _find_listeners(worker)
    urls = [f"{scheme}://{told}:{port or own}" for scheme, _, own in found] if told else []
    urls += [f"{scheme}://{host}:{own}" for scheme, host, own in found]
    return tuple(dict.fromkeys(urls))


def find_addresses(config: Path) -> list[tuple[str, int]]:
    """Host and port of every listener that the properties of a worker name."""
    from seamark.context.search import Surroundings  # noqa: PLC0415
    from seamark.context.worker import read_worker_file  # noqa: PLC0415

    worker = read_worker_file(config.absolute(), Surroundings.build())
    return [(host.strip("[]"), int(port)) for _, host, port in _find_listeners(worker)]


def _find_listeners(worker: WorkerFile) -> list[tuple[str, str, str]]:
    """Scheme, host and port. Who binds to every address is found on this machine."""
    # The two keys were Connect's before 3.0.
    old = f"http://{_find(worker, 'rest.host.name')}:{_find(worker, 'rest.port') or '8083'}"
    text = _find(worker, "listeners") or (old if _find(worker, "rest.port") else _DEFAULT)
    found = [_LISTENER.fullmatch(part.strip()) for part in text.split(",")]
    return [
        (one["scheme"].lower(), _LOCAL if one["host"] in _ANY else one["host"], one["port"]) for one in found if one
    ]


def _find(worker: WorkerFile, key: str) -> str:
    value = worker.find(key, shown_as=key)
    return "" if value is None else value.reveal().strip()
