"""The site in another language: only the translated pages, and on these a choice of the language.

`-D language=ko` builds the pages of `tools.korean.PAGES`, for the folder `ko` inside the English site. Their links to
other pages lead to the English site.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.directives.other import TocTree
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri

from tools.korean import PAGES

NAMES = {"en": "English", "ko": "한국어"}
# Browsers break Korean lines between any two syllables unless told to keep words.
KEEP_WORDS = "<style>article:lang(ko) { word-break: keep-all }</style>"
TRANSLATED = tuple(page.removesuffix(".md") for page in PAGES)


def select_pages(_: Sphinx, config: Config) -> None:
    """Restrict a translated site to its pages."""
    if config.language != "en":
        config.include_patterns = list(PAGES)


class TranslatedTocTree(TocTree):
    """In a translated site, replace an untranslated overview by the translated pages of its folder."""

    def run(self) -> list[nodes.Node]:
        if self.config.language != "en":
            lines = [line for entry in self.content for line in self._translate_entry(entry)]
            self.content = StringList(lines, source=self.env.docname)
        return super().run()

    def _translate_entry(self, entry: str) -> list[str]:
        target = entry.partition("<")[2].rstrip("> ") or entry.strip()
        name, _ = self.env.relfn2path(f"{target}.md", self.env.docname)
        name = name.removesuffix(".md")
        if "glob" in self.options:
            return [entry] if fnmatch.filter(TRANSLATED, name) else []
        if name in TRANSLATED:
            return [entry]
        folder = name.removesuffix("index")
        return [f"/{page}" for page in TRANSLATED if name.endswith("/index") and page.startswith(folder)]


class LinkToEnglish(SphinxPostTransform):
    """Link from a translated site to pages that only the English one has."""

    # Before MyST resolves references to pages, which has priority 9.
    default_priority = 8

    def run(self, **_: object) -> None:
        if self.config.language == "en":
            return
        for node in list(self.document.findall(pending_xref)):
            target = node.get("reftarget", "")
            if node.get("refdomain") != "doc" or target in self.env.found_docs:
                continue
            uri = build_uri(self.env.docname, "ko", target, "en")
            anchor = node.get("reftargetid")
            reference = nodes.reference("", "", internal=False, refuri=f"{uri}#{anchor}" if anchor else uri)
            reference += node.children
            node.replace_self(reference)


def build_uri(page: str, language: str, target: str, target_language: str) -> str:
    """Return the relative address of a page, seen from another one of a site in the same or another language."""

    def place(name: str, of: str) -> str:
        return f"{name}.html" if of == "en" else f"{of}/{name}.html"

    return relative_uri(place(page, language), place(target, target_language))


def build_link(page: str, language: str, other: str) -> str:
    """Return the link from a page to the same page in a language, and only the name for the language it is in."""
    if language == other:
        return f"<strong>{NAMES[other]}</strong>"
    return f'<a href="{build_uri(page, language, page, other)}" hreflang="{other}" lang="{other}">{NAMES[other]}</a>'


def remove_file_links(app: Sphinx, doctree: nodes.document) -> None:
    """Remove the links between the files README.md and README.ko.md: the site has its own choice of the language."""
    if app.env.docname == "README":
        for link in list(doctree.findall(pending_xref)):
            if link.get("reftarget") == "README.ko" and link.parent.parent is not None:
                link.parent.parent.remove(link.parent)


def add_languages(app: Sphinx, page: str, _: str, context: dict[str, Any], *__: object) -> None:
    """Put the choice of the language above a page that has one."""
    if page not in TRANSLATED or "body" not in context:
        return
    links = [build_link(page, app.config.language, language) for language in NAMES]
    if app.config.language == "ko":
        context["metatags"] = f"{context.get('metatags', '')}{KEEP_WORDS}"
    context["body"] = f'<p class="languages" style="text-align: right">{" | ".join(links)}</p>\n{context["body"]}'


def setup(app: Sphinx) -> Mapping[str, bool]:
    app.connect("config-inited", select_pages)
    app.connect("doctree-read", remove_file_links)
    app.connect("html-page-context", add_languages)
    app.add_directive("toctree", TranslatedTocTree, override=True)
    app.add_post_transform(LinkToEnglish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
