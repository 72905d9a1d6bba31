from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seamark.report.table import Cell, build_table, cut, measure
from seamark.report.text import Screen, Span, Style, line, render_lines


def render(rows, **screen):
    titles = [Cell(f"T{index}") for index in range(len(rows[0]))]
    cells = [[Cell(text) for text in row] for row in rows]
    return render_lines(build_table(titles, cells, screen=Screen(**screen))).splitlines()


def test_columns_are_aligned_by_what_is_seen():
    lines = render([["日本", "x"], ["ab", "y"]])
    assert lines == ["T0     T1", "日本   x", "ab     y"]


def test_numbers_stand_to_the_right():
    cells = [[Cell("7", right=True), Cell("a")], [Cell("1000", right=True), Cell("b")]]
    text = render_lines(build_table([Cell("N", right=True), Cell("X")], cells, screen=Screen()))
    assert text == "   N   X\n   7   a\n1000   b\n"


def test_the_widest_column_is_cut_first():
    (_, row) = render([["short", "a" * 100, "short"]], width=40)
    assert row.startswith("short   aaa")
    assert row.endswith("…   short")
    assert measure(row) == 40


def test_columns_too_many_for_the_terminal_keep_a_readable_width():
    (_, row) = render([["abcdefghijkl"] * 10], width=20)
    assert row.split() == ["abcdefg…"] * 10


@given(st.lists(st.lists(st.text(max_size=30), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(40, 120))
def test_a_table_fits_its_terminal(rows, width):
    for text in render(rows, width=width):
        assert measure(text) <= width


@given(st.text(max_size=20), st.integers(1, 20))
def test_a_cut_text_is_not_wider_than_asked(text, width):
    assert measure(cut(text, width)) <= max(width, 1)


def test_an_unstyled_or_empty_span_gets_no_colour_codes():
    spans = line("a", Span("", Style.BAD), Span("b", Style.GOOD))
    assert render_lines([spans], color=True) == "a\x1b[32mb\x1b[0m\n"
