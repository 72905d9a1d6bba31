"""Write JSON exactly as Connect's own converter does, byte for byte."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from seamark.errors import UsageError

# Since Java 19, Double.toString writes the shortest digits that parse as the same number. Earlier versions generate
# digits by the algorithm of Steele and White and sometimes write one digit more than needed: 9.900000000000001E21,
# where 19 writes 9.9E21. A worker of Kafka 4 runs on Java 17 as well as on 21, so both algorithms are implemented here.

# The first Java version that writes the shortest digits.
SHORTEST_SINCE = 19
_MANTISSA_BITS = 53
_LOWEST_EXPONENT = -1074
# Java uses no exponent from 10^-3 up to, but not including, 10^7.
_PLAIN = range(-2, 8)


def spell_double(value: float, *, java: int) -> str:
    """Return the text of `Double.toString` in that Java version. NaN and the infinities are written by their names."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, point = (_shortest if java >= SHORTEST_SINCE else _steele_white)(abs(value))
    return sign + _lay_out(digits, point)


def _lay_out(digits: str, point: int) -> str:
    # The number is 0.DIGITS * 10^point.
    if point not in _PLAIN:
        return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    whole, part = digits[:point].ljust(point, "0"), digits[point:]
    return f"{whole}.{part or '0'}"


def _shortest(value: float) -> tuple[str, int]:
    digits, point = _split(repr(value))
    if len(digits) == 1:
        # Java chooses the nearest among the texts with one digit and with two; two digits are never further off.
        digits, point = _split(f"{value:.1e}")
    return digits, point


def _split(text: str) -> tuple[str, int]:
    mantissa, _, exponent = text.partition("e")
    whole, _, part = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = whole + part
    stripped = digits.lstrip("0")
    return stripped.rstrip("0"), point - (len(digits) - len(stripped))


def _steele_white(value: float) -> tuple[str, int]:
    numerator, denominator = value.as_integer_ratio()
    if denominator == 1 and value < 2.0**63:
        return _whole_digits(numerator)
    return _free_format(value)


