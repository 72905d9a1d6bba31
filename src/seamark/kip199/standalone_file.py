"""The file of one standalone worker, as the steps of a change see it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from seamark.core.deadline import check_deadline
from seamark.errors import MissingSettingError, RefusedError
from seamark.kip199.listeners import find_addresses
from seamark.kip199.standalone import PROC, find_listener, find_process, is_answering
from seamark.offsets.stores.file_swap import FileSwap

if TYPE_CHECKING:
    from seamark.context import ConnectSettings

_DEFAULT_PORT = 8083


class StandaloneFile:
    """An `OffsetFilePort` over a file of this machine."""

    def __init__(self, settings: ConnectSettings, *, proc: Path = PROC) -> None:
        if settings.offsets_file is None:
            raise MissingSettingError(
                f"{settings.name} has no file for its offsets",
                cause="offset.storage.file.filename is what makes a worker a standalone one",
            )
        self._settings = settings
        self._proc = proc
        self._swap = FileSwap(settings.offsets_file)

    @property
    def path(self) -> Path:
        """The file, links followed."""
        return self._swap.path

    def read(self) -> bytes | None:
        """Its bytes; None where there is no file."""
        return self._swap.read()

    def swap(self, expected: str | None, content: bytes | None) -> None:
        """Put other content in its place, if it is what is expected and no worker uses it."""
        self._swap.swap(expected, content, make_sure=self._check_swap)

    def _check_swap(self) -> None:
        self.refuse_held()
        # Looking for a worker may take a while, and so may the lock of the file.
        check_deadline(f"replace {self.path}")

    def find_holder(self) -> str:
        """The worker that uses it, in words; "" where there is none."""
        config = self._settings.worker_config
        return find_process(config, self.path, proc=self._proc) or find_listener(self._find_addresses())

    def is_answering(self) -> bool:
        """Whether the worker can be asked."""
        return is_answering(self._find_addresses())

    def refuse_held(self) -> None:
        """Refuse where a worker uses the file: it has its offsets in memory, and writes the file whole at each flush.

        Raises:
            RefusedError: a worker runs. Nothing was changed.
        """
        holder = self.find_holder()
        if holder:
            raise RefusedError(
                f"a worker uses {self.path}; nothing was changed",
                cause=holder,
                hint="stop the worker, which would write over what is imported, or stop the connectors, all of them",
                context={"file": str(self.path)},
            )

    def _find_addresses(self) -> list[tuple[str, int]]:
        parts = [urlsplit(url) for url in self._settings.urls]
        found = [(one.hostname or "127.0.0.1", one.port or _DEFAULT_PORT) for one in parts]
        if self._settings.worker_config is not None:
            found += find_addresses(self._settings.worker_config)
        return list(dict.fromkeys(found))
