"""The runbooks, from the accident to the recovery on real servers: their own commands, and the data compared."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integration.runbook_stage import Pipe

# As on the pages: so many rows before the accident, and what comes afterwards.
ROWS = 40


@pytest.fixture
def pipe(stack, tmp_path):
    made = Pipe(stack, tmp_path)
    yield made
    made.close()


def once(*numbers):
    """Each of these once."""
    return Counter(numbers)


def test_poison_record(pipe):
    book = pipe.open("poison-record.md")
    pipe.database.execute(f"ALTER TABLE {pipe.copy} ADD CONSTRAINT sane CHECK (word <> 'refund')")
    poison = 21
    pipe.insert(poison - 1)
    pipe.insert(1, "refund")
    pipe.insert(ROWS - poison)
    pipe.start_source()
    pipe.await_records(ROWS)
    pipe.start_sink()
    pipe.await_failure(pipe.sink)
    assert pipe.read_copy() == {}, "the batch is one transaction, and it failed"

    book.run("status")
    book.run("offsets skip lake --dry-run")
    change = book.run("offsets skip lake --yes").change
    pipe.await_copy(ROWS - 1)
    pipe.await_sink(ROWS)
    everything = once(*range(1, ROWS + 1))
    assert pipe.read_rows() == pipe.read_topic() == everything
    assert pipe.read_copy() == everything - once(poison)
    (parked,) = pipe.read_values(f"{pipe.sink}-dlq")
    assert parked == pipe.read_values(pipe.topic)[poison - 1]
    assert parked["payload"] == {"seq": poison, "word": "refund"}

    book.run("connectors list")
    book.run("groups show")
    book.run("topics show")
    pipe.database.execute(f"ALTER TABLE {pipe.copy} DROP CONSTRAINT sane")
    book.run("journal undo", CHANGE=change)
    book.run("journal undo", CHANGE=change)
    again = ROWS - poison + 1
    assert again == 20, "as the page and its plan say"
    pipe.await_copy(ROWS - 1 + again)
    assert pipe.read_copy() == everything + once(*range(poison + 1, ROWS + 1))
    book.finish()
