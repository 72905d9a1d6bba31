"""`labels:` of a connector in a spec file: where they may be, how they are merged, and what is refused."""

from __future__ import annotations

import pytest

from seamark.errors import SpecError
from seamark.specs.program import connector


def labels(folder, **how):
    return {owner: dict(found.labels) for owner, found in folder.connectors(**how).items()}


def test_the_nearest_label_counts_and_null_removes_one(folder):
    folder.write(
        "_defaults.yaml",
        "defaults: {connector.class: A, labels: {team: game, tier: gold}}\nbases: {jdbc: {labels: {kind: source}}}\n",
    )
    folder.write(
        "a.yaml",
        """\
        defaults: {labels: {tier: silver}}
        bases: {jdbc: {tasks.max: 1}}
        connectors:
          plain: {}
          based: {base: jdbc, labels: {team: shop, tier: null, order: 1, live: true, empty: ""}}
        """,
    )
    assert labels(folder) == {
        "plain": {"team": "game", "tier": "silver"},
        "based": {"team": "shop", "kind": "source", "order": "1", "live": "true", "empty": ""},
    }
    # Connect gets none of them.
    assert folder.configs()["based"] == {"connector.class": "A", "tasks.max": "1"}


def test_a_text_called_labels_is_a_config_key(folder):
    folder.write("a.yaml", "defaults: {connector.class: A, labels: x}\nconnectors: {a: {config: {labels: y}}, b: {}}\n")
    assert folder.configs() == {
        "a": {"connector.class": "A", "labels": "y"},
        "b": {"connector.class": "A", "labels": "x"},
    }
    assert labels(folder) == {"a": {}, "b": {}}


def test_rows_fill_labels(folder):
    folder.environ["TEAM"] = "game"
    folder.write(
        "a.yaml",
        """\
        each:
          - name: log-${{ each.table }}
            config: {connector.class: A}
            labels: {table: "${{ each.table }}", team: "${{ env.TEAM }}"}
            for: [{table: guild}, {table: purchase}]
        """,
    )
    assert labels(folder) == {
        "log-guild": {"table": "guild", "team": "game"},
        "log-purchase": {"table": "purchase", "team": "game"},
    }


def test_a_program_gives_labels(folder):
    folder.write(
        "_defaults.yaml",
        "defaults: {connector.class: A, labels: {team: game, tier: gold}}\nbases: {b: {labels: {x: y}}}\n",
    )
    folder.write(
        "a.py",
        "from seamark.specs import connector\n"
        "def resources(env):\n"
        "    yield connector('a', {}, base='b', labels={'team': 'shop', 'tier': None, 'shard': 3})\n"
        "    yield connector('b', {})\n",
    )
    assert labels(folder, allow_python=True) == {
        "a": {"team": "shop", "shard": "3", "x": "y"},
        "b": {"team": "game", "tier": "gold"},
    }


def test_what_a_program_writes_into_the_pipe_is_checked(folder):
    folder.write(
        "a.py",
        "from seamark.specs.program import Resource\n"
        "def resources(env):\n"
        "    fields = {'config': {}, 'base': None, 'cluster': None, 'state': None, 'labels': {'a': 1}}\n"
        "    yield Resource('connector', 'a', fields)\n",
    )
    assert isinstance(folder.fail(allow_python=True), SpecError)


@pytest.mark.parametrize("wrong", [{"a": ["b"]}, {1: "b"}, ["a"]])
def test_a_wrong_label_is_refused_where_it_is_made(wrong):
    with pytest.raises(TypeError):
        connector("a", {}, labels=wrong)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("labels: {team: a b}", "invalid value of label team"),
        ("labels: {te am: a}", "invalid key of a label"),
        ("labels: {team: [a]}", "team in labels is not a string"),
        ("labels: [team]", "labels must be a map"),
        ("labels: team", "labels must be a map"),
        ("labels: {'${{ env.X }}': a}", "placeholders are allowed only in values"),
        ("labels: {team: 'secret://env/X'}", "invalid value of label team"),
        ("label: {team: x}", "a connector has no key label"),
    ],
)
def test_a_wrong_label_is_refused_at_its_place(folder, text, cause):
    folder.write("a.yaml", f"connectors:\n  # one\n  - {{name: a, config: {{connector.class: A}}, {text}}}\n")
    error = folder.fail()
    assert cause in f"{error.message} {error.cause}"
    assert "a.yaml:3" in f"{error.message} {error.cause}"


def test_a_value_is_not_shown(folder):
    folder.write("a.yaml", "connectors: {a: {config: {connector.class: A}, labels: {team: 'hunter2 canary'}}}\n")
    error = folder.fail()
    assert "canary" not in f"{error.message} {error.cause} {error.hint}"
