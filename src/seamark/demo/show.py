"""The whole evening: servers up, the chapters, servers down."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from seamark.demo.audience import Audience
from seamark.demo.play import play
from seamark.demo.programme import Programme
from seamark.demo.servers import run_servers
from seamark.demo.stage import Stage
from seamark.errors import DevstackError

_STACK_FILE = "stack.json"

Servers = Callable[..., contextlib.AbstractContextManager[object]]


def run_show(
    programme: Programme, audience: Audience, *, keep: bool = False, color: str = "auto", servers: Servers = run_servers
) -> None:
    """Start the servers, play the chapters, and end the servers, whatever happens."""
    begin = time.monotonic()
    for entry in programme.left_out:
        audience.tell(f"chapter {entry.number}, {entry.chapter.name}, is left out: {_join(entry.lacks)}")
    with _open_folder(keep=keep) as folder:
        file = folder / _STACK_FILE
        audience.say(f"Real servers start: {_name_servers(programme)}. This takes about 20 s.")
        with servers(file, options=programme.options, keep=keep, tell=audience.tell) as stack:
            stage = Stage(stack, folder=folder, file=file, color=color)  # type: ignore[arg-type]
            stage.write_context()
            chapters = [(entry.number, entry.chapter) for entry in programme.played]
            is_whole = play(chapters, stage, audience)
            if keep:
                _say_how_to_use(stage, audience)
        seconds = time.monotonic() - begin
        ending = "" if keep else " Every server has ended and its data is removed."
        audience.say(f"{'That was the demo' if is_whole else 'Enough for now'}, after {seconds:.0f} s.{ending}")


def _say_how_to_use(stage: Stage, audience: Audience) -> None:
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in stage.exports.items())
    audience.say("The servers go on running. To use them:")
    audience.show("$", f"export {exports}")
    audience.show("$", f"cd {shlex.quote(str(stage.folder))} && seamark status")
    audience.say("To end them and remove their data:")
    audience.show("$", f"python -m seamark.devstack down --file {shlex.quote(str(stage.file))}")


@contextlib.contextmanager
def _open_folder(*, keep: bool) -> Iterator[Path]:
    """A folder of the demo's own: gone at the end, or in the user's state folder where it is kept."""
    if not keep:
        with tempfile.TemporaryDirectory(prefix="seamark-demo-") as name:
            yield Path(name)
        return
    from seamark.context.search import find_state_dir  # noqa: PLC0415

    folder = find_state_dir() / "demo"
    file = folder / _STACK_FILE
    if file.exists():
        raise DevstackError(
            "a demo that was kept is still there",
            hint=f"end it first: python -m seamark.devstack down --file {shlex.quote(str(file))}",
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    yield folder


def _name_servers(programme: Programme) -> str:
    more = [name for option, name in (("--postgres", "PostgreSQL"), ("--s3", "S3")) if option in programme.options]
    return ", ".join(["a Kafka broker", "two Connect workers", *more])


def _join(lacks: tuple[object, ...]) -> str:
    return "; ".join(f"it needs {lack}" for lack in lacks)
