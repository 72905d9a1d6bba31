"""The offsets of a landing, by the commands that a group's offsets have: shown, saved, moved, undone, forgotten."""

from __future__ import annotations

import io
import json
import os
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import seamark
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.errors import FencedError, NotFoundError
from seamark.offsets.stores.ledger import fence_ledger, list_ledgers, read_epochs
from seamark.tables.model import LedgerAdvance, LedgerEntry
from seamark.tables.postgres.table import LandingTable
from seamark.tables.postgres.writer import LandingDatabase
from tests.integration.waits import await_topic

RECORDS = 100


class Place:
    """A topic of two partitions, and a landing of it that stands at its end."""

    def __init__(self, stack):
        self.name = f"landed_{uuid4().hex[:8]}"
        self.owner, self.dsn = f"pipeline/{self.name}", stack.postgres.dsn
        self.admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})
        self.admin.create_topics([NewTopic(self.name, 2, 1)])[self.name].result(30)
        await_topic(self.admin, self.name, 2)
        producer = Producer({"bootstrap.servers": stack.kafka.bootstrap_servers})
        for number in range(2 * RECORDS):
            producer.produce(self.name, value=str(number).encode(), partition=number % 2)
        assert producer.flush(60) == 0
        self.database = LandingDatabase(self.dsn, LandingTable(self.name, ("id",)), owner=self.owner)
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"CREATE TABLE {self.name} (id int)")

    def begin(self, topic_id):
        self.database.prepare()
        entries = self.database.claim(LedgerEntry(self.name, topic_id, number, next_offset=0) for number in range(2))
        for entry in entries:
            self.database.move_empty(LedgerAdvance(entry, end=RECORDS))

    def read(self):
        return {number: entry.next_offset for (_, number), entry in self.database.read().items()}

    def clean(self):
        self.admin.delete_topics([self.name])[self.name].result(30)
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"DROP TABLE {self.name}")
            connection.execute("DELETE FROM seamark_ledger WHERE owner = %s", [self.owner])


@pytest.fixture
def environ(stack, tmp_path, monkeypatch):
    postgres = stack.postgres
    context = {
        "journal": "file",
        "journal_folder": str(tmp_path / "journal"),
        "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
        "connect": {name: {"urls": list(found.urls)} for name, found in stack.connect.items()},
        "databases": {
            "shop": {
                "jdbc_url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}",
                "dsn": "secret://env/SHOP_DSN",
            }
        },
    }
    (tmp_path / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
    for key in [key for key in os.environ if key.startswith("SEAMARK_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("SHOP_DSN", postgres.dsn)
    monkeypatch.setenv("SEAMARK_CONFIG", str(tmp_path / "seamark.yaml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def fleet(environ):
    with seamark.open() as opened:
        yield opened


@pytest.fixture
def place(stack, fleet):
    made = Place(stack)
    try:
        made.begin(fleet.topics.get(made.name).status.topic_id)
        yield made
    finally:
        made.clean()


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
    return code, out.getvalue(), err.getvalue()


def test_offsets_are_shown_and_saved(place, tmp_path):
    code, out, _ = run("offsets", "show", place.owner, "-o", "json")
    assert code == 0
    shown = json.loads(out)
    assert [
        (one["partition"]["kafka_partition"], one["offset"]["kafka_offset"]) for one in shown["offsets"][place.owner]
    ] == [
        (0, RECORDS),
        (1, RECORDS),
    ]
    file = tmp_path / "saved.json"
    code, _, err = run("offsets", "export", place.owner, "--out", str(file))
    assert code == 0, err
    assert place.owner in file.read_text()


def test_offsets_are_moved_undone_and_put_back_from_a_file(place, fleet, tmp_path):
    file = tmp_path / "saved.json"
    assert run("offsets", "export", place.owner, "--out", str(file))[0] == 0
    done = fleet.apply(fleet.offsets.move(place.owner, to=40))
    assert done.is_done
    assert place.read() == {0: 40, 1: 40}
    assert fleet.apply(fleet.undo(done)).is_done
    assert place.read() == {0: RECORDS, 1: RECORDS}
    assert run("offsets", "move", place.owner, "--to", "earliest", "--topic", f"{place.name}:1", "--yes")[0] == 0
    assert place.read() == {0: RECORDS, 1: 0}
    assert run("offsets", "import", str(file), "--yes")[0] == 0
    assert place.read() == {0: RECORDS, 1: RECORDS}


def test_run_that_is_under_way_is_fenced_by_a_move(place, fleet):
    entry = next(iter(place.database.read().values()))
    assert fleet.apply(fleet.offsets.move(place.owner, shift=-10)).is_done
    with pytest.raises(FencedError):
        place.database.land(LedgerAdvance(entry, end=RECORDS + 1), lambda _: None, is_strict=True)


def test_landing_is_found_and_shut_out_where_it_stands(place, fleet):
    kafka = fleet.copies.endpoints.target.kafka
    assert place.owner in list_ledgers(kafka).items
    entry = next(iter(place.database.read().values()))
    taken = fence_ledger(kafka, place.owner, place.name)
    assert taken == read_epochs(kafka, place.owner, place.name)
    assert set(taken) == {0, 1}
    assert place.read() == {0: RECORDS, 1: RECORDS}
    with pytest.raises(FencedError):
        place.database.land(LedgerAdvance(entry, end=RECORDS + 1), lambda _: None, is_strict=True)


def test_forgotten_and_put_back(place, fleet):
    done = fleet.apply(fleet.offsets.reset(place.owner))
    assert done.is_done
    assert place.read() == {}
    assert fleet.apply(fleet.undo(done)).is_done
    assert place.read() == {0: RECORDS, 1: RECORDS}


def test_landing_that_nobody_began_is_not_found(fleet):
    with pytest.raises(NotFoundError, match="no committed offsets for pipeline/nobody"):
        fleet.offsets.get("pipeline/nobody")
