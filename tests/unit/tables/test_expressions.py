"""SQL expressions of pipelines: what Spark gets, and what is refused."""

from __future__ import annotations

import pytest

from seamark.errors import UsageError
from seamark.tables.definition import LandColumn, Landing
from seamark.tables.expressions import list_functions, parse_expression

HOSTILE = [
    "reflect('java.lang.System', 'exit', 1)",
    "java_method('java.lang.Runtime', 'getRuntime')",
    "(select 1)",
    "id in (select id from t)",
    "exists(select 1)",
    "id; drop table t",
    "id -- a comment",
    "id /* a comment */",
    "row_number() over ()",
    "input_file_name()",
    "current_user()",
    "version()",
    "from_json(id, 'x int')",
    "cast(id as struct<x:int>)",
    "my_udf(id)",
    "transform(id, x -> x)",
    "raise_error('x')",
    "assert_true(false)",
    "sequence(1, 1000000000)",
    "repeat(words, 1000000000)",
    "space(1000000000)",
    "${env}",
    "@variable",
    "id.field",
    "words = 'a\\' or 1=1'",
    "`id` `words`",
    "'unterminated",
    "(" * 40 + "id" + ")" * 40,
    "not " * 40 + "id",
    "- " * 40 + "1",
    "case " * 40,
    "id" * 2000,
    "",
    "id =",
    "if(id)",
    "id like words",
    "rlike(words, '(a+)+$')",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_the_grammar_does_not_have_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_expression(text, what="where")
    assert caught.value.message.startswith("invalid expression in where: ")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "sql", "columns"),
    [
        ("amount * 100 + -3", "try_add(try_multiply(`amount`, 100), try_subtract(0, 3))", {"amount"}),
        ("a > 1 AND NOT ok", "((`a` > 1) AND (NOT `ok`))", {"a", "ok"}),
        ("a OR b and c", "(`a` OR (`b` AND `c`))", {"a", "b", "c"}),
        ("LOWER(name) LIKE 'a%'", "(lower(`name`) LIKE 'a%')", {"name"}),
        ("id NOT IN (1, 2)", "(`id` NOT IN (1, 2))", {"id"}),
        ("a between 1 and 2 and b = 1", "((`a` BETWEEN 1 AND 2) AND (`b` = 1))", {"a", "b"}),
        ("a is not null", "(`a` IS NOT NULL)", {"a"}),
        ("case when a then 'x' else 'it''s' end", "CASE WHEN `a` THEN 'x' ELSE 'it''s' END", {"a"}),
        ("cast(a as decimal(12, 2))", "try_cast(`a` AS decimal(12, 2))", {"a"}),
        ("`odd name` || 'x'", "concat(`odd name`, 'x')", {"odd name"}),
        ("date '2026-01-01'", "try_cast('2026-01-01' AS date)", set()),
        ("to_timestamp(a, 'yyyy')", "try_to_timestamp(`a`, 'yyyy')", {"a"}),
        ("date", "`date`", {"date"}),
    ],
)
def test_expression_is_written_from_its_tree(text, sql, columns):
    if text == "date":
        with pytest.raises(UsageError):
            parse_expression(text, what="where")
        return
    found = parse_expression(text, what="where")
    assert (found.sql, set(found.columns)) == (sql, columns)


def test_error_names_the_place_and_the_functions():
    with pytest.raises(UsageError) as caught:
        parse_expression("id > 1 and uuid() = 'x'", what="columns.x.sql")
    assert caught.value.message == "invalid expression in columns.x.sql: function uuid is not allowed"
    assert caught.value.cause == "character 12 of \"id > 1 and uuid() = 'x'\""
    assert set(list_functions()) <= set(caught.value.hint.removeprefix("use one of ").split(", "))


def build(*columns, **more):
    return Landing("p", topic="t", table="raw/t", columns=columns, store="delta", **more)


def test_expressions_refer_to_columns_of_the_record():
    id_ = LandColumn("id", "bigint")
    found = build(id_, LandColumn("twice", "bigint", sql="id * 2"), where="id > 0")
    assert [one.name for one in found.source_columns] == ["id"]
    assert Landing.from_dict(found.to_dict()) == found
    for more in ({"where": "other > 0"}, {"where": "twice > 0"}):
        with pytest.raises(UsageError, match="which is not a column of a record"):
            build(id_, LandColumn("twice", "bigint", sql="id * 2"), **more)
    with pytest.raises(UsageError, match="has from and sql"):
        LandColumn("a", "bigint", "value.a", "id")
    with pytest.raises(UsageError, match="supported only in a lake"):
        Landing("p", topic="t", table="t", columns=(id_,), where="id > 0")


def test_header_is_a_source():
    column = LandColumn("trace", "text", "header.x.trace-id")
    assert column.path == ("x.trace-id",)
    assert build(column).has_headers
    with pytest.raises(UsageError, match="invalid source"):
        LandColumn("trace", "text", "header.")
