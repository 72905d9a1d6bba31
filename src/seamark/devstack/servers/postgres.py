"""PostgreSQL: a separate database cluster in the stack's folder, on its own port."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import subprocess
from pathlib import Path

from seamark.devstack.process import PortReservation, Server, answers
from seamark.devstack.stack import PostgresEndpoint
from seamark.errors import DevstackError

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "max_connections": "100",
    "shared_buffers": "128MB",
    # The data is deleted with the stack, so no write waits for the disk.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Files inside the data folder instead of /dev/shm: a killed server leaves nothing behind.
    "dynamic_shared_memory_type": "mmap",
}


def build_postgres(*, folder: Path, ports: PortReservation) -> tuple[PostgresEndpoint, Server]:
    """Create a database cluster and return how it starts."""
    programs = find_programs()
    user = _server_user()
    data = folder / "postgres"
    data.mkdir(mode=0o700)
    if user:
        shutil.chown(data, user, pwd.getpwnam(user).pw_gid)
    port, password = ports.take(), secrets.token_urlsafe(12)
    _initialise(programs, data=data, user=user, password=password)
    settings = _SETTINGS | {"port": str(port), "unix_socket_directories": ""}
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{key} = '{value}'\n" for key, value in settings.items())
    server = Server(
        name="postgres",
        kind="postgres",
        command=(str(programs / "postgres"), "-D", str(data)),
        log=folder / "logs" / "postgres.log",
        data=data,
        port=port,
        user=user,
        is_ready=lambda running: running.log_says("ready to accept connections") and answers(port),
    )
    return PostgresEndpoint("127.0.0.1", port=port, user="postgres", password=password, database="postgres"), server


def find_programs() -> Path:
    """Return the folder with `postgres` and `initdb`: Debian keeps them off the PATH; the newest version wins."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: [int(part) for part in re.findall(r"\d+", str(folder))],
    )
    if on_path := shutil.which("postgres"):
        folders.insert(0, Path(on_path).parent)
    for folder in reversed(folders):
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise DevstackError("PostgreSQL is not installed", hint="on Debian: apt-get install postgresql")


def _server_user() -> str | None:
    # PostgreSQL refuses to run as root.
    if os.getuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise DevstackError(
        "PostgreSQL can't run as root, and user postgres does not exist", hint="create it: useradd postgres"
    )


def _initialise(programs: Path, *, data: Path, user: str | None, password: str) -> None:
    # The password is passed through a pipe: a file would stay, an argument would show in the process list.
    reading, writing = os.pipe()
    os.write(writing, password.encode() + b"\n")
    os.close(writing)
    if user:
        os.fchown(reading, pwd.getpwnam(user).pw_uid, -1)
    command = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "scram-sha-256", "-E", "UTF8"]
    done = subprocess.run(
        [*command, "--locale=C.UTF-8", "--no-sync", "--no-instructions", f"--pwfile=/proc/self/fd/{reading}"],
        user=user,
        group=pwd.getpwnam(user).pw_gid if user else None,
        extra_groups=[] if user else None,
        cwd=data,
        pass_fds=[reading],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(reading)
    if done.returncode:
        raise DevstackError(
            "could not create the PostgreSQL database cluster",
            cause=(done.stdout + done.stderr)[-1500:],
            hint=f"check that {f'user {user}' if user else 'your user'} has access to {data}",
        )
