"""A large fleet: JDBC sources of one game on many Connect clusters, as files say it and as people left it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.connect import JDBC_SOURCE

CLUSTERS = tuple(f"shard-{number:02d}" for number in range(20))
# As many as a team has in one file before it looks for them with a search.
_ROWS_PER_FILE = 100
# One of a hundred differs, one of two hundred is missing; both at every size, and never the same one.
_CHANGED_EVERY, _MISSING_EVERY, _MISSING_AT = 100, 200, 50
# With the eight keys of its own, a connector has as many as one in use: about thirty.
_DEFAULTS = {
    "connector.class": JDBC_SOURCE,
    "tasks.max": "1",
    "connection.url": "jdbc:postgresql://db.game.example:5432/game",
    "connection.user": "connect",
    "connection.password": "${file:/run/secrets/game.properties:password}",
    "connection.attempts": "5",
    "connection.backoff.ms": "10000",
    "batch.max.rows": "500",
    "numeric.mapping": "best_fit",
    "validate.non.null": "false",
    "timestamp.delay.interval.ms": "1000",
    "timestamp.initial.ms": "-1",
    "db.timezone": "UTC",
    "dialect.name": "PostgreSqlDatabaseDialect",
    "table.types": "TABLE",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "errors.tolerance": "none",
    "errors.log.enable": "true",
    "errors.log.include.messages": "false",
    "topic.creation.default.partitions": "3",
    "topic.creation.default.replication.factor": "3",
}
_OWN = {
    "mode": "timestamp+incrementing",
    "incrementing.column.name": "seq",
    "timestamp.column.name": "logged_at",
    "table.whitelist": "{table}",
    "topic.prefix": "log.{table}.",
    "poll.interval.ms": "{poll}",
    "transforms": "shard",
    "transforms.shard.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.shard.static.field": "shard",
    "transforms.shard.static.value": "{cluster}",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One connector of the fleet."""

    number: int
    cluster: str

    @property
    def table(self) -> str:
        """The table it reads."""
        return f"log_{self.number:05d}"

    @property
    def name(self) -> str:
        """Its name."""
        return f"log-{self.number:05d}"

    @property
    def is_changed(self) -> bool:
        """Whether somebody gave it another config than the files say."""
        return self.number % _CHANGED_EVERY == 0

    @property
    def is_missing(self) -> bool:
        """Whether somebody deleted it."""
        return self.number % _MISSING_EVERY == _MISSING_AT

    def build_other_config(self) -> dict[str, str]:
        """A config that the files do not want: it looks for news less often."""
        own = {key: value.format(table=self.table, poll="60000", cluster=self.cluster) for key, value in _OWN.items()}
        return _DEFAULTS | own


def build_rows(size: int) -> tuple[Row, ...]:
    """A fleet of that many connectors, cluster by cluster."""
    return tuple(Row(number, CLUSTERS[number * len(CLUSTERS) // size]) for number in range(size))


def group_rows(rows: tuple[Row, ...]) -> dict[str, list[Row]]:
    """The rows of each cluster."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.cluster, []).append(row)
    return groups


def write_spec(folder: Path, rows: tuple[Row, ...]) -> None:
    """Write the files that say how the fleet should be: one folder for each cluster, templates with `each`."""
    folder.mkdir()
    lines = [f"  {key}: '{value}'" for key, value in _DEFAULTS.items()]
    (folder / "_defaults.yaml").write_text("\n".join(["spec: game", "defaults:", *lines, ""]))
    for cluster, found in group_rows(rows).items():
        (folder / cluster).mkdir()
        (folder / cluster / "_defaults.yaml").write_text(f"cluster: {cluster}\n")
        for start in range(0, len(found), _ROWS_PER_FILE):
            text = "\n".join(_render_file(found[start : start + _ROWS_PER_FILE], cluster))
            (folder / cluster / f"logs-{start:05d}.yaml").write_text(text + "\n")


def _render_file(rows: list[Row], cluster: str) -> Iterator[str]:
    yield "each:"
    yield "  - name: log-${{ each.number }}"
    # Nobody waits until it runs: that takes the same for ten thousand as for one, and tells nothing of a plan.
    yield "    state: stopped"
    yield "    for:"
    for row in rows:
        yield f"      - {{table: {row.table}, number: '{row.number:05d}', poll: 5000}}"
    yield "    config:"
    for key, value in _OWN.items():
        yield f"      {key}: '{value.format(table='${{ each.table }}', poll='${{ each.poll }}', cluster=cluster)}'"
