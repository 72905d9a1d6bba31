"""Offsets in every store and by every route, on real workers: equal, and where Connect is wrong, told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer

from seamark.context import open_context
from seamark.core.offsets import spell_identity
from seamark.errors import NotFoundError
from seamark.fleet import open_fleet
from seamark.kafka.partitioner import choose_partition
from seamark.kafka.topic_scan import TopicScan
from seamark.offsets.codec.codec import encode_key
from seamark.offsets.model import OffsetAnomaly
from seamark.offsets.read.export_file import check_export, write_export
from seamark.offsets.service import Route
from seamark.offsets.stores.topic import TopicStore
from tests.integration.offset_tools import JSON, Brokers, Connect, new_name, run_connect_offsets
from tests.integration.rest import call_until
from tests.integration.waits import wait_for

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "offsets.md"
LINES = "one\ntwo\nthree\n"
END = {"position": len(LINES)}


@pytest.fixture
def brokers(stack):
    made = Brokers(stack.kafka.bootstrap_servers)
    yield made
    made.clean()


@pytest.fixture
def connect(stack, brokers):
    made = Connect(stack.connect["connect"].urls[0])
    yield made
    made.clean()


@pytest.fixture
def fleet(stack):
    context = open_context(stack.context, environ={"SEAMARK_CONFIG": stack.context_file})
    with open_fleet(context=context) as opened:
        yield opened


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text(LINES)
    return path


def as_texts(offsets):
    """Offsets in a form that compares types too."""
    return sorted(
        (spell_identity(found.partition), None if found.offset is None else spell_identity(found.offset))
        for found in offsets
    )


def check_went_on(before, after, new):
    """What came behind a stop is new. A rebalance may let Connect deliver the newest once more."""
    assert after[: len(before)] == before
    assert list(dict.fromkeys(after[len(before) :])) == new


def oddities(owned):
    return sorted(finding.anomaly for finding in owned.findings)


def make_table(stack, name):
    with psycopg.connect(stack.postgres.dsn, autocommit=True) as database:
        database.execute(f"CREATE TABLE {name} (seq bigserial PRIMARY KEY, at timestamptz NOT NULL, what text)")
        database.execute(
            f"INSERT INTO {name} (at, what) SELECT now() - interval '1 hour' + n * interval '1.001 s', 'x'"
            " FROM generate_series(1, 5) n"
        )
    return {
        "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
        "tasks.max": "1",
        "connection.url": f"jdbc:postgresql://{stack.postgres.host}:{stack.postgres.port}/{stack.postgres.database}",
        "connection.user": stack.postgres.user,
        "connection.password": f"${{file:{stack.folder}/secrets/postgres.properties:password}}",
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "seq",
        "timestamp.column.name": "at",
        "table.whitelist": name,
        "topic.prefix": f"{name}-",
        "poll.interval.ms": "500",
        **JSON,
    }


@pytest.fixture
def table(stack):
    name = new_name("stores").replace("-", "_")
    yield name
    with psycopg.connect(stack.postgres.dsn, autocommit=True) as database:
        database.execute(f"DROP TABLE IF EXISTS {name}")


def run_page(stack, name, monkeypatch, capsys):
    """The Python of docs/reference/offsets.md does what it says."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "log-purchase" in program
    monkeypatch.setenv("SEAMARK_CONFIG", stack.context_file)
    names = {}
    exec(program.replace("log-purchase", name), names)
    assert f"{END} connect-offsets-" in capsys.readouterr().out
    assert f"connect/{name}" in {found.owner for found in names["export"].owners}


