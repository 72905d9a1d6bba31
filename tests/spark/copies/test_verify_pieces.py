"""Where records of either side belong, as tasks of a verification see it. Needs pyspark, and no server."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from seamark.copies.plan.endpoints import CopyEnds
from seamark.copies.plan.progress import Question
from seamark.copies.verify import spark_match as recount_job
from seamark.copies.verify import spark_verify as verify_job
from seamark.copies.verify.spark_match import RunTable
from seamark.copies.verify.spark_verify import build_target_source
from seamark.copies.verify.sums import NO_RUN, NOT_YET
from seamark.errors import RefusedError, UsageError
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, Copied, Run
from seamark.kafka_sink.routing import Partitioner, Routing

# From two partitions to one, by the partition: all go to 0.
ROUTING = Routing(Partitioner.PARTITION, 2, 1)
RUNS = (
    Run(0, 0, 3, first_source=0, last_source=5, first_target=0, last_target=2),
    Run(1, 0, 2, first_source=0, last_source=1, first_target=3, last_target=4),
    # Behind a marker.
    Run(0, 0, 2, first_source=7, last_source=9, first_target=6, last_target=7),
)
TABLE = RunTable(ROUTING, tuple(enumerate(RUNS)), covered={0: 10, 1: 2})


def test_source_records_are_counted_into_their_places():
    place = TABLE.open_source()
    assert place(pa.nulls(4, pa.binary()), [0] * 4, [0, 2, 5, 6]) == ([0] * 4, [0, 0, 0, NO_RUN], [0, 1, 2, None])
    # The next batch goes on where the last one ended; another partition has its own places.
    found = place(pa.nulls(5, pa.binary()), [0, 1, 0, 1, 1], [7, 0, 9, 1, 2])
    assert found == ([0] * 5, [2, 1, 2, 1, NOT_YET], [6, 3, 7, 4, None])


def test_target_records_are_known_by_their_offsets():
    place = TABLE.open_target()
    offsets = [0, 2, 3, 4, 5, 6, 8]
    targets, runs, places = place(pa.nulls(7, pa.binary()), [0] * 7, offsets)
    assert (targets, runs, places) == ([0] * 7, [0, 0, 1, 1, NO_RUN, 2, NO_RUN], offsets)


def test_target_of_a_key_is_told_though_it_lies_elsewhere():
    table = RunTable(Routing(Partitioner.MURMUR2, 2, 2), ((5, RUNS[1]),), covered={})
    # The first is of a run from partition 1, and lies in 0. The others are nobody's: one may stay where it is.
    targets, runs, _ = table.open_target()(pa.array([None, None, b"21"], pa.binary()), [0, 1, 1], [3, 3, 4])
    assert runs == [5, NO_RUN, NO_RUN]
    assert targets == [1, 1, table.routing.choose(b"21", source=1)]


def test_offsets_that_are_asked_twice_are_read_once():
    questions = [Question(RUNS[0], 4), Question(RUNS[2], 8), Question(RUNS[0], 2), Question(RUNS[0], 4)]
    assert recount_job.list_cuts(questions) == {RUNS[0]: [2, 4], RUNS[2]: [8]}
    # Steps of the first run: one before both, one between them, one behind.
    found = [recount_job.build_answer(place, {0: 1, 1: 1, 2: 1}) for place in (0, 1)]
    assert [(one.before, one.after) for one in found] == [(1, 2), (2, 1)]


def build_ends(**settings):
    named = {f"kafka.{key.replace('_', '.')}": value for key, value in settings.items()}
    return CopyEnds({"kafka.bootstrap.servers": "a:1"}, target={"kafka.bootstrap.servers": "b:1", **named})


def build_plan(*, is_one_cluster=False):
    return SimpleNamespace(is_one_cluster=is_one_cluster, target=SimpleNamespace(topic="t"))


def test_target_in_the_same_cluster_is_read_as_the_source_is():
    assert build_target_source(build_plan(is_one_cluster=True), build_ends())["kafka.bootstrap.servers"] == "a:1"
    other = build_target_source(build_plan(), build_ends(linger_ms="5"))
    assert other == {"kafka.bootstrap.servers": "b:1"}


def test_login_of_another_cluster_must_be_told():
    with pytest.raises(UsageError, match="no Spark options for reading target topic t") as error:
        build_target_source(build_plan(), build_ends(security_protocol="SASL_SSL", sasl_password="hidden"))
    assert "target_source" in error.value.hint
    assert "hidden" not in str(error.value)


def test_other_hashes_are_refused():
    copied = Copied(1, (), hash_name="md5")
    record = ControlRecord(Claim("p", 0, part="000000-x"), Amount(), is_done=True, copied=copied)
    with pytest.raises(RefusedError, match="does not support hash md5"):
        verify_job.check_hashes([record])
