"""Values that PostgreSQL can't read, found in whole columns of Arrow before they are sent.

A value is *bad* if PostgreSQL refuses it, *good* if PostgreSQL takes it, and otherwise only PostgreSQL can tell, as
with 'Jan 5 2026' for a date, or with types that are not known here. tests/spark/pipelines/test_land_checks.py
compares both answers with those of a server.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from seamark.pipelines.spark_frame import KEY, REASON, TIMESTAMP, VALUE
from seamark.tables.model import OFFSET
from seamark.tables.postgres.stage_checks import Refusals
from seamark.tables.postgres.writer import ColumnType

Find = Callable[[pa.Array], pa.Array]
_NUL = 'invalid byte sequence for encoding "UTF8": 0x00'
_SIZED = re.compile(r"text|(?:character varying|character)(?:\((\d+)\))?")
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?")
_TIME = re.compile(r"date|timestamp(?:\(\d\))? with(?:out)? time zone")
_RANGES = {
    "smallint": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
_HEX = "[0-9a-fA-F]{4}"
_UUID = f"{_HEX}(?:-?{_HEX}){{7}}"
# Years 1 to 9999; February 29 is left to PostgreSQL.
_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])"
_DAY = r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?"
_ZONE = r"(?:Z|[+-](?:0\d|1[0-4])(?::?[0-5]\d)?)"
_ISO = rf"{_YEAR}-{_DAY}(?:[T ]{_CLOCK}(?: ?{_ZONE})?)?"
# A time without any digit is one of these words.
_WORDS = "(?i)now|today|tomorrow|yesterday|epoch|infinity|allballs|current|invalid"
_WORDLESS = r"[^0-9]*"
_NO_DAY = r"\d{4}-(?:(?:00|1[3-9]|[2-9]\d)-\d{2}|\d{2}-(?:00|3[2-9]|[4-9]\d))(?:[T ].*)?"
# Milliseconds since 1970, as Connect's JSON has them: PostgreSQL reads a year of nine digits, which it doesn't have.
_MILLIS = r"[1-9]\d{12}"
_NUMBERLESS = "(?i)nan|inf"
_DIGITS = r"[+-]?\d+(?:\.\d*)?"
# As Spark writes small decimals.
_SMALL = r"-?\d(?:\.\d{1,40})?E-\d{1,2}"
_MOST_DIGITS = 300
_MOST_JSON = 100_000
# What jsonb has no text or number for: U+0000, halves of surrogate pairs, and exponents of more than three digits.
_ODD_JSON = re.compile(r"\\u(?:0000|[dD][89a-fA-F])|[eE][+-]?\d{4}|\d{400}")


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """How the values of a column are distinguished.

    Attributes:
        bad: What finds bad values, each with its reason.
        good: What finds good values; None where nothing is known of the type.
        is_text: Whether these look at values as texts.
        is_slow: Whether that takes so long that it is only worth it after PostgreSQL has refused a row.
    """

    bad: tuple[tuple[Find, str], ...] = ()
    good: Find | None = None
    is_text: bool = True
    is_slow: bool = False


def build_check(kind: ColumnType, arrow: pa.DataType) -> ColumnCheck:
    """Build the check of a column of PostgreSQL for values of a type of Arrow."""
    if pa.types.is_integer(arrow) and kind.name in _RANGES:
        low, high = _RANGES[kind.name]
        is_outside = _is_outside(low, high)
        outside = (is_outside, f"value out of range for type {kind.name}")
        return ColumnCheck(bad=(outside,), good=_invert(is_outside), is_text=False)
    if (pa.types.is_boolean(arrow) and kind.name == "boolean") or (
        (pa.types.is_floating(arrow) or pa.types.is_integer(arrow)) and kind.name == "double precision"
    ):
        return ColumnCheck(good=_all, is_text=False)
    check = _build_text_check(kind)
    # No type has U+0000.
    return replace(check, bad=((_contains_nul, _NUL), *check.bad))


def judge(check: ColumnCheck, values: pa.Array, *, is_thorough: bool) -> tuple[pa.Array, list[tuple[pa.Array, str]]]:
    """Tell values apart.

    Args:
        check: The check of their column.
        values: The values.
        is_thorough: Whether checks that are slow are made, too.

    Returns:
        Which values are good, null among them; and for each reason that there is, which values are bad by it.
    """
    column = _as_text(values) if check.is_text else values
    is_skipped = check.is_slow and not is_thorough
    good = pc.is_null(values)
    if check.good is not None and not is_skipped:
        good = pc.fill_null(check.good(column), True)
        if pc.all(good).as_py():
            return good, []
    doubtful = pc.invert(good)
    rest, found = column.filter(doubtful), []
    for find, reason in check.bad[:1] if is_skipped else check.bad:
        bad = pc.fill_null(find(rest), False)
        if pc.any(bad).as_py():
            found.append((pc.replace_with_mask(pa.repeat(pa.scalar(False), len(values)), doubtful, bad), reason))
    return good, found


def _build_text_check(kind: ColumnType) -> ColumnCheck:
    if kind.labels is not None:
        return _build_enum(kind)
    if found := _SIZED.fullmatch(kind.name):
        return _build_sized(kind.name, None if found[1] is None else int(found[1]))
    if found := _NUMERIC.fullmatch(kind.name):
        return _build_numeric(int(found[1]) if found[1] else None, int(found[2] or 0))
    if _TIME.fullmatch(kind.name):
        return _build_time(kind.name)
    return _build_named(kind.name)


def _build_named(name: str) -> ColumnCheck:
    is_uuid = _matches(rf"\{{{_UUID}\}}|{_UUID}")
    known = {
        "uuid": ColumnCheck(((_invert(is_uuid), "invalid input syntax for type uuid"),), is_uuid),
        "bytea": ColumnCheck(good=_matches(r"\\x(?:[0-9a-fA-F]{2})*")),
        **{
            number: ColumnCheck((_build_numberless(number),), _matches(r"-?\d{1,30}(?:\.\d{1,30})?"))
            for number in ("real", "double precision")
        },
        **{
            text: ColumnCheck(
                ((_is_invalid_json, f"invalid input syntax for type {text}"),), _is_plain_json, is_slow=True
            )
            for text in ("json", "jsonb")
        },
    }
    return known.get(name, ColumnCheck())


def _build_enum(kind: ColumnType) -> ColumnCheck:
    labels = pa.array(kind.labels or (), pa.string())

    def is_label(values: pa.Array) -> pa.Array:
        return pc.is_in(values, labels)

    def is_none(values: pa.Array) -> pa.Array:
        return pc.and_(pc.is_valid(values), pc.invert(is_label(values)))

    return ColumnCheck(((is_none, f"invalid input value for enum {kind.name}"),), is_label)


def _build_sized(name: str, size: int | None) -> ColumnCheck:
    if size is None:
        return ColumnCheck(good=_has_no_nul)

    def is_long(values: pa.Array) -> pa.Array:
        length = pc.utf8_length(values)
        if not pc.any(pc.greater(length, size)).as_py():
            return pc.greater(length, size)
        # Spaces beyond the length are cut off.
        return pc.greater(pc.utf8_length(pc.utf8_rtrim(values, characters=" ")), size)

    def is_good(values: pa.Array) -> pa.Array:
        return pc.and_(_has_no_nul(values), pc.invert(is_long(values)))

    return ColumnCheck(((is_long, f"value too long for type {name}"),), is_good)


def _build_numeric(digits: int | None, scale: int) -> ColumnCheck:
    numberless = _build_numberless("numeric")
    if digits is None:
        is_short = _matches(rf"(?:{_DIGITS}|{_SMALL})")
        return ColumnCheck(
            (numberless,), lambda values: pc.and_(is_short(values), pc.less(pc.utf8_length(values), 1000))
        )
    whole = digits - scale
    if scale < 0 or not 1 < whole <= _MOST_DIGITS or scale > _MOST_DIGITS:
        return ColumnCheck((numberless,))
    over = _matches(rf"[+-]?0*[1-9]\d{{{whole},}}(?:\.\d*)?")
    # More digits after the point are rounded, which may add one before it.
    fraction = rf"\d{{1,{whole}}}\.\d{{1,{scale}}}|" if scale else ""
    fits = _matches(rf"-?(?:{fraction}\d{{1,{whole}}}|\d{{1,{whole - 1}}}\.\d{{1,{_MOST_DIGITS}}})|{_SMALL}")
    return ColumnCheck((numberless, (over, "numeric field overflow")), fits)


def _build_numberless(name: str) -> tuple[Find, str]:
    """Without any digit, only a few words are numbers."""
    is_numberless, is_word = _matches(_WORDLESS), _contains(_NUMBERLESS)
    return (
        lambda values: pc.and_(is_numberless(values), pc.invert(is_word(values))),
        f"invalid input syntax for type {name}",
    )


def _build_time(name: str) -> ColumnCheck:
    is_wordless, is_word = _matches(_WORDLESS), _contains(_WORDS)
    no_day, millis, is_iso = _matches(_NO_DAY), _matches(_MILLIS), _matches(_ISO)

    def is_nothing(values: pa.Array) -> pa.Array:
        return pc.and_(is_wordless(values), pc.invert(is_word(values)))

    def is_outside(values: pa.Array) -> pa.Array:
        return pc.or_(no_day(values), millis(values))

    return ColumnCheck(
        ((is_nothing, f"invalid input syntax for type {name}"), (is_outside, "date/time field value out of range")),
        is_iso,
    )


def _is_invalid_json(values: pa.Array) -> pa.Array:
    return pa.array([None if text is None else _read_json(text) is False for text in values.to_pylist()], pa.bool_())


def _is_plain_json(values: pa.Array) -> pa.Array:
    found = [
        None if text is None else len(text) < _MOST_JSON and not _ODD_JSON.search(text) and _read_json(text) is True
        for text in values.to_pylist()
    ]
    return pa.array(found, pa.bool_())


def _read_json(text: str) -> bool | None:
    """Whether a text is JSON; None where Python can't tell."""
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError:
        return False
    except (ValueError, RecursionError):
        # Too deep, or a number too long for Python.
        return None
    return True


