"""The Korean documentation: its catalogs are in step with the English pages, and each check finds its fault."""

from __future__ import annotations

import re
from io import BytesIO

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

from tools.korean import PAGES
from tools.korean.__main__ import ADVICE, check_catalogs, check_readme, main
from tools.korean.catalogs import (
    FOLDER,
    REPOSITORY,
    find_differences,
    format_catalog,
    list_translations,
    read_catalogs,
    read_templates,
    update_catalog,
)
from tools.korean.messages import find_problems, needs_translation, read_glossary
from tools.korean.readme import NOTE, WIDTH, _count_columns, build_readme

GLOSSARY = read_glossary()
ENGLISH = "Stop the sink `lake`, see [offsets](offsets.md)."
KOREAN = "싱크 `lake`를 중지합니다. [오프셋](offsets.md)을 보십시오."


def build_catalog(**translations):
    catalog = Catalog()
    for english, korean in translations.items():
        catalog.add(english.replace("_", " "), korean)
    return catalog


@pytest.fixture(scope="module")
def templates():
    return read_templates()


@pytest.fixture(scope="module")
def catalogs():
    return read_catalogs()


def test_catalogs_are_in_step_complete_and_consistent(catalogs, templates):
    assert check_catalogs(catalogs, templates) == [], ADVICE


def test_the_readme_is_up_to_date(catalogs):
    assert check_readme(catalogs) == [], ADVICE


def test_files_are_as_update_writes_them(catalogs):
    files = sorted((REPOSITORY / FOLDER).rglob("*.po"))
    assert [str(file.relative_to(REPOSITORY / FOLDER).with_suffix(".md")) for file in files] == sorted(PAGES)
    for page, catalog in catalogs.items():
        text = (REPOSITORY / FOLDER / page).with_suffix(".po").read_text(encoding="utf-8")
        assert text == format_catalog(catalog), ADVICE


def test_the_pages_are_korean(catalogs):
    text = " ".join(korean for catalog in catalogs.values() for korean in list_translations(catalog).values())
    assert len(re.findall(r"[가-힣]", text)) > 8000
    assert len(re.findall(r"(?:니다|십시오)\.", text)) > 300


def test_every_start_page_and_every_runbook_has_a_catalog():
    pages = {
        str(path.relative_to(REPOSITORY))
        for kind in ("start", "runbooks")
        for path in REPOSITORY.glob(f"docs/{kind}/*.md")
    }
    assert sorted(pages - set(PAGES)) == [], (
        "add them to tools/korean/__init__.py, then run python -m tools.korean update"
    )


def test_the_advice_names_the_command():
    assert "python -m tools.korean update" in ADVICE


@pytest.mark.parametrize(
    ("there", "wanted", "found"),
    [
        ({"A_topic": "토픽"}, {"A_topic": ""}, []),
        ({}, {"A_topic": ""}, ["x.md: not in the catalog: A topic"]),
        ({"A_topic": "토픽"}, {}, ["x.md: no longer on the page: A topic"]),
        ({"A_topic": ""}, {"A_topic": ""}, ["x.md: untranslated: A topic"]),
        (
            {"A_topic": "토픽", "A_task": "태스크"},
            {"A_task": "", "A_topic": ""},
            ["x.md: the messages of the catalog have another order than the page"],
        ),
    ],
)
def test_differences_from_the_english_page_are_found(there, wanted, found):
    assert find_differences("x.md", build_catalog(**there), build_catalog(**wanted)) == found


def test_a_changed_sentence_makes_its_translation_fuzzy():
    catalog = build_catalog(Stop_all_tasks_of_the_connector_now="지금 커넥터의 모든 태스크를 중지합니다")
    template = build_catalog(Stop_all_tasks_of_a_connector_now="")
    assert len(find_differences("x.md", catalog, template)) == 2
    update_catalog(catalog, template)
    assert find_differences("x.md", catalog, template) == ["x.md: fuzzy: Stop all tasks of a connector now"]
    assert list_translations(catalog) == {}
    written = read_po(BytesIO(format_catalog(catalog).encode()), abort_invalid=True)
    assert find_differences("x.md", written, template) == ["x.md: fuzzy: Stop all tasks of a connector now"]
    assert "#| msgid" in format_catalog(catalog)


def test_an_update_fills_in_messages_without_prose():
    catalog, template = Catalog(), Catalog()
    template.add("`seamark status`")
    template.add("See `seamark status`")
    update_catalog(catalog, template)
    assert list_translations(catalog) == {"`seamark status`": "`seamark status`"}


