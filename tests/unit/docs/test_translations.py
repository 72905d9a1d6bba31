"""The Korean site: its pages, their links to the English site and to each other, and the choice of the language."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.korean import PAGES

ROOT = Path(__file__).parents[3]
LOCAL = re.compile(r'href="(?!https?:|#|mailto:)([^"#?]*)(?:#([^"]*))?"')


def read_extension():
    spec = importlib.util.spec_from_file_location("translations", ROOT / "docs" / "_ext" / "translations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("page", "language", "other", "uri"),
    [
        ("README", "en", "ko", "ko/README.html"),
        ("README", "ko", "en", "../README.html"),
        ("docs/index", "en", "ko", "../ko/docs/index.html"),
        ("docs/start/demo", "ko", "en", "../../../docs/start/demo.html"),
    ],
)
def test_the_other_language_has_a_relative_address(page, language, other, uri):
    extension = read_extension()
    assert extension.build_uri(page, language, page, other) == uri
    assert f'href="{uri}"' in extension.build_link(page, language, other)
    assert "href" not in extension.build_link(page, language, language)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-c",
        "docs",
        "-D",
        "language=ko",
    ]
    subprocess.run([*command, ".", str(folder / "ko")], cwd=ROOT, check=True, capture_output=True)
    return folder


def read_pages(site):
    return {page: (site / "ko" / page).with_suffix(".html").read_text(encoding="utf-8") for page in PAGES}


def test_pages_are_marked_as_korean_and_have_korean_titles(site):
    for page, text in read_pages(site).items():
        assert '<html class="no-js" lang="ko"' in text
        if page not in ("README.md", "docs/index.md"):
            assert re.search(r"<h1>[^<]*[가-힣]", text), page


def test_links_lead_to_korean_pages_or_to_pages_of_the_english_site(site):
    english = set()
    for page, text in read_pages(site).items():
        folder = (site / "ko" / page).parent
        for target, _ in LOCAL.findall(text):
            path = (folder / target).resolve()
            if path.is_relative_to(site / "ko"):
                assert path.exists(), f"{page}: {target}"
            else:
                source = ROOT / path.relative_to(site).with_suffix(".md")
                assert source.exists(), f"{page}: {target}"
                english.add(str(source.relative_to(ROOT)))
    assert "docs/how-to/moving-offsets.md" in english
    assert set(PAGES) <= english


def test_anchors_of_english_sections_stay(site):
    text = read_pages(site)["docs/runbooks/source-rewound.md"]
    assert "docs/how-to/moving-offsets.html#restore-a-point-in-time" in text
    assert '<section id="what-can-t-be-restored">' in text


def test_each_page_links_to_the_same_page_in_english(site):
    for page, text in read_pages(site).items():
        link = re.search(r'<p class="languages".*?<a href="([^"]*)" hreflang="en" lang="en">English</a>', text)
        assert link is not None, page
        assert ((site / "ko" / page).parent / link[1]).resolve() == (site / page).with_suffix(".html")


def test_every_page_is_in_the_navigation(site):
    text = (site / "ko" / "docs" / "index.html").read_text(encoding="utf-8")
    for page in PAGES:
        if page != "docs/index.md":
            path = Path(page).with_suffix(".html")
            target = str(path.relative_to("docs")) if path.is_relative_to("docs") else f"../{path}"
            assert f'class="reference internal" href="{target}"' in text, page


def test_files_in_the_readme_are_not_offered_as_languages(site):
    assert "README.ko" not in read_pages(site)["README.md"]
