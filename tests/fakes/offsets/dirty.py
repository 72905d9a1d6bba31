"""Records that somebody might find in an offsets topic, and what each of them is.

Each case is one record: its key, its value, what seamark must say of both and how Connect's REST API shows it. The same
cases are asked of Connect's own classes (tests/oracle) and of a real worker (tests/integration), so each case has a
partition of its own, and all belong to one connector.
"""

from __future__ import annotations

from dataclasses import dataclass

from seamark.offsets.codec.verdicts import Anomaly
from seamark.offsets.codec.verdicts import KeyVerdict as K
from seamark.offsets.codec.verdicts import ValueVerdict as V
from tests.unit.offsets.listing import Listing

CONNECTOR = "dirty"
VALUE = b'{"position":8}'


@dataclass(frozen=True)
class Dirty:
    id: str
    key: bytes | None
    value: bytes | None
    key_verdict: K
    value_verdict: V
    listing: Listing
    oddities: frozenset[Anomaly] = frozenset()
    # The Connect of 3.5 has an older Jackson: no limits, no leading zeros, surrogates in raw UTF-8.
    only_newer: bool = False


def _key(case, template, verdict, listing, *oddities, only_newer=False):
    raw = template.replace(b"ID", case.encode()) if template is not None else None
    return Dirty(case, raw, VALUE, verdict, V.GOOD, listing, frozenset(oddities), only_newer)


def _value(case, value, verdict, listing, *oddities):
    key = f'["{CONNECTOR}",{{"case":"{case}"}}]'.encode()
    return Dirty(case, key, value, K.GOOD, verdict, listing, frozenset(oddities))


def _wide(text, encoding):
    return text.encode(encoding)


