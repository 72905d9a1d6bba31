"""What Connect's REST API says of a record, which is not always what the record says."""

from __future__ import annotations

from enum import StrEnum

from seamark.offsets.codec.verdicts import DecodedKey, DecodedValue, KeyVerdict, ValueVerdict


class Listing(StrEnum):
    """How GET /connectors/NAME/offsets shows a partition."""

    OFFSET = "offset"
    NULL = "null"
    ABSENT = "absent"


def foretell_listing(key: DecodedKey, value: DecodedValue) -> Listing:
    """How GET shows the partition of a record that is the only one of its partition.

    A worker lists a partition by what its key means and then looks its offset up by the bytes it would spell itself.
    Another spelling is listed and not found: `null`, though a task may well find it. A value that can't be read takes
    the partition off the list.
    """
    if key.verdict is not KeyVerdict.GOOD or value.verdict is ValueVerdict.TOMBSTONE:
        return Listing.ABSENT
    if not key.is_rest_spelling or value.verdict is ValueVerdict.NULL:
        return Listing.NULL
    return Listing.OFFSET if value.verdict is ValueVerdict.GOOD else Listing.ABSENT
