"""Run a page: its blocks from top to bottom in one shell session."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tools.pages.blocks import Block, Command, Directive, Page, split_console
from tools.pages.compare import CHANGE, match
from tools.pages.session import TIMEOUT_SECONDS, Result, Session, split_shell

# Connect shows the effect of a change some seconds later: a command that only reads is repeated until its output fits.
PATIENCE_SECONDS = 60.0
# The exit code of `timeout` for a command that it stopped.
_STOPPED = 124
# A wrong command line, a missing program: another run would end in the same way.
_FINAL = (64, 126, 127)
_DONE = re.compile(rf"Change ({CHANGE}) done")


class PageFailureError(Exception):
    """A command of a page that does not do what the page says."""


@dataclass(slots=True)
class Runner:
    """The state of a run: the last output, and what stands for the names of the page."""

    page: Page
    session: Session
    say: Callable[[str], None] = print
    last: Result = field(default_factory=lambda: Result(0, ""))
    replaced: dict[str, str] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=dict)
    ran: int = 0

    def run(self) -> None:
        """Run all parts of the page.

        Raises:
            PageFailureError: A command ended with another exit code, or printed something else.
        """
        following = [*self.page.parts[1:], None]
        for part, after in zip(self.page.parts, following, strict=True):
            if isinstance(part, Directive):
                self._run_step(part)
            elif part.find("skip") is not None:
                self.say(f"{self.page.path}:{part.line}: skipped: {part.find('skip')}")
            else:
                self._run_block(part, after.lines if isinstance(after, Block) and after.is_output else ())

    def _run_step(self, step: Directive) -> None:
        if step.name == "replace":
            name, _, word = step.value.partition(" ")
            result = self._start(f"printf %s {word}", step.line)
            self._check_code(result, 0, step.value, step.line)
            self.replaced[name] = result.text.strip()
            return
        script = step.value if step.name == "shell" else f'. "$PAGES_SETUPS/{step.value}.sh"'
        self._check_code(self._start(f"set -e\n{script}\nset +e", step.line), 0, script, step.line)

    def _run_block(self, block: Block, output: tuple[str, ...]) -> None:
        """Run a block; `output` are the lines of the block after it, for which its last command may have to wait."""
        if block.is_output:
            self._compare(block.lines, self.last, block)
        elif (path := block.find("file")) is not None:
            self._feed(block, f"cat >{shlex.quote(path)}")
        elif (program := block.find("with")) is not None:
            self._feed(block, program)
        elif block.is_command:
            has_prompts = block.kind == "console" or block.text.startswith("$ ")
            commands = split_console(block.text) if has_prompts else [Command(one) for one in split_shell(block.text)]
            for number, command in enumerate(commands, 1):
                # All commands of a block but the last one have to succeed.
                code = int(block.find("exit") or 0) if number == len(commands) else 0
                self._run_command(command, block, code, output if number == len(commands) else ())

    def _feed(self, block: Block, program: str) -> None:
        end = "END_OF_THE_BLOCK"
        result = self._start(f"{program} <<'{end}'\n{self._substitute(block.text)}{end}", block.line)
        self._check_code(result, int(block.find("exit") or 0), program, block.line)
        self.last = result

    def _run_command(self, command: Command, block: Block, code: int, output: tuple[str, ...]) -> None:
        seconds = block.find("stop")
        prefix, code = (f"timeout --foreground --signal=INT {seconds} ", _STOPPED) if seconds else ("", code)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            result = self._start(prefix + self._substitute(command.text), block.line)
            wanted = (*command.shown, *output)
            fits = result.code == code and self._match(wanted, result, block)[0] is None
            # A change isn't made a second time.
            is_read = not result.was_asked and "--yes" not in command.text and block.find("once") is None
            if fits or not is_read or result.code in _FINAL or time.monotonic() > deadline:
                break
            time.sleep(1)
        self._check_code(result, code, command.text, block.line)
        self._compare(command.shown, result, block)
        self.ran += 1
        self.last = result
        if done := _DONE.findall(result.text):
            self.changes["CHANGE"] = done[-1]

    def _start(self, text: str, line: int) -> Result:
        self.say(f"{self.page.path}:{line}: $ {text}")
        result = self.session.run(text, timeout=TIMEOUT_SECONDS)
        if result.text.strip():
            self.say(result.text.rstrip())
        return result

    def _substitute(self, text: str) -> str:
        """Replace the page's names, and change IDs that the page showed, or their beginnings, by those of this run."""

        def find_change(found: re.Match[str]) -> str:
            known = [printed for shown, printed in self.changes.items() if shown.startswith(found[0])]
            return known[-1] if known else found[0]

        text = replace_names(text, self.replaced | self.changes)
        return re.sub(r"\b01[0-9A-HJKMNP-TV-Z]{5,24}\b", find_change, text)

    def _match(self, shown: tuple[str, ...], result: Result, block: Block) -> tuple[str | None, dict[str, str]]:
        lines = [replace_names(line, self.replaced) for line in shown]
        return match(lines, result.text, exact=block.find("exact") is not None)

    def _compare(self, shown: tuple[str, ...], result: Result, block: Block) -> None:
        missing, bound = self._match(shown, result, block)
        if missing is not None:
            raise PageFailureError(f"{self.page.path}:{block.line}: not printed:\n{missing}\nbut:\n{result.text}")
        self.changes |= bound

    def _check_code(self, result: Result, code: int, text: str, line: int) -> None:
        if result.code != code:
            message = f"{self.page.path}:{line}: exit code {result.code}, expected {code}: {text}\n{result.text}"
            raise PageFailureError(message)


def replace_names(text: str, names: Mapping[str, str]) -> str:
    """Replace names as whole words, longer ones first."""
    if not names:
        return text
    wanted = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{wanted})(?!\w)", lambda found: names[found[0]], text)
