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
"""The payments of each day, as the lake has them: no Spark is needed to ask."""
import pyarrow.compute as pc
from deltalake import DeltaTable

import seamark
from seamark.tables.delta.technology import open_lake

place = open_lake(seamark.open().context.lakes["lake"]).below("raw/payment")
table = DeltaTable(place.table_url, storage_options=place.build_options()).to_pyarrow_table()
days = table.group_by("event_date").aggregate([("id", "count"), ("price", "sum")])
for day in days.sort_by("event_date").to_pylist():
    print(f"{day['event_date']}  {day['id_count']:6} payments  {day['price_sum']:>12}")
print(f"{table.num_rows} rows, {pc.count_distinct(table.column('id')).as_py()} of them different")
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
        Act("Payments of the last days, in PostgreSQL.", f"psql -qc '{_PAYMENT_TABLE}' -c \"{_PAYMENT_INSERT}\""),
        Act("One file: a source, and a landing.", "cat sea/payment.yaml"),
        Act(
            "The source brings them into a topic.",
            "seamark apply -f sea --yes",
            until=Moment("every row was read", _has_read_all, _READ_SECONDS),
        ),
        Act(
            "What would the landing do?",
            "seamark land plan payments -f sea",
            look="It makes a table of Delta, with a folder for each day.",
        ),
        Act(
            "Spark lands them on S3: rows and offsets are one commit.",
            "seamark land run payments -f sea --yes",
            look="Kill it, start it twice: each row comes once.",
        ),
        Act("Rows in PostgreSQL:", "psql -Atc 'SELECT count(*) FROM payment'"),
        Act("And in the lake, by day:", "python days.py", look="The same number, each once."),
        Act(
            "Where it stands is in the table's own log.",
            "seamark offsets show pipeline/payments",
        ),
        Act(
            "So it can be moved like any other: what would an hour back mean?",
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
        Act("A table of visits: two hours of them.", f"psql -qc '{_VISIT_TABLE}' -c \"{_VISIT_INSERT}\""),
        Act("A source reads it by time.", "seamark apply -f rewind --yes", until=AT_THE_END),
        Act("Where does it stand?", "seamark offsets show visit-source"),
        Act(
            "Somebody lost the last hour downstream. What would it cost to send it again?",
            "seamark offsets move visit-source --back 1h --dry-run",
            look="The rows were counted in the table, and nothing was changed.",
        ),
        Act(
            "Do it.",
            "seamark offsets move visit-source --back 1h --yes",
            until=AT_THE_END,
            look="Stopped, proven, counted again, written, verified, running, and seen to go on from there.",
        ),
        Act(
            "What is in the topic now?",
            "seamark topics show game-visit",
            look=f"{VISIT_ROWS} visits, and those of the last hour once more.",
        ),
        Act(
            "Put the position back where it was.",
            "seamark journal undo {change} --yes",
            until=AT_THE_END,
            look="It has caught up meanwhile: nothing to do. Had it not, the plan would say what is skipped.",
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
"""Clicks of some players, keyed by player, as a Java producer would place them: clicks.py TOPIC FIRST COUNT."""
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
            "A topic with twelve partitions, where six would do.",
            "seamark topics create game-click --partitions 12 --yes",
        ),
        Act("Players click: each one's clicks are in order.", f"python clicks.py game-click 0 {RECORDS}"),
        Act("A sink writes them into a file.", "seamark apply -f shrink --yes", until=_build_moment(RECORDS)),
        Act(
            "Kafka takes no partition away from a topic.",
            "seamark topics grow game-click --to 6 --yes",
            codes=(5,),
            look="But it says what would help.",
        ),
        Act(
            "A copy, then. What would it be?",
            "seamark copy plan game-click --partitions 12:6 --out plan.json",
            look="How keys are placed was found out from the records. Nothing was changed.",
        ),
        Act(
            "Spark copies it: each record once, in order, with its key and its time.",
            "seamark copy run plan.json --yes",
        ),
        Act("Is everything there?", "seamark copy verify plan.json --level full"),
        Act(
            "Now its reader shall use the copy. What will be done?",
            "seamark copy cutover plan.json --read-committed --dry-run",
            look="The sink's place in six partitions is told from that in twelve.",
        ),
        Act(
            "Do it.",
            "seamark copy cutover plan.json --read-committed --yes",
            look="Stopped, caught up, compared, carried over, turned, running; one change, with a way back.",
        ),
        Act(
            "Players click on, in the new topic.",
            f"python clicks.py game-click-6 {RECORDS} {MORE}",
            until=_build_moment(RECORDS + MORE),
            look="Every click is in the file.",
        ),
        Act("Nobody needs the old topic any more.", "seamark copy finish plan.json --yes"),
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
            "A table in PostgreSQL.",
            f"psql -qc '{_QUEST_TABLE}' -c \"{_QUEST_INSERT}\"",
        ),
        Act("One file for the way from there to S3.", "cat table/quest.yaml"),
        Act(
            "Plan and apply, in one.",
            "seamark apply -f table --yes",
            until=Moment("every row had arrived in the bucket", _has_arrived),
        ),
        Act("Rows in the table:", "psql -Atc 'SELECT count(*) FROM quest'"),
        Act("Lines in the bucket:", "sh -c 'grep -h . {bucket}/game-quest* | wc -l'", look="The same number."),
    ),
)