def _whole_digits(number: int) -> tuple[str, int]:
    # Digits below the precision of the double are rounded away, half up.
    spare_bits = number.bit_length() - 1 - _MANTISSA_BITS
    spare = math.floor((spare_bits - 1) * math.log10(2)) if spare_bits > 1 else 0
    if spare:
        number = (number + 10**spare // 2) // 10**spare
    text = str(number)
    return text.rstrip("0"), len(text) + spare


def _free_format(value: float) -> tuple[str, int]:
    bits, shift = _take_apart(value)
    # rest/scale is the number; margin/scale is how far a text may be off and still parse as the same number.
    rest, scale, margin = bits * 4, 4, 2
    if bits & (bits - 1) == 0:
        margin = 1
    if shift >= 0:
        rest, margin = rest << shift, margin << shift
    else:
        scale <<= -shift
    point = _guess_point(bits, shift)
    if point >= 0:
        scale *= 10**point
    else:
        rest, margin = rest * 10**-point, margin * 10**-point
    return _generate(rest, scale, margin, point=point)


def _guess_point(bits: int, shift: int) -> int:
    # The tangent of the logarithm at 1.5 is above the curve, so the estimate is either right or one too high.
    binary = bits.bit_length() - 1
    logarithm = math.log10(1.5) + (math.ldexp(bits, -binary) - 1.5) / (1.5 * math.log(10))
    return math.floor(logarithm + (binary + shift) * math.log10(2)) + 1


def _take_apart(value: float) -> tuple[int, int]:
    mantissa, exponent = math.frexp(value)
    bits = int(mantissa * 2**_MANTISSA_BITS)
    shift = exponent - _MANTISSA_BITS
    lost = max(0, _LOWEST_EXPONENT - shift)
    return bits >> lost, shift + lost


def _generate(rest: int, scale: int, margin: int, *, point: int) -> tuple[str, int]:
    rest, scale, margin, bits = _as_in_java(rest, scale, margin, point=point)
    digits: list[int] = []
    while True:
        digit, rest = divmod(rest * 10, scale)
        margin = _wrap(margin * 10, bits)
        digits.append(digit)
        # A margin that overflowed the register is wider than the remaining digits.
        low, high = (rest < margin, _wrap(rest + margin, bits) > scale) if margin > 0 else (True, True)
        if digits == [0] and not high:
            digits, point = [], point - 1
            continue
        # A number with an exponent has at least two digits.
        least = 1 if point in _PLAIN else 2
        if len(digits) >= least and (low or high):
            break
    text = "".join(map(str, digits))
    if high and (not low or rest * 2 > scale or (rest * 2 == scale and digit % 2 == 1)):
        text = str(int(text) + 1).rjust(len(digits), "0")
    point += len(text) - len(digits)
    stripped = text.lstrip("0")
    return stripped.rstrip("0"), point - (len(text) - len(stripped))


def _as_in_java(rest: int, scale: int, margin: int, *, point: int) -> tuple[int, int, int, int]:
    """Return the same three numbers in Java's size, and the bits of its register; 0 bits if no register is wide enough.

    The size matters because one sum can overflow in that register: near 1E25 about one number in a hundred is therefore
    rounded down instead of up.
    """
    if point < 1:
        rest, scale, margin = rest * 10, scale * 10, margin * 10
    common = math.gcd(rest, scale // 10, margin)
    twos = common & -common
    rest, scale, margin = rest // twos, scale // twos, margin // twos
    largest = max(rest, scale).bit_length()
    return rest, scale, margin, next((bits for bits in (32, 64) if largest < bits), 0)


def _wrap(number: int, bits: int) -> int:
    half = 1 << (bits - 1) if bits else 0
    return (number + half) % (half * 2) - half if bits else number


# Connect's REST API reads each partition into a HashMap, so this order decides which key bytes it looks up.

_Value = TypeVar("_Value")
_FIRST_CAPACITY = 16
# Up to this capacity, a crowded slot makes Java double the table before it is three quarters full.
_CROWDED_CAPACITY = 64
_CROWDED = 8
_KEPT_LENGTH = 1000


def hash_text(text: str) -> int:
    """Return `String.hashCode` as an unsigned number, computed over UTF-16 code units."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


def order_names(names: Iterable[str]) -> list[str]:
    """Return the names in the iteration order of a HashMap to which they were added in this order.

    From 64 slots on, Java turns a slot with more than 8 names into a tree. That order is not computed here: such names
    stay in the order in which they were added. It takes 9 names whose hashes have the same low bits.
    """
    spread = {name: (code := hash_text(name)) ^ code >> 16 for name in names}
    capacity = _find_capacity(list(spread.values()))
    # The sort is stable: names in one slot keep their insertion order, which is how Java chains them.
    return sorted(spread, key=lambda name: spread[name] & (capacity - 1))


def _find_capacity(codes: list[int]) -> int:
    capacity = _FIRST_CAPACITY
    for count in range(1, len(codes) + 1):
        slot = codes[count - 1] & (capacity - 1)
        if capacity < _CROWDED_CAPACITY and count > _CROWDED:
            beside = sum(1 for code in codes[: count - 1] if code & (capacity - 1) == slot)
            capacity *= 2 if beside >= _CROWDED else 1
        if count > capacity * 3 // 4:
            capacity *= 2
    return capacity


def order_as_hash_map(fields: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return the same fields in the order of a HashMap that was filled from this map."""
    if len(fields) < 2:
        return dict(fields)
    names = tuple(fields)
    # A hundred thousand partitions share a few sets of names, so these are cached; very long (hostile) names are not.
    is_short = sum(map(len, names)) <= _KEPT_LENGTH
    return {name: fields[name] for name in (_order_kept(names) if is_short else order_names(names))}


@lru_cache(maxsize=1024)
def _order_kept(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(order_names(names))


# The minimum for a worker of Kafka 4. The Java version only affects values of type double.
DEFAULT_JAVA = 17

# The values that the Java map of an offset can contain. Bytes are written as base64 text and are read back as text.
FieldValue = str | int | float | bool | bytes | None

_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LEAST, _MOST = -(2**63), 2**63 - 1


def spell_key(connector: str, partition: Mapping[str, FieldValue] | None, *, java: int) -> bytes:
    """Return the key of an offset: a list of the connector's name and the partition."""
    fields = "null" if partition is None else spell_map(partition, java=java)
    return f"[{spell_text(connector)},{fields}]".encode()


def spell_map(fields: Mapping[str, FieldValue], *, java: int) -> str:
    """Return a map as a JSON object: its fields in the given order, without spaces."""
    return "{" + ",".join(f"{spell_text(name)}:{_spell_field(name, fields[name], java=java)}" for name in fields) + "}"


def spell_text(text: str) -> str:
    """Return text as a JSON string, escaping only what Jackson escapes."""
    if not isinstance(text, str):
        raise UsageError(f"invalid field name {text!r}", cause="Connect accepts only strings as field names")
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT:
        return _SHORT[character]
    # Jackson escapes each half of a surrogate pair separately.
    units = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _spell_field(name: str, value: FieldValue, *, java: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return spell_text(value)
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, float):
        text = spell_double(value, java=java)
        # JSON has no literal for NaN and the infinities: Jackson writes them as strings.
        return text if math.isfinite(value) else f'"{text}"'
    # The type annotation excludes other values, but the maps come from files and responses.
    is_number = isinstance(value, int)
    if is_number and _LEAST <= value <= _MOST:
        return str(value)
    raise UsageError(
        f"the field {name!r} can't be part of an offset",
        cause="it is a number beyond 64 bits" if is_number else f"it is a {type(value).__name__}",
        hint="use strings, numbers, true, false and null, without nested lists and maps",
    )