OFFSET, NULL, ABSENT = Listing.OFFSET, Listing.NULL, Listing.ABSENT
GOOD_KEYS = [
    _key("plain", b'["dirty",{"case":"ID"}]', K.GOOD, OFFSET),
    _key("space-after-comma", b'["dirty", {"case":"ID"}]', K.GOOD, NULL),
    _key("space-after-colon", b'["dirty",{"case": "ID"}]', K.GOOD, NULL),
    _key("python-dumps", b'["dirty", {"case": "ID"}]', K.GOOD, NULL),
    _key("newline-at-end", b'["dirty",{"case":"ID"}]\n', K.GOOD, NULL),
    _key("space-before", b' ["dirty",{"case":"ID"}]', K.GOOD, NULL),
    _key("order-of-hashmap", b'["dirty",{"extra":1,"case":"ID"}]', K.GOOD, OFFSET),
    _key("order-reversed", b'["dirty",{"case":"ID","extra":1}]', K.GOOD, NULL),
    _key("escaped-letter", b'["dirty",{"case":"ID","x":"\\u0061"}]', K.GOOD, NULL),
    _key("escaped-slash", b'["dirty",{"case":"ID","x":"\\/"}]', K.GOOD, NULL),
    _key("lower-case-hex", b'["dirty",{"case":"ID","x":"\\u001f"}]', K.GOOD, NULL),
    _key("upper-case-hex", b'["dirty",{"x":"\\u001F","case":"ID"}]', K.GOOD, OFFSET),
    _key("accent-raw", '["dirty",{"x":"é","case":"ID"}]'.encode(), K.GOOD, OFFSET),
    _key("accent-escaped", b'["dirty",{"case":"ID","x":"\\u00e9"}]', K.GOOD, NULL),
    _key("emoji-raw", '["dirty",{"case":"ID","x":"😀"}]'.encode(), K.GOOD, NULL),
    _key("emoji-escaped", b'["dirty",{"x":"\\uD83D\\uDE00","case":"ID"}]', K.GOOD, OFFSET),
    _key("half-of-a-pair", b'["dirty",{"x":"\\uD83D","case":"ID"}]', K.GOOD, OFFSET),
    _key("whole-number", b'["dirty",{"x":1,"case":"ID"}]', K.GOOD, OFFSET),
    _key("leading-zero", b'["dirty",{"case":"ID","x":01}]', K.GOOD, NULL, only_newer=True),
    _key("minus-zero", b'["dirty",{"x":-0,"case":"ID"}]', K.GOOD, NULL),
    _key("double", b'["dirty",{"x":1.0,"case":"ID"}]', K.GOOD, OFFSET),
    _key("double-exponent", b'["dirty",{"x":1.0E10,"case":"ID"}]', K.GOOD, OFFSET),
    _key("double-of-python", b'["dirty",{"x":10000000000.0,"case":"ID"}]', K.GOOD, NULL),
    _key("double-minus-zero", b'["dirty",{"x":-0.0,"case":"ID"}]', K.GOOD, NULL),
    _key("double-beyond", b'["dirty",{"x":1e400,"case":"ID"}]', K.GOOD, NULL),
    _key("number-beyond-64-bits", b'["dirty",{"x":12345678901234567890,"case":"ID"}]', K.GOOD, NULL, Anomaly.WRAPPED),
    _key("null-field", b'["dirty",{"x":null,"case":"ID"}]', K.GOOD, OFFSET),
    _key("true-field", b'["dirty",{"x":true,"case":"ID"}]', K.GOOD, OFFSET),
    _key("empty-name-of-field", b'["dirty",{"":1,"case":"ID"}]', K.GOOD, OFFSET),
    _key("field-twice", b'["dirty",{"case":"x","case":"ID"}]', K.GOOD, NULL, Anomaly.DUPLICATE),
    _key("text-behind", b'["dirty",{"case":"ID"}] and more', K.GOOD, NULL, Anomaly.TRAILING),
    _key("bracket-behind", b'["dirty",{"case":"ID"}]]', K.GOOD, NULL, Anomaly.TRAILING),
    _key("bytes-behind", b'["dirty",{"case":"ID"}]\xff\x00', K.GOOD, NULL, Anomaly.TRAILING),
    _key("utf-8-mark", b'\xef\xbb\xbf["dirty",{"case":"ID"}]', K.GOOD, NULL, Anomaly.ENCODING),
    _key("utf-16", _wide('["dirty",{"case":"utf-16"}]', "utf-16"), K.GOOD, NULL, Anomaly.ENCODING),
    _key("utf-32", _wide('["dirty",{"case":"utf-32"}]', "utf-32-be"), K.GOOD, NULL, Anomaly.ENCODING),
    _key("overlong-utf-8", b'["dirty",{"case":"ID","x":"\xc1\xa1"}]', K.GOOD, NULL, Anomaly.ENCODING),
]
BAD_KEYS = [
    _key("no-key", None, K.NO_KEY, ABSENT),
    _key("empty-key", b"", K.NOT_A_LIST, ABSENT),
    _key("only-space", b" \n", K.NOT_A_LIST, ABSENT),
    _key("json-null", b"null", K.NOT_A_LIST, ABSENT),
    _key("plain-text", b"dirty ID", K.NOT_JSON, ABSENT),
    _key("not-utf-8", b'["dirty",{"case":"ID\xff"}]', K.NOT_JSON, ABSENT),
    _key("raw-surrogate", b'["dirty",{"case":"ID\xed\xa0\x80"}]', K.NOT_JSON, ABSENT, only_newer=True),
    _key("cut-off", b'["dirty",{"case":"ID"', K.NOT_JSON, ABSENT),
    _key("cut-in-a-character", b'["dirty",{"case":"ID\xc3', K.NOT_JSON, ABSENT),
    _key("trailing-comma", b'["dirty",{"case":"ID",}]', K.NOT_JSON, ABSENT),
    _key("single-quotes", b"['dirty',{'case':'ID'}]", K.NOT_JSON, ABSENT),
    _key("comment", b'/* ID */["dirty",{"case":"ID"}]', K.NOT_JSON, ABSENT),
    _key("bare-nan", b'["dirty",{"case":"ID","x":NaN}]', K.NOT_JSON, ABSENT),
    _key("control-character", b'["dirty",{"case":"ID\x01"}]', K.NOT_JSON, ABSENT),
    _key("schema-id-in-front", b'\x00\x00\x00\x00\x07["dirty",{"case":"ID"}]', K.NOT_JSON, ABSENT),
    _key("java-stream", b"\xac\xed\x00\x05t\x00\x05dirty", K.NOT_JSON, ABSENT),
    _key(
        "deeper-than-1000",
        b'["dirty",{"case":"ID","x":' + b"[" * 999 + b"]" * 999 + b"}]",
        K.NOT_JSON,
        ABSENT,
    ),
    _key("1001-digits", b'["dirty",{"case":"ID","x":' + b"1" * 1001 + b"}]", K.NOT_JSON, ABSENT, only_newer=True),
    _key("a-map", b'{"dirty":{"case":"ID"}}', K.NOT_A_LIST, ABSENT),
    _key("a-text", b'"dirty ID"', K.NOT_A_LIST, ABSENT),
    _key("a-number", b"60", K.NOT_A_LIST, ABSENT),
    _key("json-in-json", b'"[\\"dirty\\",{\\"case\\":\\"ID\\"}]"', K.NOT_A_LIST, ABSENT),
    _key("schema-envelope", b'{"schema":null,"payload":["dirty",{"case":"ID"}]}', K.NOT_A_LIST, ABSENT),
    _key("empty-list", b"[]", K.NOT_TWO, ABSENT),
    _key("one-element", b'["dirty"]', K.NOT_TWO, ABSENT),
    _key("three-elements", b'["dirty",{"case":"ID"},1]', K.NOT_TWO, ABSENT),
    _key("name-null", b'[null,{"case":"ID"}]', K.NAME_NOT_TEXT, ABSENT),
    _key("name-number", b'[1,{"case":"ID"}]', K.NAME_NOT_TEXT, ABSENT),
    _key("name-list", b'[["dirty"],{"case":"ID"}]', K.NAME_NOT_TEXT, ABSENT),
    _key("swapped", b'[{"case":"ID"},"dirty"]', K.NAME_NOT_TEXT, ABSENT),
    _key("partition-null", b'["dirty",null]', K.NO_PARTITION, ABSENT),
    _key("partition-text", b'["dirty","ID"]', K.PARTITION_NOT_A_MAP, ABSENT),
    _key("partition-list", b'["dirty",[{"case":"ID"}]]', K.PARTITION_NOT_A_MAP, ABSENT),
    _key("nested-map", b'["dirty",{"case":"ID","x":{"y":1}}]', K.NESTED, ABSENT),
    _key("nested-list", b'["dirty",{"case":"ID","x":[]}]', K.NESTED, ABSENT),
    _key("nested-deep", b'["dirty",{"case":"ID","x":' + b"[" * 400 + b"]" * 400 + b"}]", K.NESTED, ABSENT),
]
VALUES = [
    _value("tombstone", None, V.TOMBSTONE, ABSENT),
    _value("empty-value", b"", V.NULL, NULL),
    _value("value-null", b"null", V.NULL, NULL),
    _value("value-null-and-more", b"null and more", V.NULL, NULL, Anomaly.TRAILING),
    _value("value-of-nullx", b"nullx", V.NOT_JSON, ABSENT),
    _value("value-empty-map", b"{}", V.GOOD, OFFSET),
    _value("value-with-spaces", b'{ "position" : 8 }', V.GOOD, OFFSET),
    _value("value-of-null-field", b'{"position":null}', V.GOOD, OFFSET),
    _value("value-of-a-double", b'{"position":8.0}', V.GOOD, OFFSET),
    _value("value-of-a-text", b'{"position":"8"}', V.GOOD, OFFSET),
    _value("value-wrapped", b'{"position":18446744073709551615}', V.GOOD, OFFSET, Anomaly.WRAPPED),
    _value("value-twice", b'{"position":1,"position":8}', V.GOOD, OFFSET, Anomaly.DUPLICATE),
    _value("value-and-more", b'{"position":8}}', V.GOOD, OFFSET, Anomaly.TRAILING),
    _value("value-not-json", b"position=8", V.NOT_JSON, ABSENT),
    _value("value-cut-off", b'{"position":', V.NOT_JSON, ABSENT),
    _value("value-bytes", b"\x00\x00\x00\x08", V.NOT_JSON, ABSENT),
    _value("value-number", b"8", V.NOT_A_MAP, ABSENT),
    _value("value-text", b'"8"', V.NOT_A_MAP, ABSENT),
    _value("value-true", b"true", V.NOT_A_MAP, ABSENT),
    _value("value-list", b'[{"position":8}]', V.NOT_A_MAP, ABSENT),
    _value("value-nested", b'{"position":{"file":1}}', V.NESTED, ABSENT),
    _value("value-nested-list", b'{"position":[8]}', V.NESTED, ABSENT),
    _value("value-envelope", b'{"schema":null,"payload":{"position":8}}', V.NESTED, ABSENT),
    _value("value-deeper-than-1000", b'{"x":' + b"[" * 1000 + b"]" * 1000 + b"}", V.NOT_JSON, ABSENT),
]
CASES = [*GOOD_KEYS, *BAD_KEYS, *VALUES]
