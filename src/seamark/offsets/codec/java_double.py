"""How Java writes a double.

Since 19 Java writes the shortest digits that read back as the same number. Before, it generated digits after Steele
and White, and now and then wrote one more than is needed: 9.900000000000001E21 where 19 writes 9.9E21. A worker of
Kafka 4 runs on 17 as well as on 21, so both are here.
"""

from __future__ import annotations

import math

# The first Java that writes the shortest digits.
SHORTEST_SINCE = 19
_MANTISSA_BITS = 53
_LOWEST_EXPONENT = -1074
# Java writes the digits plainly from 10^-3 up to below 10^7.
_PLAIN = range(-2, 8)


def spell_double(value: float, *, java: int) -> str:
    """The text of `Double.toString` in that Java. NaN and the infinities have their names."""
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
        # Of the texts with one digit and with two, Java takes the nearest: two digits are never further off.
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
    # Digits that lie below the precision of the double are rounded away, half of them up.
    spare_bits = number.bit_length() - 1 - _MANTISSA_BITS
    spare = math.floor((spare_bits - 1) * math.log10(2)) if spare_bits > 1 else 0
    if spare:
        number = (number + 10**spare // 2) // 10**spare
    text = str(number)
    return text.rstrip("0"), len(text) + spare


def _free_format(value: float) -> tuple[str, int]:
    bits, shift = _take_apart(value)
    # rest/scale is the number; margin/scale is how far a text may be off and still read back as it.
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
    # The tangent of the logarithm at 1.5, which lies above the curve: the guess is right or one too high.
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
        # A margin that left the register is wider than what is left of the number.
        low, high = (rest < margin, _wrap(rest + margin, bits) > scale) if margin > 0 else (True, True)
        if digits == [0] and not high:
            digits, point = [], point - 1
            continue
        # A number with an exponent has two digits at least.
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
    """The same three figures in the size Java has them, and the bits of its register; 0 where none is wide enough.

    The size matters as one sum may overflow in that register: near 1E25 a number in some hundred is rounded down for
    that and not up.
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
