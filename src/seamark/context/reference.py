"""Secret references: `secret://env/NAME`, `secret://file/PATH#KEY` and `secret://command/NAME`, always whole values."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from seamark.context.files import expand_path, read_limited
from seamark.context.origin import Origin, OriginKind
from seamark.context.properties import read_properties
from seamark.errors import ConfigurationError, SecretError

PREFIX = "secret://"
_KINDS = "secret://env/NAME, secret://file/PATH, secret://file/PATH#KEY, secret://command/NAME"
# A call to a secret store takes a second or two; one that asks a person for a password must not hang a change.
COMMAND_SECONDS = 30.0
# A secret is a line or a key in PEM form; a whole chain of certificates stays below this.
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments. It runs in the folder of the file that defines it."""

    argv: tuple[str, ...] = field(repr=False)
    folder: Path
    place: str


@dataclass(frozen=True, slots=True)
class SecretReferences:
    """Resolves references found in contexts files, variables and flags.

    `commands` are those that the user's or the system's file defines; `own_file` is where a user defines one.
    """

    environ: Mapping[str, str] = field(repr=False)
    home: Path | None = None
    commands: Mapping[str, Command] = field(default_factory=dict)
    own_file: str = "your contexts file"

    def is_reference(self, raw: str) -> bool:
        """Whether the value is a reference and so no secret itself."""
        return raw.startswith(PREFIX)

    has_reference = is_reference

    def resolve(self, raw: str, *, key: str, origin: Origin, folder: Path) -> str:
        """The value behind a reference; any other text is its own value."""
        if not self.is_reference(raw):
            return raw
        kind, _, rest = raw.removeprefix(PREFIX).partition("/")
        if not rest or kind not in {"env", "file", "command"}:
            raise _fail(
                raw,
                key=key,
                origin=origin,
                cause="that kind of reference is not known" if rest else "it is not complete",
                hint=f"write one of {_KINDS}",
            )
        if kind == "env":
            return self._read_variable(rest, raw=raw, key=key, origin=origin)
        if kind == "command":
            return self._read_command(rest, raw=raw, key=key, origin=origin)
        return self._read_file(rest, raw=raw, key=key, origin=origin, folder=folder)

    def locate_file(self, raw: str, *, folder: Path) -> Path | None:
        """The file a reference points to, or None."""
        if not raw.startswith(PREFIX + "file/"):
            return None
        path, _, _ = _split_key(raw.removeprefix(PREFIX + "file/"))
        return expand_path(path, folder=folder, home=self.home)

    def _read_variable(self, name: str, *, raw: str, key: str, origin: Origin) -> str:
        value = self.environ.get(name)
        if value:
            return value
        state = "is empty" if value == "" else "is not set"
        raise _fail(
            raw, key=key, origin=origin, cause=f"the environment variable {name} {state}", hint=f"export {name}=…"
        )

    def _read_command(self, name: str, *, raw: str, key: str, origin: Origin) -> str:
        command = self.commands.get(name)
        if command is None:
            raise _fail(
                raw,
                key=key,
                origin=origin,
                cause=f"no file defines the command {name}",
                hint=f"add commands: {{{name}: [PROGRAM, ARGUMENT]}} to {self.own_file}",
            )
        value, cause = _run(command, self.environ)
        if cause:
            hint = f"run the command that {command.place} defines, and check its output"
            raise _fail(raw, key=key, origin=origin, cause=f"the command {name} {cause}", hint=hint)
        return value

    def _read_file(self, rest: str, *, raw: str, key: str, origin: Origin, folder: Path) -> str:
        text, has_key, wanted = _split_key(rest)
        path = expand_path(text, folder=folder, home=self.home)
        cause = hint = value = ""
        try:
            value = _read_key(path, wanted) if has_key else _read_whole(path)
        except ConfigurationError as error:
            cause, hint = error.cause or error.message, error.hint
            if not path.exists() and not text.startswith("/") and Path("/", text).exists():
                hint = f"a whole path needs two slashes: secret://file//{text}"
        if cause or not value:
            raise _fail(raw, key=key, origin=origin, cause=cause or f"{path} holds nothing there", hint=hint)
        return value


def _run(command: Command, environ: Mapping[str, str]) -> tuple[str, str]:
    """Run a command without a shell. Return its output, or what went wrong; never both.

    Errors hold nothing that the command printed, because that may be the secret or a part of it.
    """
    try:
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=command.folder,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        return "", f"can't be started: {error.strerror}"
    try:
        output, _ = process.communicate(timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        return "", f"did not end within {COMMAND_SECONDS:g} s"
    finally:
        # Also the processes that it started, which may hold the pipe open.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()
    if process.returncode:
        return "", f"ended with exit code {process.returncode}"
    if len(output) > _MAX_BYTES:
        return "", f"printed more than {_MAX_BYTES:,} bytes"
    try:
        value = output.decode("utf-8").strip()
    except UnicodeDecodeError:
        return "", "printed something that is not UTF-8"
    return (value, "") if value else ("", "printed nothing")


def _split_key(rest: str) -> tuple[str, bool, str]:
    """Path, whether a key is asked for, and the key. A `#` in a folder's name can't be meant."""
    path, mark, key = rest.partition("#")
    return path, bool(mark), key


def _read_whole(path: Path) -> str:
    data = read_limited(path, limit=_MAX_BYTES, place=path.name)
    text = data.decode("utf-8", "replace").strip()
    if "\ufffd" in text:
        raise ConfigurationError(f"{path} is not text", hint="a secret file holds text in UTF-8")
    return text


def _read_key(path: Path, wanted: str) -> str:
    if path.suffix == ".properties":
        found = read_properties(path, origin=Origin(OriginKind.FILE, path.name, path=path)).get(wanted)
        value: object = None if found is None else found.value
    elif path.suffix == ".json":
        value = _read_json(path).get(wanted)
    else:
        raise ConfigurationError(
            f"{path}: keys are read from .properties and .json files only",
            hint="leave #KEY out to take the whole file, or give the file its right ending",
        )
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        state = "is not in" if value is None else "is not a single text in"
        raise ConfigurationError(f"{wanted} {state} {path}", hint=f"look at the keys of {path.name}")
    return str(value)


def _read_json(path: Path) -> dict[str, object]:
    data = read_limited(path, limit=_MAX_BYTES, place=path.name)
    try:
        loaded = json.loads(data)
    except (ValueError, RecursionError):
        loaded = None
    if not isinstance(loaded, dict):
        # Raised here and not in the `except`: the parser's error carries the whole document.
        raise ConfigurationError(f"{path} is not a JSON object", hint='write {"key": "value"}')
    return loaded


def _fail(raw: str, *, key: str, origin: Origin, cause: str, hint: str) -> SecretError:
    return SecretError(
        f"the secret of {key} can't be read: {raw}",
        cause=f"{origin.exact}: {cause}",
        hint=hint,
        context={"setting": key, "origin": str(origin), "reference": raw},
    )
