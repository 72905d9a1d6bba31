"""Control records as values: whose they are, and what can't be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.errors import UsageError
from seamark.kafka_sink.control import CONTROL_PARTITIONS, Amount, Claim, ControlRecord, Copied, Run

RUN = Run(0, 1, 3, first_source=10, last_source=19, first_target=100, last_target=102)
STREAM = Claim("orders", task=7, query="q", batch=12)
SLICE = Claim("01PLAN", task=1, part="000002-0a1b2c3d")


def test_keys_of_tasks_jobs_streams_and_slices_differ():
    kinds = [{}, {"query": "q", "batch": 0}, {"part": "s1"}, {"part": "s2"}]
    claims = [Claim(job, task=task, **kind) for job in ("a", "b") for task in (0, 1) for kind in kinds]
    assert len({claim.key for claim in claims}) == 16
    assert all(claim.key.startswith(claim.family.encode()) for claim in claims)
    assert len({claim.partition for claim in (Claim("a", task=task) for task in range(200))}) == CONTROL_PARTITIONS


def test_batches_of_a_stream_share_key_and_transactional_id():
    later = replace(STREAM, batch=13)
    assert later.key == STREAM.key
    assert later.transactional_id == STREAM.transactional_id == "seamark.sink.orders.7"


def test_slices_of_a_copy_share_the_transactional_id_and_not_the_key():
    later = replace(SLICE, part="000003-0a1b2c3d")
    assert later.transactional_id == SLICE.transactional_id == "seamark.sink.01PLAN.1"
    assert (SLICE.key, later.key) == (b"01PLAN/000002-0a1b2c3d/1", b"01PLAN/000003-0a1b2c3d/1")
    assert SLICE.family == later.family


def test_claims_say_in_words_what_they_are():
    assert str(SLICE) == "task 1 of job 01PLAN, slice 000002-0a1b2c3d"
    assert str(STREAM) == "task 7 of job orders, batch 12"
    assert str(Claim("orders", task=7)) == "task 7 of job orders"


@pytest.mark.parametrize("kind", [{"query": "q"}, {"batch": 1}, {"query": "q", "batch": 1, "part": "s"}])
def test_a_claim_of_two_kinds_can_not_be_made(kind):
    with pytest.raises(UsageError, match="contradict each other"):
        Claim("a", task=0, **kind)


def test_two_partitions_may_have_several_runs_in_order():
    later = replace(RUN, first_source=20, last_source=22, first_target=104, last_target=106)
    assert Copied(4, runs=(RUN, later)).count == 6
    for wrong in (replace(later, first_source=19), replace(later, first_target=102, last_target=104)):
        with pytest.raises(UsageError, match="not in order, or overlap"):
            Copied(4, runs=(RUN, wrong))
    with pytest.raises(UsageError, match="not in order"):
        Copied(4, runs=(later, RUN))


@pytest.mark.parametrize(
    ("claim", "records", "copied", "words"),
    [
        (replace(SLICE, task=4), 3, Copied(4, runs=(RUN,)), "task 4 does not exist: the slice has 4 tasks"),
        (SLICE, 4, Copied(4, runs=(RUN,)), "its runs have 3 records, but its total is 4"),
        (SLICE, 3, None, "only some of the fields of a topic copy"),
        (STREAM, 3, Copied(8, runs=(RUN,)), "only some of the fields of a topic copy"),
    ],
)
def test_a_record_that_contradicts_itself_can_not_be_made(claim, records, copied, words):
    with pytest.raises(UsageError, match=words):
        ControlRecord(claim, Amount(records), is_done=True, copied=copied)


def test_a_task_of_a_copy_is_never_half_done():
    with pytest.raises(UsageError, match="one transaction"):
        ControlRecord(SLICE, Amount(3), is_done=False, copied=Copied(4, runs=(RUN,)))


def test_a_task_of_a_copy_that_had_nothing_has_a_record_without_runs():
    assert ControlRecord(SLICE, Amount(), is_done=True, copied=Copied(4)).runs == ()
