"""Chapter: copy rows from a table through a topic into Delta tables, each row once, and query them there."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter, Moment, Need
from seamark.demo.chapters.files import make_journal, runs
from seamark.demo.stage import Stage

PAYMENT_ROWS = 20_000
# Not `purchase`: devstack's seed has a table and a topic of that name.
_PAYMENT_TABLE = (
    "CREATE TABLE payment (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL, "
    "price numeric(12, 2) NOT NULL, paid_at timestamptz NOT NULL)"
)
_PAYMENT_INSERT = (
    "INSERT INTO payment (item, price, paid_at) SELECT 'item ' || n % 7, n % 90, "  # noqa: S608 - our number
    f"now() - n * interval '10 seconds' FROM generate_series(1, {PAYMENT_ROWS}) AS n"
)
_PAYMENT_SPEC = """\
connectors:
  payment-source:
    config:
      connector.class: io.aiven.connect.jdbc.JdbcSourceConnector
      tasks.max: 1
      connection.url: jdbc:postgresql://${{ env.PGHOST }}:${{ env.PGPORT }}/${{ env.PGDATABASE }}
      connection.user: ${{ env.PGUSER }}
      connection.password: ${file:${{ env.DEMO_FILES }}/postgres.properties:password}
      mode: incrementing
      incrementing.column.name: id
      table.whitelist: payment
      topic.prefix: game-
      poll.interval.ms: 500
      batch.max.rows: 5000
      value.converter: org.apache.kafka.connect.json.JsonConverter
      value.converter.schemas.enable: false
      value.converter.decimal.format: NUMERIC
pipelines:
  payments:
    kind: land
    from: {topic: game-payment}
    to: {lake: lake, table: raw/payment, date: paid_at}
    columns:
      id: bigint
      item: string
      price: decimal(12, 2)
      paid_at: timestamp
"""
_QUERY = '''\
"""Print the payments per day from the lake, without Spark."""
import pyarrow.compute as pc
from deltalake import DeltaTable

import seamark
from seamark.tables.delta.technology import open_lake

place = open_lake(seamark.open().context.lakes["lake"]).below("raw/payment")
table = DeltaTable(place.table_url, storage_options=place.build_options()).to_pyarrow_table()
days = table.group_by("event_date").aggregate([("id", "count"), ("price", "sum")])
for day in days.sort_by("event_date").to_pylist():
    print(f"{day['event_date']}  {day['id_count']:6} payments  {day['price_sum']:>12}")
print(f"{table.num_rows} rows, {pc.count_distinct(table.column('id')).as_py()} distinct IDs")
'''
_READ_SECONDS = 120.0


def _set_up_lake(stage: Stage) -> None:
    folder = stage.folder / "sea"
    folder.mkdir(exist_ok=True)
    (folder / "payment.yaml").write_text(_PAYMENT_SPEC)
    (stage.folder / "days.py").write_text(_QUERY)
    stage.bucket.mkdir(exist_ok=True)
    make_journal(stage)
    stage.use_spark()


def _has_read_all(stage: Stage) -> bool:
    """Return whether the source is at the last row."""
    found = stage.call("GET", "/connectors/payment-source/offsets") or {}
    places = [one["offset"].get("incrementing") for one in found.get("offsets", []) if one.get("offset")]
    return PAYMENT_ROWS in places and runs(stage, "payment-source")


LAKE = Chapter(
    name="lake",
    title="From a table into a lake",
    needs=(Need.POSTGRES, Need.JDBC, Need.S3, Need.SPARK),
    set_up=_set_up_lake,
    acts=(
        Act("Create a table with payments in PostgreSQL.", f"psql -qc '{_PAYMENT_TABLE}' -c \"{_PAYMENT_INSERT}\""),
        Act("One file defines a source and a pipeline.", "cat sea/payment.yaml"),
        Act(
            "The source writes them to a topic.",
            "seamark apply -f sea --yes",
            until=Moment("the source had read every row", _has_read_all, _READ_SECONDS),
        ),
        Act(
            "Preview the pipeline.",
            "seamark pipelines plan payments -f sea",
            look="It creates a Delta table, partitioned by day.",
        ),
        Act(
            "Run it: Spark writes the rows to S3, with the offsets in the same commit.",
            "seamark pipelines run payments -f sea --yes",
            look="Each row is written exactly once, even if the run is killed or started twice.",
        ),
        Act("Count the rows in PostgreSQL.", "psql -Atc 'SELECT count(*) FROM payment'"),
        Act("Count them in the lake, per day.", "python days.py", look="The same number, without duplicates."),
        Act(
            "The offsets of the pipeline are in the log of the table.",
            "seamark offsets show pipeline/payments",
        ),
        Act(
            "They can be moved like any other offsets. Preview a move back by one hour.",
            "seamark offsets move pipeline/payments --back 1h --dry-run",
        ),
    ),
)


# One visit every ten seconds for two hours.
VISIT_ROWS = 720
_VISIT_SECONDS = 10
# The row of exactly that time is included.
HOUR_ROWS = 3600 // _VISIT_SECONDS + 1
_VISIT_TABLE = (
    "CREATE TABLE visit (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL, page text)"
)
_VISIT_INSERT = (
    f"INSERT INTO visit (at, page) SELECT now() - ({VISIT_ROWS} - n) * interval '{_VISIT_SECONDS} s', 'page ' || n % 7 "  # noqa: S608 - our numbers
    f"FROM generate_series(1, {VISIT_ROWS}) AS n"
)
_VISIT_SPEC = """\
connectors:
  visit-source:
    config:
      connector.class: io.aiven.connect.jdbc.JdbcSourceConnector
      tasks.max: 1
      connection.url: jdbc:postgresql://${{ env.PGHOST }}:${{ env.PGPORT }}/${{ env.PGDATABASE }}
      connection.user: ${{ env.PGUSER }}
      connection.password: ${file:${{ env.DEMO_FILES }}/postgres.properties:password}
      mode: timestamp+incrementing
      timestamp.column.name: at
      incrementing.column.name: id
      table.whitelist: visit
      topic.prefix: game-
      poll.interval.ms: 500
