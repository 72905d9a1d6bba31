"""New files for running connectors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from seamark.specs.edit import build_file_name, compose_file
from seamark.specs.load import load_definitions
from tests.unit.specs.test_edit import CHANGES, NASTY


def test_a_new_file_reads_well():
    config = {"topics": "a,b", "connector.class": "a.B", "tasks.max": "4", "query": "SELECT a\n  FROM b\n", "on": "on"}
    assert compose_file("log", config, cluster="game", without=["gone"]) == (
        "cluster: game\nconnectors:\n  - name: log\n    config:\n      connector.class: a.B\n"
        '      "on": "on"\n      query: |\n        SELECT a\n          FROM b\n      tasks.max: 4\n'
        "      topics: a,b\n"
        "      gone: null\n"
    )


@settings(max_examples=100, deadline=None)
@given(NASTY.filter(bool), CHANGES)
def test_any_config_comes_back_from_a_new_file(tmp_path_factory, name, config):
    path = tmp_path_factory.mktemp("new") / "x.yaml"
    path.write_bytes(compose_file(name, {**config, "connector.class": "A"}).encode())
    found = load_definitions([path], environ={})
    (connector,) = found.spec.connectors
    assert connector.name == name
    assert dict(connector.config) == {**config, "connector.class": "A"}


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("log-login_2.x", "log-login_2.x"),
        ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
        ("_hidden", "%5Fhidden"),
        (".hidden", "%2Ehidden"),
        ("..", "%2E%2E"),
        ("a/b", "a%2Fb"),
        ("a b\n", "a%20b%0A"),
        ("é", "%C3%A9"),
        ("%5Fx", "%255Fx"),
    ],
)
def test_a_file_name_is_harmless(name, file):
    assert build_file_name(name) == file


def test_long_names_do_not_meet():
    first, second = build_file_name("x" * 300 + "a"), build_file_name("x" * 300 + "b")
    assert first != second
    assert max(len(first), len(second)) <= 200