@pytest.mark.parametrize(
    ("text", "needed"),
    [("`--list`", False), ("`a`, `b`", False), ("3", False), ("`a` or `b`", True), ("[a page](x.md)", True)],
)
def test_messages_without_prose_stay_as_they_are(text, needed):
    assert needs_translation(text) is needed
    if not needed:
        assert find_problems(text, text, GLOSSARY) == []
        assert find_problems(text, f"{text} 등", GLOSSARY) != []


def test_a_good_translation_has_no_problems():
    assert find_problems(ENGLISH, KOREAN, GLOSSARY) == []


@pytest.mark.parametrize(
    ("english", "korean", "problem"),
    [
        (ENGLISH, KOREAN.replace("`lake`", "`late`"), "missing: `lake`"),
        (ENGLISH, KOREAN.replace("`lake`", "lake"), "missing: `lake`"),
        (ENGLISH, KOREAN.replace("offsets.md", "offset.md"), "missing: link to offsets.md"),
        (ENGLISH, KOREAN.replace("offsets.md", "offset.md"), "not in the English text: link to offset.md"),
        (ENGLISH, KOREAN.replace("싱크", "sink"), "sinks? must be translated as 싱크"),
        (ENGLISH, KOREAN.replace("오프셋", "옵셋"), "write 오프셋 instead of 옵셋"),
        (ENGLISH, KOREAN.replace("중지합니다", "중지한다"), "not in the formal style: 중지한다."),
        (ENGLISH, KOREAN.replace("중지합니다", "중지해요"), "not in the formal style: 중지해요."),
        (ENGLISH, ENGLISH, "isn't Korean"),
        ("A consumer group reads", "그룹이 컨슈머를 읽습니다", "consumer groups? must be translated as 컨슈머 그룹"),
        ("It takes 5 s and 1,024 rows", "1,024행에 10초가 걸립니다", "missing: 5"),
        ("Wait until RUNNING", "실행될 때까지 기다립니다", "missing: RUNNING"),
        ("Keep the **new** name", "**새 (이름)**을 씁니다", "other parts are set in bold or italics than in the"),
        ("Keep the **new** name", "새 이름을 씁니다", "other parts are set in bold or italics than in the"),
        ("Press <kbd>q</kbd> now", "`q`를 누릅니다", "missing: <kbd>"),
        ("See ![a fleet](fleet.svg) here", "![플릿](flet.svg)을 보십시오", "missing: image fleet.svg"),
    ],
)
def test_faults_of_a_translation_are_found(english, korean, problem):
    assert any(found.startswith(problem) for found in find_problems(english, korean, GLOSSARY))


def test_a_longer_term_is_not_also_a_shorter_one():
    assert find_problems("A source partition", "소스 파티션", GLOSSARY) == []
    assert find_problems("several rows in a row", "연달아 여러 행", GLOSSARY) == []


README = """\
# A fleet

One topic and
two topics.

- **See** the `topics` of a
  [fleet](a.md).

| a topic | `x` |
|---|---|
| a topic | one topic |

```sh
One topic and
```
"""


def test_the_readme_is_built_from_its_messages():
    messages = {
        "A fleet": "플릿",
        "One topic and two topics.": "토픽 하나와 둘입니다.",
        "**See** the `topics` of a [fleet](a.md).": "[플릿](a.md)의 `topics`를 **봅니다**.",
        "a topic": "토픽",
        "one topic": "토픽 하나",
    }
    assert build_readme(README, messages) == (
        NOTE
        + """\
# 플릿

토픽 하나와 둘입니다.

- [플릿](a.md)의 `topics`를 **봅니다**.

| 토픽 | `x` |
|---|---|
| 토픽 | 토픽 하나 |

```sh
One topic and
```
"""
    )
    with pytest.raises(KeyError):
        build_readme(README, {"A fleet": "플릿"})


def test_long_lines_of_the_readme_are_wrapped_in_their_block():
    built = build_readme("- A fleet\n", {"A fleet": "커넥터를 `a b c d` 봅니다 - " * 20 + "1. 끝"})
    lines = built.removeprefix(NOTE).splitlines()
    assert len(lines) > 3
    assert all(_count_columns(line) <= WIDTH + 12 for line in lines)
    assert all(line.startswith("  ") and not re.match(r" *(?:[-`]$|- |\d+\.)", line) for line in lines[1:])
    assert all(line.count("`") % 2 == 0 for line in lines)


@pytest.mark.parametrize("arguments", [[], ["translate"], ["check", "x"]])
def test_wrong_use_has_the_exit_code_64(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 64
