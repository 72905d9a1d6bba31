"""The documentation site: `python -m tools.site build` runs Sphinx with this file."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT)]

project = "seamark"
author = "The seamark authors"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "reference_directive",
    "translations",
    "page_comments",
]
# The root of the sources is the repository, so that a link works in the same way in a checkout and on the site.
include_patterns = ["*.md", "docs/**", "examples/**.md"]
exclude_patterns = [".*", "src", "tests", "tools", "bench", "locks", "build", "docs/_ext", "README.ko.md"]
root_doc = "docs/index"
language = "en"
# `python -m tools.korean update` writes the catalogs.
locale_dirs = ["docs/locale"]
gettext_compact = False
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# Exclude prompts from what the button copies, and the output below a command.
copybutton_prompt_text = "$ "
html_theme = "furo"
html_title = "seamark"
# How the search ranks its hits, see the comment in the file.
html_search_scorer = str(ROOT / "docs" / "_ext" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
default_role = "code"
