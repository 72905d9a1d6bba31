"""`pull`: write a running fleet to files, and update files from what runs, one line for each changed value.

A new connector gets its own file: a review shows one connector, its history is that of its file, and two users who
change two connectors never conflict.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seamark.connect.model import Connector, State
from seamark.core.files import write_atomically
from seamark.core.secrets import MASK, find_secret_keys, mask_text, mask_value
from seamark.errors import RefusedError, SeamarkError, UsageError
from seamark.specs.edit import Edit, UneditableError, apply_edits, build_edits, build_file_name, compose_file
from seamark.specs.layers import Shared
from seamark.specs.load import load_definitions, read_shared
from seamark.specs.model import Definition, Pull, PulledFile, PulledSecret, SkippedConnector

if TYPE_CHECKING:
    from seamark.connectors.service import Connectors
    from seamark.context import Context


# A shorter part of a secret reveals nothing, and would match everywhere in the file.
_SHORTEST_PIECE = 4


def write_files(files: Sequence[PulledFile]) -> None:
    """Write all files, each atomically. All must still be as they were read, or none is written."""
    for file in files:
        _refuse_changed(file)
    for file in files:
        _write(file)


def _refuse_changed(file: PulledFile) -> None:
    path = Path(file.path)
    if file.before is None:
        if path.exists():
            raise RefusedError(f"{path} was created meanwhile; no changes were made", hint="run seamark pull again")
        return
    try:
        present = path.read_bytes()
    except OSError:
        present = b""
    if present != file.before.encode(file.encoding):
        raise RefusedError(f"{path} was changed meanwhile; no changes were made", hint="run seamark pull again")


def _write(file: PulledFile) -> None:
    path = Path(file.path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A symbolic link is followed: its target is the file.
        target = path.resolve()
        mode = None if file.before is None else stat.S_IMODE(target.stat().st_mode)
        write_atomically(file.after.encode(file.encoding), target, mode=mode)
    except OSError as error:
        raise SeamarkError(
            f"{path} can't be written",
            cause=error.strerror or type(error).__name__,
            hint="check your permissions on that folder, then run seamark pull again, which writes the remaining files",
        ) from None


def build_diff(path: str, before: str, after: str, definitions: Iterable[Definition]) -> str:
    """Return the change as a unified diff. Secrets in the file are masked."""
    pieces = _find_secrets(definitions)
    source = f"a/{path}" if before else "/dev/null"
    lines = unified_diff(before.splitlines(), after.splitlines(), source, f"b/{path}", lineterm="")
    return "\n".join(_mask(line, pieces) for line in lines)


def _find_secrets(definitions: Iterable[Definition]) -> list[tuple[str, str]]:
    """Return each secret of the file as it is written there, in parts of one line, with its key."""
    found: dict[tuple[str, str], None] = {}
    for definition in definitions:
        leaves = {**definition.inherited, **definition.own}
        # The file may have keys that the running connector doesn't have, also of another class.
        secret = find_secret_keys(definition.connector.config)
        for key, leaf in leaves.items():
            if mask_value(key, leaf.scalar.text, secret) == leaf.scalar.text:
                continue
            raw = leaf.document.text[leaf.scalar.start : leaf.scalar.end]
            for piece in (*raw.splitlines(), *leaf.scalar.text.splitlines()):
                found[key, piece.strip()] = None
    return sorted(found, key=lambda pair: -len(pair[1]))


def _mask(line: str, pieces: list[tuple[str, str]]) -> str:
    for key, piece in pieces:
        if piece and piece in line and (len(piece) >= _SHORTEST_PIECE or key in line):
            line = line.replace(piece, MASK)
    return mask_text(line)


_SCHEME = "secret://"


@dataclass(slots=True)
class SecretKeeper:
    """Returns a reference for each secret, and records what the user has to do."""

    reveal: Callable[[str], str]
    notes: list[PulledSecret] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def find_changes(self, connector: Connector, present: Mapping[str, str]) -> dict[str, str | None]:
        """Return the changes that make a file match the running config; None removes a key."""
        running = {key: value for key, value in connector.config.items() if key != "name"}
        changes: dict[str, str | None] = {key: None for key in present if key not in running}
        for key, value in running.items():
            kept = present.get(key)
            if kept != value and not (kept is not None and self._is_kept(connector, key, value=value, reference=kept)):
                changes[key] = self.protect(connector, key, value)
        return changes

    def protect(self, connector: Connector, key: str, value: str) -> str:
        """Return the value, or a reference if it is a secret."""
        if mask_value(key, value, find_secret_keys(connector.config, connector.cluster)) == value:
            return value
        variable = self._name_variable(connector.name, key)
        reference = f"{_SCHEME}env/{variable}"
        self.notes.append(PulledSecret(connector.owner, key, reference, f"set {variable} before the next plan"))
        return reference

    def _is_kept(self, connector: Connector, key: str, *, value: str, reference: str) -> bool:
        """Return whether the file's own reference stays, even if its secret differs from the running one."""
        if not reference.startswith(_SCHEME):
            return False
        words = ""
        try:
            if self.reveal(reference) != value:
                words = "its value differs from that of the running connector"
        except SeamarkError:
            words = "it can't be read on this machine, so it was not compared"
        if words:
            self.notes.append(PulledSecret(connector.owner, key, reference, words))
        return True

    def _name_variable(self, name: str, key: str) -> str:
        base = re.sub(r"[^A-Z0-9]+", "_", f"{name}_{key}".upper()).strip("_")
        if not base or base[0].isdigit():
            base = f"C_{base}"
        variable, number = base, 1
        while variable in self._taken:
            number += 1
            variable = f"{base}_{number}"
        self._taken.add(variable)
        return variable


