"""The confirmation before a change. Without a terminal, `--yes` or `--confirm NAME` confirms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.changes.effect import ChangeKind
from seamark.changes.journal import Ending
from seamark.changes.outcome import GOOD, UNSETTLED, ChangeResult, Outcome, StepResult
from seamark.changes.views import build_change_view, build_step_line, is_final
from seamark.cli.answer import Answer, choose_exit_code
from seamark.cli.options import build_options, global_options, option, pass_session
from seamark.cli.session import Session
from seamark.errors import (
    FencedError,
    InterruptedRunError,
    JournalError,
    SeamarkError,
    UndecidableError,
    UnknownOutcomeError,
    UnreadableOutcomeError,
    UsageError,
)
from seamark.policy.permissions import find_confirmation
from seamark.report.data import OutputFormat
from seamark.report.listing import render_view
from seamark.report.terminal import can_color
from seamark.report.text import Line, Span, Style, escape, line, render_lines
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.changes.timing import Pace
    from seamark.fleet import Fleet


def _keep_name(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del param
    if value is not None:
        ctx.ensure_object(Session).confirmed = value


# `--yes`, which the command gets, and `--confirm NAME`, which the session stores.
consent_options = build_options(
    option("-y", "--yes", is_flag=True, help="Don't ask. A protected context needs --confirm."),
    option(
        "--confirm",
        metavar="NAME",
        expose_value=False,
        callback=_keep_name,
        help="Confirm with the name of the resource, or the context.",
    ),
)


def confirm(
    session: Session, *, yes: bool, word: str = "yes", what: str = "continue", is_protected: bool = False
) -> str:
    """Return the word that was typed or passed with `--confirm`; "" if `--yes` is enough.

    If the context is protected, `--yes` is not enough: the most likely mistake of a script is the wrong context.

    Raises:
        UsageError: seamark can't ask, and neither `--yes` nor `--confirm` was passed.
        InterruptedRunError: Another word was typed or passed.
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
        reason = "standard input is not a terminal"
        if yes or session.no_input:
            reason = "the context is protected and needs --confirm" if yes else "--no-input is set"
        option_name = f"--confirm {escape(word)}" if is_protected else "--yes"
        raise UsageError(
            f"this needs a typed answer, and {reason}", hint=f"review the plan with --dry-run, then pass {option_name}"
        )
    session.out.flush()
    session.err.write(f"Type {escape(word)} to {what}, or use --{'confirm' if is_protected else 'yes'}: ")
    session.err.flush()
    answer = session.stdin.readline().strip()
    if answer != word:
        raise InterruptedRunError("not confirmed; no changes were made")
    return word


def confirm_by_name(session: Session, fleet: Fleet, name: str, *, yes: bool, what: str = "continue") -> str:
    """Confirm with `name` if the context is protected, with "yes" otherwise."""
    is_protected = fleet.context.protected
    return confirm(session, yes=yes, word=name if is_protected else "yes", what=what, is_protected=is_protected)


class StepLines:
    """Writes progress to the terminal. `change` is the ID once the change is open, for the hints of later errors."""

    def __init__(self, session: Session, *, change: str = "") -> None:
        self._session = session
        self.change = change

    def opened(self, change: str, *, steps: int) -> None:
        """Report that the change has its ID and its locks."""
        self.change = change
        self._write(line(Span(f"Change {change}", Style.STRONG), f", {steps:,} step{'' if steps == 1 else 's'}"))

    def begun(self, number: int, words: str) -> None:
        """Do nothing: a step's line is written when it has ended."""

    def waiting(self, words: str) -> None:
        """Report what takes longer."""
        self._write(line("  ", Span("…", Style.MUTED), f" {words}"))

    def ended(self, result: StepResult) -> None:
        """Report the end of a step."""
        self._write(build_step_line(result))

    def _write(self, text: Line) -> None:
        if self._session.quiet:
            return
        reporter = self._session.reporter
        color = can_color(self._session.err, reporter.color, reporter.environ)
        self._session.out.flush()
        self._session.err.write(render_lines([text], color=color))
        self._session.err.flush()


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """How a change is made: with or without confirmation, only shown, only saved."""

    yes: bool = False
    dry_run: bool = False
    out: Path | None = None


change_options = build_options(
    consent_options,
    option("--dry-run", is_flag=True, help="Show the plan without applying it."),
    option(
        "--out",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Save the plan for `seamark apply`.",
    ),
    into="how",
    build=ChangeOptions,
)


def change_command(command: Callable[..., PlannedChange]) -> Callable[..., None]:
    """Turn a function that builds a plan into a command: the plan is shown, confirmed and applied."""

    @wraps(command)
    def run(session: Session, /, *, how: ChangeOptions, **given: Any) -> None:
        with session.fleet() as fleet:
            confirm_and_apply(session, fleet, command(fleet, **given), how)

    return change_options(global_options(pass_session(run)))


