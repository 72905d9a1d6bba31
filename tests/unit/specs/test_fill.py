"""Filling in values: two kinds of slot, and nothing else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.context import Context, KafkaSettings
from seamark.context.yaml import ScalarNode
from seamark.errors import SpecError
from seamark.specs.document import Document
from seamark.specs.layers import Filler, NamedRows, escape_marks, has_slots

DEV = Context("dev", KafkaSettings(), {}, spec_values={"b": "3", "url": "${{ env.B }}"})


def fill(text, *, row=None, context=DEV, **environ):
    document = Document("x.yaml", f"key: {text}\n")
    rows = NamedRows()
    for one in ({"t": "y", "u": "1", "c": "d"}, {"t": "x", "c": "e"}, {"t": "y", "u": "2", "c": "f,g"}):
        rows.add(one)
    return Filler(environ, lambda: context, row, {"n": rows}).fill(ScalarNode(text, 5, 5 + len(text)), document)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${{ each.a }}-${{env.B}}", "1-2"),
        ("${file:/x:y}", "${file:/x:y}"),
        ("$${{ each.a }}", "${{ each.a }}"),
        ("$$${{ x", "$${{ x"),
        ("${ {", "${ {"),
        ("{{ each.a }}", "{{ each.a }}"),
        ("${{ env.B }}${{ env.B }}", "22"),
        ("${{ context.b }}-${{each.a}}", "3-1"),
        ("${{ context.url }}", "${{ env.B }}"),
        ("${{ each(n).t }}", "y,x"),
        ("a,${{each(n).t}},${{ each.a }}", "a,y,x,1"),
    ],
)
def test_slots_are_filled_and_all_else_is_left(text, filled):
    assert fill(text, row={"a": "1"}, B="2") == filled


def test_what_is_filled_in_is_not_looked_at_again():
    assert fill("${{ env.B }}", B="${{ env.C }}") == "${{ env.C }}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a ${{ env.GONE }}", "x.yaml:1:8: the environment variable GONE is not set"),
        ("${{ each.c }}", "x.yaml:1:6: each.c is not in the row; it has: a"),
        ("$${{ ${{ 1 + 1 }}", "x.yaml:1:11: invalid placeholder: expected ${{ each.NAME }}"),
        ("${{ each.a | upper }}", "x.yaml:1:6: invalid placeholder"),
        ("a${{ context.gone }}", "x.yaml:1:7: gone is not among the values of context dev; they have: b, url"),
        ("a${{ each(n).u }}", "x.yaml:1:7: each(n).u: row 2 has no u"),
        ("a${{ each(n).c }}", "x.yaml:1:7: each(n).c: the value in row 3 has a comma"),
        ("a${{ each(m).t }}", "x.yaml:1:7: no rows of this file are named m; named rows: n"),
        ("${{ each(n) }}", "x.yaml:1:6: invalid placeholder"),
        ("${{ each(n)[0] }}", "x.yaml:1:6: invalid placeholder"),
        ("${{ env(n).t }}", "x.yaml:1:6: invalid placeholder"),
        ("${{", "x.yaml:1:6: invalid placeholder"),
        ("${{ secrets.X }}", "x.yaml:1:6: invalid placeholder"),
        ("${{ env.DB_PASSWORD }}", "x.yaml:1:6: env.DB_PASSWORD appears to be a secret"),
        ("${{ env.URL }}", "x.yaml:1:6: env.URL appears to be a secret"),
    ],
)
def test_anything_else_is_an_error_with_its_place(text, problem):
    with pytest.raises(SpecError) as caught:
        fill(text, row={"a": "1"}, DB_PASSWORD="hunter2", URL="http://me:hunter2@host/")
    assert caught.value.cause.startswith(problem)
    assert caught.value.hint
    assert "hunter2" not in str(caught.value.as_dict())


def test_a_row_counts_only_within_each():
    with pytest.raises(SpecError) as caught:
        fill("${{ each.a }}")
    assert "only within each" in caught.value.cause


def test_a_value_of_the_context_needs_a_context():
    with pytest.raises(SpecError) as caught:
        fill("${{ context.b }}", context=None)
    assert caught.value.cause == "x.yaml:1:6: context.b has a value only in a context, and none is chosen"
    assert "--context" in caught.value.hint


@given(st.text(st.sampled_from("${} aeach.nv"), max_size=30))
def test_an_escaped_text_comes_back_unchanged(text):
    assert fill(escape_marks(text)) == text
    assert not has_slots(escape_marks(text))


def test_a_hostile_text_costs_linear_time():
    begin = time.process_time()
    assert fill("$" * 200_000 + " $${{") == "$" * 200_000 + " ${{"
    assert not has_slots("$" * 200_000)
    assert time.process_time() - begin < 2
