"""What a table refuses, as conditions on staged records: built from PostgreSQL's catalog.

NOT NULL, CHECK, foreign keys and unique indexes are known here. Exclusion constraints, triggers, constraints of domains
and row security are not: their refusals are found one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from seamark.tables.model import DEFAULT_TOMBSTONE_SECONDS, DELETED, OFFSET, RECORD_MILLIS, OrderTerm

# What PostgreSQL says of a row and not of itself: a value that it can't read, a constraint, one too large for an index
# or too deep, and what a trigger raises.
_OF_THE_ROW = ("22", "23", "54", "P0001")
_LINE = re.compile(r", line (\d+)(?:, column (.+?)(?::|$))?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LandingTable:
    """Where rows go. With a `key` they replace those of the same key, else they are added.

    `order` decides between two records of a key. `times` are the columns that hold timestamps.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    dead_letters: str = ""
    order: tuple[OrderTerm, ...] = ()
    times: tuple[str, ...] = ()
    tombstone_seconds: int = DEFAULT_TOMBSTONE_SECONDS

    @property
    def staged(self) -> tuple[str, ...]:
        """The columns that a record has in the stage."""
        if not self.key:
            return (*self.columns, OFFSET)
        more = (RECORD_MILLIS,) if any(term.column == RECORD_MILLIS for term in self.order) else ()
        return (*self.columns, OFFSET, DELETED, *more)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why rows were refused. `line` is that of the row, from 1, where PostgreSQL says it in a language that we know."""

    reason: str
    line: int | None = None


@dataclass(slots=True)
class Landed:
    """What became of the records of a range. `reasons` are those of dead letters.

    `is_repeat`: it was landed before, and only its dead letters are counted.
    """

    rows: int = 0
    deleted: int = 0
    dead: int = 0
    is_repeat: bool = False
    records: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


def build_refusal(error: psycopg.Error) -> Refusal:
    """Build the reason why PostgreSQL refuses rows. An error that is not about rows is raised again."""
    if not (error.sqlstate or "").startswith(_OF_THE_ROW):
        raise error
    found = _LINE.search(error.diag.context or "")
    reason = (error.diag.message_primary or str(error)).partition("\n")[0]
    if found is None:
        return Refusal(reason)
    return Refusal(f"{found[2]}: {reason}" if found[2] else reason, int(found[1]))


def build_table(name: str) -> sql.Identifier:
    """Build a table's name, perhaps with its schema, for a statement."""
    return sql.Identifier(*name.split("."))


def list_names(names: Iterable[str]) -> sql.Composed:
    """Build a list of column names for a statement."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


_NULLS_VERSION = 15_00_00
_RELATION = "SELECT oid, relname, relkind = 'r' FROM pg_class WHERE oid = %s::regclass"
# A trigger before a row may change it, so that nothing can be said of it before.
_CHANGED = """
    SELECT EXISTS (SELECT FROM pg_trigger
                   WHERE tgrelid = %s AND tgtype & 3 = 3 AND tgtype & 20 <> 0 AND tgenabled <> 'D')
"""
_COLUMNS = """
    SELECT a.attname, a.attnotnull, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid),
           a.attidentity <> '' OR a.attgenerated <> '' OR t.typtype = 'd'
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# The names of the columns of a key, in its sequence. PostgreSQL looks for a foreign key in all rows, also in those that
# row security hides from this role.
_OWN, _OTHER = (
    f"ARRAY(SELECT attname::text FROM unnest(c.{key}) WITH ORDINALITY u(number, place) "  # noqa: S608 - our own words
    f"JOIN pg_attribute a ON a.attrelid = c.{relation} AND a.attnum = u.number ORDER BY u.place)"
    for key, relation in (("conkey", "conrelid"), ("confkey", "confrelid"))
)
_CHECKS = (
    f"SELECT c.conname, pg_get_expr(c.conbin, c.conrelid), {_OWN} FROM pg_constraint c "  # noqa: S608 - our own words
    "WHERE c.conrelid = %s AND c.contype = 'c' ORDER BY c.conname"
)
_FOREIGN = (
    f"SELECT c.conname, {_OWN}, c.confrelid::regclass::text, {_OTHER}, c.confrelid = c.conrelid "  # noqa: S608 - our own words
    "FROM pg_constraint c WHERE c.conrelid = %s AND c.contype = 'f' AND c.confmatchtype = 's' "
    "AND NOT row_security_active(c.confrelid) ORDER BY c.conname"
)
_HOLDERS = (
    f"SELECT c.conname, r.relname, {_OTHER}, c.conrelid::regclass::text, {_OWN} "  # noqa: S608 - our own words
    "FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid WHERE c.confrelid = %s AND c.contype = 'f' "
    "AND c.confdeltype IN ('a', 'r') AND c.conrelid <> c.confrelid AND c.conparentid = 0 ORDER BY c.conname"
)
_UNIQUE = """
    SELECT x.relname, pg_get_expr(i.indpred, i.indrelid), {nulls},
           ARRAY(SELECT pg_get_indexdef(i.indexrelid, place, false) FROM generate_series(1, i.indnkeyatts::int) place),
           ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY u(number, place)
                 JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.number
                 WHERE u.place <= i.indnkeyatts ORDER BY u.place)
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = %s AND i.indisunique AND i.indisready ORDER BY i.indisprimary DESC, x.relname
"""