def confirm_and_apply(
    session: Session, fleet: Fleet, planned: PlannedChange, how: ChangeOptions, *, pace: Pace | None = None
) -> None:
    """Show, confirm and apply a plan."""
    is_preview = how.dry_run or how.out is not None or (planned.is_empty and planned.blocked_by is None)
    show_plan(session, planned, is_preview=is_preview)
    if how.out is not None:
        _save(session, fleet, planned, how.out)
    if is_preview:
        return
    planned.check_complete()
    word = confirm_plan(session, fleet, planned, yes=how.yes)
    run_change(session, lambda progress: fleet.apply(planned, progress, pace=pace, confirm=word))


def run_change(
    session: Session,
    act: Callable[[StepLines], ChangeResult],
    *,
    change: str = "",
    is_closing: bool = False,
    is_resumed: bool = False,
) -> ChangeResult:
    """Apply, resume or close a change, report every step, and show the result with its exit code.

    `change` is the ID if it is known before; a new change reports its own when it is opened. `is_closing` is set if it
    is to be closed as it is, `is_resumed` if it is to be finished.
    """
    progress = StepLines(session, change=change)
    began_at = session.now()
    try:
        result = act(progress)
    except (JournalError, FencedError) as error:
        if progress.change:
            error.context.setdefault("change", progress.change)
            error.hint = error.hint or build_way_out(progress.change)
        raise
    except SeamarkError as error:
        # A change that was open before is still open: a server that could not be reached may respond the next time.
        if change and error.retryable:
            error.context.setdefault("change", change)
            repeat = f"repeat it: seamark journal resume {change}"
            error.hint = f"{error.hint}; then {repeat}" if error.hint else repeat
        raise
    except KeyboardInterrupt:
        # After the first Ctrl-C the current step ends; this is the second one, or one before the first step.
        if not progress.change:
            raise
        raise InterruptedRunError(
            f"change {progress.change} was interrupted",
            cause=f"it is incomplete and holds its locks; seamark journal show {progress.change} lists its steps",
            hint=build_way_out(progress.change),
            context={"change": progress.change},
        ) from None
    seconds = (session.now() - began_at).total_seconds()
    errors, code = build_errors(result, is_closing=is_closing, is_resumed=is_resumed)
    session.show(Answer(build_change_view(result, seconds=seconds), errors, code))
    return result


def confirm_plan(session: Session, fleet: Fleet, planned: PlannedChange, *, yes: bool) -> str:
    """Ask for the confirmation of a plan: `yes`; for a delete or in a protected context, the name of the resource.

    Returns what was typed or passed with `--confirm`.
    """
    is_protected = fleet.context.protected
    word = "yes"
    if is_protected or any(effect.sign is ChangeKind.DELETE for effect in planned.effects):
        word = find_confirmation([action.subject for action in planned.plan.actions], fleet.context.name)
    return confirm(session, yes=yes, word=word, is_protected=is_protected)


def build_way_out(change: str, *, can_undo: bool = True) -> str:
    """Return the commands for an open change."""
    undo = f"; or undo it: seamark journal undo {change}" if can_undo else ""
    return f"finish it: seamark journal resume {change}{undo}"


def build_errors(
    result: ChangeResult, *, is_closing: bool = False, is_resumed: bool = False
) -> tuple[tuple[SeamarkError, ...], int]:
    """Build the errors of an incomplete change, and the exit code, which is 0 only if there are none.

    With `is_closing`, the change was to be closed as it is: the steps that were not started are no error. With
    `is_resumed`, they are no error if nothing was changed: everything is as before, which a resume promises.
    """
    if result.is_done:
        return (), 0
    failed = [step.error for step in result.steps if step.error is not None and step.outcome not in UNSETTLED]
    if result.ending is None:
        opened = _build_open(result)
        return (*failed, opened), opened.exit_code
    if result.interrupted:
        stopped = _build_interrupted(result)
        return (*failed, stopped), stopped.exit_code
    if result.unstable is not None:
        failed.append(result.unstable)
    is_as_before = is_resumed and result.ending is Ending.FAILED
    if not failed and not is_closing and not is_as_before:
        failed.append(_build_left(result))
    done = any(step.outcome is Outcome.DONE for step in result.steps)
    return tuple(failed), choose_exit_code(tuple(failed), all_failed=not done)


