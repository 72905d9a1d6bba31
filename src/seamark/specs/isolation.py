"""Keep a spec program away from the secrets of its parent and of the user's other processes.

Processes of one user can read each other's environment and memory through /proc and ptrace. Linux asks
`ptrace_may_access` before each of them, which denies a process

- in another user namespace, for every process outside of it (cap_ptrace_access_check: the namespaces differ);
- without the capabilities of the other one, which covers root and containers that forbid namespaces;
- if the other one is not dumpable (prctl PR_SET_DUMPABLE), which covers the parent only.

All three are applied. Because a machine may forbid any of them, the child then tries to read, and the program runs only
if that fails.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522
_MOST_CAPABILITIES = 64


def set_dumpable(is_dumpable: bool) -> None:
    """Allow or forbid other processes of the user to read this one.

    It stays forbidden after a program ended: a process that the program left behind could still read.
    """
    if sys.platform == "linux":
        _load_libc().prctl(_PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0)


def isolate(parent: int, names: Sequence[str], *, platform: str = sys.platform, namespaces: bool = True) -> str:
    """Cut this process off from its parent. Return why that failed, or an empty text.

    `names` are the variables that a program must not see. This must run before any code of the program.
    """
    if platform != "linux":
        # Nothing here keeps a process from the environment of its parent, so there must be nothing to find.
        return f"on {platform} a program can read these variables of its parent: {', '.join(names)}" if names else ""
    if namespaces:
        _enter_user_namespace()
    _drop_capabilities()
    return _find_readable(parent, names)


def _enter_user_namespace() -> bool:
    uid, gid = os.getuid(), os.getgid()
    if _load_libc().unshare(_CLONE_NEWUSER) != 0:
        return False
    # Without the maps the program would run as user 65534; a container may forbid to write them.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with suppress(OSError):
            Path("/proc/self", name).write_text(text, encoding="ascii")
    return True


def _drop_capabilities() -> None:
    """Give up every capability permanently, those of the new namespace too."""

    class Header(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    class Data(ctypes.Structure):
        _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))

    libc = _load_libc()
    for capability in range(_MOST_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.capset(ctypes.byref(Header(_CAPABILITY_VERSION, 0)), (Data * 2)())
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _find_readable(parent: int, names: Sequence[str]) -> str:
    """Return which process can still be read: the parent, or one whose environment holds a variable of `names`."""
    if not Path("/proc/self/environ").exists():
        return "/proc is not mounted, so seamark can't check what the program could read"
    if _read_environment(str(parent)) is not None:
        return "the program can read the environment of its parent"
    wanted = tuple(f"{name}=".encode() for name in names)
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        if any(entry.startswith(wanted) for entry in _read_environment(folder.name) or ()):
            return f"the program can read the environment of process {folder.name}, which holds such variables"
    return ""


def _read_environment(process: str) -> list[bytes] | None:
    try:
        return Path("/proc", process, "environ").read_bytes().split(b"\0")
    except OSError:
        return None


def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