def test_store_and_rest_are_equal_and_a_backup_holds_them(
    stack, connect, brokers, fleet, file, table, tmp_path, monkeypatch, capsys
):
    source, jdbc, sink = new_name("stores-fs"), new_name("stores-jdbc"), new_name("stores-sink")
    brokers.made += [source, f"{table}-{table}"]
    connect.put_file_source(source, file, topic=source)
    connect.put(jdbc, make_table(stack, table))
    out = tmp_path / "out.txt"
    connect.put(sink, {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(out), "topics": source})
    connect.await_offsets(source, lambda said: said == [END])
    connect.await_offsets(jdbc, lambda said: len(said) == 1 and (said[0] or {}).get("incrementing") == 5)
    # A rebalance may restart the source before its offsets are stored, which then reads lines again.
    connect.await_offsets(sink, lambda said: len(said) == 1 and said[0]["kafka_offset"] >= 3)
    names = {source: "topic connect-offsets", jdbc: "topic connect-offsets", sink: f"group connect-{sink}"}
    for name, store in names.items():
        both, rest = fleet.offsets.get(name), fleet.offsets.get(name, route=Route.REST)
        assert both.stores == (store,)
        assert both.findings == (), name
        assert as_texts(both.offsets) == as_texts(rest.offsets) == as_texts(both.rest)
        assert len(both.offsets) == 1
    found = fleet.offsets.get(source).stored[0].evidence
    assert found.key == encode_key(source, {"filename": str(file)})
    assert found.partition == choose_partition(found.key, partitions=brokers.count_partitions("connect-offsets"))
    assert found.value == json.dumps(END, separators=(",", ":")).encode()

    run_page(stack, source, monkeypatch, capsys)

    backup = tmp_path / "backup.json"
    export = fleet.offsets.export(list(names))
    write_export(export, backup)
    assert check_export(backup).problems == ()
    assert (check_export(backup).owners, check_export(backup).offsets) == (3, 3)
    assert fleet.offsets.compare(backup).differences == ()

    file.write_text(f"{LINES}four\n")
    connect.await_offsets(source, lambda said: said == [{"position": len(LINES) + 5}])
    assert brokers.read_values(source)[-1] == "four"
    connect.await_offsets(sink, lambda said: said == [{"kafka_offset": len(brokers.read_values(source))}])
    assert {one.owner for one in fleet.offsets.compare(backup).differences} == {f"connect/{source}", f"connect/{sink}"}
    history = [entry.offset for entry in fleet.offsets.history(source)]
    assert history[0] == END
    assert history[-1] == {"position": len(LINES) + 5}

    worker = stack.connect["connect"].worker_config
    code, text, said = run_connect_offsets("--export", f"--config={worker}", f"--connectors={source},{sink}")
    pair = {"partition": {"filename": str(file)}, "offset": {"position": len(LINES) + 5}}
    # A sink has no source offsets, which is said.
    assert (code, json.loads(text)) == (0, {source: [pair]})
    assert f"{sink} has no offsets in topic connect-offsets" in said
    code, text, _ = run_connect_offsets("--export", f"--config={worker}", f"--connectors={source}", "--from-beginning")
    told = json.loads(text)[source]
    assert code == 0
    assert told[0] == {**pair, "offset": END}
    assert told[-1] == pair

    # What a task resumes from after a restart is what was read: nothing comes twice, and nothing is left out.
    for name in (source, jdbc):
        connect.do(name, "stop")
    for name in (source, jdbc):
        connect.await_state(name, "STOPPED", tasks=0)
    lines, rows = brokers.read_values(source), brokers.read_values(f"{table}-{table}")
    assert list(dict.fromkeys(lines)) == ["one", "two", "three", "four"]
    assert list(dict.fromkeys(row["seq"] for row in rows)) == [1, 2, 3, 4, 5]
    held = {name: as_texts(fleet.offsets.get(name).offsets) for name in (source, jdbc)}
    file.write_text(f"{LINES}four\nfive\n")
    with psycopg.connect(stack.postgres.dsn, autocommit=True) as database:
        database.execute(f"INSERT INTO {table} (at, what) VALUES (now() - interval '1 minute', 'y')")
    assert held == {name: as_texts(fleet.offsets.get(name).offsets) for name in (source, jdbc)}
    for name in (source, jdbc):
        connect.do(name, "resume")
    connect.await_offsets(source, lambda said: said == [{"position": len(LINES) + 10}])
    connect.await_offsets(jdbc, lambda said: len(said) == 1 and (said[0] or {}).get("incrementing") == 6)
    check_went_on(lines, brokers.read_values(source), ["five"])
    seen = [[row["seq"] for row in found] for found in (rows, brokers.read_values(f"{table}-{table}"))]
    check_went_on(*seen, [6])

    connect.delete(source)
    # The worker that is asked may not have heard of the delete yet.
    orphans = wait_for(
        lambda: {one.owner: one for one in fleet.offsets.orphans().items},
        lambda found: f"connect/{source}" in found,
        f"{source} to have left its offsets behind",
    )
    assert orphans[f"connect/{source}"].offsets[0].offset == {"position": len(LINES) + 10}
    assert jdbc not in {owner.partition("/")[2] for owner in orphans}
    left = fleet.offsets.get(f"connect/{source}")
    assert left.connector is None
    assert "orphaned" in left.notes[0]


