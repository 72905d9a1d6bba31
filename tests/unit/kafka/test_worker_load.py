"""What workers tell their group about what they run."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from seamark.errors import UnreachableError
from seamark.kafka.worker_group import WorkerGroup, read_load, read_members, read_worker_ids, read_worker_loads

CONFIG = {"bootstrap.servers": "b:1"}


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def names(*connectors):
    """Each with itself, which is task -1, and its first task."""
    return struct.pack(">i", len(connectors)) + b"".join(
        text(one) + struct.pack(">iii", 2, -1, 0) for one in connectors
    )


def assignment(*connectors, revoked=(), version=2):
    head = struct.pack(">hh", version, 0) + text("leader-1") + text("http://w1:8083/") + struct.pack(">q", 7)
    return head + names(*connectors) + (names(*revoked) + struct.pack(">i", 0) if version else b"")


def metadata(*connectors, version=2, has_nothing=False):
    head = struct.pack(">h", version) + text("http://w1:8083/") + struct.pack(">q", 7)
    if not version:
        return head
    had = assignment(*connectors, version=1)
    return head + (struct.pack(">i", -1) if has_nothing else struct.pack(">i", len(had)) + had)


@pytest.mark.parametrize(
    ("told", "given", "wanted"),
    [
        (metadata("a", "b"), assignment("c"), {"a", "b", "c"}),
        # It is given up when this was heard, not before.
        (metadata("a"), assignment(revoked=["a"]), {"a"}),
        (metadata(), assignment(), set()),
        (metadata(has_nothing=True), b"", set()),
        # Who joins with protocol 0 has nothing any more, and is given all.
        (metadata(version=0), assignment("a", "b", version=0), {"a", "b"}),
    ],
)
def test_connectors_are_found_in_what_was_had_and_what_was_given(told, given, wanted):
    assert read_load(told, given) == wanted


def test_bytes_of_an_unknown_kind_are_no_proof_of_anything():
    for told, given in ((b"\x00", b""), (metadata("a")[:-5], b""), (metadata(), assignment("a")[:30])):
        with pytest.raises(UnreachableError, match="it is unknown which worker runs which tasks"):
            read_load(told, given)


def build(*members, state="Stable"):
    found = [SimpleNamespace(metadata=told, assignment=given, client_id="c", id="i") for told, given in members]
    group = SimpleNamespace(error=None, state=state, members=found)
    return lambda _settings: SimpleNamespace(list_groups=lambda _group, *, timeout: [group], poll=lambda _seconds: None)


def test_loads_are_told_by_worker():
    client = build((metadata("a"), assignment("b")))
    assert read_worker_loads(CONFIG, "g", timeout_seconds=5, build_client=client) == {"http://w1:8083": {"a", "b"}}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_nobody_can_tell_while_the_work_is_shared_anew(state):
    with pytest.raises(UnreachableError, match="a rebalance is in progress"):
        read_worker_loads(CONFIG, "g", timeout_seconds=5, build_client=build((metadata(), assignment()), state=state))


def test_members_are_named_by_their_worker_ids():
    client = build((metadata("a"), assignment("b")))
    assert read_worker_ids(CONFIG, "g", timeout_seconds=5, build_client=client) == {"w1:8083"}


@pytest.mark.parametrize("url", ["http://fe80::1:8083/", "http://w2[:8083/", "http://w2:port/"])
def test_a_member_without_a_valid_address_is_named_by_its_url(url):
    told = struct.pack(">h", 0) + text(url) + struct.pack(">q", 7)
    client = build((metadata("a"), assignment("b")), (told, b""))
    wanted = {"w1:8083", url.rstrip("/")}
    assert read_worker_ids(CONFIG, "g", timeout_seconds=5, build_client=client) == wanted
    assert read_members(CONFIG, "g", timeout_seconds=5, build_client=client).members == wanted


def test_a_group_that_rebalances_names_no_member():
    client = build((metadata(), assignment()), state="PreparingRebalance")
    with pytest.raises(UnreachableError, match="PreparingRebalance"):
        read_worker_ids(CONFIG, "g", timeout_seconds=5, build_client=client)


def test_the_leader_is_the_one_that_all_members_were_told_of():
    client = build((metadata("a"), assignment("b")), (metadata(), assignment()))
    found = read_members(CONFIG, "g", timeout_seconds=5, build_client=client)
    assert found == WorkerGroup("g", "Stable", ("http://w1:8083", "http://w1:8083"), leader="http://w1:8083")
    assert found.members == {"w1:8083"}


@pytest.mark.parametrize("given", [b"", b"\x00", assignment()[:9]])
def test_without_an_assignment_the_members_are_known_and_the_leader_is_not(given):
    client = build((metadata(), given), state="PreparingRebalance")
    found = read_members(CONFIG, "g", timeout_seconds=5, build_client=client)
    assert (found.state, found.urls, found.leader) == ("PreparingRebalance", ("http://w1:8083",), "")


def test_two_leaders_are_no_leader():
    other = assignment().replace(b"http://w1:8083/", b"http://w2:8083/")
    client = build((metadata(), assignment()), (metadata(), other))
    assert read_members(CONFIG, "g", timeout_seconds=5, build_client=client).leader == ""
