"""Connect's own references in a worker's file: `${file:/path:key}`, `${env:NAME}`, `${dir:/path:file}`.

Three providers of Kafka are read by our own code. Any other class is refused by name when a value
that is needed refers to it: it is Java code that only the worker can run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seamark.context.files import read_limited
from seamark.context.java_properties import Property
from seamark.context.origin import Origin, OriginKind
from seamark.context.properties import read_properties
from seamark.errors import ConfigurationError, SecretError

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
        """The value with every reference filled in. One pass, as in Kafka: what comes in is not read again."""
        return _REFERENCE.sub(lambda match: self._fill(match, key=key, origin=origin, folder=folder), raw)

    def _fill(self, match: re.Match[str], *, key: str, origin: Origin, folder: Path) -> str:
        name, path, wanted = match["name"], match["path"] or "", match["key"]
        provider = self.classes.get(name)
        if provider is None:
            # Kafka leaves what no provider claims as it is.
            return match[0]
        cause = value = ""
        hint = f"give {key} in the contexts file, or put the value where the reference points to"
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
                raise ConfigurationError("the name of a file in that folder is needed")
            return read_limited(path / wanted, limit=_MAX_BYTES, place=wanted).decode("utf-8", "replace")
        raise ConfigurationError(
            f"the config provider {provider} is Java code that seamark can't run",
            hint=f"seamark reads {_FILE}, {_ENV} and {_DIRECTORY}; give this value in the contexts file",
        )

    def _read_variable(self, name: str) -> str:
        if name not in self.environ:
            raise ConfigurationError(
                f"the environment variable {name} is not set here; the worker may have it, seamark does not",
                hint=f"export {name}=…, or give the value in the contexts file",
            )
        return self.environ[name]
