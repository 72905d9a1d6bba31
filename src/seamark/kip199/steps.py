"""Steps that replace the offset file of a standalone worker atomically while no worker uses it."""

from __future__ import annotations

import socket
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self
from urllib.parse import urlsplit

from seamark.changes.action import CheckStep, Reads, StandaloneStep, StepSeen, action_kind, needs_permission
from seamark.changes.codec import Encoded
from seamark.changes.effect import ChangeKind, Effect
from seamark.changes.environment import Environment
from seamark.changes.locks import file_lock
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, compare_image, step_kind
from seamark.core.refs import Port
from seamark.core.time import check_deadline
from seamark.errors import MissingSettingError, RefusedError
from seamark.kip199.standalone import PROC, find_addresses, find_listener, find_process, is_answering
from seamark.offsets.stores.file import FileSwap, build_digest
from seamark.policy.permissions import Permission

if TYPE_CHECKING:
    from seamark.context import ConnectSettings


class OffsetFilePort(Protocol):
    """One local file. `FileSwap` replaces it; whether a worker uses it is determined separately."""

    @property
    def path(self) -> Path:
        """The file, with links resolved."""
        ...

    def read(self) -> bytes | None:
        """Return its content; None if there is no file."""
        ...

    def swap(self, expected: str | None, content: bytes | None) -> None:
        """Replace the content if the file still has the expected digest and no worker uses it."""
        ...

    def find_holder(self) -> str:
        """Return a description of the worker that uses it; "" if there is none."""
        ...


OFFSET_FILE: Port[Callable[[str], OffsetFilePort]] = Port("offset_file")
"""Opens the offset file of a standalone worker."""


# A rename is visible immediately; a longer time means a failing disk.
_SETTLE_SECONDS = 10.0
# Half a million offsets. A few bytes of a hostile plan must not fill the memory: zlib compresses zeros to a thousandth.
_MAX_BYTES = 64 << 20


def pack_content(content: bytes | None) -> str | None:
    """Return the content of a file as plans and the journal store it.

    Raises:
        RefusedError: the content is larger than `unpack_content` accepts, so that no undo could restore it.
    """
    if content is None:
        return None
    if len(content) > _MAX_BYTES:
        raise RefusedError(
            "the offsets file is too large; no changes were made",
            cause=f"it has {len(content):,} bytes, and seamark changes files of at most {_MAX_BYTES:,} bytes",
            hint="migrate these connectors to a distributed worker",
        )
    # Keys are repetitive: compression reduces them to a tenth.
    return b64encode(zlib.compress(content)).decode()


def unpack_content(text: str | None) -> bytes | None:
    """Return the content that was passed to `pack_content`.

    Raises:
        ValueError: the text is something else, or too large.
    """
    if text is None:
        return None
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(b64decode(text, validate=True), _MAX_BYTES)
    except zlib.error:
        raise ValueError("not compressed content") from None
    if not reader.eof or reader.unused_data:
        raise ValueError("compressed content that is cut off, too large, or has more after it")
    return content