def _build_open(result: ChangeResult) -> SeamarkError:
    unsettled = [step for step in result.steps if step.outcome in UNSETTLED]
    if result.owed and not unsettled:
        return _build_owed(result)
    undecidable = [step.error for step in unsettled if isinstance(step.error, UndecidableError)]
    said = [f"{step.words}: {step.error.message if step.error else step.outcome}" for step in unsettled]
    unreadable = [step.error for step in unsettled if isinstance(step.error, UnreadableOutcomeError)]
    said += [error.cause for error in (*undecidable, *unreadable)]
    # A connector that stays stopped must be reported explicitly.
    said += [f"not started: {', '.join(result.left)}"] if result.left else []
    return UnknownOutcomeError(
        f"change {result.change} is open: the outcome of a step is unknown",
        cause="; ".join(said),
        hint=_build_next(result.change, is_undecidable=bool(undecidable), is_unreadable=bool(unreadable)),
        context={"change": result.change},
    )


def _build_owed(result: ChangeResult) -> SeamarkError:
    """Build the error of a change that is open because steps must still be done; every outcome is known."""
    left = [words for words in result.left if words not in result.owed]
    kind, said = (InterruptedRunError, "stopped by Ctrl-C; ") if result.interrupted else (SeamarkError, "")
    return kind(
        f"{said}change {result.change} is open: {render_count(len(result.owed), 'step')} must still be done",
        cause=f"must still be done: {'; '.join(result.owed)}" + (f". Not started: {'; '.join(left)}" if left else ""),
        hint=build_way_out(result.change, can_undo=not is_final(result)),
        context={"change": result.change},
    )


def _build_next(change: str, *, is_undecidable: bool, is_unreadable: bool) -> str:
    if is_undecidable:
        return _build_decision(change)
    if is_unreadable:
        return (
            f"when the offsets are readable, run: seamark journal resume {change}; "
            "until then the connector stays stopped"
        )
    return build_way_out(change)


def _build_decision(change: str) -> str:
    """Return the commands for a change that `resume` can never finish."""
    return (
        "compare the connector's output with the plan of the change, then close it: "
        f"seamark journal unlock {change} --holder NONCE --force (NONCE: seamark journal show {change}); "
        f"to undo it afterwards: seamark journal undo {change}"
    )


def _build_interrupted(result: ChangeResult) -> InterruptedRunError:
    left = "; ".join(result.left)
    return InterruptedRunError(
        f"stopped by Ctrl-C; {len(result.left):,} of {len(result.steps) + len(result.left):,} steps were not started",
        cause=f"not started: {left}" if left else "",
        hint=f"undo the completed steps: seamark journal undo {result.change}" if result.steps else "",
        context={"change": result.change},
    )


def _build_left(result: ChangeResult) -> SeamarkError:
    """Build the error of a change that is closed and not done although no step has an error that explains it.

    For example, Ctrl-C had ended it before its process was killed, and it was resumed.
    """
    total = len(result.steps) + len(result.left)
    open_ended = [step.words for step in result.steps if step.outcome not in GOOD]
    said = [f"not started: {'; '.join(result.left)}"] if result.left else []
    said += [f"not done: {'; '.join(open_ended)}"] if open_ended else []
    missing = len(result.left) + len(open_ended)
    has_done = any(step.outcome is Outcome.DONE for step in result.steps)
    return SeamarkError(
        f"change {result.change} was closed, and {missing:,} of {total:,} steps were not "
        + ("done" if open_ended else "started"),
        cause=". ".join(said),
        hint="run the command of the change again"
        + (f", or undo the completed steps: seamark journal undo {result.change}" if has_done else ""),
        context={"change": result.change},
    )


def show_plan(session: Session, planned: PlannedChange, *, is_preview: bool) -> None:
    """Show the plan: as the result if the command ends here, or to the terminal beside a document."""
    view = planned.build_view(is_preview=is_preview)
    if is_preview or session.output.is_text:
        session.reporter.show(view)
    elif not session.quiet:
        session.err.write(render_view(view, OutputFormat.TABLE))
        session.err.flush()


def report_unchanged(session: Session) -> None:
    """Report the end of a dry run whose view has no sentence for it. Documents for programs are written alone."""
    if session.output.is_text:
        session.reporter.note("No changes were made.")


def _save(session: Session, fleet: Fleet, planned: PlannedChange, path: Path) -> None:
    from seamark.changes.plan import find_hidden  # noqa: PLC0415

    if (problem := fleet.save(planned, path)) is None:
        session.reporter.note(f"plan saved to {path}; apply it: seamark apply {path}")
    else:
        session.reporter.note(
            f"the plan in {path} is a proposal, because it can't be registered in the journal ({problem.message}); "
            f"apply the spec and compare: seamark apply -f PATH --expect {path}"
        )
    hidden = find_hidden(planned.plan)
    if hidden:
        session.reporter.note(
            f"note: secrets are not saved, so this plan can't be applied from the file: {', '.join(hidden)}; "
            "write them as secret:// references"
        )
