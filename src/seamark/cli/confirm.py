"""The typed answer before a change. Without a terminal nobody is asked: `--yes` says it before."""

from __future__ import annotations

from seamark.cli.session import Session
from seamark.errors import InterruptedRunError, UsageError
from seamark.report.safety import escape


def confirm(session: Session, *, yes: bool, word: str = "yes", what: str = "go on") -> None:
    """Go on only if the word is typed.

    Raises:
        UsageError: nobody can be asked, and `--yes` was not given.
        InterruptedRunError: something else was typed.
    """
    if yes:
        return
    if session.no_input or not session.stdin.isatty():
        reason = "--no-input is set" if session.no_input else "standard input is no terminal"
        raise UsageError(
            f"this needs a typed answer, and {reason}", hint="say it with --yes, after a look at --dry-run"
        )
    session.out.flush()
    session.err.write(f"Type {escape(word)} to {what}, or use --yes: ")
    session.err.flush()
    answer = session.stdin.readline().strip()
    if answer != word:
        raise InterruptedRunError("not confirmed; nothing was changed")
