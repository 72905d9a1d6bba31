"""Terminal sessions, drawn from blocks of pages: the blocks show what real servers printed, and tests run them."""

from __future__ import annotations

from dataclasses import dataclass

from tools.pages.blocks import Block, read_page
from tools.pictures.drawing import build_terminal

COLUMNS = 118


@dataclass(frozen=True, slots=True)
class SessionPicture:
    """A command of a page with its output."""

    title: str
    page: str
    command: str


SESSIONS = {
    "session-move.svg": SessionPicture(
        "A session: seamark moves a source back by a minute and verifies each step",
        "README.md",
        "seamark offsets move log-purchase --back 1m --yes",
    ),
    "session-restore.svg": SessionPicture(
        "A session: seamark restores the previous config of a connector that does not run",
        "docs/start/first-change.md",
        "seamark connectors update log-purchase --set timestamp.column.name=changed_at --yes",
    ),
}


def build_session(name: str) -> str:
    """Draw the session of that file name."""
    wanted = SESSIONS[name]
    blocks = [part for part in read_page(wanted.page).parts if isinstance(part, Block)]
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.is_command and wanted.command in block.text:
            text = block.text
            if not text.startswith("$ "):
                text = f"$ {text}{after.text if after is not None and after.is_output else ''}"
            return build_terminal(wanted.title, text, columns=COLUMNS)
    raise LookupError(f"{wanted.page} has no block with: {wanted.command}")