"""


def _set_up_rewind(stage: Stage) -> None:
    (stage.folder / "rewind").mkdir(exist_ok=True)
    (stage.folder / "rewind" / "visit.yaml").write_text(_VISIT_SPEC)
    make_journal(stage)


def _is_at_the_end(stage: Stage) -> bool:
    """Return whether the source runs and has stored the offset of the last row."""
    found = stage.call("GET", "/connectors/visit-source/offsets") or {"offsets": []}
    ids = [entry["offset"]["incrementing"] for entry in found["offsets"] if entry["offset"]]
    return ids == [VISIT_ROWS] and runs(stage, "visit-source")


AT_THE_END = Moment("the source had read every row", _is_at_the_end)

REWIND = Chapter(
    name="rewind",
    title="An hour back",
    needs=(Need.POSTGRES, Need.JDBC),
    set_up=_set_up_rewind,
    acts=(
        Act("Create a table with two hours of visits.", f"psql -qc '{_VISIT_TABLE}' -c \"{_VISIT_INSERT}\""),
        Act("Create a source that reads it by timestamp.", "seamark apply -f rewind --yes", until=AT_THE_END),
        Act("Show its offsets.", "seamark offsets show visit-source"),
        Act(
            "The last hour was lost downstream. Preview what it takes to send it once more.",
            "seamark offsets move visit-source --back 1h --dry-run",
            look="seamark counted the rows in the table. Nothing was changed.",
        ),
        Act(
            "Move the offsets.",
            "seamark offsets move visit-source --back 1h --yes",
            until=AT_THE_END,
            look="Stopped, verified, recounted, written, verified, running, and continuing from the new offset.",
        ),
        Act(
            "Check the topic.",
            "seamark topics show game-visit",
            look=f"{VISIT_ROWS} visits, and those of the last hour a second time.",
        ),
        Act(
            "Undo the move.",
            "seamark journal undo {change} --yes",
            until=AT_THE_END,
            look="The source has caught up already, so there is nothing to do. Otherwise the plan would show what is "
            "skipped.",
        ),
    ),
)


RECORDS, MORE = 20_000, 500
_SINK = "write-click"
_SPEC = """\
connectors:
  write-click:
    config:
      connector.class: org.apache.kafka.connect.file.FileStreamSinkConnector
      tasks.max: 1
      topics: game-click
      file: ${{ env.DEMO }}/shrink/clicks.txt
      key.converter: org.apache.kafka.connect.storage.StringConverter
      value.converter: org.apache.kafka.connect.storage.StringConverter