@action_kind("write-offset-file")
@needs_permission(Permission.CHANGE_OFFSETS)
@step_kind("write-offset-file")
@dataclass(frozen=True, slots=True)
class WriteOffsetFile(StandaloneStep):
    """Replace the content of a standalone worker's file, byte by byte; None deletes the file.

    The images are digests. The previous bytes are stored beside them, so that undo can restore them.
    """

    aspect: ClassVar[str] = "content"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS
    # A file is replaced by a process that holds a lock, or not at all: nothing takes effect after that process has
    # ended.
    lands_late: ClassVar[bool] = False

    cluster: str
    path: str
    content: Annotated[bytes | None, Encoded(pack_content, unpack_content)]

    @property
    def subject(self) -> str:
        return f"file{self.path}"

    def describe(self) -> str:
        if self.content is None:
            return f"delete {self.subject}"
        return f"replace {self.subject}, {len(self.content)} bytes"

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        return [frozenset({file_lock(action.path, host=socket.gethostname())}) for action in actions]

    def build_effect(self, seen: StepSeen) -> Effect:
        return Effect(ChangeKind.CHANGE, self.subject, self.describe())

    def intend(self, world: Environment) -> Intent:
        now = find_file(world, self.cluster, self.path).read()
        return Intent(before=_build_image(now), after=_build_image(self.content), extra={"content": pack_content(now)})

    def perform(self, world: Environment, intent: Intent) -> None:
        find_file(world, self.cluster, self.path).swap(intent.before["file"], self.content)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return compare_image(_build_image(find_file(world, self.cluster, self.path).read()), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return WriteOffsetFile(self.cluster, self.path, unpack_content(intent.extra["content"]))


@step_kind("verify-offset-file")
@dataclass(frozen=True, slots=True)
class VerifyOffsetFile(CheckStep):
    """Verify that the file has the written content and that no worker has started.

    A worker that has started may have read the previous content.
    """

    aspect: ClassVar[str] = "verified"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    cluster: str
    path: str
    digest: str

    @property
    def subject(self) -> str:
        return f"file{self.path}"

    def describe(self) -> str:
        return f"verify {self.subject}, and that no worker uses it"

    def perform(self, world: Environment, intent: Intent) -> None:
        port = find_file(world, self.cluster, self.path)
        holder = port.find_holder()
        if holder or build_digest(port.read()) != self.digest:
            raise RefusedError(
                f"a worker may have read {self.path} before it was written, and will overwrite it"
                if holder
                else f"{self.path} is not as written: another process writes it",
                cause=holder or "its checksum is different",
                hint="stop the worker and check the file with connect-offsets --export",
            )

    def observe(self, world: Environment, intent: Intent) -> Observed:
        now = find_file(world, self.cluster, self.path).read()
        return Observed.AFTER if build_digest(now) == self.digest else Observed.BEFORE


def find_file(world: Environment, cluster: str, path: str) -> OffsetFilePort:
    """Return the file of a worker.

    Raises:
        RefusedError: the worker's properties now name another file.
    """
    port = world.use(OFFSET_FILE)(cluster)
    if str(port.path) != path:
        raise RefusedError(
            f"worker {cluster} uses another file than {path}; no changes were made",
            cause=f"its properties have {port.path}",
            hint="pass the properties file of the original command",
        )
    return port


def _build_image(content: bytes | None) -> dict[str, Any]:
    return {"file": build_digest(content)}


_DEFAULT_PORT = 8083


class StandaloneFile:
    """An `OffsetFilePort` over a file of this machine."""

    def __init__(self, settings: ConnectSettings, *, proc: Path = PROC) -> None:
        if settings.offsets_file is None:
            raise MissingSettingError(
                f"{settings.name} has no offsets file",
                cause="a standalone worker requires offset.storage.file.filename",
            )
        self._settings = settings
        self._proc = proc
        self._swap = FileSwap(settings.offsets_file)

    @property
    def path(self) -> Path:
        """The file, with links resolved."""
        return self._swap.path

    def read(self) -> bytes | None:
        """Return its content; None if there is no file."""
        return self._swap.read()

    def swap(self, expected: str | None, content: bytes | None) -> None:
        """Replace the content if it is the expected one and no worker uses the file."""
        self._swap.swap(expected, content, make_sure=self._check_swap)

    def _check_swap(self) -> None:
        self.refuse_held()
        # Searching for a worker may take time, and so may the lock of the file.
        check_deadline(f"replace {self.path}")

    def find_holder(self) -> str:
        """Return a description of the worker that uses it; "" if there is none."""
        config = self._settings.worker_config
        return find_process(config, self.path, proc=self._proc) or find_listener(self._find_addresses())

    def is_answering(self) -> bool:
        """Return whether the worker answers REST requests."""
        return is_answering(self._find_addresses())

    def refuse_held(self) -> None:
        """Refuse if a worker uses the file: it has its offsets in memory, and writes the whole file at each flush.

        Raises:
            RefusedError: a worker runs. No changes were made.
        """
        holder = self.find_holder()
        if holder:
            raise RefusedError(
                f"a worker uses {self.path}; no changes were made",
                cause=holder,
                hint="stop the worker, because it would overwrite the imported offsets, or stop all of its connectors",
                context={"file": str(self.path)},
            )

    def _find_addresses(self) -> list[tuple[str, int]]:
        parts = [urlsplit(url) for url in self._settings.urls]
        found = [(one.hostname or "127.0.0.1", one.port or _DEFAULT_PORT) for one in parts]
        if self._settings.worker_config is not None:
            found += find_addresses(self._settings.worker_config)
        return list(dict.fromkeys(found))
