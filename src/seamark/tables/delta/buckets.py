"""The files of a table with keys: each holds the rows of one bucket, the keys whose hash ends with the same bits.

A record is compared with the rows of its bucket alone, so a task rewrites one file without reading others. A bucket
that has become too large is split by one more bit of the hash, as in extendible hashing. The hash is a column of the
files that the table's schema doesn't have, so that readers don't see it. What a file is, is in its name: any tool that
copies or restores a table keeps it. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import uuid4

from seamark.errors import RefusedError

HASH = "seamark_hash"
"""The hash of a row's key, from 0 to 2**31 - 1."""
BUCKET_BYTES = 32 << 20
"""A file above this size is split when it is rewritten. Smaller files cost readers more requests; larger ones cost more
to rewrite for one changed key."""
DEAD_PREFIX = "dead-"
"""How the names of files with dead letters begin, in a table with keys."""
TOMBSTONES = "_seamark_tombstones"
"""The folder of deletes whose order is kept. Tools that clean up a table leave out names with an underscore."""
_MOST_BITS = 14
_ROWS_OF_FIRST = 250_000
_NAME = re.compile(r"bucket-(\d{1,2})-(\d{1,5})-(\d{1,15})-(\d{1,15})-([or])-[0-9a-f]{32}\.parquet", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """The keys whose hash ends with `number`, written in so many bits."""

    bits: int
    number: int

    def has(self, other: Bucket) -> bool:
        """Whether all keys of another bucket are in this one."""
        return self.bits <= other.bits and other.number & ((1 << self.bits) - 1) == self.number

    def split(self, bits: int) -> list[Bucket]:
        """Return its parts by so many more bits."""
        return [Bucket(self.bits + bits, self.number | (one << self.bits)) for one in range(1 << bits)]


@dataclass(frozen=True, slots=True)
class BucketFile:
    """A file of a table with keys.

    Attributes:
        path: Its path below the table.
        size: Its bytes.
        bucket: Whose keys it has.
        rows: How many rows it has.
        oldest: The least record time of its rows, in milliseconds; 0 where times aren't kept.
        has_tombstones: Whether there is a file of the same name in the folder of tombstones.
    """

    path: str
    size: int
    bucket: Bucket
    rows: int
    oldest: int
    has_tombstones: bool

    @property
    def tombstones(self) -> str:
        """The path of its tombstones below the table."""
        return build_tombstone_path(self.path)


def build_tombstone_path(path: str) -> str:
    """Return where the tombstones of a data file are."""
    return f"{TOMBSTONES}/{path}"


def build_bucket_name(bucket: Bucket, *, rows: int, oldest: int, has_tombstones: bool) -> str:
    """Return a new name for the file of a bucket."""
    kept = "o" if has_tombstones else "r"
    return f"bucket-{bucket.bits}-{bucket.number}-{rows}-{oldest}-{kept}-{uuid4().hex}.parquet"


def parse_bucket_name(path: str, *, size: int) -> BucketFile | None:
    """Read a name that `build_bucket_name` gave; None for another file."""
    found = _NAME.fullmatch(path)
    if found is None:
        return None
    bits, number, rows, oldest = (int(found[place]) for place in range(1, 5))
    if bits > _MOST_BITS or number >> bits:
        return None
    return BucketFile(path, size, Bucket(bits, number), rows, oldest, found[5] == "o")


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """Which file has which keys, at one version of a table."""

    version: int
    files: tuple[BucketFile, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows the table has, without dead letters."""
        return sum(file.rows for file in self.files)

    @property
    def bits(self) -> int:
        """The least number of bits by which no two files share a bucket's keys."""
        return max((file.bucket.bits for file in self.files), default=0)

    def plan_tasks(self, *, records: int) -> int:
        """Return by how many bits of the hash a batch is divided, so that no bucket is divided.

        An empty table begins with as many buckets as its first batch can fill.
        """
        if not self.files:
            return min(_MOST_BITS, max(0, (records // _ROWS_OF_FIRST)).bit_length())
        return min(file.bucket.bits for file in self.files)

    def list_buckets(self, *, bits: int) -> list[Bucket]:
        """Return a bucket for each value of the last bits of a hash, as many as the widest bucket has.

        Args:
            bits: The bits that a new bucket has at least.
        """
        wide = max(self.bits, bits)
        found = [Bucket(wide, number) for number in range(1 << wide)]
        for file in self.files:
            own = file.bucket
            found[own.number :: 1 << own.bits] = [own] * (1 << (wide - own.bits))
        return found


def build_index(version: int, files: Iterable[tuple[str, int]], *, table: str) -> BucketIndex:
    """Build the index of a table from the paths and sizes of its files.

    Raises:
        RefusedError: The table has files of other writers, or two for the same keys.
    """
    found: list[BucketFile] = []
    for path, size in files:
        if path.startswith(DEAD_PREFIX):
            continue
        file = parse_bucket_name(path, size=size)
        if file is None:
            raise RefusedError(
                f"table {table} has files that are not divided by key, such as {path[:120]}",
                cause="they were written with mode: append, or by another program",
                hint="set another to.table, with another name for the pipeline: it is filled from the topic",
            )
        found.append(file)
    _check_apart(found, table)
    return BucketIndex(version, tuple(sorted(found, key=lambda file: file.path)))


def _check_apart(files: Iterable[BucketFile], table: str) -> None:
    known: dict[Bucket, BucketFile] = {}
    for file in sorted(files, key=lambda file: file.bucket.bits):
        for bits in range(file.bucket.bits + 1):
            wider = Bucket(bits, file.bucket.number & ((1 << bits) - 1))
            if wider in known:
                raise RefusedError(
                    f"table {table} has two files for the same keys: {known[wider].path} and {file.path}",
                    cause="another program has changed the table, for example restored a version of it",
                    hint="restore one version of the whole table, with its offsets",
                )
        known[file.bucket] = file


def count_split_bits(size: int, bucket: Bucket, *, most_bytes: int) -> int:
    """Return by how many bits a bucket is split whose file has this size."""
    wanted = max(0, -(-size // most_bytes) - 1).bit_length()
    return min(wanted, _MOST_BITS - bucket.bits)
