"""YAML spec files: connectors, each, topics, and what they inherit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.core.files import FileLocation
from seamark.errors import SpecError
from seamark.specs.document import RULES

SKETCH = """\
defaults:
  connector.class: io.aiven.connect.jdbc.JdbcSourceConnector
  connection.user: ${file:/etc/kafka/db.properties:user}          # Connect's own reference
  connection.password: secret://env/GAME_DB_PASSWORD
each:
  - name: log-${{ each.table }}
    for:
      - {table: login,    poll: 5000}
      - {table: purchase, poll: 1000}
    config:
      table.whitelist: ${{ each.table }}
      poll.interval.ms: ${{each.poll}}
      topic.prefix: ${{ env.STAGE }}-game-
topics:
  game-purchase: {partitions: 6, replication_factor: 3, config: {retention.ms: 604800000}}
  game-login:
"""


def test_each_row_becomes_a_connector(folder):
    folder.environ["STAGE"] = "dev"
    folder.write("log.yaml", SKETCH)
    spec = folder.load()
    assert [connector.name for connector in spec.connectors] == ["log-login", "log-purchase"]
    login = spec.connectors[0]
    assert dict(login.config) == {
        "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
        "connection.user": "${file:/etc/kafka/db.properties:user}",
        "connection.password": "secret://env/GAME_DB_PASSWORD",
        "table.whitelist": "login",
        "poll.interval.ms": "5000",
        "topic.prefix": "dev-game-",
    }
    assert login.place == FileLocation(str(folder.path / "log.yaml"), 8, 9)
    assert (login.cluster, login.state) == (None, "")


def test_topics_stand_beside_connectors(folder):
    folder.environ["STAGE"] = "dev"
    folder.write("log.yaml", SKETCH)
    purchase, login = folder.load().find("topics")
    assert (purchase.name, purchase.partitions, purchase.replication_factor) == ("game-purchase", 6, 3)
    assert dict(purchase.config) == {"retention.ms": "604800000"}
    assert (login.name, login.partitions, login.replication_factor, dict(login.config)) == (
        "game-login",
        None,
        None,
        {},
    )
    assert purchase.place.line == 15


def test_connectors_come_as_a_list_or_as_a_table(folder):
    folder.write("a.yaml", "connectors:\n  - name: one\n    state: Stopped\n    config: {connector.class: A}\n")
    folder.write("b.yaml", "cluster: game\nconnectors:\n  two:\n    cluster: lake\n    config: {connector.class: B}\n")
    found = folder.connectors()
    assert list(found) == ["one", "lake/two"]
    assert found["one"].state == "STOPPED"


@pytest.mark.parametrize("text", ["yes", "010", "12:30", "1.0", "1e3", "true", "0o17", "2026-11-15", "+1", "1_000"])
def test_a_value_keeps_its_spelling(folder, text):
    folder.write("a.yaml", f"connectors:\n  - {{name: a, config: {{connector.class: A, 'k': {text}}}}}\n")
    folder.write("b.yaml", f"connectors:\n  - name: b\n    config:\n      connector.class: A\n      k: {text}\n")
    assert [config["k"] for config in folder.configs().values()] == [text, text]


def test_nearest_default_wins_key_by_key_and_null_takes_out(folder):
    folder.write("_defaults.yaml", "cluster: far\ndefaults: {connector.class: A, one: far, two: far, three: far}\n")
    folder.write("sub/_defaults.yaml", "defaults:\n  two: near\n  three: null\n")
    folder.write(
        "sub/x.yaml", "defaults: {four: file, five: file}\nconnectors:\n  x:\n    config: {five: own, one: ~}\n"
    )
    folder.write("y.yaml", "connectors:\n  - {name: y}\n")
    found = folder.configs()
    assert found["far/x"] == {"connector.class": "A", "two": "near", "four": "file", "five": "own"}
    assert found["far/y"] == {"connector.class": "A", "one": "far", "two": "far", "three": "far"}


def test_a_file_alone_inherits_from_all_folders_of_its_repository(folder):
    folder.write(".git/config", "")
    folder.write("_defaults.yaml", "defaults: {connector.class: A}\n")
    folder.write("deep/er/x.yaml", "connectors: [{name: x}]\n")
    assert folder.configs("deep/er/x.yaml") == {"x": {"connector.class": "A"}}


def test_bases_are_named_defaults(folder):
    folder.write("_defaults.yaml", "bases:\n  bulk: {connector.class: A, mode: bulk, poll: 1}\n")
    folder.write(
        "x.yaml",
        """\
        defaults: {mode: none, other: yes}
        bases: {bulk: {poll: 2}}
        connectors:
          - {name: x, base: bulk, config: {own: 1}}
        """,
    )
    assert folder.configs()["x"] == {"mode": "bulk", "other": "yes", "connector.class": "A", "poll": "2", "own": "1"}


def test_aliases_and_merge_keys_work(folder):
    folder.write(
        "x.yaml",
        """\
        defaults: &common {connector.class: A, a: 1}
        connectors:
          - name: x
            config:
              <<: *common
              a: 2
          - name: y
            config: *common
        """,
    )
    assert folder.configs() == {"x": {"connector.class": "A", "a": "2"}, "y": {"connector.class": "A", "a": "1"}}


def test_an_alias_bomb_is_refused(folder):
    rows = ["x0: &x0 [a, a, a, a, a, a, a, a, a, a]"]
    rows += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 12)]
    folder.write("x.yaml", "\n".join(rows))
    assert "aliases expanded" in folder.fail().cause


def test_a_bomb_of_merge_keys_is_stopped_early(folder, monkeypatch):
    monkeypatch.setattr("seamark.specs.document.RULES", replace(RULES, max_size=20_000))
    keys = "\n".join(f"  k{number}: 1" for number in range(300))
    merges = "\n".join("  - {<<: *all}" for _ in range(100))
    folder.write("x.yaml", f"defaults: &all\n{keys}\nconnectors:\n{merges}\n")
    assert "aliases expanded" in folder.fail().cause


def test_a_bomb_of_rows_is_refused(folder, monkeypatch):
    monkeypatch.setattr("seamark.specs.yaml_file.MAX_VALUES", 5)
    folder.write("x.yaml", "each: [{name: a, for: [{}, {}, {}], config: {connector.class: A, b: c}}]\n")
    assert folder.fail().cause == "x.yaml:1:23: more than 5 values (rows times keys)"


def test_a_literal_block_goes_through(folder):
    folder.write(
        "x.yaml", "connectors:\n- name: x\n  config:\n    connector.class: A\n    query: |\n      a\n       b\n"
    )
    assert folder.configs()["x"]["query"] == "a\n b\n"


def test_an_empty_file_defines_nothing(folder):
    folder.write("x.yaml", "# nothing yet\n")
    assert folder.load().connectors == ()


CASES = {
    "connectors:\n  - name: a\n   config: {}\n": ("x.yaml:3:4: ", ""),
    "conectors: []\n": ("x.yaml:1:1: a spec file has no key conectors", "use connectors"),
    "pipelines: []\n": ("x.yaml:1:12: pipelines must be a map", ""),
    "connectors:\n  - name: a\n    tasks.max: 1\n": (
        "x.yaml:3:5: a connector has no key tasks.max",
        "move tasks.max below config:",
    ),
    "connectors:\n  - config: {}\n": ("x.yaml:2:5: this entry has no name", "add name: …"),
    "connectors:\n  - name: a\n    config: {}\n": ("x.yaml:2:5: connector a has no connector.class", ""),
    "connectors:\n  - name: a\n    config: {k: [1]}\n": ("x.yaml:3:17: k in config is not a string", ""),
    "connectors:\n  - name: a\n    config:\n      k:\n": ("x.yaml:4:7: k in config has no value", ""),
    "connectors:\n  - name: a\n    config: !!map {}\n": ("x.yaml:3:13: tags are not supported", ""),
    "connectors:\n  - name: a\n    config: {k: 1, k: 2}\n": (
        "x.yaml:3:20: duplicate key k, first in line 3",
        "",
    ),
    "connectors:\n  - name: a\n    state: lazy\n": (
        "x.yaml:3:12: invalid state",
        "use one of running, paused, stopped",
    ),
    "connectors:\n  - name: a\n    base: b\n": ("x.yaml:3:11: unknown base b", "use one of the known bases: none"),
    "connectors: {a: {name: b}}\n": ("x.yaml:1:18: name is already the key of this entry", ""),
    "connectors: a\n": ("x.yaml:1:13: connectors must be a list", ""),
    "each:\n  - name: a\n": ("x.yaml:2:5: this entry has no rows", ""),
    "each:\n  - {name: a, for: [b]}\n": ("x.yaml:2:21: a row of for must be a map", ""),
    "each:\n  - {name: a, for: [{b: null}]}\n": ("x.yaml:2:22: b in this row is not a string", ""),
    "topics: {a: {partitions: 0}}\n": ("x.yaml:1:26: partitions must be an integer of 1 or more", ""),
    "topics: {a: {parts: 1}}\n": ("x.yaml:1:14: a topic has no key parts", "use partitions"),
    "a: 1\n---\nb: 2\n": ("x.yaml:2:1: a second document", ""),
    "- a\n": ("x.yaml:1:1: a spec file must be a map", ""),
    "a: *b\n": ("x.yaml:1:4: an alias without its anchor", ""),
    "spec: a\n": ("x.yaml:1:1: a spec file has no key spec", ""),
    "connectors: [{name: a, config: {connector.class: A, name: b}}]\n": ("x.yaml:1:14: the connector is a, but", ""),
    "a: " + "[" * 30 + "]" * 30 + "\n": ("x.yaml:1:23: it is nested more than 20 levels deep", ""),
}


@pytest.mark.parametrize("text", CASES)
def test_a_broken_file_says_where_and_what_next(folder, text):
    cause, hint = CASES[text]
    folder.write("x.yaml", text)
    error = folder.fail()
    assert isinstance(error, SpecError)
    assert error.cause.startswith(cause)
    assert error.hint == hint or not hint


def test_no_error_repeats_a_value(folder):
    folder.write("x.yaml", "connectors:\n  - name: a\n    config: {password: 'hunter2' oops}\n")
    error = folder.fail()
    assert "hunter2" not in str(error.as_dict())
    assert error.__context__ is None


def test_a_relative_secret_file_starts_at_the_file_that_names_it(folder):
    folder.write("_defaults.yaml", "defaults: {connector.class: A, p: secret://file/db.properties#password}\n")
    folder.write("sub/x.yaml", "connectors: [{name: x, config: {q: 'secret://file//etc/q', r: 'secret://file/r'}}]\n")
    config = folder.configs()["x"]
    assert config["p"] == f"secret://file/{folder.path}/db.properties#password"
    assert config["q"] == "secret://file//etc/q"
    assert config["r"] == f"secret://file/{folder.path}/sub/r"


ROWS = """\
each:
  - {name: "a-${{ each.t }}", rows: n, for: [{t: x}, {t: "${{ env.T }}"}], config: {connector.class: A}}
  - {name: "b-${{ each.t }}", rows: n, for: [{t: x}, {t: z}], config: {connector.class: A}}
  - name: c-${{ each.i }}
    for: [{i: "1", all: "${{ each(n).t }}"}]
    config: {connector.class: B, topics: "${{ each.all }}"}
