"""Published vulnerabilities and bugs of Kafka releases, as far as they concern a fleet of Connect workers.

Ranges are those of the CVE records and of Kafka's own list (kafka.apache.org/cve-list), read in November 2026. Both
ends of a range are affected. Advisories for brokers are included, although a broker does not report its version: the
doctor can only list them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from seamark.connect.capability import parse_version

Number = tuple[int, int, int]


class Part(StrEnum):
    """The affected component."""

    CONNECT = "connect"
    CLIENTS = "clients"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Advisory:
    """One published advisory: the component, the effect, and the first fixed release."""

    id: str
    part: Part
    affected: tuple[tuple[Number, Number], ...]
    words: str
    fixed: tuple[str, ...]

    def affects(self, number: Number) -> bool:
        """Return whether a release is affected."""
        return any(first <= number <= last for first, last in self.affected)


ADVISORIES = (
    Advisory(
        "CVE-2026-35554",
        Part.CLIENTS,
        affected=(((2, 8, 0), (3, 9, 1)), ((4, 0, 0), (4, 0, 1)), ((4, 1, 0), (4, 1, 1))),
        words="a producer may silently write records into the wrong topic when a batch runs into delivery.timeout.ms",
        fixed=("3.9.2", "4.0.2", "4.1.2", "4.2.0"),
    ),
    Advisory(
        "CVE-2026-33558",
        Part.CLIENTS,
        affected=(((0, 11, 0), (3, 9, 1)), ((4, 0, 0), (4, 0, 0))),
        words="clients log credentials at level DEBUG",
        fixed=("3.9.2", "4.0.1"),
    ),
    Advisory(
        "CVE-2025-27818",
        Part.CONNECT,
        affected=(((2, 3, 0), (3, 9, 0)),),
        words="users who may create connectors can run code on the worker through LdapLoginModule in a JAAS override",
        fixed=("3.9.1", "4.0.0"),
    ),
    Advisory(
        "CVE-2025-27817",
        Part.CLIENTS,
        affected=(((3, 1, 0), (3, 9, 0)),),
        words="users who may create connectors can read files of the worker through sasl.oauthbearer.*.endpoint.url",
        fixed=("3.9.1", "4.0.0"),
    ),
    Advisory(
        "CVE-2024-31141",
        Part.CLIENTS,
        affected=(((2, 3, 0), (3, 7, 0)),),
        words="users who may create connectors can read files and environment variables of the worker through "
        "config providers",
        fixed=("3.7.1", "3.8.0"),
    ),
    Advisory(
        "CVE-2023-25194",
        Part.CONNECT,
        affected=(((2, 3, 0), (3, 3, 2)),),
        words="users who may create connectors can run code on the worker through JndiLoginModule in a JAAS override",
        fixed=("3.4.0",),
    ),
    Advisory(
        "CVE-2021-38153",
        Part.CONNECT,
        affected=(((2, 0, 0), (2, 6, 2)), ((2, 7, 0), (2, 7, 1)), ((2, 8, 0), (2, 8, 0))),
        words="passwords and keys can be guessed by a timing attack",
        fixed=("2.6.3", "2.7.2", "2.8.1", "3.0.0"),
    ),
    Advisory(
        "CVE-2019-12399",
        Part.CONNECT,
        affected=(((2, 0, 0), (2, 2, 1)), ((2, 3, 0), (2, 3, 0))),
        words="the tasks endpoint of the REST API returns secrets of config providers in plain text",
        fixed=("2.2.2", "2.3.1"),
    ),
    Advisory(
        "CVE-2026-111115",
        Part.BROKER,
        affected=(((2, 4, 0), (4, 1, 2)), ((4, 2, 0), (4, 2, 1)), ((4, 3, 0), (4, 3, 1))),
        words="unauthenticated clients can exhaust the broker's memory",
        fixed=("4.2.2", "4.3.2", "4.4.0"),
    ),
    Advisory(
        "CVE-2026-33557",
        Part.BROKER,
        affected=(((4, 1, 0), (4, 1, 1)),),
        words="with OAUTHBEARER, any JWT is accepted unless a validator class is set",
        fixed=("4.1.2", "4.2.0"),
    ),
    Advisory(
        "CVE-2025-27819",
        Part.BROKER,
        affected=(((2, 0, 0), (3, 3, 2)),),
        words="users who may alter cluster configs can run code on the broker through JndiLoginModule",
        fixed=("3.9.1", "4.0.0"),
    ),
    Advisory(
        "CVE-2024-56128",
        Part.BROKER,
        affected=(((0, 10, 2), (3, 7, 1)), ((3, 8, 0), (3, 8, 0))),
        words="a SCRAM login without TLS can be replayed by an eavesdropper",
        fixed=("3.7.2", "3.8.1", "3.9.0"),
    ),
)


def find_worker_advisories(number: Number) -> tuple[Advisory, ...]:
    """Return the advisories for a worker of this release, in Connect itself or in its Kafka clients."""
    return tuple(found for found in ADVISORIES if found.part is not Part.BROKER and found.affects(number))


def list_broker_advisories() -> tuple[Advisory, ...]:
    """Return the advisories for brokers."""
    return tuple(found for found in ADVISORIES if found.part is Part.BROKER)


_PLAIN = re.compile(r"\d+\.\d+(?:\.(?P<patch>\d+))?")


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Apache Kafka.

    `is_vendor_build` is set if more than a number was reported. The patch number of such a build is the vendor's own
    and says nothing about the fixes in it.
    """

    major: int
    minor: int
    patch: int
    is_vendor_build: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def number(self) -> tuple[int, int, int]:
        """Return the three numbers, for comparisons."""
        return self.major, self.minor, self.patch


def build_release(version: str) -> Release | None:
    """Parse a version like `3.5.2` or `7.5.3-ccs`; None if it is not recognized."""
    kafka = parse_version(version)
    if kafka is None:
        return None
    plain = _PLAIN.fullmatch(version.strip())
    if plain is None:
        return Release(*kafka, 0, is_vendor_build=True)
    return Release(*kafka, int(plain["patch"] or 0))
