"""A page of docs/runbooks, run as an operator would: its commands in order, and what it prints compared with the page.

A test gives the names of its own connectors and topics for those of the page, does the accident, and then says at which
command of the page it is: `book.run("offsets skip")`. So neither can change without the other.

On a page, in ```console blocks:

- a line that begins with `$ seamark` is run; no shell sees it, and no other command stands there;
- the lines below it must come in what it prints, in this order; lines may be left out between them;
- `…` is any text, `CHANGE` the id of a change, and what always differs (times, ids, durations) may be any other.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from tests.integration.waits import DEADLINE_SECONDS, TRIES, says_hindered
from tools.pages.compare import compare

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
TIMEOUT_SECONDS = 240
CHANGE_ID = re.compile(r"Change (01[0-9A-HJKMNP-TV-Z]{24}) done")


@dataclass(frozen=True)
class Command:
    """One command of a page, and the lines that stand below it."""

    text: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Said:
    """What a command printed, as it stands on a terminal, and how it ended."""

    code: int
    text: str

    @property
    def change(self):
        """The id of the last change that it says is done."""
        return CHANGE_ID.findall(self.text)[-1]


def read_blocks(page, kind):
    """The fenced blocks of one kind in a page, in order, also those within a list."""
    text = (RUNBOOKS / page).read_text()
    found = re.findall(rf"^( *)```{kind}\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE)
    return [dedent(block) for _, block in found]


def read_commands(page):
    """Every command of a page's console blocks, in order."""
    found = []
    for block in read_blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            text, *shown = part.rstrip().splitlines()
            assert text.startswith("seamark "), f"{page}: only seamark is run: {text}"
            found.append(Command(text, tuple(line for line in shown if line.strip(" …"))))
    return found


def substitute(text, names):
    """Each name of a page replaced by another, whole words only, longer ones first."""
    if not names:
        return text

    def spell(name):
        before = r"(?<!\w)" if name[0].isalnum() else ""
        return f"{before}{re.escape(name)}" + (r"(?!\w)" if name[-1].isalnum() else "")

    wanted = "|".join(spell(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(wanted, lambda found: str(names[found[0]]), text)


class Runbook:
    """A page and whoever works through it."""

    def __init__(self, page, *, names, environ, folder):
        """`names` are those of the page and what they are here; commands run in `folder` with `environ` added."""
        self.page = page
        self.names = dict(names)
        self.folder = folder
        self._environ = dict(environ)
        self._left = read_commands(page)

    def run(self, words, *, code=0, names=None, **more):
        """Run the page's next command, in which these words stand.

        `names`, and more of them such as `CHANGE=…`, are for this one alone.
        """
        assert self._left, f"{self.page} has no more commands, wanted: {words}"
        command = self._left.pop(0)
        assert words in command.text, f"{self.page} goes on with: {command.text}; not with: {words}"
        known = {**self.names, **(names or {}), **more}
        text, shown = substitute(command.text, known), [substitute(line, known) for line in command.shown]
        said = self.change(text) if "--yes" in text else self._look(text, shown, code)
        assert said.code == code, f"{command.text}: exit code {said.code}, expected {code}:\n{said.text}"
        missing = compare(shown, said.text, exact=True)
        assert missing is None, f"{command.text} does not print:\n{missing}\nbut:\n{said.text}"
        return said

    def change(self, text):
        """A command that changes something, again where it says that a rebalance hindered it."""
        for _ in range(TRIES):
            said = self.start(text)
            if said.code == 0 or not says_hindered(said.text):
                break
        return said

    def _look(self, text, shown, code):
        """One that changes nothing, until it prints what the page says: servers tell of a thing in their own time."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            said = self.start(text)
            if (said.code == code and compare(shown, said.text, exact=True) is None) or time.monotonic() > deadline:
                return said

    def start(self, text):
        """A command as a process of its own."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("SEAMARK_")}
        env |= {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "400"}
        done = subprocess.run(
            [sys.executable, "-m", "seamark.cli", *shlex.split(text)[1:]],
            cwd=self.folder,
            env=env | self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        return Said(done.returncode, done.stdout)

    def read_blocks(self, kind):
        """Other blocks of the page, with the names of here: SQL that a test runs itself."""
        return [substitute(block, self.names) for block in read_blocks(self.page, kind)]

    def finish(self):
        """Every command of the page has run."""
        assert [command.text for command in self._left] == [], f"{self.page} has commands that nobody ran"
