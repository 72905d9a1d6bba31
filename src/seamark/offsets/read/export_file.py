"""The export file: an envelope with version, source, time and checksums around the offsets of many owners.

apiVersion, kind            the type of the document
format_version              the version of this format
time, source                when and where the offsets were read
offsets                     by owner: a list of {partition, offset}, as Connect names them
records                     by owner: every record for them, its bytes in base64
findings                    anomalies
failures                    what could not be read, so that a partial export is marked
topics                      by topic: its ID, for topics of sinks and groups; older exports have none
checksums                   by owner: SHA-256 of its offsets and records
checksum                    SHA-256 of all the rest
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.core.files import PRIVATE, read_limited, write_atomically
from seamark.core.offsets import Offset, spell_identity
from seamark.core.strict_json import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import AlreadyExistsError, SeamarkError, UsageError
from seamark.offsets.codec.codec import decode_key, decode_value
from seamark.offsets.exports import ExportCheck, OffsetExport, OwnerExport
from seamark.offsets.model import OffsetAnomaly, OffsetFinding, StoredRecord

KIND = "OffsetExport"
FORMAT = StoredFormat("offset export", 1)
_API = "seamark/v1"
_HEAD, _PARTS = {"apiVersion", "kind", VERSION_FIELD, "time", "source"}, {"offsets", "records", "findings", "failures"}
_FIELDS = frozenset(_HEAD | _PARTS | {"checksums", "checksum"})
_LATER_FIELDS = frozenset({"topics"})
_CHECKED = frozenset({"offsets", "records", "checksum"})
# 100,000 offsets take about 50 MB.
_LARGEST_BYTES = 2 * 1024**3
_spell = json.JSONEncoder(ensure_ascii=True).encode
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def build_document(export: OffsetExport) -> dict[str, Any]:
    """Return the export as the document that is written."""
    offsets = {found.owner: [_build_offset(one) for one in found.offsets] for found in export.owners}
    records = {found.owner: [_build_record(one) for one in found.records] for found in export.owners}
    document: dict[str, Any] = {
        "apiVersion": _API,
        "kind": KIND,
        **FORMAT.field,
        "time": export.time,
        "source": dict(export.source),
        "offsets": offsets,
        "records": records,
        "findings": [
            {
                "finding": found.anomaly.value,
                "connector": found.connector,
                "partition": None if found.partition is None else dict(found.partition),
                "message": found.message,
                "records": [_build_record(one) for one in found.evidence],
            }
            for found in export.findings
        ],
        "failures": {name: error.message for name, error in export.failures.items()},
        "topics": dict(sorted(export.topics.items())),
        "checksums": {owner: _digest([offsets[owner], records[owner]]) for owner in offsets},
    }
    return {**document, "checksum": _digest_rest(document)}


def render_export(export: OffsetExport) -> str:
    """Return the export as text, one line per offset and per record."""
    parts = [f"{_spell(name)}: {_render_part(value)}" for name, value in build_document(export).items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _render_part(value: Any) -> str:
    is_lists = isinstance(value, dict) and value and all(isinstance(listed, list) for listed in value.values())
    return _render_lists(value) if is_lists else _spell(value)


def _render_lists(body: Mapping[str, list[Any]]) -> str:
    """Return lists by name, one line per item, so that people and `diff` can read it."""
    if not body:
        return "{}"
    blocks = []
    for name, items in body.items():
        text = _spell(items)
        if items:
            # Within a string every quote is escaped, so this pattern occurs only between two items.
            first = f'{{"{next(iter(items[0]))}": '
            text = f"[\n  {text[1:-1].replace(f'}}, {first}', f'}},{chr(10)}  {first}')}\n]"
        blocks.append(f"{_spell(name)}: {text}")
    return "{\n" + ",\n".join(blocks) + "\n}"


def write_export(export: OffsetExport, path: Path) -> None:
    """Write the file, readable by its owner only. An existing file is never replaced."""
    write_new(render_export(export), path)


def write_new(text: str, path: Path) -> None:
    """Create a new file that only its owner can read. Raises if it exists."""
    refuse_existing(path)
    try:
        write_atomically(text.encode(), path.expanduser().absolute(), mode=PRIVATE, is_new=True)
    except FileExistsError:
        raise _build_existing(path) from None
    except OSError as error:
        raise SeamarkError(
            f"the export can't be written: {path}",
            cause=error.strerror or type(error).__name__,
            hint="check your permissions on that folder",
        ) from None


def refuse_existing(path: Path) -> None:
    """Raise if the path exists: the file may be the only copy of an offset."""
    if path.expanduser().exists():
        raise _build_existing(path)


def read_export(path: Path) -> tuple[OffsetExport, tuple[str, ...]]:
    """Read a file and list what was modified in it. Raises UsageError if it is not an export."""
    body = read_json_file(path)
    if is_envelope(body):
        check_format(FORMAT, body, where=str(path))
    problem = _find_misfit(body)
    if problem:
        raise UsageError(
            f"{path} is not an export of seamark", cause=problem, hint="create one with seamark offsets export"
        )
    try:
        return _build_export(body), tuple(_find_problems(body))
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error) as error:
        raise UsageError(
            f"{path} is not an export of seamark",
            cause=f"{type(error).__name__}: {error}",
            hint="use another copy of it",
        ) from None


def check_export(path: Path) -> ExportCheck:
    """Check a file without a server: its checksums, and whether its offsets match the bytes of its records."""
    export, problems = read_export(path)
    return ExportCheck(
        file=str(path),
        time=export.time,
        source=export.source,
        owners=len(export.owners),
        offsets=export.count,
        records=sum(len(found.records) for found in export.owners),
        findings=len(export.findings),
        failures={name: error.message for name, error in export.failures.items()},
        problems=problems,
    )


def read_json_file(path: Path) -> Any:
    """Read a JSON file of limited size. Raises UsageError if it is invalid."""
    data = read_limited(path, most_bytes=_LARGEST_BYTES, what="an export")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON", hint="pass the path of an export") from None


def parse_bare_export(body: Any, *, name: str) -> tuple[OwnerExport, ...]:
    """Parse offsets by owner without an envelope, as `connect-offsets` writes them."""
    try:
        return tuple(OwnerExport(owner, tuple(_read_offset(one) for one in listed)) for owner, listed in body.items())
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UsageError(
            f"{name} does not contain offsets by owner", cause='expected {"OWNER": [{"partition": …, "offset": …}]}'
        ) from None


def is_envelope(body: Any) -> bool:
    """Return whether a document declares itself an export."""
    return isinstance(body, dict) and body.get("kind") == KIND


def _find_misfit(body: Any) -> str:
    if not is_envelope(body):
        return "it has no kind OffsetExport"
    missing, extra = _FIELDS - body.keys(), body.keys() - _FIELDS - _LATER_FIELDS
    if missing or extra:
        return f"missing or unknown fields: {', '.join(sorted(missing | extra))}"
    return ""


def _find_problems(body: Mapping[str, Any]) -> list[str]:
    problems = []
    offsets, records, checksums = body["offsets"], body["records"], body["checksums"]
    for owner in sorted({*offsets, *records, *checksums}):
        if owner not in offsets or owner not in records or owner not in checksums:
            problems.append(f"{owner}: offsets, records or checksum missing")
        elif _digest([offsets[owner], records[owner]]) != checksums[owner]:
            problems.append(f"{owner}: the checksum of its offsets and records does not match")
    if _digest_rest(body) != body["checksum"] and not problems:
        problems.append("the checksum of the fields beside the offsets does not match")
    return problems + _find_unproven(body)


def _find_unproven(body: Mapping[str, Any]) -> list[str]:
    """Return offsets that no record of the file contains. Groups have no records with bytes."""
    problems = []
    for owner, listed in body["offsets"].items():
        said = set()
        raw = [_read_record(record) for record in body["records"].get(owner, ())]
        if not any(found.key is not None for found in raw):
            continue
        for found in raw:
            key, value = decode_key(found.key), decode_value(found.value)
            if key.key is not None:
                said.add((key.key.identity, None if value.offset is None else spell_identity(value.offset)))
        for entry in listed:
            offset = entry["offset"]
            name = (spell_identity(entry["partition"]), None if offset is None else spell_identity(offset))
            if name not in said:
                problems.append(f"{owner}: no record contains the offset of {name[0]}")
    return problems


def _build_export(body: Mapping[str, Any]) -> OffsetExport:
    owners = tuple(
        OwnerExport(
            owner,
            tuple(_read_offset(one) for one in listed),
            tuple(_read_record(one) for one in body["records"].get(owner, ())),
        )
        for owner, listed in body["offsets"].items()
    )
    return OffsetExport(
        time=str(body["time"]),
        source={str(key): str(value) for key, value in body["source"].items()},
        owners=owners,
        findings=tuple(_read_finding(one) for one in body["findings"]),
        failures={name: SeamarkError(str(text)) for name, text in body["failures"].items()},
        topics={str(topic): str(found) for topic, found in body.get("topics", {}).items()},
    )


def _build_offset(found: Offset) -> dict[str, Any]:
    return {"partition": dict(found.partition), "offset": None if found.offset is None else dict(found.offset)}


def _read_offset(body: Mapping[str, Any]) -> Offset:
    partition, offset = body["partition"], body["offset"]
    if not isinstance(partition, dict) or not isinstance(offset, dict | None):
        raise TypeError("a partition or an offset is not a map")
    return Offset(partition, offset)


def _build_record(found: StoredRecord) -> dict[str, Any]:
    return {
        "store": found.store,
        "key": _encode(found.key),
        "value": _encode(found.value),
        "partition": found.partition,
        "offset": found.record_offset,
        "timestamp_ms": found.timestamp_ms,
    }


def _read_record(body: Mapping[str, Any]) -> StoredRecord:
    key, value = _decode(body["key"]), _decode(body["value"])
    return StoredRecord(body["store"], key, value, body["partition"], body["offset"], body["timestamp_ms"])


def _read_finding(body: Mapping[str, Any]) -> OffsetFinding:
    records = tuple(_read_record(one) for one in body["records"])
    return OffsetFinding(OffsetAnomaly(body["finding"]), body["connector"], body["message"], body["partition"], records)


def _encode(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _digest(body: Any) -> str:
    return f"sha256:{hashlib.sha256(_CANONICAL.encode(body).encode()).hexdigest()}"


def _digest_rest(body: Mapping[str, Any]) -> str:
    # The offsets and records, which are large, are covered by `checksums`.
    return _digest({name: value for name, value in body.items() if name not in _CHECKED})


def _build_existing(path: Path) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"{path} already exists, and an export never overwrites a file", hint="pass another name, or move the file"
    )
