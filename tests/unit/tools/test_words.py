"""The words that texts avoid: how they are found, and how many each package has."""

from __future__ import annotations

import json

import pytest

from tools.words.__main__ import FOLDER, REPOSITORY, find_differences, main, read_baseline
from tools.words.hits import MOST_EXCEPTIONS, ExemptWord, count_hits, find_hits, is_exempt, read_exceptions, read_words
from tools.words.texts import TextKind, parse_page, parse_source, read_texts, split_name
from tools.words.vale import NOT_CHECKED_EXIT, check_pages

WORDS = read_words(FOLDER / "words.yml")
PATH = "src/seamark/core/x.py"


def find(source, path=PATH, exceptions=()):
    texts = [parse_page(path, source)] if path.endswith(".md") else parse_source(path, source)
    return sorted((hit.line, hit.kind, hit.found) for hit in find_hits(texts, WORDS) if not is_exempt(hit, exceptions))


@pytest.fixture(scope="module")
def hits():
    return list(find_hits(read_texts(REPOSITORY), WORDS))


def test_no_package_has_more_words_to_avoid_than_before(hits):
    exceptions = read_exceptions(FOLDER / "exceptions")
    counts = count_hits(hit for hit in hits if not is_exempt(hit, exceptions))
    assert find_differences({package: kinds.total() for package, kinds in counts.items()}, read_baseline()) == []


