"""A topic copied to another Kafka cluster with its readers: what each had left there, it reads there."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import seamark
from seamark.changes.setup import make_setup
from seamark.context import open_context
from seamark.copies.status import build_readers_view
from seamark.devstack import StackSpec, start_stack
from seamark.errors import RefusedError
from seamark.report.data import OutputFormat
from seamark.report.listing import render_view
from seamark.spark.settings import SparkOptions
from tests.integration.waits import commit_offsets
from tests.spark.copy_side import fill
from tests.spark.kafka_side import KafkaSide

ROWS, SOURCES, TARGETS = 12_000, 6, 4


@pytest.fixture(scope="module")
def far_stack():
    with start_stack(StackSpec(brokers=1, workers=0), name="far") as started:
        yield started


@pytest.fixture
def far(far_stack):
    with KafkaSide(far_stack.kafka.bootstrap_servers) as side:
        yield side


@pytest.fixture
def open_fleet(kafka, far, tmp_path):
    """The contexts of both clusters, each with a journal of its own."""
    contexts = {
        name: {
            "journal": "file",
            "journal_folder": str(tmp_path / name),
            "insecure": True,
            "kafka": {"bootstrap.servers": side.servers},
        }
        for name, side in (("near", kafka), ("far", far))
    }
    (tmp_path / "seamark.yaml").write_text(json.dumps({"current": "near", "contexts": contexts}))
    environ = {"SEAMARK_CONFIG": str(tmp_path / "seamark.yaml"), "XDG_STATE_HOME": str(tmp_path / "state")}
    opened = []

    def start(name):
        context = open_context(name, environ=environ)
        make_setup(context)
        opened.append(seamark.Fleet(context))
        return opened[-1]

    yield start
    for fleet in opened:
        fleet.close()


def test_topic_and_its_reader_go_to_another_cluster(open_fleet, kafka, far, spark, tmp_path):
    source = kafka.topic(partitions=SOURCES)
    fill(kafka, source, rows=ROWS, partitions=SOURCES)
    # Something by which the brokers there tell their configs.
    far.topic()
    positions = {number: 300 * number for number in range(SOURCES)}
    group = f"g-{source}"
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    # The first commit of a new broker creates its topic of offsets.
    commit_offsets(admin, group, [TopicPartition(source, p, at) for p, at in positions.items()])

    near, other = open_fleet("near"), open_fleet("far")
    copies = near.copies.to(other.copies)
    here = {"control_topic": far.control}
    draft = copies.plan(source, f"{SOURCES}:{TARGETS}")
    assert draft.plan.source.cluster_id != draft.plan.target.cluster_id
    outcome = copies.run(draft, spark=SparkOptions(session=spark), **here)
    assert (outcome.progress.is_complete, outcome.written) == (True, ROWS)
    assert copies.verify(draft, level="full", spark=SparkOptions(session=spark), **here).is_passed
    assert copies.status(draft.plan.id, **here).state.value == "COPIED"

    target = draft.plan.target.topic
    found = copies.consumers(draft.plan.id, spark=SparkOptions(session=spark), **here)
    assert list(found) == [group]
    file = tmp_path / "readers.csv"
    file.write_text(render_view(build_readers_view(found, target), OutputFormat.CSV))
    result = other.apply(other.groups.move(group, source=file))
    assert result.is_done, result.failures

    held = found[group].offsets
    records = far.read(target)
    read = Counter((one.key, one.value, one.timestamp_ms) for one in records if one.offset >= held[one.partition])
    left = Counter(
        (one.key, one.value, one.timestamp_ms) for one in kafka.read(source) if one.offset >= positions[one.partition]
    )
    assert (left - read).total() == 0
    assert (read - left).total() == found[group].replayed_least == found[group].replayed_most
    # Connectors belong to their cluster.
    with pytest.raises(RefusedError, match="can't be switched to another Kafka cluster"):
        copies.cutover(draft.plan.id, **here)
