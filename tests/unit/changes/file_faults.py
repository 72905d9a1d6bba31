"""Faults for the file journal's tests: where its files are, and calls that fail."""

from __future__ import annotations

import errno
import os


def change_file(folder, change):
    return folder / "changes" / f"{change}.journal"


def failing(call, *, code=errno.EIO, at=1):
    """The call, failing at its Nth time."""
    times = 0

    def fail(*arguments):
        nonlocal times
        times += 1
        if times == at:
            raise OSError(code, os.strerror(code))
        return call(*arguments)

    return fail
