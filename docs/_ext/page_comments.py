"""Comments of pages: `<!-- search: WORD, WORD -->` adds words to search and index; `<!-- run: … -->` is removed."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_COMMENT = re.compile(r"<!-- (run|search):(.*?)-->", re.DOTALL)


class PageComments(SphinxTransform):
    """Replace the comments, before the domains collect index entries."""

    default_priority: ClassVar[int] = 500

    def apply(self, **_: Any) -> None:
        """Replace each comment by what it stands for."""
        for node in list(self.document.findall(nodes.raw)):
            found = _COMMENT.match(node.astext().strip())
            if found is None:
                continue
            # Words of the search are not translated.
            is_used = found[1] == "search" and self.app.builder.name != "gettext"
            words = [word.strip() for word in found[2].split(",")] if is_used else []
            node.replace_self(self._build_entries(node, words))

    def _build_entries(self, node: nodes.raw, words: list[str]) -> list[nodes.Node]:
        if not words:
            return []
        section = node.parent
        while not isinstance(section, nodes.section) and section.parent is not None:
            section = section.parent
        target = section["ids"][0] if section["ids"] else ""
        entries = [("single", word, target, "main", None) for word in words]
        # Sphinx's search takes the words of a page from its text and its keywords, not from the index.
        keywords = nodes.meta(name="keywords", content=",".join(word for phrase in words for word in phrase.split()))
        return [addnodes.index(entries=entries), keywords]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(PageComments)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
