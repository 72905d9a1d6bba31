"""A poison record is skipped on real servers: exactly that one is missing at the target, and it is parked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seamark.dead_letters.steps import TIMESTAMP
from seamark.errors import RefusedError
from seamark.kafka.model import RecordLocation
from tests.integration.dead_letters.skip_stage import JSON, NO_JSON, SkipStage, row
from tests.integration.offsets.test_meanings import S3_SINK
from tests.integration.waits import wait_for

# Many changes, each with its rebalances: on a busy machine they take minutes.
pytestmark = pytest.mark.timeout(600)
COUNT, POISON = 500, 300


@pytest.fixture
def stage(stack, tmp_path):
    stage = SkipStage(stack, tmp_path)
    yield stage
    stage.close()


def headers_of(message):
    return dict(message.headers())


def check_parked(message, *, name, topic, offset, value, stage, partition=0):
    """A parked record has its bytes, where it lay, and why it failed."""
    headers = headers_of(message)
    assert message.value() == value
    wanted = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "connector.name": name,
        "task.id": "0",
        "stage": stage,
    }
    assert {key: headers[f"__connect.errors.{key}"].decode() for key in wanted} == wanted
    assert headers["__connect.errors.exception.class.name"].endswith((b"Exception", b"Error"))
    assert headers["__connect.errors.exception.message"]
    assert b"at org.apache.kafka.connect" in headers["__connect.errors.exception.stacktrace"]


@pytest.mark.parametrize(
    ("poison", "where"), [(NO_JSON, "VALUE_CONVERTER"), (row(POISON, "poison"), "TASK_PUT")], ids=["converter", "put"]
)
def test_record_300_of_a_batch_of_500_alone_is_missing_and_parked(stage, poison, where):
    topic, table = stage.make_topics("orders"), stage.make_table("orders")
    records = [poison if number == POISON else row(number) for number in range(COUNT)]
    stage.send(topic, records, key=b"k", headers=[("origin", b"test")])
    name = stage.create_sink("sink", topic, table)
    stage.await_failure(name)
    assert stage.read_ids(table) == [], "the batch of 500 is one transaction, and it failed"
    config = stage.client.read_config(name)

    planned, result = stage.skip(name)
    assert result.is_done, result.failures
    shown = str(planned)
    assert f"{topic}-0@{POISON}" in shown
    assert f"sent to the dead letter queue {name}-dlq (a new topic)" in shown
    assert "poison" not in shown
    assert "no JSON at all" not in shown

    ids = stage.await_ids(table, COUNT - 1)
    assert ids == [number for number in range(COUNT) if number != POISON]
    (parked,) = stage.read_parked(f"{name}-dlq")
    check_parked(parked, name=name, topic=topic, offset=POISON, value=poison, stage=where)
    assert parked.key() == b"k"
    assert headers_of(parked)["origin"] == b"test"
    stage.await_config(name, config)
    # A neighbour's rebalance may just hide it.
    wait_for(lambda: stage.is_running(name), bool, f"{name} to run")
    stage.await_offset(name, lambda held: held["kafka_offset"] == COUNT, "the rest to be committed")

    undo = stage.undo(result.change)
    back = stage.fleet.apply(undo)
    assert back.is_done, back.failures
    assert len(stage.read_parked(f"{name}-dlq")) == 1, "the parked copy stays"


SMALL, BAD = 20, 12


def make_failed(stage, records, *, word="orders", partitions=1, **config):
    """A JDBC sink that has failed on one of these records, its topic and its table."""
    topic, table = stage.make_topics(word, partitions), stage.make_table(word)
    for partition, found in enumerate(records if partitions > 1 else [records]):
        stage.send(topic, found, partition=partition)
    name = stage.create_sink(word, topic, table, **config)
    stage.await_failure(name)
    return name, topic, table


def mix(poison, *places, count=SMALL):
    return [poison if number in places else row(number) for number in range(count)]


def test_first_record_ever_a_tombstone_is_skipped_without_a_committed_position(stage):
    name, topic, table = make_failed(stage, mix(None, 0))
    assert stage.read_positions(name) == {}
    planned, result = stage.skip(name)
    assert result.is_done, result.failures
    assert "no value (a tombstone)" in str(planned)
    assert stage.await_ids(table, SMALL - 1) == list(range(1, SMALL))
    (parked,) = stage.read_parked(f"{name}-dlq")
    check_parked(parked, name=name, topic=topic, offset=0, value=None, stage="TASK_PUT")


def test_two_in_a_row_need_two_skips(stage):
    name, topic, table = make_failed(stage, mix(NO_JSON, BAD, BAD + 1))
    _, first = stage.skip(name)
    assert not first.is_done
    (failure,) = first.failures.values()
    assert failure.message == f"{topic}-0@{BAD} was skipped, but connector/connect/{name} fails again"
    assert "seamark offsets skip" in failure.hint
    assert stage.read_positions(name) == {0: BAD + 1}
    _, second = stage.skip(name)
    assert second.is_done, second.failures
    assert stage.await_ids(table, SMALL - 2) == [one for one in range(SMALL) if one not in (BAD, BAD + 1)]
    offsets = [headers_of(one)["__connect.errors.offset"] for one in stage.read_parked(f"{name}-dlq")]
    assert offsets == [str(BAD).encode(), str(BAD + 1).encode()]


def test_record_that_a_transformation_refuses_is_found_by_trying(stage):
    topic, file = stage.make_topics("words"), stage.folder / "words.txt"
    stage.send(topic, [b"no number" if number == BAD else b"%d" % number for number in range(SMALL)])
    name, _ = stage.create(
        "words",
        {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(file),
            "topics": topic,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "transforms": "cast",
            "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
            "transforms.cast.spec": "int32",
        },
    )
    stage.await_failure(name)
    assert stage.ask_of_failed(name, lambda: stage.fleet.skips.find(name)) is None
    _, result = stage.skip(name)
    assert result.is_done, result.failures
    wanted = [str(number) for number in range(SMALL) if number != BAD]
    wait_for(lambda: file.read_text().split(), lambda found: len(found) >= len(wanted), "the numbers")
    assert file.read_text().split() == wanted
    (parked,) = stage.read_parked(f"{name}-dlq")
    check_parked(parked, name=name, topic=topic, offset=BAD, value=b"no number", stage="TRANSFORMATION")


def test_dead_letter_topic_of_the_sink_gets_the_record_once(stage):
    dead = stage.name("dead")
    config = {
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    name, topic, table = make_failed(stage, mix(NO_JSON, BAD), **config)
    # Connect itself sends it there whenever the task fails, although it does not tolerate it: once more for each
    # rebalance that starts the failed task anew (seen in CI: 2 before the first look).
    wait_for(lambda: len(stage.read_parked(dead)), lambda count: count >= 1, "the dead letter of Connect")
    planned, result = stage.skip(name)
    assert result.is_done, result.failures
    assert f"already in the dead letter queue {dead}" in str(planned)
    assert stage.await_ids(table, SMALL - 1) == [one for one in range(SMALL) if one != BAD]
    found = stage.read_parked(dead)
    # Connect parks it again whenever it starts the failed task anew, as in a rebalance. We did not: ours bear a time.
    assert not [one for one in found if TIMESTAMP in headers_of(one)]
    assert {one.value() for one in found} == {NO_JSON}
    assert {headers_of(one)["__connect.errors.offset"] for one in found} == {str(BAD).encode()}
    assert stage.client.read_config(name)["errors.deadletterqueue.topic.name"] == dead
    assert topic in planned.plan.title


def test_a_good_record_that_somebody_names_is_not_skipped(stage):
    name, topic, table = make_failed(stage, mix(row(BAD, "poison"), BAD))
    config = stage.client.read_config(name)
    _, result = stage.skip(name, at=RecordLocation(topic, 0, BAD - 2))
    assert not result.is_done
    (failure,) = result.failures.values()
    assert "no record was skipped" in failure.message
    stage.await_config(name, config)
    stage.await_failure(name)
    assert stage.read_positions(name) == {0: BAD}
    assert stage.read_ids(table) == list(range(BAD)), "what is before the poison was delivered, once"
    assert f"{name}-dlq" not in stage.admin.list_topics(timeout=20).topics


def test_sinks_that_run_and_sources_are_refused(stage):
    topic, table = stage.make_topics("well"), stage.make_table("well")
    stage.send(topic, [row(1)])
    name = stage.create_sink("well", topic, table)
    stage.await_ids(table, 1)
    wait_for(lambda: stage.is_running(name), bool, f"{name} to run")
    with pytest.raises(RefusedError, match=r"no task of .* has failed; no record was skipped"):
        stage.fleet.skips.find(name)
    (stage.folder / "in.txt").write_text("one\n")
    source, _ = stage.create(
        "source",
        {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(stage.folder / "in.txt"),
            "topic": stage.name("lines"),
        },
    )
    wait_for(lambda: stage.is_running(source), bool, f"{source} to run")
    with pytest.raises(RefusedError, match="is not a sink"):
        stage.fleet.skips.find(source)


# The config is lent; the record is parked and nobody knows of it yet. Others were tried too, and take their time.
@pytest.mark.parametrize("point", ["after-perform:2", "after-perform:17"])
def test_killed_between_its_steps_it_is_resumed_and_parks_once(stage, point):
    name, topic, table = make_failed(stage, mix(NO_JSON, BAD))
    config = stage.client.read_config(name)
    killed = stage.start_skip(name, SEAMARK_FAILPOINT=f"{point}:kill")
    assert killed.returncode == -9, killed.stderr
    (change,) = stage.fleet.journal.list(only_open=True)
    resumed = stage.start("journal", "resume", change.change, "--yes")
    assert resumed.returncode == 0, resumed.stderr
    assert stage.await_ids(table, SMALL - 1) == [one for one in range(SMALL) if one != BAD]
    (parked,) = stage.read_parked(f"{name}-dlq")
    headers = headers_of(parked)
    assert parked.value() == NO_JSON
    assert headers["__connect.errors.offset"] == str(BAD).encode()
    assert headers["__connect.errors.topic"] == topic.encode()
    stage.await_config(name, config)
    wait_for(lambda: stage.is_running(name), bool, f"{name} to run")


def test_two_tasks_with_four_partitions_miss_the_one_record(stage):
    records = [[row(1000 * part + number) for number in range(3 * SMALL)] for part in range(4)]
    records[2][BAD] = row(2000 + BAD, "poison")
    name, topic, table = make_failed(stage, records, partitions=4, **{"tasks.max": "2"})
    planned, result = stage.skip(name)
    assert result.is_done, result.failures
    assert f"{topic}-2@{BAD}" in planned.plan.title
    wanted = [1000 * part + number for part in range(4) for number in range(3 * SMALL)]
    wanted.remove(2000 + BAD)
    found = wait_for(
        lambda: set(stage.read_ids(table)),
        lambda ids: len(ids) >= len(wanted),
        f"{len(wanted)} rows",
    )
    assert sorted(found) == wanted
    (parked,) = stage.read_parked(f"{name}-dlq")
    assert parked.value() == row(2000 + BAD, "poison")


def test_what_does_not_fail_any_more_is_not_skipped(stage):
    name, _, table = make_failed(stage, mix(row(BAD, "poison"), BAD))
    config = stage.client.read_config(name)
    search = stage.ask_of_failed(name, lambda: stage.fleet.skips.search(name))
    stage.database.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_word_check")
    result = stage.fleet.apply(search.planned)
    (failure,) = result.failures.values()
    assert failure.message == f"connector/connect/{name} has processed all records; no record was skipped"
    assert stage.await_ids(table, SMALL) == list(range(SMALL))
    stage.await_config(name, config)
    wait_for(lambda: stage.is_running(name), bool, f"{name} to run")


def test_bucket_of_an_s3_sink_misses_the_one_record(stage):
    topic, word = stage.make_topics("events"), "lake"
    values = [NO_JSON if number == POISON else b'{"n": %d}' % number for number in range(COUNT)]
    stage.send(topic, values)
    bucket, s3 = stage.name(word), stage.stack.s3
    (Path(s3.data) / bucket).mkdir()
    name, _ = stage.create(
        word,
        {
            "connector.class": S3_SINK,
            "topics": topic,
            "aws.access.key.id": s3.access_key,
            "aws.secret.access.key": s3.secret_key,
            "aws.s3.bucket.name": bucket,
            "aws.s3.endpoint": s3.endpoint,
            "aws.s3.region": s3.region,
            "format.output.type": "jsonl",
            "format.output.fields": "value",
            "format.output.envelope": "false",
            "file.compression.type": "none",
            "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
        },
    )
    stage.await_failure(name)
    _, result = stage.skip(name)
    assert result.is_done, result.failures

    def read():
        files = [file for file in sorted((Path(s3.data) / bucket).rglob("*-0-*")) if file.is_file()]
        return [json.loads(line)["n"] for file in files for line in file.read_text().splitlines()]

    found = wait_for(read, lambda numbers: len(numbers) >= COUNT - 1, "all numbers in the bucket")
    assert sorted(found) == [number for number in range(COUNT) if number != POISON]
    (parked,) = stage.read_parked(f"{name}-dlq")
    check_parked(parked, name=name, topic=topic, offset=POISON, value=NO_JSON, stage="VALUE_CONVERTER")