def test_the_oldest_connect_is_read_alike(stack, brokers, fleet, file):
    connect = Connect(stack.connect["connect-3-5-2"].urls[0])
    name = new_name("oldest")
    try:
        connect.put_file_source(name, file, topic=name)
        connect.await_offsets(name, lambda said: said == [END])
        owned = fleet.offsets.get(f"connect-3-5-2/{name}")
        assert owned.stores == ("topic connect-3-5-2-offsets",)
        assert ([found.offset for found in owned.offsets], owned.findings) == ([END], ())
    finally:
        connect.clean()
        brokers.made.append(name)


def test_rest_says_null_for_a_key_in_another_order_and_seamark_what_is_there(stack, connect, brokers, fleet, file):
    # The fault of Connect of 1.4: REST looks a partition up by its own order of fields.
    name = new_name("order")
    brokers.made.append(name)
    own = brokers.make_topic(new_name("order-offsets"))
    # Not the order of a HashMap: REST looks for {"filename":"q","extra":1}.
    key = f'["{name}",{{"extra":1,"filename":"q"}}]'.encode()
    spaced = f'["{name}", {{"filename": "{file}"}}]'.encode()
    for topic in (own, "connect-offsets"):
        brokers.write(topic, (key, b'{"position":11}'))
    brokers.write(own, (spaced, b'{"position":4}'))
    try:
        connect.put_file_source(name, file, topic=name, **{"offsets.storage.topic": own})
        said = connect.await_offsets(name, lambda offsets: END in offsets)
        assert {"partition": {"filename": "q", "extra": 1}, "offset": None} in said

        owned = fleet.offsets.get(name)
        assert as_texts(owned.offsets) == sorted(
            [
                (spell_identity({"extra": 1, "filename": "q"}), '{"position":11}'),
                (spell_identity({"filename": str(file)}), spell_identity(END)),
            ]
        )
        (null,) = [found for found in owned.findings if found.anomaly is OffsetAnomaly.REST_NULL]
        assert "REST returned null" in null.message
        assert null.evidence[0].key == key
        # The write with spaces had no effect on the task, and is told from the task's own.
        assert oddities(owned) == [
            OffsetAnomaly.DUPLICATE_ENCODING,
            OffsetAnomaly.REST_NULL,
            OffsetAnomaly.UNREADABLE_KEY,
        ]
        (kept,) = [found for found in owned.stored if found.others]
        assert (kept.offset, kept.is_certain) == (END, True)

        # A reset by REST says that all went well, and leaves what it did not find: a task would still find it.
        connect.do(name, "stop")
        connect.await_state(name, "STOPPED", tasks=0)
        call_until(f"{connect.url}/connectors/{name}/offsets", lambda status, _: status == 200, method="DELETE")
        # Absent or null: which of two records the worker met last is not defined.
        said = connect.await_offsets(name, lambda offsets: END not in offsets)
        assert {entry["offset"] for entry in said} <= {None}
        reset = fleet.offsets.get(name)
        assert [(found.evidence.key, found.offset) for found in reset.stored] == [(key, {"position": 11})]
        assert [found.key.partition for found in reset.forgotten] == [{"filename": str(file)}]
        # Two tombstones in its own topic, and the copy of one in the workers'.
        assert oddities(reset).count(OffsetAnomaly.HIDDEN_BY_TOMBSTONE) == 3
        assert {OffsetAnomaly.REST_NULL, OffsetAnomaly.REST_ABSENT} & set(oddities(reset))
    finally:
        brokers.write("connect-offsets", (key, None))


