"""Tables of the pages that are written by hand have everything that the code has."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import click
import pytest

import tests.unit.changes.example_plans as examples
from seamark.changes import planner
from seamark.cli.connect_offsets import connect_offsets
from seamark.cli.main import COMPLETE_VAR, root
from seamark.connect.capability import SINCE
from seamark.connect.model import State
from seamark.connectors.model import Health
from seamark.context.schema import PACE_KEYS, ROLE_KEYS
from seamark.devstack.stack import KAFKA_VERSION
from seamark.offsets.codec.verdicts import KeyVerdict, ValueVerdict
from seamark.offsets.model import OffsetAnomaly
from seamark.offsets.read.export_file import _FIELDS, _LATER_FIELDS
from seamark.offsets.restore.targets import _WORDS
from seamark.topics.health_model import HealthCheck
from tools.reference import build_reference
from tools.reference.acls import CHANGES, NOT_ASKED
from tools.reference.documents import DESCRIBED, build_documents, read_documents
from tools.reference.versions import list_connect_versions

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "seamark"
DOCS = ROOT / "docs"


def read_section(page, heading):
    """Return what a page says below a heading, without the sections of the same level after it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,3}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading}"
    return found[2]


def read_names(page, heading, column=1):
    """Return the code spans in one column of the tables below a heading, in their order."""
    lines = read_section(page, heading).replace("\\|", ",").splitlines()
    rows = [line.split("|") for line in lines if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[column])]


def test_every_global_option_is_on_the_page():
    wanted = {name for param in root.params for name in (*param.opts, *param.secondary_opts)}
    assert {name.split()[0] for name in read_names("reference/command-line.md", "Global options")} == {
        *wanted, "--version", "-h", "--help",
    }  # fmt: skip


# What seamark sets for processes that it starts, and what Click sets for completions.
SET_BY_SEAMARK = {COMPLETE_VAR, "SEAMARK_SPARK_ENVIRONMENT", "PYSPARK_GATEWAY_PORT"}
# The operating system sets it.
OF_THE_SYSTEM = {"HOME"}
# For tests and the demo; docs/contributing/devstack.md describes them.
OF_DEVSTACK = {"SEAMARK_CACHE", "SEAMARK_DEVSTACK", "SEAMARK_PLUGINS"}


