"""Results of decoding a record of an offsets topic, reported as values instead of exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seamark.core.offsets import OffsetKey, OffsetMap
from seamark.offsets.codec.spelling import DEFAULT_JAVA, SHORTEST_SINCE, order_as_hash_map, spell_key


class KeyVerdict(StrEnum):
    """How a worker reads a key. A task or the REST API finds only keys with the verdict GOOD."""

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
    """How a worker reads a value.

    GOOD: an offset. TOMBSTONE: the record has no value, so the partition has no offset. NULL: the value is JSON null;
    REST lists the partition without an offset. All other values are not listed, and a task gets no offset.
    """

    GOOD = "good"
    TOMBSTONE = "tombstone"
    NULL = "null"
    NOT_JSON = "not-json"
    NOT_A_MAP = "not-a-map"
    NESTED = "nested"
    TOO_LARGE = "too-large"


class Anomaly(StrEnum):
    """Something that a worker ignores silently and that an operator needs to know."""

    TRAILING = "trailing"
    """Text follows the end of the JSON."""
    DUPLICATE = "duplicate"
    """A field occurs twice; the last one is used."""
    WRAPPED = "wrapped"
    """An integer beyond 64 bits overflowed to another number."""
    ENCODING = "encoding"
    """The text is not plain UTF-8."""


@dataclass(frozen=True, slots=True)
class DecodedKey:
    """The key of a record. `raw` is compared, looked up and written back unchanged; it is never encoded again.

    `key` is set if the verdict is GOOD. `connector` is also set if only the partition is invalid.
    """

    raw: bytes | None
    verdict: KeyVerdict
    key: OffsetKey | None = None
    connector: str | None = None
    detail: str = ""
    oddities: tuple[Anomaly, ...] = ()

    @property
    def is_rest_spelling(self) -> bool:
        """Return whether the REST API looks up exactly these bytes; if not, GET returns `null` for the partition.

        The worker's Java version is unknown, so a double in the format of either algorithm is accepted. Computed on
        each call.
        """
        if self.key is None:
            return False
        ordered = order_as_hash_map(self.key.partition)
        javas = (DEFAULT_JAVA, SHORTEST_SINCE)
        return any(self.raw == spell_key(self.key.connector, ordered, java=java) for java in javas)


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """The value of a record. `offset` is set if the verdict is GOOD."""

    raw: bytes | None
    verdict: ValueVerdict
    offset: OffsetMap | None = None
    detail: str = ""
    oddities: tuple[Anomaly, ...] = ()