def test_a_topic_of_its_own_does_not_fall_back_and_seamark_says_so(connect, brokers, fleet, file):
    # The fault of Connect of 1.6.
    name = new_name("fallback")
    brokers.made.append(name)
    own = brokers.make_topic(new_name("fallback-offsets"))
    connect.put_file_source(name, file, topic=name)
    connect.await_offsets(name, lambda said: said == [END])
    connect.do(name, "stop")
    connect.await_state(name, "STOPPED", tasks=0)
    before = brokers.read_values(name)
    connect.put_file_source(name, file, topic=name, **{"offsets.storage.topic": own})
    connect.await_offsets(name, lambda said: said == [None])

    owned = fleet.offsets.get(name)
    assert owned.stores == (f"topic {own}", "topic connect-offsets")
    assert owned.offsets == ()
    assert oddities(owned) == [OffsetAnomaly.NO_FALLBACK]
    assert f"topic connect-offsets has {spell_identity(END)}" in owned.findings[0].message
    assert [found.offset for found in owned.rest] == [None]

    connect.do(name, "resume")
    connect.await_offsets(name, lambda said: said == [END])
    # What was foretold: the task began anew, and the file is in the topic twice.
    check_went_on(before, brokers.read_values(name), ["one", "two", "three"])
    after = fleet.offsets.get(name)
    assert (after.findings, after.offsets[0].offset) == ((), END)


def test_a_topic_in_another_cluster_is_read_there(stack, connect, brokers, fleet, file):
    # To Connect, another list of brokers is another cluster.
    name = new_name("elsewhere")
    brokers.made.append(name)
    own = brokers.make_topic(new_name("elsewhere-offsets"))
    address = stack.kafka.bootstrap_servers.split(",")[0]
    config = {"offsets.storage.topic": own, "producer.override.bootstrap.servers": address}
    connect.put_file_source(name, file, topic=name, **config)
    connect.await_offsets(name, lambda said: said == [END])
    owned = fleet.offsets.get(name)
    assert owned.stores == (f"topic {own}", "topic connect-offsets")
    assert (owned.findings, owned.offsets[0].offset) == ((), END)


def test_a_stray_in_the_topic_of_a_real_connector(connect, brokers, fleet, tmp_path):
    # 1.5: which of the two a worker believes is not defined, so seamark leaves it open, whatever REST says.
    name = new_name("stray")
    own = brokers.make_topic(new_name("stray-offsets"))
    absent = str(tmp_path / "absent.txt")
    key = encode_key(name, {"filename": absent})
    home = choose_partition(key, partitions=3)
    brokers.write(own, (key, b'{"position":4}'), partition=(home + 1) % 3)
    brokers.write(own, (key, b'{"position":6}'))
    # There is no such file, so the task writes nothing.
    connect.put_file_source(name, absent, topic=name, **{"offsets.storage.topic": own})
    said = connect.await_offsets(name, lambda offsets: len(offsets) == 1)[0]["offset"]
    assert said in ({"position": 4}, {"position": 6})
    owned = fleet.offsets.get(name)
    (stored,) = owned.stored
    assert (stored.offset, stored.is_certain) == ({"position": 6}, False)
    assert [found.offset for found in stored.others] == [{"position": 4}]
    assert OffsetAnomaly.MISPLACED in oddities(owned)
    assert set(oddities(owned)) <= {OffsetAnomaly.MISPLACED, OffsetAnomaly.REST_DIFFERS}


def test_what_a_transaction_took_back_counts_for_a_worker_without_exactly_once(
    stack, connect, brokers, fleet, tmp_path
):
    # 1.5: such a worker reads everything, and so does seamark for it.
    name = new_name("aborted")
    absent = str(tmp_path / "absent.txt")
    key = encode_key(name, {"filename": absent})
    partition = choose_partition(key, partitions=brokers.count_partitions("connect-offsets"))
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("connect-offsets", key=key, value=b'{"position":4}', partition=partition)
    producer.flush(30)
    producer.abort_transaction(30)
    try:
        connect.put_file_source(name, absent, topic=name)
        connect.await_offsets(name, lambda said: said == [{"position": 4}])
        owned = fleet.offsets.get(name)
        assert ([found.offset for found in owned.offsets], owned.findings) == ([{"position": 4}], ())
    finally:
        brokers.write("connect-offsets", (key, None))


