"""What a record of an offsets topic is, said without raising."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seamark.core.offsets import OffsetKey, OffsetMap
from seamark.offsets.codec.spelling import DEFAULT_JAVA, SHORTEST_SINCE, order_as_hash_map, spell_key


class KeyVerdict(StrEnum):
    """What a worker makes of a key. Only a GOOD one is ever found by a task or answered by the REST API."""

    GOOD = "good"
    NO_KEY = "no-key"
    NOT_JSON = "not-json"
    NOT_A_LIST = "not-a-list"
    NOT_TWO = "not-two"
    NAME_NOT_TEXT = "name-not-text"
    NO_PARTITION = "no-partition"
    PARTITION_NOT_A_MAP = "partition-not-a-map"
    NESTED = "nested"
    TOO_LARGE = "too-large"


class ValueVerdict(StrEnum):
    """What a worker makes of a value.

    GOOD: an offset. TOMBSTONE: the record has no value; the partition is forgotten. NULL: the value is there and says
    nothing; the partition is listed, with nothing. The others are listed nowhere, and a task gets nothing.
    """

    GOOD = "good"
    TOMBSTONE = "tombstone"
    NULL = "null"
    NOT_JSON = "not-json"
    NOT_A_MAP = "not-a-map"
    NESTED = "nested"
    TOO_LARGE = "too-large"


class Anomaly(StrEnum):
    """What a worker ignores without a message, and an operator should know."""

    TRAILING = "trailing"
    """Something stands behind the end of the JSON."""
    DUPLICATE = "duplicate"
    """A field stands there twice; the last one counts."""
    WRAPPED = "wrapped"
    """A whole number beyond 64 bits became another one."""
    ENCODING = "encoding"
    """The text is not plain UTF-8."""


@dataclass(frozen=True, slots=True)
class DecodedKey:
    """The key of a record. `raw` is what is compared, looked up and written back; never a new spelling of it.

    `key` is there when the verdict is GOOD. `connector` is there also where only the partition is wrong.
    """

    raw: bytes | None
    verdict: KeyVerdict
    key: OffsetKey | None = None
    connector: str | None = None
    detail: str = ""
    oddities: tuple[Anomaly, ...] = ()

    @property
    def is_rest_spelling(self) -> bool:
        """Whether the REST API looks for these very bytes; where it does not, GET answers `null`.

        Nobody knows the worker's Java: a double in the spelling of either is taken. It is worked out at each call.
        """
        if self.key is None:
            return False
        ordered = order_as_hash_map(self.key.partition)
        javas = (DEFAULT_JAVA, SHORTEST_SINCE)
        return any(self.raw == spell_key(self.key.connector, ordered, java=java) for java in javas)


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """The value of a record. `offset` is there when the verdict is GOOD."""

    raw: bytes | None
    verdict: ValueVerdict
    offset: OffsetMap | None = None
    detail: str = ""
    oddities: tuple[Anomaly, ...] = ()
