"""The directive `{reference} NAME`: a part of the reference, which `tools.reference` builds from the code."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tools.reference import build_reference


class ReferenceDirective(SphinxDirective):
    """Insert the Markdown that `tools.reference` builds for the argument."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        lines = StringList(build_reference(name).splitlines(), source=f"tools.reference {name}")
        node = nodes.Element()
        self.state.nested_parse(lines, 0, node, match_titles=True)
        return node.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("reference", ReferenceDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
