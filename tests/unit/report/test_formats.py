"""Every view in every format: safe on a terminal and off it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from seamark.overview.connector import ConnectorOverview, build_overview_view
from seamark.report.data import OutputFormat
from seamark.report.listing import Column, Listing, View, render_tick, render_view, stream_view
from seamark.report.text import Screen
from tests.unit.cli.stubs import NOON
from tests.unit.report.samples import FORBIDDEN, OUR_STYLES, build_connector, build_views, hostile_text

TERMINAL = Screen(width=60, color=True)
PIPE = Screen()


@settings(max_examples=60, deadline=None)
@given(hostile_text, st.sampled_from(OutputFormat))
def test_no_output_holds_an_unsafe_character(text, form):
    for view in build_views(text):
        assert not FORBIDDEN.search(render_view(view, form, PIPE))
        shown = render_view(view, form, TERMINAL)
        # Only our own styles may be there, and without them nothing unsafe is left.
        assert not FORBIDDEN.search(OUR_STYLES.sub("", shown))
        tick = render_tick(view, form, moment=NOON, screen=PIPE, first=True)
        assert not FORBIDDEN.search(tick)


@settings(max_examples=40, deadline=None)
@given(hostile_text)
def test_colour_changes_nothing_but_colour(text):
    for view in build_views(text):
        plain = render_view(view, OutputFormat.TABLE, Screen(width=60))
        colored = render_view(view, OutputFormat.TABLE, Screen(width=60, color=True))
        assert OUR_STYLES.sub("", colored) == plain


@settings(max_examples=40, deadline=None)
@given(hostile_text)
def test_json_and_yaml_hold_the_same_document(text):
    readable = text.encode("utf-8", "replace").decode()
    for view in build_views(readable):
        from_json = json.loads(render_view(view, OutputFormat.JSON))
        assert from_json["apiVersion"] == "seamark/v1"
        assert from_json["kind"]
        assert YAML(typ="safe", pure=True).load(render_view(view, OutputFormat.YAML)) == from_json


def test_a_pipe_is_never_cut():
    name = "x" * 500
    view = build_views(name)[0]
    assert name in render_view(view, OutputFormat.TABLE, PIPE)
    assert name not in render_view(view, OutputFormat.TABLE, TERMINAL)


@pytest.mark.parametrize("index", range(8))
def test_no_headers_leaves_out_the_titles(index):
    view = build_views("thing")[index]
    titles = {column.title for column in view.listing.columns if column.title and not column.wide}
    with_titles = render_view(view, OutputFormat.TABLE, Screen(headers=True)).split()
    without = render_view(view, OutputFormat.TABLE, Screen(headers=False)).split()
    has_table = view.kind != "Connector" and view.listing.kind != "FindingList"
    assert {word for title in titles for word in title.split()} <= set(with_titles) or not has_table
    assert "PARTITION" not in without
    assert "CLUSTER" not in without
    csv = render_view(view, OutputFormat.CSV, Screen(headers=False))
    assert len(csv.splitlines()) == len(view.rows)


def test_names_are_what_commands_take():
    assert render_view(build_views("log-purchase")[0], OutputFormat.NAME) == "game/log-purchase\n"


def test_watch_writes_one_json_line_a_reading_and_one_csv_header(snapshot):
    view = build_views("log-purchase")[0]
    texts = {
        form: "".join(render_tick(view, form, moment=NOON, screen=PIPE, first=number == 0) for number in range(2))
        for form in OutputFormat
    }
    lines = texts[OutputFormat.JSON].splitlines()
    assert [json.loads(text)["time"] for text in lines] == ["2026-11-14T12:04:31Z"] * 2
    assert texts[OutputFormat.CSV].count("name,cluster") == 1
    assert texts[OutputFormat.YAML].count("---\n") == 2
    assert texts[OutputFormat.TABLE] == snapshot


def test_secrets_of_a_config_are_in_no_format():
    view = build_overview_view(ConnectorOverview(build_connector()))
    for form in OutputFormat:
        assert "hunter2" not in render_view(view, form)


@settings(deadline=None)
@given(st.lists(st.tuples(hostile_text, st.integers(), hostile_text), max_size=5), st.integers(12, 60), st.booleans())
@pytest.mark.parametrize("form", OutputFormat)
def test_a_large_view_is_written_as_a_small_one(form, rows, width, headers):
    listing = Listing(
        kind="ThingList",
        noun="thing",
        name=lambda row: row[0],
        columns=(
            Column("a", "A", lambda row: row[0] or None),
            Column("n%", "N", lambda row: row[1], right=True),
            Column("b", "B", lambda row: row[2], text=lambda row: row[2]),
        ),
    )
    screen = Screen(width=width, headers=headers)
    shown = "".join(stream_view(View(listing, rows, is_large=True), form, screen))
    expected = render_view(View(listing, rows), form, screen)
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        assert YAML(typ="safe").load(shown) == YAML(typ="safe").load(expected)
        assert FORBIDDEN.search(shown) is None
    else:
        # A small table without rows has its titles, a large one nothing.
        assert shown == (expected if rows or not form.is_text else "")
