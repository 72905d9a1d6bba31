"""Random offsets and random dirt."""

from __future__ import annotations

from hypothesis import strategies as st

# Half surrogates too: Java has no other texts than these.
TEXTS = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["", "filename", "é", "😀", "\ud800", "\x00\x1f"]
)
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
DOUBLES = st.floats(width=64) | st.sampled_from([1e7, 1e-3, 9.999e6, 1e10, 0.1, -0.0, 2e-322, 9.9e21, 123456789.125])
VALUES = st.none() | st.booleans() | WHOLE | DOUBLES | TEXTS
FIELDS = st.dictionaries(TEXTS, VALUES | st.binary(max_size=9), max_size=20)

# Names that share slots of a HashMap: "Aa" and "BB" have the same hash.
COLLIDING = st.lists(st.sampled_from(["Aa", "BB"]), min_size=1, max_size=3).map("".join)
NAMES = st.lists(TEXTS | COLLIDING, unique=True, max_size=120)

_SPACE = st.sampled_from([b"", b"", b"", b" ", b"\r\n\t"])
_WORDS = [
    b"null",
    b"true",
    b"false",
    b"0",
    b"-0",
    b"007",
    b"1.50",
    b"-0.0",
    b"1E5",
    b"1e400",
    b"-1e-400",
    b"1e-7",
    b'""',
]
_WORDS += [b"9223372036854775808", b"-12345678901234567890", b'"\\u0041\xc3\xa9"', b'"\\ud800"', b'"\xf0\x9f\x98\x80"']
_NAMES = st.sampled_from([b'"a"', b'"b"', b'"\\u0061"', b'"\xc3\xa9"', b'"Aa"', b'"BB"', b'""', b'"\\uD83D\\uDE00"'])
_DIRT = [b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"-", b".", b"e", b"/", b"\x00", b"\xc0\x80", b"\xed\xa0\x80"]
_DIRT += [
    b"\xf4\x90\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\xe2\x80",
    b"\\ud800",
    b"\\x",
    b"\n",
    b"#",
    b"'",
    b"NaN",
    b"99999999999",
]


@st.composite
def _lists(draw, inner):
    items = draw(st.lists(st.tuples(_SPACE, inner, _SPACE).map(b"".join), max_size=3))
    return b"[" + b",".join(items) + draw(_SPACE) + b"]"


@st.composite
def _maps(draw, inner):
    field = st.tuples(_SPACE, _NAMES, _SPACE, st.just(b":"), _SPACE, inner, _SPACE).map(b"".join)
    return b"{" + b",".join(draw(st.lists(field, max_size=3))) + draw(_SPACE) + b"}"


JSON = st.recursive(st.sampled_from(_WORDS), lambda inner: _lists(inner) | _maps(inner), max_leaves=8)


@st.composite
def spoiled(draw):
    """JSON with a few bytes put in, taken out or changed."""
    data = draw(JSON)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        dirt = draw(st.sampled_from(_DIRT) | st.just(b""))
        data = data[:at] + dirt + data[at + draw(st.integers(0, 1)) :]
    return data
