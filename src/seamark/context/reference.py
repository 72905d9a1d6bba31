"""Secret references: `secret://env/NAME`, `secret://file/PATH#KEY` and `secret://command/NAME`, always whole values."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Never

from seamark.context.files import expand_path, read_limited
from seamark.context.layer import DEFAULT, Origin, OriginKind
from seamark.context.properties import Property, read_properties
from seamark.core.secrets import MASK
from seamark.errors import ConfigurationError, SecretError

# Three providers of Kafka are read by our own code. Any other class is refused by name when a value that is needed
# refers to it: it is Java code that only the worker can run.

_PACKAGE = "org.apache.kafka.common.config.provider."
_FILE = _PACKAGE + "FileConfigProvider"
_ENV = _PACKAGE + "EnvVarConfigProvider"
_DIRECTORY = _PACKAGE + "DirectoryConfigProvider"
# The shape Kafka looks for (ConfigTransformer): provider, maybe a path, key.
_REFERENCE = re.compile(r"\$\{(?P<name>[^}:]*):(?:(?P<path>[^}:]*):)?(?P<key>[^}]*)\}")
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ConfigProviders:
    """Resolves references as the worker would, from what `config.providers` of its file declares.

    Without `is_trusted`, nothing is resolved: a repository could name any variable or file of this machine, and any
    address to send it to.
    """

    classes: Mapping[str, str]
    environ: Mapping[str, str] = field(repr=False)
    is_trusted: bool = True

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Property], environ: Mapping[str, str], *, is_trusted: bool = True
    ) -> ConfigProviders:
        """Return the providers that a worker's file declares."""
        declared = properties.get("config.providers")
        names = [name.strip() for name in declared.value.split(",")] if declared else []
        keys = {name: f"config.providers.{name}.class" for name in names if name}
        classes = {name: properties[key].value.strip() for name, key in keys.items() if key in properties}
        return cls(classes, environ, is_trusted)

    def is_reference(self, raw: str) -> bool:
        """Whether the whole value is one reference to a declared provider."""
        match = _REFERENCE.fullmatch(raw)
        return match is not None and match["name"] in self.classes

    def has_reference(self, raw: str) -> bool:
        """Whether a reference to a declared provider stands anywhere in the value."""
        return any(match["name"] in self.classes for match in _REFERENCE.finditer(raw))

    def locate_file(self, raw: str, *, folder: Path) -> Path | None:
        """The file that a whole reference points to, or None."""
        match = _REFERENCE.fullmatch(raw)
        if match is None or not match["path"]:
            return None
        path = folder / match["path"]
        return path / match["key"] if self.classes.get(match["name"]) == _DIRECTORY else path

    def resolve(self, raw: str, *, key: str, origin: Origin, folder: Path) -> str:
        """Fill in every reference. One pass, as in Kafka: references in the inserted values stay as they are."""
        return _REFERENCE.sub(lambda match: self._fill(match, key=key, origin=origin, folder=folder), raw)

    def _fill(self, match: re.Match[str], *, key: str, origin: Origin, folder: Path) -> str:
        name, path, wanted = match["name"], match["path"] or "", match["key"]
        provider = self.classes.get(name)
        if provider is None:
            # Kafka leaves what no provider claims as it is.
            return match[0]
        cause = value = ""
        hint = f"set {key} in the contexts file, or store the value where the reference points to"
        try:
            value = self._read(provider, folder / path, wanted)
        except ConfigurationError as error:
            cause, hint = error.cause or error.message, error.hint or hint
        if cause:
            raise SecretError(
                f"the reference in {key} can't be resolved: {match[0]}",
                cause=f"{origin}: {cause}",
                hint=hint,
                context={"setting": key, "origin": str(origin), "reference": match[0]},
            )
        return value

    def _read(self, provider: str, path: Path, wanted: str) -> str:
        if not self.is_trusted:
            raise ConfigurationError(
                "a project file names this worker file, so its references are not resolved",
                hint="name the worker file in your own contexts file, or set SEAMARK_CONFIG to the project file",
            )
        if provider == _ENV:
            return self._read_variable(wanted)
        if provider == _FILE:
            found = read_properties(path, origin=Origin(OriginKind.WORKER, str(path), path=path)).get(wanted)
            if found is None:
                raise ConfigurationError(f"{wanted} is not in {path}")
            return found.value
        if provider == _DIRECTORY:
            if "/" in wanted or wanted in {"", ".", ".."}:
                raise ConfigurationError("it doesn't name a file in that folder")
            return read_limited(path / wanted, limit=_MAX_BYTES, place=wanted).decode("utf-8", "replace")
        raise ConfigurationError(
            f"the config provider {provider} is Java code that seamark can't run",
            hint=f"seamark reads {_FILE}, {_ENV} and {_DIRECTORY}; set this value in the contexts file",
        )

    def _read_variable(self, name: str) -> str:
        if name not in self.environ:
            raise ConfigurationError(
                f"the environment variable {name} is not set here; the worker may have it, seamark does not",
                hint=f"export {name}=…, or set the value in the contexts file",
            )
        return self.environ[name]


