"""Names of resources: what is spelled is parsed again, and nobody else parses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seamark
from seamark.core.refs import (
    CONNECTOR,
    GROUP,
    PIPELINE,
    TOPIC,
    Ref,
    build_group_owner,
    build_pipeline_owner,
    find_mirror,
    is_group_owner,
    is_mirror,
    is_pipeline,
    parse_aspect,
    parse_owner,
    parse_subject,
    read_group_name,
    spell_aspect,
)

SOURCE = Path(seamark.__file__).parent
PARSERS = ("partition", "rpartition", "split", "rsplit", "startswith", "removeprefix")
NAMES = st.text(min_size=1, max_size=20)
CLUSTERS = st.text(st.characters(exclude_characters="/"), min_size=1, max_size=10).filter(
    lambda name: name not in (GROUP, PIPELINE)
)


@given(cluster=CLUSTERS, name=NAMES)
def test_connector_is_spelled_and_parsed(cluster, name):
    ref = Ref(CONNECTOR, name, cluster)
    assert parse_subject(str(ref)) == ref
    assert parse_owner(ref.owner) == ref


@given(kind=st.sampled_from((TOPIC, GROUP, PIPELINE)), name=NAMES)
def test_other_resources_are_spelled_and_parsed(kind, name):
    ref = Ref(kind, name)
    assert parse_subject(str(ref)) == ref
    if kind != TOPIC:
        assert parse_owner(ref.owner) == ref


@given(subject=NAMES, aspect=st.sampled_from(("config", "state", "position")))
def test_aspect_is_spelled_and_parsed(subject, aspect):
    assert parse_aspect(spell_aspect(subject, aspect)) == (subject, aspect)


@pytest.mark.parametrize(
    ("owner", "ref"),
    [
        ("game/log/purchase", Ref(CONNECTOR, "log/purchase", "game")),
        ("log-purchase", Ref(CONNECTOR, "log-purchase")),
        ("group/team/billing", Ref(GROUP, "team/billing")),
        ("pipeline/sales", Ref(PIPELINE, "sales")),
    ],
)
def test_owner_is_parsed(owner, ref):
    assert parse_owner(owner) == ref
    assert ref.owner == owner


def test_pipeline_takes_the_place_of_its_group():
    owner = build_pipeline_owner("sales")
    assert (read_group_name(owner), build_group_owner(owner)) == (owner, owner)
    assert is_group_owner(owner)
    assert is_pipeline(owner)
    assert is_mirror(find_mirror(owner))
    assert (read_group_name("group/g"), build_group_owner("g"), is_pipeline("g")) == ("g", "group/g", False)
    assert not is_group_owner("game/log-purchase")


def find_parsing(tree):
    """Return the calls that take a subject, an owner or a lane apart, or compare its beginning."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PARSERS):
            continue
        given = [one.value for one in ast.walk(ast.Tuple(node.args)) if isinstance(one, ast.Constant)]
        is_named = re.search(r"owner|subject|lane", ast.unparse(node.func.value))
        kinds = {f"{kind}/" for kind in (CONNECTOR, TOPIC, GROUP, PIPELINE)}
        if (is_named and {"/", "#"} & set(given)) or kinds & set(given):
            yield node


def test_no_other_module_parses_subjects_owners_or_lanes():
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node)}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "ref.py"
        for node in find_parsing(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