def test_every_exception_is_needed(hits):
    exceptions = read_exceptions(FOLDER / "exceptions")
    assert [one for one in exceptions if not any(is_exempt(hit, [one]) for hit in hits)] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Nobody reads it."""', (1, TextKind.DOCSTRINGS, "Nobody")),
        ('X = 1\n"""Made anew."""', (2, TextKind.DOCSTRINGS, "anew")),
        ('def f():\n    """A.\n\n    It goes\n    on.\n    """', (4, TextKind.DOCSTRINGS, "goes on")),
        ("x = 1\n# It\n# goes\n# on.", (3, TextKind.COMMENTS, "goes on")),
        ("x = 1  # for good", (1, TextKind.COMMENTS, "for good")),
        ("class WayBack:\n    pass", (1, TextKind.NAMES, "way back")),
        ("def made_anew():\n    pass", (1, TextKind.NAMES, "anew")),
        ('raise ValueError(f"{x} is no offset")', (1, TextKind.ERRORS, "is no offset")),
        ('fail(x, hint="mend it")', (1, TextKind.ERRORS, "mend")),
        ('option("--x", help="For good.")', (1, TextKind.HELP, "For good")),
        ('@group.command()\ndef f():\n    """Mend it."""', (3, TextKind.HELP, "Mend")),
        ('print(f"{name} stands still")', (1, TextKind.TEXTS, "stands still")),
    ],
)
def test_texts_are_found_by_kind(source, expected):
    assert find(source) == [expected]


def test_other_words_are_not_found():
    assert find('"""There is no offset. It is no longer here. Recommend the oddity of a formerlike marshal."""') == []


def test_names_of_modules_are_texts():
    assert find("", "src/seamark/core/way_back.py") == [(1, TextKind.NAMES, "way back")]
    assert find("", "src/seamark/stray/__init__.py") == [(1, TextKind.NAMES, "stray")]
    assert split_name("HTTPWayBack2") == "httpway back2"


def test_code_in_pages_is_not_a_text():
    page = "# Mend it\n\n```\nnobody\n```\n\n`--mend` and [a page](former.md): nobody.\n"
    assert find(page, "docs/x.md") == [(1, TextKind.DOCS, "Mend"), (7, TextKind.DOCS, "nobody")]


def test_exception_is_for_its_path_and_word():
    source = "# nobody mends"
    assert find(source, exceptions=[ExemptWord("src/seamark/core/*", "nobody", "r")]) == [
        (1, TextKind.COMMENTS, "mends")
    ]
    assert len(find(source, exceptions=[ExemptWord("src/seamark/cli/*", "nobody", "r")])) == 2


def test_exceptions_are_few_and_have_reasons(tmp_path):
    read_exceptions(FOLDER / "exceptions")
    file = tmp_path / "exceptions"
    file.write_text("a | b |\n")
    with pytest.raises(ValueError, match="line 1"):
        read_exceptions(file)
    file.write_text("a | b | c\n" * (MOST_EXCEPTIONS + 1))
    with pytest.raises(ValueError, match="more than 30"):
        read_exceptions(file)


def test_rise_and_fall_are_reported():
    assert find_differences({"core": 2}, {"core": 2}) == []
    assert find_differences({"core": 3, "new": 1}, {"core": 2}) == [
        "core: 3 words to avoid, 2 allowed; python -m tools.words list core",
        "new: 1 words to avoid, 0 allowed; python -m tools.words list new",
    ]
    assert find_differences({}, {"core": 2}) == [
        "core: 0 words to avoid, 2 allowed; lower it by python -m tools.words record"
    ]


def test_commands(tmp_path, capsys):
    (tmp_path / "src" / "seamark" / "core").mkdir(parents=True)
    (tmp_path / PATH).write_text("# nobody\n")
    (tmp_path / "README.md").write_text("nobody\n")
    for name in ("words.yml", "exceptions"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    places = {"root": tmp_path, "folder": tmp_path}
    assert main(["record"], **places) == 0
    assert (tmp_path / "baseline").read_text() == "core 1\ndocs 1\n"
    assert main(["check"], **places) == 0
    (tmp_path / PATH).write_text("# nobody, somebody\n")
    assert main(["check"], **places) == 1
    assert main(["list", "core"], **places) == 0
    assert main(["count"], **places) == 0
    out = capsys.readouterr().out
    assert "core: 2 words to avoid, 1 allowed" in out
    assert f"{PATH}:1: comments: somebody\n" in out


@pytest.fixture
def vale(tmp_path, monkeypatch):
    """A program `vale` that prints the given findings for the canary, then for pages."""

    def install(canary, pages=None, *, code=0):
        known = {"stdin.md": [alert(found) for found in canary]}
        for name, text in (("canary", json.dumps(known)), ("pages", json.dumps(pages or {}))):
            (tmp_path / name).write_text(text)
        program = tmp_path / "vale"
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *--ext*) cat {tmp_path}/canary ;; *) cat {tmp_path}/pages ;; esac\nexit {code}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def alert(found, line=3):
    return {"Line": line, "Span": [5, 9], "Match": found, "Message": f"Write 'x' instead of '{found}'.", "Check": "w"}


CANARY = ["mended", "by itself", "nobody", "is no source"]


def test_findings_of_vale_are_errors_without_the_exceptions(vale, capsys):
    vale(CANARY, {"docs/x.md": [alert("Nobody", 7), alert("anew")], "docs/y.md": [alert("nobody")]})
    exceptions = [ExemptWord("docs/y.md", "nobody", "r"), ExemptWord("docs/x.md", "mend", "r")]
    assert check_pages(REPOSITORY, WORDS, exceptions) == 1
    assert capsys.readouterr().out == (
        "docs/x.md:3:5: error: Write 'x' instead of 'anew'.\n"
        "docs/x.md:7:5: error: Write 'x' instead of 'Nobody'.\n"
        "checked by Vale: 2 errors, 1 exceptions\n"
    )


def test_pages_with_exceptions_only_pass(vale, capsys):
    vale(CANARY, {"docs/y.md": [alert("nobody")]})
    assert check_pages(REPOSITORY, WORDS, [ExemptWord("docs/y.md", "nobody", "r")]) == 0
    assert capsys.readouterr().out == "checked by Vale: 0 errors, 1 exceptions\n"


def test_missing_vale_is_reported(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert main(["vale"]) == NOT_CHECKED_EXIT
    assert capsys.readouterr().out.startswith("not checked: Vale is not installed\nhint: run .ci/setup lint")


@pytest.mark.parametrize("canary", [[], CANARY[:3]])
def test_vale_that_finds_no_words_fails(vale, capsys, canary):
    vale(canary)
    assert check_pages(REPOSITORY, WORDS, ()) == 1
    assert "failed: Vale doesn't find by itself, is no source, mended, nobody" in capsys.readouterr().out


def test_vale_that_ends_with_an_error_fails(vale, capsys):
    vale(CANARY, code=2)
    assert check_pages(REPOSITORY, WORDS, ()) == 1
    assert "failed: Vale ended with 2" in capsys.readouterr().out


def test_vale_reads_the_same_list():
    settings = (REPOSITORY / ".vale.ini").read_text()
    assert "StylesPath = tools\n" in settings
    assert "BasedOnStyles = words\n" in settings
    # No other level than that of the list, which is `error`.
    assert "words.words" not in settings
    assert "\nlevel: error\n" in (FOLDER / "words.yml").read_text()
    # The name of the rule is that of the list's folder and file; any other YAML file there would be a rule as well.
    assert [path.relative_to(REPOSITORY).as_posix() for path in FOLDER.rglob("*.yml")] == ["tools/words/words.yml"]
