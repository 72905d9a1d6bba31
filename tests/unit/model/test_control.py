"""Control records: what is written is read again, and what is not one of them is not passed over."""

from __future__ import annotations

import json

import pytest

from seamark.errors import RejectedError
from seamark.model.control import CONTROL_PARTITIONS, Amount, Claim, ControlRecord, read_control_record

BATCH = ControlRecord(Claim("orders", task=7), amount=Amount(3, bytes=40), is_done=True)
STREAM = ControlRecord(
    Claim("orders", task=7, query="q", batch=12), amount=Amount(3, bytes=40), is_done=False, transactions=4
)


@pytest.mark.parametrize("record", [BATCH, STREAM])
def test_record_is_read_as_it_was_written(record):
    assert read_control_record(record.to_json(), place="c-0@1") == record


def test_keys_of_tasks_jobs_and_streams_differ():
    claims = [Claim(job, task=task, query=query) for job in ("a", "b") for task in (0, 1) for query in ("", "q")]
    assert len({claim.key for claim in claims}) == 8
    assert len({claim.partition for claim in (Claim("a", task=task) for task in range(200))}) == CONTROL_PARTITIONS


def test_batches_of_a_stream_share_key_and_transactional_id():
    later = Claim("orders", task=7, query="q", batch=13)
    assert later.key == STREAM.claim.key
    assert later.transactional_id == STREAM.claim.transactional_id == "seamark.sink.orders.7"


@pytest.mark.parametrize("value", [b"", b"[]", b"\xff", b'{"format": 1}', b'"x"'])
def test_what_is_no_control_record_is_an_error(value):
    with pytest.raises(RejectedError, match="c-0@1 is not a control record"):
        read_control_record(value, place="c-0@1")


def test_newer_form_is_refused():
    body = json.loads(BATCH.to_json()) | {"format": 2}
    with pytest.raises(RejectedError, match="newer seamark"):
        read_control_record(json.dumps(body).encode(), place="c-0@1")
