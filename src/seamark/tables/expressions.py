"""SQL expressions of pipelines: parsed, checked against an allow list, and written again for Spark. No I/O.

What Spark gets is written from the tree, so that nothing reaches it that the grammar doesn't have: no subquery, no
window, no function of another name. Functions that would raise for one record are written in the form that returns
null, because an error in one row would fail the whole batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seamark.errors import UsageError

_TOKEN = re.compile(
    r"\s+"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]+)?)(?:[eE][+-]?[0-9]{1,3})?)"
    r"|(?P<text>'(?:[^'\\]|'')*')"
    r"|(?P<quoted>`(?:[^`])+`)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign><=|>=|<>|!=|\|\||[-+*/%=<>(),.])",
    re.ASCII,
)
_MOST_CHARACTERS, _MOST_DEPTH = 2_000, 30
_WORDS = frozenset(("and", "or", "not", "is", "null", "in", "between", "like", "true", "false", "case", "when", "then"))
_WORDS |= {"else", "end", "cast", "as", "date", "timestamp"}
_COMPARED = frozenset(("=", "<>", "!=", "<", ">", "<=", ">="))
_TYPES = re.compile(
    r"string|text|boolean|tinyint|smallint|int|integer|bigint|float|double|date|timestamp|decimal\(\d{1,2}, ?\d{1,2}\)"
)
_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}
# Deterministic, without side effects, and never an error for one record. By name: the fewest and most arguments, and
# the name for Spark if it is another one.
_FUNCTIONS: dict[str, tuple[int, int, str]] = {
    **{name: (1, 1, name) for name in ("lower", "upper", "trim", "ltrim", "rtrim", "length", "initcap", "reverse")},
    **{name: (1, 1, name) for name in ("abs", "ceil", "floor", "sign", "sqrt", "md5", "sha1", "hex", "base64")},
    **{name: (1, 1, name) for name in ("year", "month", "day", "hour", "minute", "second", "quarter", "dayofweek")},
    **{name: (1, 1, name) for name in ("unix_millis", "unix_seconds", "unix_date", "isnull", "isnotnull", "size")},
    **{name: (2, 2, name) for name in ("startswith", "endswith", "contains", "nullif", "datediff", "date_format")},
    **{name: (2, 2, name) for name in ("date_trunc", "date_add", "date_sub", "instr", "get_json_object", "sha2")},
    **{name: (2, 20, name) for name in ("coalesce", "greatest", "least", "concat_ws")},
    "concat": (1, 20, "concat"),
    "xxhash64": (1, 20, "xxhash64"),
    "if": (3, 3, "if"),
    "ifnull": (2, 2, "coalesce"),
    "nvl": (2, 2, "coalesce"),
    "substring": (2, 3, "substring"),
    "substr": (2, 3, "substring"),
    "replace": (3, 3, "replace"),
    "split_part": (3, 3, "split_part"),
    "lpad": (3, 3, "lpad"),
    "rpad": (3, 3, "rpad"),
    "round": (1, 2, "round"),
    "pow": (2, 2, "pow"),
    "to_date": (1, 2, "try_to_date"),
    "to_timestamp": (1, 2, "try_to_timestamp"),
    "element_at": (2, 2, "try_element_at"),
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression: its text for Spark, and the columns that it uses."""

    sql: str
    columns: frozenset[str]


def parse_expression(text: str, *, what: str) -> Expression:
    """Parse and check an expression.

    Args:
        text: Spark SQL.
        what: Its place, for errors: `where`, or `columns.X.sql`.

    Returns:
        The expression as Spark gets it.

    Raises:
        UsageError: It isn't an expression of this grammar, or uses a function that isn't allowed.
    """
    parser = _Parser(text, what)
    sql = parser.parse()
    return Expression(sql, frozenset(parser.columns))


def list_functions() -> tuple[str, ...]:
    """Return the names of all functions that expressions may use."""
    return tuple(sorted(_FUNCTIONS))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


