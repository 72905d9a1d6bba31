"""The typed answer before a change. Without a terminal, `--yes` or `--confirm NAME` is the answer."""

from __future__ import annotations

import click

from seamark.cli.options import F, option, put_options
from seamark.cli.session import Session
from seamark.errors import InterruptedRunError, UsageError
from seamark.report.safety import escape


def _keep_name(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del param
    if value is not None:
        ctx.ensure_object(Session).confirmed = value


def consent_options(command: F) -> F:
    """Add `--yes`, which the command gets, and `--confirm NAME`, which the session keeps."""
    decorators = (
        option("-y", "--yes", is_flag=True, help="Don't ask. A protected context needs --confirm instead."),
        option(
            "--confirm",
            metavar="NAME",
            expose_value=False,
            callback=_keep_name,
            help="Confirm with the name that seamark would ask for: the resource, or the context for several.",
        ),
    )
    result: F = put_options(command, decorators)
    return result


def confirm(session: Session, *, yes: bool, word: str = "yes", what: str = "go on", is_protected: bool = False) -> str:
    """Return the word that was typed or passed with `--confirm`; "" where `--yes` is enough.

    Where the context is protected, `--yes` is not enough: the likeliest mistake of a script is the wrong context.

    Raises:
        UsageError: seamark can't ask, and neither `--yes` nor `--confirm` answers.
        InterruptedRunError: something else was typed or passed.
    """
    if session.confirmed:
        if session.confirmed != word:
            raise InterruptedRunError(
                f"not confirmed: --confirm is {escape(session.confirmed)!r}, expected {escape(word)!r}; "
                "no changes were made"
            )
        return word
    if yes and not is_protected:
        return ""
    if yes or session.no_input or not session.stdin.isatty():
        reason = "standard input is no terminal"
        if yes or session.no_input:
            reason = "the context is protected, so that --yes is not enough" if yes else "--no-input is set"
        option_name = f"--confirm {escape(word)}" if is_protected else "--yes"
        raise UsageError(
            f"this needs a typed answer, and {reason}", hint=f"review the plan with --dry-run, then pass {option_name}"
        )
    session.out.flush()
    session.err.write(f"Type {escape(word)} to {what}, or use --{'confirm' if is_protected else 'yes'}: ")
    session.err.flush()
    answer = session.stdin.readline().strip()
    if answer != word:
        raise InterruptedRunError("not confirmed; nothing was changed")
    return word