PREFIX = "secret://"
_KINDS = "secret://env/NAME, secret://file/PATH, secret://file/PATH#KEY, secret://command/NAME"
# A call to a secret store takes a second or two; one that asks a person for a password must not hang a change.
COMMAND_SECONDS = 30.0


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
                cause="unknown kind of reference" if rest else "it is incomplete",
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
                hint = f"use two slashes for an absolute path: secret://file//{text}"
        if cause or not value:
            raise _fail(raw, key=key, origin=origin, cause=cause or f"{path} has no value there", hint=hint)
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
        raise ConfigurationError(f"{path} is not text", hint="store the secret as UTF-8 text")
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
            hint="remove #KEY to use the whole file, or correct the file's extension",
        )
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        state = "is not in" if value is None else "is not a single text in"
        raise ConfigurationError(f"{wanted} {state} {path}", hint=f"check the keys of {path.name}")
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


# seamark's own mask, Kafka's `[hidden]`, and the stars of other tools' pages.
_MASKED = re.compile(r"""\(sensitive\)|\[hidden\]|(?<![^\s:/@='"])\*{3,}(?![^\s:/@;,'"])""")
# Up to the last @ of the word: a password may contain an unquoted slash.
_URL_USERINFO = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)\S*@")


class Secret:
    """A value that shows itself as `(sensitive)` everywhere. `reveal()` is for the client alone.

    A reference is looked up when it is revealed, so a context opens without its secrets at hand.
    `is_literal` is true where the secret itself stands in a file.
    """

    __slots__ = ("_source", "is_literal", "origin")

    def __init__(self, source: str | Callable[[], str], *, is_literal: bool = False, origin: Origin = DEFAULT) -> None:
        self._source = source
        self.is_literal = is_literal
        self.origin = origin

    def reveal(self) -> str:
        """The value itself. Give it to a client; never print, log or keep it."""
        return self._source if isinstance(self._source, str) else self._source()

    def __str__(self) -> str:
        """The mask."""
        return MASK

    def __repr__(self) -> str:
        """The mask."""
        return MASK

    def __format__(self, spec: str) -> str:
        """The mask, whatever the format asks for."""
        return format(MASK, spec)

    def __copy__(self) -> Secret:
        """The same secret: a copy would be one more place to leak from."""
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        """The same secret."""
        return self

    def __reduce__(self) -> Never:
        """Refused: a pickled secret is a secret in a file."""
        raise TypeError("a Secret can't be pickled")


def is_masked(text: str) -> bool:
    """Whether the text is, or holds, what some tool shows in place of a secret."""
    return bool(_MASKED.search(text))


def has_userinfo(text: str) -> bool:
    """Whether a URL in the text carries a user name or a password."""
    return bool(_URL_USERINFO.search(text))


def mask_urls(text: str) -> str:
    """The text with the user part of every URL in it masked."""
    return _URL_USERINFO.sub(lambda match: f"{match['scheme']}{MASK}@", text)