"""
_FILL = '''\
"""Produce clicks, keyed by player, with the partitioner of Java clients: clicks.py TOPIC FIRST COUNT."""
import sys

from confluent_kafka import Producer

import seamark

topic, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
producer = Producer({**seamark.open().context.kafka.client_config(), "partitioner": "murmur2_random"})
for number in range(first, first + count):
    producer.produce(topic, key=f"player-{number % 997}", value=f"click {number}")
    producer.poll(0)
producer.flush(60)
'''
# Spark starts for each command, on a machine that is busy with the servers.
_SPARK_SECONDS = 120.0


def _set_up_shrink(stage: Stage) -> None:
    folder = stage.folder / "shrink"
    folder.mkdir(exist_ok=True)
    (folder / "click.yaml").write_text(_SPEC)
    (stage.folder / "clicks.py").write_text(_FILL)
    make_journal(stage)
    stage.use_spark()


def _build_moment(count: int) -> Moment:
    def has_come(stage: Stage) -> bool:
        file = stage.folder / "shrink" / "clicks.txt"
        return file.exists() and len(set(file.read_text().splitlines())) >= count and runs(stage, _SINK)

    return Moment(f"{count} clicks were in the file", has_come, _SPARK_SECONDS)


SHRINK = Chapter(
    name="shrink",
    title="Twelve partitions become six",
    needs=(Need.SPARK,),
    set_up=_set_up_shrink,
    acts=(
        Act(
            "Create a topic with twelve partitions. Six would be enough.",
            "seamark topics create game-click --partitions 12 --yes",
        ),
        Act("Produce clicks: those of each player are in order.", f"python clicks.py game-click 0 {RECORDS}"),
        Act("Create a sink that writes them to a file.", "seamark apply -f shrink --yes", until=_build_moment(RECORDS)),
        Act(
            "Kafka can't remove partitions from a topic.",
            "seamark topics add-partitions game-click --total 6 --yes",
            codes=(5,),
            look="The hint names the alternative.",
        ),
        Act(
            "Plan a copy.",
            "seamark copies plan game-click --partitions 12:6 --out plan.json",
            look="seamark determined the partitioner from the records. Nothing was changed.",
        ),
        Act(
            "Run the copy with Spark: each record exactly once, in order, with its key and its timestamp.",
            "seamark copies run plan.json --yes",
        ),
        Act("Verify the copy.", "seamark copies verify plan.json --level full"),
        Act(
            "Preview the cutover of the sink to the copy.",
            "seamark copies cutover plan.json --read-committed --dry-run",
            look="seamark translates the sink's offsets from twelve partitions to six.",
        ),
        Act(
            "Cut over.",
            "seamark copies cutover plan.json --read-committed --yes",
            look="Stopped, copied the rest, verified, translated offsets, switched, running: one change that can be "
            "undone.",
        ),
        Act(
            "Produce more clicks, to the new topic.",
            f"python clicks.py game-click-6 {RECORDS} {MORE}",
            until=_build_moment(RECORDS + MORE),
            look="Every click is in the file.",
        ),
        Act("Delete the old topic.", "seamark copies cleanup plan.json --yes"),
    ),
)


QUEST_ROWS = 500
_QUEST_TABLE = "CREATE TABLE quest (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title text NOT NULL)"
_QUEST_INSERT = f"INSERT INTO quest (title) SELECT 'quest ' || n FROM generate_series(1, {QUEST_ROWS}) AS n"  # noqa: S608 - our number
_QUEST_SPEC = """\
connectors:
  quest-source:
    config:
      connector.class: io.aiven.connect.jdbc.JdbcSourceConnector
      tasks.max: 1
      connection.url: jdbc:postgresql://${{ env.PGHOST }}:${{ env.PGPORT }}/${{ env.PGDATABASE }}
      connection.user: ${{ env.PGUSER }}
      # Connect's own reference, resolved inside the worker: no password passes through here.
      connection.password: ${file:${{ env.DEMO_FILES }}/postgres.properties:password}
      mode: incrementing
      incrementing.column.name: id
      table.whitelist: quest
      topic.prefix: game-
      poll.interval.ms: 500
  quest-lake:
    config:
      connector.class: io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector
      tasks.max: 1
      topics: game-quest
      aws.access.key.id: ${file:${{ env.DEMO_FILES }}/s3.properties:access_key}
      aws.secret.access.key: ${file:${{ env.DEMO_FILES }}/s3.properties:secret_key}
      aws.s3.bucket.name: lake
      aws.s3.endpoint: ${{ env.DEMO_S3 }}
      aws.s3.region: us-east-1
      format.output.type: jsonl
      format.output.fields: value
      file.compression.type: none
"""


def write_table_files(stage: Stage) -> None:
    """Write the spec of this chapter and create the bucket."""
    stage.bucket.mkdir(exist_ok=True)
    (stage.folder / "table").mkdir(exist_ok=True)
    (stage.folder / "table" / "quest.yaml").write_text(_QUEST_SPEC)


def _set_up_table(stage: Stage) -> None:
    write_table_files(stage)
    make_journal(stage)


def _has_arrived(stage: Stage) -> bool:
    """Return whether the bucket has a line for each row."""
    return _count_lines(stage) >= QUEST_ROWS and all(runs(stage, name) for name in ("quest-source", "quest-lake"))


def _count_lines(stage: Stage) -> int:
    # The last line of an object may have no line break, so line breaks can't be counted.
    return sum(len(path.read_bytes().splitlines()) for path in stage.bucket.glob("game-quest*") if path.is_file())


TABLE = Chapter(
    name="table",
    title="From a table into a bucket",
    needs=(Need.POSTGRES, Need.JDBC, Need.S3, Need.S3_SINK),
    set_up=_set_up_table,
    acts=(
        Act(
            "Create a table in PostgreSQL.",
            f"psql -qc '{_QUEST_TABLE}' -c \"{_QUEST_INSERT}\"",
        ),
        Act("One file defines the connectors from there to S3.", "cat table/quest.yaml"),
        Act(
            "Plan and apply in one command.",
            "seamark apply -f table --yes",
            until=Moment("the bucket had every row", _has_arrived),
        ),
        Act("Count the rows in the table.", "psql -Atc 'SELECT count(*) FROM quest'"),
        Act(
            "Count the lines in the bucket.", "sh -c 'grep -h . {bucket}/game-quest* | wc -l'", look="The same number."
        ),
    ),
)
