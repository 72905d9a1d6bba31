"""Which Kafka release a worker runs, to the patch, read from the version it reports."""

from __future__ import annotations

import re
from dataclasses import dataclass

from seamark.connect.capability import parse_version

_PLAIN = re.compile(r"\d+\.\d+(?:\.(?P<patch>\d+))?")


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Apache Kafka.

    `is_vendor_build` says that more than a number was reported. The patch of such a build is the
    vendor's own and tells nothing of the fixes in it.
    """

    major: int
    minor: int
    patch: int
    is_vendor_build: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def number(self) -> tuple[int, int, int]:
        """The three numbers, for comparing."""
        return self.major, self.minor, self.patch


def build_release(version: str) -> Release | None:
    """The release of a version like `3.5.2` or `7.5.3-ccs`; None where it can't be told."""
    kafka = parse_version(version)
    if kafka is None:
        return None
    plain = _PLAIN.fullmatch(version.strip())
    if plain is None:
        return Release(*kafka, 0, is_vendor_build=True)
    return Release(*kafka, int(plain["patch"] or 0))
