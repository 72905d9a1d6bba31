"""The documents beside the code: indexes are complete, links lead somewhere, hooks need no network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bench.harness.record import ROOT
from tools.words.__main__ import FOLDER
from tools.words.hits import find_hits, read_words
from tools.words.texts import Text, TextKind

DECISIONS = ROOT / "docs" / "decisions"
RECORDS = sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "docs" / "index.md", DECISIONS / "README.md", *RECORDS]
INDEXES = sorted(path for name in ("index.md", "README.md") for path in (ROOT / "docs").glob(f"[!d]*/{name}"))
# A page of the section for contributors.
PLACEMENT = ROOT / "docs" / "explanation" / "placement.md"
WORDS = read_words(FOLDER / "words.yml")
HEADINGS = ["Situation", "Decision", "Why", "Rejected", "Consequences"]


def test_index_lists_each_record_with_its_title() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", index, re.MULTILINE)
    written = []
    for path in RECORDS:
        number, title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").split(" ", 1)
        written.append((number, path.name, title))
    assert listed == written
    assert len(written) >= 23


def test_records_are_numbered_without_a_gap() -> None:
    assert [path.name[:4] for path in RECORDS] == [f"{number:04d}" for number in range(1, len(RECORDS) + 1)]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record_has_the_form(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(f"# {path.name[:4]} ")
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == HEADINGS
    assert 20 <= len(lines) <= 40


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record_has_one_status_of_the_fixed_set(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines) if line.startswith("Status:")] == [2]
    found = re.match(r"Status: (?:proposed|accepted|superseded by (\d{4})), \d{4}-\d\d-\d\d\.", lines[2])
    assert found, lines[2]
    if found[1]:
        (newer,) = DECISIONS.glob(f"{found[1]}-*.md")
        assert f"[{path.name[:4]}]({path.name})" in newer.read_text(encoding="utf-8").partition("\n## ")[0]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record_has_a_title_and_a_file_name_without_words_to_avoid(path: Path) -> None:
    title = path.read_text(encoding="utf-8").splitlines()[0].partition(" ")[2]
    texts = [Text(path.name, 1, TextKind.DOCS, title), Text(path.name, 0, TextKind.DOCS, path.stem.replace("-", " "))]
    assert list(find_hits(texts, WORDS)) == []
    # The title is the choice: it begins with a verb, not with the thing that was decided about.
    assert re.match(r"\d{4} (?!A |An |The |What |How |All |One )[A-Z]", title)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_relative_links_lead_to_a_file(path: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index.parent.name)
def test_index_of_a_section_names_every_page(index: Path) -> None:
    links = set(re.findall(r"\]\(([^)#]+)", index.read_text(encoding="utf-8")))
    named = {(index.parent / link).resolve() for link in links}
    assert named >= {path for path in index.parent.glob("*.md") if path not in (index, PLACEMENT)}


def test_every_section_has_an_index_that_the_start_page_names() -> None:
    sections = {path.parent for path in (ROOT / "docs").glob("*/*.md")} - {DECISIONS}
    assert {index.parent for index in INDEXES} == sections
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [index for index in INDEXES if f"({index.relative_to(ROOT / 'docs')})" not in start] == []


def test_hooks_are_local_and_fetch_nothing() -> None:
    config = YAML(typ="safe", pure=True).load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {hook["id"] for hook in hooks} == {"ruff-check", "ruff-format", "codespell", "import-linter", "mypy"}
    assert {hook["language"] for hook in hooks} == {"system"}