def find_variables():
    """Return every variable that the code reads or sets by its name, but for devstack."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] == "devstack":
            continue
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"[\"'](_?SEAMARK_[A-Z_]+[A-Z])[\"']", text))
        found |= set(re.findall(r"environ(?:\.get\(|\[)[\"']([A-Z_]+)[\"']", text))
    return found


def test_every_environment_variable_is_on_the_page():
    documented = set(read_names("reference/command-line.md", "Environment variables"))
    found = find_variables()
    assert len(found) > 10
    assert found - documented - SET_BY_SEAMARK - OF_THE_SYSTEM - OF_DEVSTACK == set()
    text = (DOCS / "contributing" / "devstack.md").read_text(encoding="utf-8")
    assert [name for name in OF_DEVSTACK if name not in text] == []
    assert {name for name in documented if name.startswith("SEAMARK_")} - found == set()


def test_every_key_of_a_role_and_of_the_pace_is_on_the_page():
    (roles,) = re.findall(r"^\| `roles` \|.*", read_section("reference/contexts.md", "Keys"), re.MULTILINE)
    (pace,) = re.findall(r"^\| `pace` \|.*", read_section("reference/contexts.md", "Keys"), re.MULTILINE)
    assert re.findall(r"`(\w+)`", roles)[1:] == list(ROLE_KEYS)
    assert re.findall(r"`(\w+)`", pace)[1:] == list(PACE_KEYS)


def test_every_anomaly_of_offsets_is_on_the_page():
    assert set(read_names("reference/offsets.md", "Anomalies")) == set(OffsetAnomaly)


def test_every_verdict_on_a_record_is_on_the_page():
    names = read_names("reference/offsets.md", "What a worker reads", column=-2)
    text = read_section("reference/offsets.md", "What a worker reads")
    assert {*KeyVerdict, *ValueVerdict} - {*names, "too-large"} == set()
    assert "`too-large`" in text


def test_every_field_of_an_export_is_on_the_page():
    assert set(read_names("reference/offsets.md", "Exports")) - {"seamark/v1", "OffsetExport"} == {
        *_FIELDS,
        *_LATER_FIELDS,
    }


def test_every_check_of_topics_is_on_the_page():
    assert set(read_names("how-to/topics-and-groups.md", "Health")) == set(HealthCheck)


def test_every_parameter_of_connect_offsets_is_on_the_page():
    documented = read_names("how-to/connect-offsets.md", "connect-offsets")
    wanted = {
        param.opts[0]
        for param in connect_offsets.params
        if isinstance(param, click.Option) and param.name not in ("help", "version")
    }
    assert {re.split(r"[= ]", name)[0] for name in documented if name.startswith("--")} == wanted
    assert "FILE" in documented


# --- Kafka permissions


def read_rights(folder):
    """Return what the actions of each kind need on the brokers, in the plans of all scenarios."""
    needed = defaultdict(set)
    merge = planner.merge_needs
    with pytest.MonkeyPatch.context() as patch:
        seen = []
        patch.setattr(planner, "merge_needs", lambda needs: seen.append(merge(needs)) or seen[-1])
        for number, (kind, scenario) in enumerate(examples.find_examples()):
            (folder / str(number)).mkdir()
            seen.clear()
            with examples.open_example(kind, scenario, folder / str(number)):
                needed[kind] |= {(right.kind, right.operation) for one in seen for right in one.rights}
    return needed


def test_permissions_of_changes_are_those_that_their_actions_need(tmp_path):
    needed = read_rights(tmp_path)
    assert sum(map(len, needed.values())) > 20
    assert {kind for one in CHANGES for kind in one.kinds} <= needed.keys()
    for kind, rights in needed.items():
        documented = {(one.resource, name) for one in CHANGES if kind in one.kinds for name in one.operations}
        assert rights <= documented, f"{kind} needs more than the page says"
    for one in CHANGES:
        asked = {operation for kind in one.kinds for resource, operation in needed[kind] if resource == one.resource}
        assert asked or set(one.operations) <= NOT_ASKED, f"no scenario of {one.kinds} needs anything"


def test_operations_that_brokers_reject_are_those_of_the_client():
    sources = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "kafka").glob("*.py"))
    used = set(re.findall(r'operation="([A-Z_]+)"', sources))
    assert used - {"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"} == NOT_ASKED
    assert {name for one in CHANGES for name in one.operations} >= NOT_ASKED


# --- versions


def test_every_capability_and_every_tested_version_is_in_the_matrix():
    table = build_reference("connect-versions").splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == [str(one) for one in SINCE]
    assert list_connect_versions()[-1] == KAFKA_VERSION
    assert f"| {KAFKA_VERSION} |" in table[0]
    (row,) = [line for line in table if line.startswith("| changing offsets |")]
    cells = dict(zip(list_connect_versions(), [cell.strip() for cell in row.split("|")[3:-1]], strict=True))
    assert (cells["3.5.2"], cells["3.6.2"]) == ("no", "yes")


def test_every_extra_is_in_the_table_of_versions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = build_reference("dependencies")
    for needs in project["optional-dependencies"].values():
        for need in needs:
            name = re.split(r"[\[<>=]", need)[0]
            assert name == "seamark" or f"| `{name}` |" in table
    assert project["requires-python"].removeprefix(">=") in table


# --- JSON documents

# Tables within documents of other kinds; with `-o csv` they are printed alone.
INNER = {
    "ImbalanceList", "MemberList", "PartitionList", "PlacedList", "PluginKeyList", "PositionList", "SubmitOptionList",
    "TaskList", "TopicFindingList",
}  # fmt: skip


def find_kinds():
    """Return the kinds of documents that the code names where it describes a listing or a view."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).partition("[")[0] in ("Listing", "View"):
                found |= {one.value.value for one in node.keywords if one.arg == "kind"}
    return found


def test_every_kind_of_json_document_is_on_the_page():
    kinds = find_kinds()
    assert len(kinds) > 40
    assert kinds >= INNER
    assert set(read_documents()) == kinds - INNER | {"Error", "OffsetExport"}, "record its JSON with tools.transcripts"
    assert DESCRIBED.keys() <= set(read_documents())
    page = build_documents()
    assert [kind for kind in read_documents() if f"## {kind}\n" not in page] == []
    assert "| `items[].tasks_failed` | integer |" in page


# --- glossary


def read_terms():
    """Return the terms of the glossary with their meanings."""
    lines = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in lines if line.startswith("| ")]
    return dict(rows[1:])


def test_the_glossary_is_sorted_and_its_terms_are_used():
    terms = read_terms()
    assert len(terms) > 30
    assert list(terms) == sorted(terms, key=str.lower)
    pages = [*(path for path in DOCS.rglob("*.md") if path.name != "glossary.md"), *SOURCE.rglob("*.py")]
    text = " ".join(" ".join(path.read_text(encoding="utf-8").lower() for path in pages).split())
    for term in terms:
        words = [one.strip() for one in re.sub(r"\(.*?\)", "", term).replace(":", ",").split(",")]
        assert [word for word in words if word.lower() not in text] == [], term


def test_the_glossary_has_every_state_and_precision_of_the_code():
    terms = read_terms()
    assert re.findall(r"[A-Z]{5,}", terms["health"]) == list(Health)
    assert re.findall(r"[A-Z]{5,}", terms["state"]) == list(State)
    (evidence,) = [term for term in terms if term.startswith("evidence: ")]
    assert evidence.removeprefix("evidence: ").split(", ")[:3] == list(_WORDS.values())
