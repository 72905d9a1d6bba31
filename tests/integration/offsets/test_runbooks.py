"""The runbooks, from the accident to the recovery on real servers: their own commands, and the data compared."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from seamark.core.offsets import Offset
from tests.integration.offsets.runbook_stage import Pipe, note_moment
from tests.integration.waits import wait_for

# As on the pages: so many rows before the accident, and what comes afterwards.
ROWS = 40
# A page has a dozen commands, and each waits for servers.
pytestmark = pytest.mark.timeout(900)


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
    # The sink's create is a rebalance: what the source has not stored by then it might read again.
    pipe.await_source(ROWS)
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


def patch(pipe, number):
    """What somebody does with curl: stop, write, and nobody is told."""
    # A worker that lags does not list it yet.
    (held,) = wait_for(lambda: pipe.client.read_offsets(pipe.source), bool, f"{pipe.source} to be at a row")
    pipe.stop(pipe.source)
    pipe.client.patch_offsets(pipe.source, [Offset(held.partition, {"incrementing": number})])


def test_source_rewound(pipe):
    book = pipe.open("source-rewound.md")
    pipe.insert(ROWS)
    pipe.start_source()
    pipe.await_records(ROWS)
    pipe.await_source(ROWS)
    pipe.start_sink()
    # Once and again: the first is sent, the second is caught by somebody who pauses it.
    patch(pipe, 30)
    pipe.insert(5)
    pipe.client.resume(pipe.source)
    doubled = once(*range(31, ROWS + 1))
    pipe.await_records(ROWS + 5 + doubled.total())
    pipe.await_source(ROWS + 5)
    moment = note_moment()
    patch(pipe, 10)
    pipe.client.pause(pipe.source)
    wait_for(lambda: str(pipe.client.read_status(pipe.source).state), lambda state: state == "PAUSED", "its pause")

    times = {"2026-11-15T03:09:00Z": moment}
    book.run("connectors stop")
    book.run("offsets history")
    book.run("offsets restore", names=times)
    book.run("offsets restore", names=times)
    book.run("connectors resume")
    pipe.insert(5)
    rows = ROWS + 10
    pipe.await_records(rows + doubled.total())
    pipe.await_source(rows)
    pipe.await_copy(rows + doubled.total())
    everything = once(*range(1, rows + 1))
    assert pipe.read_rows() == everything
    assert pipe.read_topic() == pipe.read_copy() == everything + doubled, "only the first rewind's rows came twice"
    count, delete = book.read_blocks("sql")
    assert pipe.database.execute(count).fetchone() == (doubled.total(),)
    assert pipe.database.execute(delete).rowcount == doubled.total() == 10
    assert pipe.read_copy() == everything

    # Once more, by a wrong command of seamark on a connector that is stopped.
    pipe.stop(pipe.source)
    said = book.change(f"seamark offsets move {pipe.source} --to 20 --yes")
    assert said.code == 0, said.text
    book.run("journal list")
    book.run("journal undo", CHANGE=said.change)
    book.run("journal undo", CHANGE=said.change)
    book.run("connectors resume")
    pipe.insert(1)
    everything += once(rows + 1)
    pipe.await_source(rows + 1)
    pipe.await_copy(rows + 1)
    assert pipe.read_rows() == pipe.read_copy() == everything
    assert pipe.read_topic() == everything + doubled, "nothing came twice by the wrong move"
    book.run("connectors list")
    book.run("lag --sources")
    book.finish()


def test_connector_recreated(pipe):
    book = pipe.open("connector-recreated.md")
    pipe.insert(ROWS)
    pipe.start_source()
    pipe.await_records(ROWS)
    pipe.await_source(ROWS)
    pipe.start_sink()
    pipe.await_sink(ROWS)
    # Both under other names: the sink delivers all again, the source is caught before it sends.
    for name in (pipe.source, pipe.sink):
        pipe.client.delete_connector(name)
    new_source, _ = pipe.create("log-purchase-2", pipe.build_source(), state="PAUSED")
    pipe.create("lake-2", pipe.build_sink())
    everything = once(*range(1, ROWS + 1))
    pipe.await_copy(2 * ROWS)
    assert pipe.read_copy() == everything + everything
    (pipe.folder / "lake.json").write_text(json.dumps({"name": pipe.sink, "config": pipe.build_sink()}))

    book.run("connectors stop")
    book.run("offsets orphans")
    book.run("groups show")
    book.run("offsets copy")
    book.run("offsets copy")
    book.run("connectors resume")
    book.run("connectors delete lake-2")
    book.run("connectors create")
    count, delete = book.read_blocks("sql")
    assert pipe.database.execute(count).fetchone() == (ROWS,)
    assert pipe.database.execute(delete).rowcount == ROWS == 40
    pipe.insert(5)
    rows = ROWS + 5
    pipe.await_records(rows)
    pipe.await_source(rows, name=new_source)
    pipe.await_copy(rows)
    pipe.await_sink(rows)
    book.run("connectors list")
    book.run("offsets purge")
    book.run("groups delete")
    everything += once(*range(ROWS + 1, rows + 1))
    assert pipe.read_rows() == pipe.read_topic() == pipe.read_copy() == everything
    book.finish()
