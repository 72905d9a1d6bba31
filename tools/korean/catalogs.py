"""The message catalogs: a `.po` file per page, in step with the English pages."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po

from tools.korean import PAGES
from tools.korean.messages import needs_translation

REPOSITORY = Path(__file__).parents[2]
FOLDER = Path("docs/locale/ko/LC_MESSAGES")
# Dates and names, which other headers have, would change with each update.
HEADER = """\
msgid ""
msgstr ""
"Language: ko\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


def read_templates(root: Path = REPOSITORY) -> dict[str, Catalog]:
    """Read the messages of the English pages, by page, with Sphinx's builder `gettext`."""
    with tempfile.TemporaryDirectory() as folder:
        # Not -W: links to pages without a translation are unknown here. The English build checks links.
        command = [sys.executable, "-m", "sphinx", "-Q", "-b", "gettext", "-c", "docs"]
        subprocess.run([*command, "-D", f"include_patterns={','.join(PAGES)}", ".", folder], cwd=root, check=True)
        return {page: _read_catalog(Path(folder) / f"{Path(page).with_suffix('.pot')}") for page in PAGES}


def find_path(page: str, root: Path = REPOSITORY) -> Path:
    """Return the path of the catalog of a page."""
    return root / FOLDER / Path(page).with_suffix(".po")


def read_catalogs(root: Path = REPOSITORY) -> dict[str, Catalog]:
    """Read the Korean messages, by page. A page without a file has an empty catalog."""
    return {page: _read_catalog(path) if (path := find_path(page, root)).exists() else Catalog() for page in PAGES}


def update_catalog(catalog: Catalog, template: Catalog) -> None:
    """Take over the English messages. The translation of a changed message becomes fuzzy."""
    catalog.update(template, no_fuzzy_matching=False, update_header_comment=False)
    catalog.obsolete.clear()
    for message in list_messages(catalog):
        if not needs_translation(str(message.id)):
            message.string = message.id
            message.flags.discard("fuzzy")


def list_messages(catalog: Catalog) -> Iterator[Message]:
    """Yield the messages without the header."""
    return (message for message in catalog if message.id)


def list_translations(catalog: Catalog) -> Mapping[str, str]:
    """Return the finished translations by English message."""
    return {
        str(message.id): str(message.string)
        for message in list_messages(catalog)
        if message.string and not message.fuzzy
    }


def format_catalog(catalog: Catalog) -> str:
    """Format a catalog without what changes with each edit of the page: dates and line numbers."""
    text = io.BytesIO()
    write_po(text, catalog, width=0, no_location=True, omit_header=True, ignore_obsolete=True, include_previous=True)
    return HEADER + text.getvalue().decode("utf-8").strip() + "\n"


def find_differences(page: str, catalog: Catalog, template: Catalog) -> list[str]:
    """Compare the messages of a catalog with those of the English page, and find untranslated ones."""
    there = [str(message.id) for message in list_messages(catalog)]
    wanted = [str(message.id) for message in list_messages(template)]
    lines = [f"{page}: not in the catalog: {text}" for text in wanted if text not in set(there)]
    lines += [f"{page}: no longer on the page: {text}" for text in there if text not in set(wanted)]
    if not lines and there != wanted:
        lines = [f"{page}: the messages of the catalog have another order than the page"]
    for message in list_messages(catalog):
        if message.fuzzy:
            lines.append(f"{page}: fuzzy: {message.id}")
        elif not message.string:
            lines.append(f"{page}: untranslated: {message.id}")
    return lines


def _read_catalog(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=None, abort_invalid=True)