class _Parser:
    """A recursive descent parser. Each method returns the SQL of what it has read."""

    def __init__(self, text: str, what: str) -> None:
        self._text = text
        self._what = what
        if len(text) > _MOST_CHARACTERS:
            raise self._error(f"it has more than {_MOST_CHARACTERS:,} characters", 0)
        self._tokens = list(self._split())
        self._place = 0
        self._depth = 0
        self.columns: set[str] = set()

    def parse(self) -> str:
        found = self._read_or()
        if self._peek().kind:
            raise self._unexpected()
        return found

    def _split(self) -> Iterator[_Token]:
        place = 0
        while place < len(self._text):
            found = _TOKEN.match(self._text, place)
            if found is None or self._text.startswith("--", place):
                raise self._error(f"unexpected character {self._text[place]!r}", place)
            if found.lastgroup:
                yield _Token(found.lastgroup, found[0], place)
            place = found.end()

    # --- from the loosest to the tightest

    def _read_or(self) -> str:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise self._error("it is nested too deeply", self._peek().at)
        found = self._read_and()
        while self._take("or"):
            found = f"({found} OR {self._read_and()})"
        self._depth -= 1
        return found

    def _read_and(self) -> str:
        found = self._read_not()
        while self._take("and"):
            found = f"({found} AND {self._read_not()})"
        return found

    def _read_not(self) -> str:
        return f"(NOT {self._nest(self._read_not)})" if self._take("not") else self._read_predicate()

    def _read_predicate(self) -> str:
        left = self._read_sum()
        token = self._peek()
        if token.kind == "sign" and token.text in _COMPARED:
            self._place += 1
            return f"({left} {token.text} {self._read_sum()})"
        if self._take("is"):
            word = "IS NOT NULL" if self._take("not") else "IS NULL"
            self._require("null")
            return f"({left} {word})"
        negated = "NOT " if self._take("not") else ""
        if self._take("in"):
            return f"({left} {negated}IN ({', '.join(self._read_list())}))"
        if self._take("between"):
            low = self._read_sum()
            self._require("and")
            return f"({left} {negated}BETWEEN {low} AND {self._read_sum()})"
        if self._take("like"):
            if self._peek().kind != "text":
                raise self._unexpected("a pattern in quotes")
            return f"({left} {negated}LIKE {self._read_primary()})"
        if negated:
            raise self._unexpected()
        return left

    def _read_sum(self) -> str:
        found = self._read_product()
        while (token := self._peek()).text in {"+", "-", "||"} and token.kind == "sign":
            self._place += 1
            right = self._read_product()
            found = f"concat({found}, {right})" if token.text == "||" else f"{_TRY[token.text]}({found}, {right})"
        return found

    def _read_product(self) -> str:
        found = self._read_unary()
        while (token := self._peek()).text in {"*", "/", "%"} and token.kind == "sign":
            self._place += 1
            found = f"{_TRY[token.text]}({found}, {self._read_unary()})"
        return found

    def _read_unary(self) -> str:
        if self._take("-"):
            return f"try_subtract(0, {self._nest(self._read_unary)})"
        return self._read_primary()

    def _read_primary(self) -> str:  # noqa: PLR0911 - one line for each kind of value
        token = self._peek()
        if token.kind in {"number", "text"}:
            self._place += 1
            return token.text
        if self._take("("):
            found = self._read_or()
            self._require(")")
            return f"({found})"
        if token.kind not in {"name", "quoted"}:
            raise self._unexpected("a value")
        word = token.text.lower() if token.kind == "name" else ""
        if word in {"true", "false", "null"}:
            self._place += 1
            return word.upper()
        if word == "case":
            return self._read_case()
        if word in {"date", "timestamp"} and self._peek(1).kind == "text":
            self._place += 2
            return f"try_cast({self._tokens[self._place - 1].text} AS {word})"
        if word == "cast" and self._peek(1).text == "(":
            return self._read_cast()
        if word and self._peek(1).text == "(":
            return self._read_call(word)
        if word in _WORDS:
            raise self._unexpected("a value")
        return self._read_column()

    def _read_case(self) -> str:
        self._require("case")
        parts = []
        while self._take("when"):
            condition = self._read_or()
            self._require("then")
            parts.append(f"WHEN {condition} THEN {self._read_or()}")
        if not parts:
            raise self._unexpected("when")
        last = f" ELSE {self._read_or()}" if self._take("else") else ""
        self._require("end")
        return f"CASE {' '.join(parts)}{last} END"

    def _read_cast(self) -> str:
        self._place += 2
        found = self._read_or()
        self._require("as")
        begin = self._peek().at
        while (token := self._peek()).kind and token.text != ")":
            self._place += 1
            if token.text == "(":
                while self._peek().kind == "number" or self._peek().text == ",":
                    self._place += 1
                self._require(")")
        kind = " ".join(self._text[begin : self._peek().at].lower().split())
        if not _TYPES.fullmatch(kind):
            raise self._error(f"unsupported type {kind!r}", begin, hint="use a type such as decimal(12, 2)")
        self._require(")")
        return f"try_cast({found} AS {'string' if kind == 'text' else kind})"

    def _read_call(self, name: str) -> str:
        token = self._peek()
        if name not in _FUNCTIONS:
            raise self._error(
                f"function {name} is not allowed", token.at, hint=f"use one of {', '.join(list_functions())}"
            )
        self._place += 1
        fewest, most, called = _FUNCTIONS[name]
        arguments = self._read_list()
        if not fewest <= len(arguments) <= most:
            count = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise self._error(f"function {name} takes {count} arguments, not {len(arguments)}", token.at)
        return f"{called}({', '.join(arguments)})"

    def _read_list(self) -> list[str]:
        self._require("(")
        found = [self._read_or()]
        while self._take(","):
            found.append(self._read_or())
        self._require(")")
        return found

    def _read_column(self) -> str:
        token = self._peek()
        self._place += 1
        name = token.text[1:-1] if token.kind == "quoted" else token.text
        if self._peek().text == ".":
            raise self._error(
                f"{name}. refers to a field", token.at, hint="declare the field as a column, and use its name"
            )
        self.columns.add(name)
        return f"`{name}`"

    # --- tokens

    def _nest(self, read: Callable[[], str]) -> str:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise self._error("it is nested too deeply", self._peek().at)
        found = read()
        self._depth -= 1
        return found

    def _peek(self, ahead: int = 0) -> _Token:
        place = self._place + ahead
        return self._tokens[place] if place < len(self._tokens) else _Token("", "", len(self._text))

    def _take(self, text: str) -> bool:
        token = self._peek()
        is_it = token.kind in {"name", "sign"} and token.text.lower() == text
        self._place += is_it
        return is_it

    def _require(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(text)

    def _unexpected(self, wanted: str = "") -> UsageError:
        token = self._peek()
        found = f"unexpected {token.text!r}" if token.kind else "it ends too early"
        return self._error(f"{found}{f', expected {wanted}' if wanted else ''}", token.at)

    def _error(self, problem: str, at: int, *, hint: str = "") -> UsageError:
        return UsageError(
            f"invalid expression in {self._what}: {problem}",
            cause=f"character {at + 1} of {self._text[:200]!r}",
            hint=hint or "use columns of the pipeline, literals, operators, CASE, CAST and the documented functions",
        )