class PulledFleet(Protocol):
    """What a pull reads: a context and its connectors."""

    @property
    def context(self) -> Context: ...

    @property
    def connectors(self) -> Connectors: ...


def read_pull(
    fleet: PulledFleet,
    folder: Path,
    *,
    environ: Mapping[str, str],
    names: Iterable[str] = (),
    cluster: str | None = None,
    allow_python: bool = False,
) -> Pull:
    """Read what a pull would write. Nothing is written yet.

    `names` are NAME or CLUSTER/NAME; all connectors without them. Connect clusters that do not respond are in
    `failures`.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="pass a folder with --dir")
    reading = fleet.connectors.list(cluster=cluster)
    wanted = _select(reading.items, tuple(names), complete=reading.is_complete)
    fleet.connectors.read_types(wanted)
    loaded = (
        load_definitions(
            [folder],
            environ=environ,
            allow_python=allow_python or fleet.context.policy.python,
            context=fleet.context,
        )
        if folder.is_dir()
        else None
    )
    clusters = tuple(fleet.context.connect)
    puller = _Puller(folder, environ, clusters, SecretKeeper(fleet.context.reveal), fleet.context)
    for definition in loaded.definitions if loaded else ():
        puller.know(definition)
    for connector in wanted:
        puller.take(connector)
    puller.settle_files()
    answered = [name for name in clusters if name not in reading.failures and cluster in {None, name}]
    return Pull(
        folder=str(folder),
        files=tuple(puller.files),
        skipped=tuple(puller.skipped),
        secrets=tuple(puller.secrets.notes),
        absent=() if names else puller.find_absent(reading.items, answered),
        read=len(wanted),
        unchanged=puller.unchanged,
        failures=reading.failures,
    )


def apply_pull(pull: Pull) -> tuple[str, ...]:
    """Write the files, each atomically, and return their paths.

    Raises:
        RefusedError: A file is no longer as it was read. Nothing was written.
    """
    write_files(pull.files)
    return tuple(file.path for file in pull.files)


def _select(connectors: tuple[Connector, ...], names: tuple[str, ...], *, complete: bool) -> tuple[Connector, ...]:
    if not names:
        return connectors
    found = tuple(one for one in connectors if one.name in names or one.owner in names)
    known = {one.name for one in found} | {one.owner for one in found}
    missing = [name for name in names if name not in known]
    if missing and complete:
        raise UsageError(f"connector {missing[0]} does not exist", hint="list connectors with seamark connectors list")
    return found


@dataclass(frozen=True, slots=True)
class _Planned:
    """The edits of one connector."""

    connector: Connector
    definition: Definition
    changes: Mapping[str, str | None] = field(repr=False)
    edits: list[Edit] = field(repr=False)


@dataclass(slots=True)
class _Puller:
    folder: Path
    environ: Mapping[str, str]
    clusters: tuple[str, ...]
    secrets: SecretKeeper
    context: Context
    files: list[PulledFile] = field(default_factory=list)
    skipped: list[SkippedConnector] = field(default_factory=list)
    unchanged: int = 0
    _known: dict[str, Definition] = field(default_factory=dict)
    _by_file: dict[str, list[Definition]] = field(default_factory=dict)
    _planned: dict[str, list[_Planned]] = field(default_factory=dict)
    _shared: dict[Path, Shared] = field(default_factory=dict)
    _taken: set[Path] = field(default_factory=set)

    def know(self, definition: Definition) -> None:
        """Add a connector of the files."""
        self._known[definition.connector.owner] = definition
        self._by_file.setdefault(definition.document.file, []).append(definition)

    def find_absent(self, running: Iterable[Connector], answered: list[str]) -> tuple[str, ...]:
        """Return connectors of the files that do not run, as far as their Connect clusters responded."""
        names = {one.owner for one in running} | {one.name for one in running}
        return tuple(
            owner
            for owner, definition in self._known.items()
            if owner not in names
            and (definition.connector.cluster in answered or (definition.connector.cluster is None and answered))
        )

    def take(self, connector: Connector) -> None:
        """Compare one running connector with the files."""
        definition = self._known.get(connector.owner) or self._known.get(connector.name)
        if definition is None:
            self._write_new(connector)
            return
        if definition.connector.cluster is None and len(self.clusters) > 1:
            self._skip(connector, definition, {}, "the file has no cluster, and the context has several: add cluster:")
            return
        changes = self.secrets.find_changes(connector, definition.connector.config)
        if not changes:
            self.unchanged += 1
            return
        try:
            edits = build_edits(definition, changes)
        except UneditableError as reason:
            self._skip(connector, definition, changes, str(reason))
            return
        planned = _Planned(connector, definition, changes, edits)
        self._planned.setdefault(definition.document.file, []).append(planned)

    def settle_files(self) -> None:
        """Apply the edits of each file, and parse the result before anything is written."""
        for file, planned in self._planned.items():
            document = planned[0].definition.document
            after = apply_edits(document.text, [edit for one in planned for edit in one.edits])
            wrong = self._find_wrong(file, after, planned)
            for one in planned if wrong else ():
                self._skip(one.connector, one.definition, one.changes, wrong)
            if not wrong:
                owners = tuple(one.connector.owner for one in planned)
                diff = build_diff(file, document.text, after, self._by_file[file])
                self.files.append(PulledFile(file, after, document.text, owners, document.encoding, diff))

    def _find_wrong(self, file: str, after: str, planned: list[_Planned]) -> str:
        """Return why the changed file would not match what runs; empty if it would."""
        data = after.encode("utf-8", "surrogatepass")
        try:
            loaded = load_definitions(
                [Path(file)],
                environ=self.environ,
                read=lambda path: data if path == Path(file) else path.read_bytes(),
                top=self.folder,
                context=self.context,
            )
        except SeamarkError as error:
            return f"the change would break the file: {error.cause or error.message}"
        found = {one.connector.owner: dict(one.connector.config) for one in loaded.definitions}
        for one in planned:
            expected = {**one.definition.connector.config, **one.changes}
            if found.get(one.definition.connector.owner) != {k: v for k, v in expected.items() if v is not None}:
                return "single values of the file can't be changed: change it manually"
        return ""

    def _write_new(self, connector: Connector) -> None:
        several = len(self.clusters) > 1
        parent = self.folder / build_file_name(connector.cluster) if several else self.folder
        config = {
            key: self.secrets.protect(connector, key, value) for key, value in connector.config.items() if key != "name"
        }
        shared = self._shared.get(parent) or read_shared(
            parent, top=self.folder, environ=self.environ, context=self.context
        )
        self._shared[parent] = shared
        state = connector.status.state if connector.status else ""
        text = compose_file(
            connector.name,
            config,
            # The folder may name another Connect cluster.
            cluster=connector.cluster if several or shared.cluster is not None else None,
            # If it is created elsewhere from this file, a stopped connector must not start to run.
            state=state if state in {State.PAUSED, State.STOPPED} else "",
            without=[key for key, leaf in shared.defaults.items() if key not in config and not leaf.scalar.is_null],
        )
        path = self._find_free(parent, build_file_name(connector.name))
        self.files.append(
            PulledFile(str(path), text, None, (connector.owner,), diff=build_diff(str(path), "", text, ()))
        )

    def _find_free(self, parent: Path, name: str) -> Path:
        path, number = parent / f"{name}.yaml", 1
        while path in self._taken or path.exists():
            number += 1
            path = parent / f"{name}~{number}.yaml"
        self._taken.add(path)
        return path

    def _skip(
        self, connector: Connector, definition: Definition, changes: Mapping[str, str | None], reason: str
    ) -> None:
        present = definition.connector.config
        secret = find_secret_keys(connector.config) | find_secret_keys(present)
        lines = tuple(
            f"{key}: {_show(key, present.get(key), secret)} → {_show(key, text, secret)}"
            for key, text in sorted(changes.items())
        )
        self.skipped.append(SkippedConnector(connector.owner, str(definition.connector.place), reason, lines))


def _show(key: str, text: str | None, secret: frozenset[str]) -> str:
    return "unset" if text is None else f'"{mask_value(key, text, secret)}"'
