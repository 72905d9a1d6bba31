"""What exports tell of a moment: each is where its owners stood when it was taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from seamark.core.offset import OffsetMap, spell_identity, spell_offset
from seamark.errors import RefusedError, UsageError
from seamark.offsets.codec.codec import decode_key, decode_value
from seamark.offsets.offset_export import OwnerExport
from seamark.offsets.past_offsets import Sighting
from seamark.offsets.read.export_file import is_envelope, read_export, read_json_file

# An export says its time to the second, and what it holds was read before it.
_SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class PastExport:
    """One export, as a witness. `topics` are the ids that the topics of its sinks and groups had."""

    name: str
    at_ms: int
    owners: Mapping[str, OwnerExport]
    topics: Mapping[str, str]

    def build_sightings(self, owner: str, partitions: Sequence[OffsetMap]) -> Iterator[Sighting]:
        """What it saw of an owner, also that it held nothing for one of these partitions."""
        found = self.owners.get(owner)
        if found is None:
            return
        written = _find_writes(found)
        where = f"export {self.name}"
        held = {spell_identity(one.partition): one for one in found.offsets}
        for identity, one in held.items():
            at_ms = written.get((identity, spell_offset(one.offset)))
            if at_ms is None:
                yield Sighting(one.partition, one.offset, self.at_ms, self.at_ms, where, may_be_older=True)
            else:
                yield Sighting(one.partition, one.offset, at_ms, at_ms, where)
        spoken = {identity for identity, _ in written} | held.keys()
        for partition in partitions:
            if spell_identity(partition) not in spoken:
                yield Sighting(partition, None, self.at_ms, self.at_ms, where, may_be_older=True)


def read_exports(paths: Sequence[Path], *, context: str) -> tuple[tuple[PastExport, ...], tuple[str, ...]]:
    """The exports in these files and folders, the oldest first, and notes on what was left out of folders.

    Raises:
        UsageError: a file that was named is no export, or of another context.
        RefusedError: an export is not as it was written.
    """
    found, notes = [], []
    for path in paths:
        whole = path.expanduser()
        for file in sorted(whole.glob("*.json")) if whole.is_dir() else [whole]:
            misfit = _find_misfit(file, context)
            if not misfit:
                found.append(_read_one(file))
            elif whole.is_dir():
                notes.append(f"{file.name} was left out: {misfit}")
            else:
                raise UsageError(f"{path} tells nothing of a moment", cause=misfit, hint="seamark offsets export")
    return tuple(sorted(found, key=lambda one: one.at_ms)), tuple(notes)


def _find_misfit(file: Path, context: str) -> str:
    body = read_json_file(file)
    if not is_envelope(body):
        return "it is no export of seamark, and has no time"
    source = body.get("source")
    said = source.get("context") if isinstance(source, dict) else None
    return "" if said == context else f"it was taken in context {said}, and this is {context}"


def _read_one(file: Path) -> PastExport:
    export, problems = read_export(file)
    if problems:
        raise RefusedError(
            f"{file} is not as it was written", cause="; ".join(problems), hint="take another copy of the export"
        )
    try:
        moment = datetime.fromisoformat(export.time)
    except ValueError:
        raise UsageError(f"{file} has no time that could be read", cause=f"it says {export.time!r}") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    at_ms = int(moment.timestamp() * 1000) + _SECOND_MS
    return PastExport(file.name, at_ms, {one.owner: one for one in export.owners}, export.topics)


def _find_writes(owner: OwnerExport) -> dict[tuple[str, str | None], int]:
    """When each offset was written, where its record tells: by partition and offset."""
    written: dict[tuple[str, str | None], int] = {}
    for record in owner.records:
        key = decode_key(record.key).key if record.key is not None else None
        if key is not None and record.timestamp_ms is not None:
            name = key.identity, spell_offset(decode_value(record.value).offset)
            written[name] = max(record.timestamp_ms, written.get(name, 0))
    return written


def find_topic_ids(exports: Sequence[PastExport], moment_ms: int) -> dict[str, tuple[str, str]]:
    """By topic, the id that it had in the newest export at that moment or before, and which export that is."""
    found: dict[str, tuple[str, str]] = {}
    for one in exports:
        if one.at_ms <= moment_ms:
            found |= {topic: (topic_id, one.name) for topic, topic_id in one.topics.items()}
    return found