def _refuse_constant(name: str) -> None:
    raise json.JSONDecodeError(name, name, 0)


def _is_outside(low: int, high: int) -> Find:
    def find(values: pa.Array) -> pa.Array:
        wide = pc.cast(values, pa.int64())
        return pc.or_(pc.less(wide, low), pc.greater(wide, high))

    return find


def _all(values: pa.Array) -> pa.Array:
    return pc.true_unless_null(values)


def _matches(pattern: str) -> Find:
    whole = rf"(?s)\A(?:{pattern})\z"
    return lambda values: pc.match_substring_regex(values, pattern=whole)


def _contains(pattern: str) -> Find:
    return lambda values: pc.match_substring_regex(values, pattern=pattern)


def _invert(find: Find) -> Find:
    return lambda values: pc.invert(find(values))


def _contains_nul(values: pa.Array) -> pa.Array:
    return pc.match_substring(values, pattern="\0")


def _has_no_nul(values: pa.Array) -> pa.Array:
    return pc.invert(_contains_nul(values))


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _as_text(values: pa.Array) -> pa.Array:
    """The texts that CSV has, see `build_csv`: times are in UTC there."""
    if pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.timestamp("us", "UTC"))
    return values if _is_string(values.type) else pc.cast(values, pa.string())


class CopyLineIndex:
    """The offsets of the rows of one COPY, by the lines of its text."""

    def __init__(self) -> None:
        self._parts: list[tuple[pa.Array, pa.Array | None]] = []
        # Before the first row has ended PostgreSQL does not know what ends one, and takes it for a \r.
        self._returns_in_first = 0

    def add(self, batch: pa.RecordBatch, text: bytes) -> None:
        """The next rows, and their text. The batch has their offsets, too."""
        breaks = None
        if not self._parts:
            self._returns_in_first = _count(batch.slice(0, 1), "\r")[0].as_py()
        if text.count(b"\n") > batch.num_rows:
            breaks = _count(batch, "\n")
        # A new array: a slice of a batch would keep all of it in memory.
        self._parts.append((pc.add(batch.column(OFFSET), 0), breaks))

    def find(self, line: int) -> int | None:
        """The offset of the row in which that line is, from 1."""
        end = 0
        for place, (offset, breaks) in enumerate(self._list_rows()):
            end += 1 + (breaks if place else self._returns_in_first)
            if line <= end:
                return offset
        return None

    def find_ends(self) -> tuple[int, int]:
        """Find the offsets of its first and its last row."""
        return self._parts[0][0][0].as_py(), self._parts[-1][0][-1].as_py()

    def describe(self) -> str:
        """From which offset to which its rows are."""
        return "from {} to {}".format(*self.find_ends())

    def _list_rows(self) -> Iterator[tuple[int, int]]:
        for offsets, breaks in self._parts:
            counts = [0] * len(offsets) if breaks is None else breaks.to_pylist()
            yield from zip(offsets.to_pylist(), counts, strict=True)


