"""The site's own search answers an operator's questions, in a real browser."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from tests.integration.docs.browser import open_browser, serve

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[3]
QUESTIONS = tomllib.loads((Path(__file__).parent / "questions.toml").read_text(encoding="utf-8"))["questions"]
FIRST = 3


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-c", "docs", ".", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=500)
    with serve(folder) as address:
        yield address


def search(browser, site, question):
    """The pages of the first hits, in their order, without their sections."""
    browser.open(f"{site}/search.html?q={quote_plus(question)}")
    browser.wait_for("!!document.querySelector('p.search-summary')?.innerText")
    links = browser.evaluate("[...document.querySelectorAll('ul.search li a')].map(link => link.getAttribute('href'))")
    pages = [link.partition("#")[0].removesuffix(".html").removeprefix("docs/") for link in links]
    return list(dict.fromkeys(pages))


def test_thirty_questions_are_answered_by_one_of_the_first_three_hits(site):
    assert len(QUESTIONS) >= 30
    with open_browser() as browser:
        hits = {question: search(browser, site, question)[:FIRST] for question in QUESTIONS}
    unanswered = {question: found for question, found in hits.items() if not set(found) & set(QUESTIONS[question])}
    assert unanswered == {}


def test_every_answer_is_a_page():
    pages = {page for answers in QUESTIONS.values() for page in answers}
    assert [page for page in sorted(pages) if not (ROOT / "docs" / f"{page}.md").exists()] == []