def read_topic(stack, topic, *, committed=False, **options):
    config = {"bootstrap.servers": stack.kafka.bootstrap_servers}
    return TopicStore(TopicScan(config, topic, committed=committed, **options)).read()


def test_strays_and_tombstones_that_mask_are_found_in_a_real_topic(stack, brokers):
    topic = brokers.make_topic(new_name("strays"))
    keys = [encode_key("c", {"n": number}) for number in range(3)]
    brokers.write(topic, *((key, b'{"v":6}') for key in keys))
    homes = [choose_partition(key, partitions=3) for key in keys]
    brokers.write(topic, (keys[1], b'{"v":4}'), partition=(homes[1] + 1) % 3)
    brokers.write(topic, (keys[2], None), partition=(homes[2] + 1) % 3)
    reading = read_topic(stack, topic)
    by_key = {found.evidence.key: found for found in reading.offsets}
    assert [(by_key[key].offset, by_key[key].is_certain) for key in keys] == [
        ({"v": 6}, True),
        ({"v": 6}, False),
        ({"v": 6}, False),
    ]
    assert sorted(found.anomaly for found in reading.findings) == ["hidden-by-tombstone", "misplaced", "misplaced"]
    assert reading.scanned == 5


def test_a_reader_of_committed_records_sees_what_an_exactly_once_worker_does(stack, brokers):
    topic = brokers.make_topic(new_name("committed"), partitions=1)
    key = encode_key("c", {"n": 1})
    brokers.write(topic, (key, b'{"v":1}'))
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, key=key, value=b'{"v":2}', partition=0)
    producer.flush(30)
    # While it is open: a worker without exactly-once believes it, one with it waits, and seamark says so.
    open_reading = read_topic(stack, topic, committed=True, patience_seconds=6)
    assert open_reading.offsets[0].offset == {"v": 1}
    assert [found.anomaly for found in open_reading.findings] == [OffsetAnomaly.OPEN_TRANSACTION]
    assert read_topic(stack, topic).offsets[0].offset == {"v": 2}
    producer.abort_transaction(30)
    ended = read_topic(stack, topic, committed=True)
    assert (ended.offsets[0].offset, ended.findings) == ({"v": 1}, ())
    assert read_topic(stack, topic).offsets[0].offset == {"v": 2}


def test_connect_offsets_reads_a_topic_whose_workers_are_down(stack, brokers, tmp_path):
    topic = brokers.make_topic(new_name("down"))
    brokers.write(
        topic,
        (encode_key("b", {"k": 1}), b'{"v":1}'),
        (encode_key("a", {"k": 1}), b'{"v":1}'),
        (encode_key("a", {"k": 1}), b'{"v":2}'),
        (encode_key("a", {"k": 2}), b'{"v":1}'),
        (encode_key("a", {"k": 2}), None),
        (b"not json", b"{}"),
    )
    config = tmp_path / "worker.properties"
    config.write_text(f"bootstrap.servers={stack.kafka.bootstrap_servers}\ngroup.id=g\noffset.storage.topic={topic}\n")
    code, text, said = run_connect_offsets("--export", f"--config={config}")
    assert (code, json.loads(text)) == (
        0,
        {
            "a": [{"partition": {"k": 1}, "offset": {"v": 2}}],
            "b": [{"partition": {"k": 1}, "offset": {"v": 1}}],
        },
    )
    assert "bad-key: its key is not-json" in said
    code, text, _ = run_connect_offsets("--export", f"--config={config}", "--from-beginning", "--connectors=a")
    assert sorted(json.dumps(pair) for pair in json.loads(text)["a"]) == sorted(
        json.dumps({"partition": {"k": key}, "offset": value})
        for key, value in ((1, {"v": 1}), (1, {"v": 2}), (2, {"v": 1}), (2, None))
    )


def test_a_topic_that_is_not_there_is_said(stack):
    with pytest.raises(NotFoundError):
        read_topic(stack, new_name("absent"))