@dataclass(frozen=True, slots=True)
class ConstraintCondition:
    """A condition that records break, over the columns of the table, and what PostgreSQL says of it."""

    is_broken: sql.Composable
    reason: str


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns that must be in a table: those of this table in another one, or in itself."""

    reason: str
    columns: tuple[str, ...]
    other: sql.Composable
    others: tuple[str, ...]

    def match(self, one: str, other: str) -> sql.Composed:
        """Build the condition that two rows belong together."""
        pairs = zip(self.columns, self.others, strict=True)
        return sql.SQL(" AND ").join(
            sql.SQL("{}.{} = {}.{}").format(
                sql.Identifier(one), sql.Identifier(mine), sql.Identifier(other), sql.Identifier(theirs)
            )
            for mine, theirs in pairs
        )

    def is_set(self, alias: str) -> sql.Composed:
        """Build the condition that a row refers to another one at all."""
        return sql.SQL(" AND ").join(
            sql.SQL("{}.{} IS NOT NULL").format(sql.Identifier(alias), sql.Identifier(name)) for name in self.columns
        )


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """Expressions of which no two rows have the same values."""

    reason: str
    terms: tuple[sql.Composable, ...]
    columns: tuple[str, ...]
    predicate: sql.Composable
    is_nulls_distinct: bool

    @property
    def names(self) -> list[sql.Identifier]:
        """What the terms are called in `build_terms`."""
        return [sql.Identifier(f"seamark_term_{number}") for number, _ in enumerate(self.terms)]

    def build_terms(self) -> sql.Composed:
        """Build the terms as a list for SELECT."""
        pairs = zip(self.terms, self.names, strict=True)
        return sql.SQL(", ").join(sql.SQL("({}) AS {}").format(term, name) for term, name in pairs)

    def build_same(self, one: str, other: str) -> sql.Composed:
        """Build the condition that two rows have the same terms. Nulls never are the same, unless the index says so."""
        text = "{0}.{2} = {1}.{2}" if self.is_nulls_distinct else "{0}.{2} IS NOT DISTINCT FROM {1}.{2}"
        one_alias, other_alias = sql.Identifier(one), sql.Identifier(other)
        return sql.SQL(" AND ").join(sql.SQL(text).format(one_alias, other_alias, name) for name in self.names)

    def build_counts(self) -> sql.Composable:
        """Build the condition that a row can have a duplicate."""
        if not self.is_nulls_distinct:
            return sql.SQL("true")
        return sql.SQL(" AND ").join(sql.SQL("{} IS NOT NULL").format(name) for name in self.names)


@dataclass(frozen=True, slots=True)
class Constraints:
    """What is known of a table.

    Attributes:
        rows: The table as a query names it, without tables that inherit from it: an index doesn't have their rows.
        relation: The table's own name, by which expressions may refer to a whole row.
        defaults: The columns that rules need and records don't have, as a list for SELECT.
        rules: What a row must fulfill without regard to other rows: NOT NULL, CHECK, keys of other tables.
        own_keys: Foreign keys that refer to the table itself.
        uniques: Its unique indexes.
        holders: Foreign keys of other tables, which don't let a row be deleted.
    """

    rows: sql.Composable
    relation: str
    defaults: sql.Composable
    rules: tuple[ConstraintCondition, ...]
    own_keys: tuple[ForeignKey, ...]
    uniques: tuple[UniqueIndex, ...]
    holders: tuple[ForeignKey, ...]

    def build_reason(self) -> sql.Composable:
        """Build the number of the first rule that a row breaks; null where it breaks none."""
        if not self.rules:
            return sql.SQL("NULL::int")
        cases = [
            sql.SQL("WHEN {} THEN {}").format(rule.is_broken, sql.Literal(number))
            for number, rule in enumerate(self.rules)
        ]
        return sql.SQL("CASE {} END").format(sql.SQL(" ").join(cases))


def read_constraints(connection: psycopg.Connection[Any], table: LandingTable) -> Constraints:
    """Read what a table refuses from the catalog. Nothing is known of one whose triggers may change rows."""
    target = build_table(table.name)
    oid, relation, is_plain = connection.execute(_RELATION, [target.as_string(connection)]).fetchall()[0]
    rows = sql.SQL("ONLY {}").format(target) if is_plain else target
    if connection.execute(_CHANGED, [oid]).fetchall()[0][0]:
        return Constraints(rows, relation, sql.SQL(""), (), (), (), ())
    columns = connection.execute(_COLUMNS, [oid]).fetchall()
    checks = connection.execute(_CHECKS, [oid]).fetchall()
    foreign = connection.execute(_FOREIGN, [oid]).fetchall()
    known = {name: (kind, default, is_made) for name, _, kind, default, is_made in columns}
    wanted, usable = _choose_checks(checks, table.columns, known)
    own: list[ForeignKey] = []
    other: list[ForeignKey] = []
    for name, mine, target, theirs, is_own in foreign:
        if set(mine) <= set(table.columns):
            reason = f'insert or update on table "{relation}" violates foreign key constraint "{name}"'
            key = ForeignKey(reason, tuple(mine), sql.SQL(target), tuple(theirs))
            (own if is_own else other).append(key)
    rules = [
        *_list_nulls(columns, table.columns, relation),
        *(
            ConstraintCondition(
                sql.SQL("({}) IS FALSE").format(sql.SQL(text)),
                f'new row for relation "{relation}" violates check constraint "{name}"',
            )
            for name, text, _ in usable
        ),
        *(_build_foreign(key, relation) for key in other),
    ]
    return Constraints(
        rows,
        relation,
        sql.SQL("").join(_build_default(name, known[name]) for name in wanted),
        tuple(rules),
        tuple(own),
        tuple(_list_uniques(connection, oid, table.columns)),
        tuple(_list_holders(connection, oid, relation)),
    )


def _choose_checks(
    checks: Iterable[tuple[str, str, list[str]]],
    columns: Sequence[str],
    known: dict[str, tuple[str, str | None, bool]],
) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """Choose the checks that can be computed, and the columns that take their defaults in them."""
    wanted: dict[str, None] = {}
    usable = []
    for check in checks:
        missing = [name for name in check[2] if name not in columns]
        # A sequence would lose a number for each record, a generated column needs the others first, and a domain may
        # have a default of its own.
        if all(not known[name][2] and "nextval(" not in (known[name][1] or "") for name in missing):
            usable.append(check)
            wanted |= dict.fromkeys(missing)
    return list(wanted), usable


def _build_default(name: str, known: tuple[str, str | None, bool]) -> sql.Composed:
    kind, default, _ = known
    return sql.SQL(", ({})::{} AS {}").format(sql.SQL(default or "NULL"), sql.SQL(kind), sql.Identifier(name))


def _list_nulls(
    columns: Iterable[tuple[str, bool, str, str | None, bool]], landed: Sequence[str], relation: str
) -> list[ConstraintCondition]:
    found = []
    for name, is_needed, _, default, is_made in columns:
        if not is_needed or (name not in landed and (default is not None or is_made)):
            continue
        broken = sql.SQL("{} IS NULL").format(sql.Identifier(name)) if name in landed else sql.SQL("true")
        reason = f'null value in column "{name}" of relation "{relation}" violates not-null constraint'
        found.append(ConstraintCondition(broken, reason))
    return found


def _build_foreign(key: ForeignKey, relation: str) -> ConstraintCondition:
    text = "({} AND NOT EXISTS (SELECT FROM {} seamark_other WHERE {}))"
    return ConstraintCondition(
        sql.SQL(text).format(key.is_set(relation), key.other, key.match(relation, "seamark_other")), key.reason
    )


def _list_uniques(connection: psycopg.Connection[Any], oid: int, landed: Sequence[str]) -> list[UniqueIndex]:
    has_nulls = connection.info.server_version >= _NULLS_VERSION
    text = _UNIQUE.format(nulls="i.indnullsnotdistinct" if has_nulls else "false")
    found = []
    for name, predicate, is_nulls_same, terms, columns in connection.execute(text.encode(), [oid]).fetchall():
        # A column that records don't have takes its default, which is mostly a number of its own.
        if set(columns) <= set(landed):
            found.append(
                UniqueIndex(
                    f'duplicate key value violates unique constraint "{name}"',
                    tuple(sql.SQL(term) for term in terms),
                    tuple(columns) if len(columns) == len(terms) else (),
                    sql.SQL(predicate or "true"),
                    not is_nulls_same,
                )
            )
    return found


def _list_holders(connection: psycopg.Connection[Any], oid: int, relation: str) -> list[ForeignKey]:
    return [
        ForeignKey(
            f'update or delete on table "{relation}" violates foreign key constraint "{name}" on table "{other}"',
            tuple(mine),
            sql.SQL(target),
            tuple(theirs),
        )
        for name, other, mine, target, theirs in connection.execute(_HOLDERS, [oid]).fetchall()
    ]


def build_rows(constraints: Constraints, source: sql.Composable) -> sql.Composed:
    """Build staged records as rows of the table, by the table's own name."""
    return sql.SQL("(SELECT seamark_rows.*{} FROM {} seamark_rows) AS {}").format(
        constraints.defaults, source, sql.Identifier(constraints.relation)
    )
