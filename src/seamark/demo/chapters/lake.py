"""Chapter: from a table through a topic into tables of a lake, each row once, and asked there."""

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
from seamark.tables.lakes import open_lake

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
    """Whether the source stands at the last row."""
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
