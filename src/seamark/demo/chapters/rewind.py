"""Chapter: a source is rewound by an hour; what that comes to is said before, and taken back after."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter, Moment, Need
from seamark.demo.chapters.files import make_journal, runs
from seamark.demo.stage import Stage

# One visit every ten seconds for two hours.
VISIT_ROWS = 720
_VISIT_SECONDS = 10
# The row of that very moment comes too.
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
    """Whether the source runs and has written the position of the last row."""
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