connectors: [{name: d, config: {connector.class: B, topics: "${{ each(n).t }}"}}]
topics: {all: {config: {list: "${{ each(n).t }}"}}}
"""


def test_rows_of_one_name_are_gathered_in_their_order(folder):
    folder.environ["T"] = "y"
    folder.write("a.yaml", ROWS)
    configs = folder.configs()
    assert configs["d"]["topics"] == configs["c-1"]["topics"] == "x,y,z"
    assert dict(folder.load().find("topics")[0].config) == {"list": "x,y,z"}


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("{t: z}", '{t: "${{ each(n).t }}"}', "a.yaml:3:59: each(n) can't be used here"),
        ("rows: n", "rows: n/m", "a.yaml:2:37: invalid name of rows"),
        ("rows: n", "rows: [n]", "a.yaml:2:37: rows must be a string"),
    ],
)
def test_rows_that_cannot_be_gathered_are_refused(folder, old, new, cause):
    folder.environ["T"] = "y"
    folder.write("a.yaml", ROWS.replace(old, new))
    assert folder.fail().cause.startswith(cause)


def test_rows_are_named_for_their_file_only(folder):
    folder.environ["T"] = "y"
    folder.write("a.yaml", ROWS)
    folder.write("b.yaml", 'connectors: [{name: e, config: {connector.class: B, topics: "${{ each(n).t }}"}}]')
    assert folder.fail().cause.startswith("b.yaml:1:62: no rows of this file are named n; named rows: none")


STATES = """\
defaults: {manage_state: true, connector.class: A}
connectors:
  - {name: a, config: {k: v}}
  - {name: b, manage_state: false, config: {k: v}}
  - {name: c, state: paused, manage_state: "${{ env.M }}", config: {k: v}}
"""


def test_states_are_managed_by_default_or_one_by_one(folder):
    folder.environ["M"] = "False"
    folder.write("a.yaml", STATES)
    found = folder.connectors()
    assert {name: one.manage_state for name, one in found.items()} == {"a": True, "b": False, "c": False}
    assert "manage_state" not in found["a"].config
    folder.environ["M"] = "true"
    assert folder.connectors()["c"].managed_state == "PAUSED"
    folder.environ["M"] = "yes"
    assert folder.fail().cause == "a.yaml:5:44: it must be true or false"


def test_a_folder_may_manage_the_states_of_its_files(folder):
    folder.write("_defaults.yaml", "defaults: {manage_state: true}")
    folder.write("a.yaml", STATES.replace("manage_state: true, ", "").replace('"${{ env.M }}"', "false"))
    assert [one.manage_state for one in folder.load().connectors] == [True, False, False]
