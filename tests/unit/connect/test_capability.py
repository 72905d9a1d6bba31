"""Versions and what they can do."""

from __future__ import annotations

import pytest

from seamark.connect.capability import SINCE, Capabilities, Capability, build_capabilities, parse_version
from seamark.errors import UnsupportedError


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.3.1", (4, 3)),
        ("3.5.2", (3, 5)),
        ("2.8", (2, 8)),
        ("4.0.0-SNAPSHOT", (4, 0)),
        ("3.6.0.redhat-00001", (3, 6)),
        ("3.10.0", (3, 10)),
        (" 3.7.1-amzn \n", (3, 7)),
        ("7.6.1-ccs", (3, 6)),
        ("7.9.0-ce", (3, 9)),
        ("8.0.0-ccs", (4, 0)),
        ("8.1.2-ce", (4, 1)),
        ("6.2.0-ccs", (2, 8)),
        ("5.5.1-ccs", (2, 5)),
        ("unknown", None),
        ("", None),
        ("v", None),
        ("4", None),
    ],
)
def test_versions_are_read_with_any_suffix(text, version):
    assert parse_version(text) == version


def test_the_lowest_worker_counts_during_a_rolling_upgrade():
    capabilities = build_capabilities("game", ["4.3.1", "3.5.2", "unknown"])
    assert capabilities.version == (3, 5)
    assert capabilities.words == "3.5.2"
    assert capabilities.has(Capability.STOP)
    assert not capabilities.has(Capability.WRITE_OFFSETS)


def test_minor_versions_are_numbers_and_not_digits():
    assert build_capabilities("game", ["3.10.0"]).has(Capability.HEALTH)


@pytest.mark.parametrize("capability", list(Capability))
def test_each_capability_begins_with_its_version(capability):
    major, minor = SINCE[capability]
    assert build_capabilities("c", [f"{major}.{minor}.0"]).has(capability)
    before = f"{major}.{minor - 1}.9" if minor else f"{major - 1}.9.9"
    assert not build_capabilities("c", [before]).has(capability)


def test_a_version_that_can_not_be_read_forbids_nothing():
    capabilities = build_capabilities("c", ["unknown"])
    assert all(capabilities.has(capability) for capability in Capability)


def test_the_refusal_says_what_is_there_and_what_is_needed():
    with pytest.raises(UnsupportedError) as caught:
        Capabilities("game", (3, 5), "3.5.2").require(Capability.WRITE_OFFSETS, doing="change the offsets of x")
    assert caught.value.exit_code == 5
    assert "change the offsets of x" in caught.value.message
    assert "3.5.2" in caught.value.cause
    assert "3.6" in caught.value.cause
