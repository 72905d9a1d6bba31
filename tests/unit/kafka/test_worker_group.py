"""Who is in the group of distributed workers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from seamark.errors import SeamarkError, UnreachableError
from seamark.kafka.worker_group import WorkerGroup, read_members, read_worker_urls

CONFIG = {"bootstrap.servers": "b:1"}


class Client:
    def __init__(self, *groups, error=None):
        self.groups, self.error, self.polled = groups, error, 0

    def __call__(self, settings):
        assert settings["bootstrap.servers"] == "b:1"
        return self

    def list_groups(self, group, *, timeout):
        assert (group, timeout) == ("g", 5)
        if self.error is not None:
            raise KafkaException(self.error)
        return self.groups

    def poll(self, _seconds):
        self.polled += 1


def group(*metadata, state="Stable", error=None):
    members = [SimpleNamespace(metadata=one, assignment=b"", client_id="client", id="id") for one in metadata]
    return SimpleNamespace(error=error, state=state, members=members)


def tell(url):
    return b"\x00\x02" + len(url).to_bytes(2, "big") + url.encode() + b"\x00\x00\x00\x00\x00\x00\x03*more"


def read(client):
    return read_worker_urls(CONFIG, "g", timeout_seconds=5, build_client=client)


def test_workers_are_named_by_the_urls_they_tell():
    found = read(Client(group(tell("http://w2:8083/"), tell("https://w1:8443/"))))
    assert found == ("http://w2:8083", "https://w1:8443")


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x02\xff\xff", tell("ftp://x"), b"\x00\x02\x00\x04\xff\xfe"])
def test_a_member_that_tells_no_url_is_there_all_the_same(metadata):
    assert read(Client(group(metadata))) == ("client",)


@pytest.mark.parametrize("groups", [(), (group(state="Empty"),), (group(state="Dead"),)])
def test_nobody_is_there(groups):
    assert read(Client(*groups)) == ()


def test_a_group_in_between_is_not_empty():
    with pytest.raises(UnreachableError, match="PreparingRebalance"):
        read(Client(group(state="PreparingRebalance")))


def test_a_broker_that_does_not_tell_is_an_error():
    client = Client(error=KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(UnreachableError):
        read(client)
    assert client.polled == 1
    with pytest.raises(SeamarkError):
        read(Client(group(error=KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))))


def test_members_that_a_rebalance_describes_without_metadata_are_no_workers():
    client = Client(group(tell("http://w1:8083/"), b"", state="PreparingRebalance"))
    found = read_members(CONFIG, "g", timeout_seconds=5, build_client=client)
    assert found == WorkerGroup("g", "PreparingRebalance", ("http://w1:8083",), is_complete=False)
    assert found.members == {"w1:8083"}
