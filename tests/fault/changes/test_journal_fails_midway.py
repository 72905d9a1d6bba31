"""The journal can't be written any more in mid-change: the connector must not stay stopped because of it."""

from __future__ import annotations

import json
import os
import subprocess
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from seamark.devstack.process import wait_until
from seamark.kafka.topics import TopicAdmin
from tests.fault.changes.midway import POINTS, hold_midway
from tests.fault.journal_key import write_journal_key
from tests.fault.rig import SETTLE_SECONDS, Rig

# No entry is that small, but the brokers' own markers, of 78 bytes, are: below that they could not even end the
# transaction. (`min.insync.replicas` above the replication refuses nothing: Kafka 4 counts no more than there are.)
SMALLEST_BYTES = "150"
TMPFS_BYTES = 1024 * 1024
# A full tmpfs still takes what fits into a file's last page. With such a name no entry does.
LONG_NAME = "o" * 4200
# Without its journal a change only goes on for this long: a rebalance on a busy machine must fit into it.
IN_FLIGHT = "12s"


def read_spool(rig):
    files = sorted((rig.folder / "state" / "seamark" / "spool").glob("*.json"))
    return [json.loads(file.read_text()) for file in files]


def check_restored_without_journal(midway):
    """What it says, and that it is so: restored through the spool, with what to type later."""
    assert midway.code == 1, midway.err
    assert "done without the journal: resume connector/" in midway.err
    assert "not done: resume" not in midway.err
    (spooled,) = read_spool(midway.rig)
    assert spooled["change"] in midway.err
    assert midway.told_command()[-1] == spooled["change"]
    wait_until(midway.rig.runs, "the connector ran again", seconds=SETTLE_SECONDS, every_seconds=0.3)


# --- a topic -----------------------------------------------------------------------------------------------------


@pytest.fixture
def own_topic(stack, tmp_path):
    """A connector, and a journal in a topic that nobody else writes to."""
    rig = Rig(stack, tmp_path, topic=f"journal-{uuid.uuid4().hex[:8]}", in_flight=IN_FLIGHT)
    code, _, err = rig.seamark("init", "--yes")
    assert code == 0, err
    rig.create()
    yield rig
    rig.delete()
    with TopicAdmin({"bootstrap.servers": stack.kafka.bootstrap_servers}) as admin:
        admin.delete_topics([rig.topic, f"{rig.topic}-heads", rig.name])


def limit_entries(rig, limit):
    """Have the journal's topic refuse what is larger, or take all again with None."""
    operation = AlterConfigOpType.DELETE if limit is None else AlterConfigOpType.SET
    entry = ConfigEntry("max.message.bytes", limit or "", incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, rig.topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": rig.stack.kafka.bootstrap_servers})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
    # The partition's leader hears of it in its own time; an entry that comes before would still be taken.
    wait_until(
        lambda: takes_entries(rig) is (limit is None), f"{rig.topic} heard of its limit", seconds=60, every_seconds=0.3
    )


def takes_entries(rig):
    """Whether the topic takes a record of an entry's size. It is aborted, so nobody ever reads it."""
    servers = rig.stack.kafka.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"probe-{rig.topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    errors = []
    producer.produce(rig.topic, b"p" * 500, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    producer.abort_transaction(30)
    assert errors[0] is None or errors[0].name() == "MSG_SIZE_TOO_LARGE", errors
    return errors[0] is None


@pytest.mark.parametrize("point", POINTS)
def test_topic_that_refuses_entries_leaves_no_connector_stopped(own_topic, point):
    with hold_midway(own_topic, point) as midway:
        limit_entries(own_topic, SMALLEST_BYTES)
        midway.go_on()
        check_restored_without_journal(midway)
        limit_entries(own_topic, None)
        midway.type_what_was_told()


def is_forgotten(rig):
    """Whether none of the brokers, asked one by one, names the topic."""
    for address in rig.stack.kafka.bootstrap_servers.split(","):
        admin = AdminClient({"bootstrap.servers": address})
        if rig.topic in admin.list_topics(timeout=30).topics:
            return False
    return True


def test_topic_that_is_deleted_leaves_no_connector_stopped(own_topic):
    with hold_midway(own_topic, "after-outcome:0") as midway:
        with TopicAdmin({"bootstrap.servers": own_topic.stack.kafka.bootstrap_servers}) as admin:
            admin.delete_topics([own_topic.topic])
        # The partition's leader hears of it in its own time; an entry that comes before would still be taken.
        wait_until(lambda: is_forgotten(own_topic), f"no broker knew {own_topic.topic}", seconds=60, every_seconds=0.3)
        midway.go_on()
        check_restored_without_journal(midway)
        assert own_topic.config() == midway.before
        # Nothing is left to be resumed, and nobody is left in doubt about why.
        # Where a client of the change asked for the topic once more, the brokers made it anew, empty.
        code, _, err = own_topic.seamark(*midway.told_command(), "--yes")
        told = {1: "seamark init", 5: f"topic {own_topic.topic} has no entry of it"}
        assert code in told, err
        assert told[code] in err


# --- a disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own that holds one megabyte. To mount one takes root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size={TMPFS_BYTES},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "seamark-fault", str(folder)], check=True, timeout=30)
    yield folder
    subprocess.run(["umount", str(folder)], check=True, timeout=30)


def fill(folder):
    """Leave not one byte; gives the file to remove again."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = 65536
        while size:
            try:
                size = 0 if file.write(b"x" * size) == 0 else size
            except OSError:
                size //= 2
    assert os.statvfs(folder).f_bavail == 0
    return ballast


@pytest.fixture
def build_disk_rig(stack, tmp_path, small_disk):
    """A connector with its journal, and if wanted its spool, on the small disk."""
    rigs = []

    def build(*, is_spool_there):
        rig = Rig(stack, tmp_path, journal="file", in_flight=IN_FLIGHT)
        rig.env["SEAMARK_CONTEXTS__DEV__JOURNAL_FOLDER"] = str(small_disk / "journal")
        rig.env["SEAMARK_TEST_ACTOR"] = LONG_NAME
        if is_spool_there:
            rig.env["XDG_STATE_HOME"] = str(small_disk / "state")
            write_journal_key(small_disk / "state")
        rigs.append(rig)
        rig.create()
        return rig

    yield build
    for rig in rigs:
        rig.delete()


@pytest.mark.parametrize("point", POINTS)
def test_full_disk_leaves_no_connector_stopped(build_disk_rig, small_disk, point):
    rig = build_disk_rig(is_spool_there=False)
    with hold_midway(rig, point) as midway:
        ballast = fill(small_disk)
        midway.go_on()
        check_restored_without_journal(midway)
        ballast.unlink()
        midway.type_what_was_told()


@pytest.mark.parametrize("point", POINTS)
def test_disk_too_full_for_the_spool_says_what_to_type(build_disk_rig, small_disk, point):
    rig = build_disk_rig(is_spool_there=True)
    with hold_midway(rig, point) as midway:
        ballast = fill(small_disk)
        midway.go_on()
        assert midway.code == 1, midway.err
        assert "not done: resume connector/" in midway.err
        assert "neither the journal nor" in midway.err
        # No act without a durable intent: it stays stopped, and the operator knows how to start it.
        assert rig.state() == "STOPPED"
        ballast.unlink()
        midway.type_what_was_told()
