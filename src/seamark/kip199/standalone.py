"""Whether a standalone worker runs: by its process on this machine, and by what listens where it would.

A worker holds no lock and keeps its file closed between two flushes, so nothing about the file itself tells. What tells
is a Java process that was started with its properties, from the first moment on, and its REST listener, also in a
container or on another machine that shares the folder.
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
    from seamark.context.context import read_worker_file  # noqa: PLC0415
    from seamark.context.search import Surroundings  # noqa: PLC0415

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


PROC = Path("/proc")
_MAIN, _SUFFIX = "ConnectStandalone", ".properties"
_FILE = "offset.storage.file.filename"
# A listener on this machine takes a connection in microseconds. This is for one far away.
_CONNECT_SECONDS = 1.0
# A worker answers this question within milliseconds, and from memory.
_ANSWER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Program:
    """A Java process: its number, its arguments, and where its relative paths begin, if we may know."""

    pid: int
    arguments: tuple[str, ...]
    folder: str | None
    root: Path

    def is_same(self, argument: str, file: Path) -> bool:
        """Whether an argument leads this process to a file. Where nobody can tell, the name decides."""
        if self.folder is None and not argument.startswith("/"):
            return Path(argument).name == file.name
        # In a container the same file has another path, and the same inode.
        with suppress(OSError):
            return self.find(argument).samefile(file)
        return os.path.realpath(self._spell(argument)) == os.path.realpath(file)

    def find(self, argument: str) -> Path:
        """The file that an argument means to this process."""
        return Path(f"{self.root}{self._spell(argument)}")

    def _spell(self, argument: str) -> str:
        return os.path.normpath(Path(self.folder or "/") / argument)


def find_process(config: Path | None, offsets_file: Path, *, proc: Path = PROC) -> str:
    """A Java process on this machine that was started with these properties or with others that name the same file."""
    for program in _list_programs(proc):
        # A class path is no file name, and long.
        names = [word for word in program.arguments if word[:1] != "-" and (":" not in word or word.endswith(_SUFFIX))]
        if config is not None and any(program.is_same(word, config) for word in names):
            return f"process {program.pid} was started with {config}"
        if any(word.endswith(_MAIN) for word in names):
            for word in _find_offset_files(program, names):
                if program.is_same(word, offsets_file):
                    return f"process {program.pid}, a standalone worker, has {offsets_file} as its file"
    return ""


def find_listener(addresses: Iterable[tuple[str, int]]) -> str:
    """Something that takes connections where the worker would."""
    for host, port in addresses:
        with suppress(OSError), socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
            return f"something listens on {host}:{port}, where its worker does"
    return ""


def is_answering(addresses: Iterable[tuple[str, int]]) -> bool:
    """Whether a worker answers at once at one of these addresses. One that hangs is not worth a wait."""
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
        # Not Linux: the listener alone must tell.
        return
    for pid in numbers:
        folder = proc / str(pid)
        # It may end while it is looked at.
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
            if "java" not in Path(words[0]).name and not any(word.endswith(_MAIN) for word in words):
                continue
            cwd = None
            with suppress(OSError):
                cwd = str((folder / "cwd").readlink())
            yield Program(pid, tuple(words[1:]), cwd, folder / "root")


def _find_offset_files(program: Program, names: Iterable[str]) -> Iterator[str]:
    """What the properties of a standalone worker name as its file, as far as we may read them."""
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
