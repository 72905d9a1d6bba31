"""Chapter: from a table through a topic into a bucket, from files."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter, Moment, Need
from seamark.demo.chapters.files import make_journal, runs
from seamark.demo.stage import Stage

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
    """Write the spec of this chapter and make the bucket."""
    stage.bucket.mkdir(exist_ok=True)
    (stage.folder / "table").mkdir(exist_ok=True)
    (stage.folder / "table" / "quest.yaml").write_text(_QUEST_SPEC)


def _set_up_table(stage: Stage) -> None:
    write_table_files(stage)
    make_journal(stage)


def _has_arrived(stage: Stage) -> bool:
    """Whether the bucket holds a line for each row."""
    return _count_lines(stage) >= QUEST_ROWS and all(runs(stage, name) for name in ("quest-source", "quest-lake"))


def _count_lines(stage: Stage) -> int:
    # The last line of an object may have no end, so ends can't be counted.
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
