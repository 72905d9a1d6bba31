"""Detects whether a standalone worker runs: by its process on this machine, and by a listener at its REST address.

A worker holds no lock and keeps its file closed between two flushes, so the file itself shows nothing. A Java process
that was started with the worker's properties shows it from the start. The REST listener shows it even in a container or
on another machine that shares the folder.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.context.context import WorkerFile


_LOCAL = "127.0.0.1"
_ANY = frozenset({"", "0.0.0.0", "::", "[::]"})  # noqa: S104 - addresses that a worker binds to, not seamark
_DEFAULT = "http://:8083"
_LISTENER = re.compile(r"(?P<scheme>https?)://(?P<host>\[[^\]]*\]|[^:/]*):(?P<port>\d{1,5})/?", re.IGNORECASE)


def build_urls(worker: WorkerFile) -> tuple[str, ...]:
    """Return the worker's URLs, the most likely first: the advertised ones, then those on this machine."""
    told = _find(worker, "rest.advertised.host.name")
    port = _find(worker, "rest.advertised.port")
    wanted = _find(worker, "rest.advertised.listener").lower()
    found = [one for one in _find_listeners(worker) if not wanted or one[0] == wanted] or _find_listeners(worker)
    urls = [f"{scheme}://{told}:{port or own}" for scheme, _, own in found] if told else []
    urls += [f"{scheme}://{host}:{own}" for scheme, host, own in found]
    return tuple(dict.fromkeys(urls))


def find_addresses(config: Path) -> list[tuple[str, int]]:
    """Return host and port of every listener in a worker's properties."""
    from seamark.context.context import read_worker_file  # noqa: PLC0415
    from seamark.context.search import Surroundings  # noqa: PLC0415

    worker = read_worker_file(config.absolute(), Surroundings.build())
    return [(host.strip("[]"), int(port)) for _, host, port in _find_listeners(worker)]


def _find_listeners(worker: WorkerFile) -> list[tuple[str, str, str]]:
    """Return scheme, host and port of each listener. A wildcard address is replaced by the local one."""
    # Connect used these two keys before 3.0.
    old = f"http://{_find(worker, 'rest.host.name')}:{_find(worker, 'rest.port') or '8083'}"
    text = _find(worker, "listeners") or (old if _find(worker, "rest.port") else _DEFAULT)
    found = [_LISTENER.fullmatch(part.strip()) for part in text.split(",")]
    return [
        (one["scheme"].lower(), _LOCAL if one["host"] in _ANY else one["host"], one["port"]) for one in found if one
    ]


def _find(worker: WorkerFile, key: str) -> str:
    value = worker.find(key, shown_as=key)
    return "" if value is None else value.reveal().strip()


PROC = Path("/proc")
_MAIN, _SUFFIX = "ConnectStandalone", ".properties"
_FILE = "offset.storage.file.filename"
# A local listener accepts a connection in microseconds. This limit is for a remote one.
_CONNECT_SECONDS = 1.0
# A worker answers this request within milliseconds, from memory.
_ANSWER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Program:
    """A Java process: its ID, its arguments, and its working directory, if that can be read."""

    pid: int
    arguments: tuple[str, ...]
    folder: str | None
    root: Path

    def is_same(self, argument: str, file: Path) -> bool:
        """Return whether an argument refers to a file. If that can't be determined, the file names are compared."""
        if self.folder is None and not argument.startswith("/"):
            return Path(argument).name == file.name
        # In a container, the same file has another path but the same inode.
        with suppress(OSError):
            return self.find(argument).samefile(file)
        return os.path.realpath(self._spell(argument)) == os.path.realpath(file)

    def find(self, argument: str) -> Path:
        """Return the file that an argument refers to in this process."""
        return Path(f"{self.root}{self._spell(argument)}")

    def _spell(self, argument: str) -> str:
        return os.path.normpath(Path(self.folder or "/") / argument)


def find_process(config: Path | None, offsets_file: Path, *, proc: Path = PROC) -> str:
    """Find a local Java process that was started with these properties, or with others that name the same file."""
    for program in _list_programs(proc):
        # Skip the class path: it isn't a file name, and it is long.
        names = [word for word in program.arguments if word[:1] != "-" and (":" not in word or word.endswith(_SUFFIX))]
        if config is not None and any(program.is_same(word, config) for word in names):
            return f"process {program.pid} was started with {config}"
        if any(word.endswith(_MAIN) for word in names):
            for word in _find_offset_files(program, names):
                if program.is_same(word, offsets_file):
                    return f"process {program.pid}, a standalone worker, uses {offsets_file}"
    return ""


def find_listener(addresses: Iterable[tuple[str, int]]) -> str:
    """Find a listener that accepts connections at one of the worker's addresses."""
    for host, port in addresses:
        with suppress(OSError), socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
            return f"a process listens on {host}:{port}, the address of its worker"
    return ""


def is_answering(addresses: Iterable[tuple[str, int]]) -> bool:
    """Return whether a worker answers immediately at one of these addresses, without waiting for one that hangs."""
    for host, port in addresses:
        with (
            suppress(OSError, HTTPException),
            closing(HTTPConnection(host, port, timeout=_ANSWER_SECONDS)) as connection,
        ):
            connection.request("GET", "/")
            connection.getresponse().read()
            return True
    return False


def _list_programs(proc: Path) -> Iterator[Program]:
    try:
        numbers = sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
    except OSError:
        # Not Linux: only the listener can show whether the worker runs.
        return
    for pid in numbers:
        folder = proc / str(pid)
        # The process may end while it is read.
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
            if "java" not in Path(words[0]).name and not any(word.endswith(_MAIN) for word in words):
                continue
            cwd = None
            with suppress(OSError):
                cwd = str((folder / "cwd").readlink())
            yield Program(pid, tuple(words[1:]), cwd, folder / "root")


def _find_offset_files(program: Program, names: Iterable[str]) -> Iterator[str]:
    """Yield the offset files named in the properties of a standalone worker, as far as they can be read."""
    from seamark.context.layer import Origin, OriginKind  # noqa: PLC0415
    from seamark.context.properties import read_properties  # noqa: PLC0415
    from seamark.errors import SeamarkError  # noqa: PLC0415

    for word in names:
        path = program.find(word)
        with suppress(OSError, SeamarkError, UnicodeError):
            if path.is_file():
                found = read_properties(path, origin=Origin(OriginKind.WORKER, str(path), path=path)).get(_FILE)
                if found is not None:
                    yield found.value.strip()