def _count(batch: pa.RecordBatch, character: str) -> pa.Array:
    """How often a character is in the texts of each row."""
    found = pa.array([0] * batch.num_rows, pa.int32())
    for column in batch.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            counts = pc.count_substring(column, character)
            found = pc.add(found, pc.fill_null(counts, 0).cast(pa.int32()))
    return found


LETTER = (OFFSET, TIMESTAMP, REASON, KEY, VALUE)
# Each task of an executor has one; what is more goes to disk.
_MOST_IN_MEMORY = 16 * 2**20


class BatchSpool:
    """Batches in a file, to be read as often as needed."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY)  # noqa: SIM115 - closed by `__exit__`
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a batch, before the first one is read."""
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Note that no batch follows."""
        if self._writer is not None:
            self._writer.close()

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read all batches, in their sequence."""
        if self._writer is None:
            return
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)


def mark(batch: pa.RecordBatch, refusals: Refusals) -> pa.RecordBatch:
    """Set the reasons of the records of a batch that were refused."""
    if not len(refusals) or not batch.num_rows:
        return batch
    offsets = batch.column(OFFSET)
    found = refusals.find(pc.min(offsets).as_py(), pc.max(offsets).as_py())
    if not found:
        return batch
    says = pa.array([found.get(offset) for offset in offsets.to_pylist()], pa.string())
    return set_reasons(batch, pc.coalesce(batch.column(REASON), says))


def set_reasons(batch: pa.RecordBatch, reasons: pa.Array) -> pa.RecordBatch:
    """Set why each record of a batch can't be a row; null where it can."""
    place = batch.schema.get_field_index(REASON)
    return batch.set_column(place, batch.schema.field(place), reasons)


def build_letters(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Build dead letters of records. Times are texts, because PostgreSQL has years that Python doesn't have."""
    offsets, times, reasons, keys, values = (batch.column(name) for name in LETTER)
    columns = [offsets, pc.cast(times, pa.string()), reasons, _build_hex(keys), _build_hex(values)]
    return pa.RecordBatch.from_arrays(columns, names=list(LETTER))


def _build_hex(values: pa.Array) -> pa.Array:
    return pa.array([None if value is None else f"\\x{value.hex()}" for value in values.to_pylist()], pa.string())
