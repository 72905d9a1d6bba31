"""`seamark connectors`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer, choose_exit_code
from seamark.cli.apply import validate
from seamark.cli.complete import (
    complete_clusters,
    complete_connectors,
    complete_loggers,
    complete_workers,
)
from seamark.cli.confirm import (
    ChangeOptions,
    StepLines,
    change_options,
    confirm_and_apply,
    confirm_by_name,
    confirm_plan,
    consent_options,
    show_plan,
)
from seamark.cli.connector_changes import create, delete, pause, rename, restart, resume, stop, update
from seamark.cli.options import Duration, Number, global_options, option, pass_session, show_command
from seamark.cli.selection import Targets, select_connectors, selection_options, target_options
from seamark.cli.session import Session
from seamark.cli.tree import command, group
from seamark.cli.watch import watch_command
from seamark.connect.loggers import LEVELS
from seamark.connect.model import Connector
from seamark.connectors.heal import HealSettings
from seamark.connectors.model import Selection
from seamark.connectors.views import build_connectors_view, build_heal_view
from seamark.connectors.worker_views import build_loggers_view
from seamark.core.readings import Reading
from seamark.errors import InterruptedRunError, NotFoundError, PartialError, SeamarkError
from seamark.overview.connector import build_overview_view
from seamark.policy.permissions import find_confirmation
from seamark.report.data import OutputFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.changes.outcome import ChangeResult
    from seamark.connectors.heal import Healer, HealReport
    from seamark.fleet import Fleet


# Pauses shorter than Connect needs for a restart would count restarts that had no time to succeed.
_SHORTEST_SECONDS = 1.0


@command(
    "heal",
    examples=[
        "seamark connectors heal --once",
        "seamark connectors heal 'log-*' --watch --max-restarts 3",
    ],
)
@target_options
@option("--once", is_flag=True, help="Restart failed connectors once, check them, and end.")
@option("-w", "--watch", is_flag=True, help="Continue until Ctrl-C, even if all connectors run.")
@option(
    "--max-restarts",
    type=Number(minimum=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Give up on a connector after N restarts.",
)
@option(
    "--backoff",
    type=Duration(minimum_seconds=_SHORTEST_SECONDS),
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="Time until the second restart; then twice as long.",
)
@consent_options
@option("--dry-run", is_flag=True, help="Show what would be restarted now.")
@global_options
@pass_session
def heal(
    session: Session,
    *,
    targets: Targets,
    once: bool,
    watch: bool,
    max_restarts: int,
    backoff: float,
    yes: bool,
    dry_run: bool,
) -> None:
    """Restart failed connectors until they run.

    Without NAME, seamark checks all connectors of the context. Paused and stopped connectors stay as they are. Each
    round is one change in the journal. Ends with exit code 3 if seamark gave up on a connector.
    """
    if once and watch:
        raise click.UsageError("pass --once or --watch, not both")
    settings = HealSettings(max_restarts=max_restarts, backoff_seconds=backoff, calm_seconds=backoff)
    with session.fleet() as fleet:
        healing = HealCommand(session, fleet, targets, yes=yes)
        healer = healing.build(settings)
        if dry_run:
            healing.show(healer)
            return
        if watch:
            what = f"restart whatever fails, {max_restarts} times at most"
            healing.confirmed = confirm_by_name(session, fleet, fleet.context.name, yes=yes, what=what)
            healing.is_confirmed = True
        try:
            report = healer.run(once=once, watch=watch)
        except KeyboardInterrupt:
            session.show(build_heal_answer(healer.report()))
            session.exit_code = InterruptedRunError.exit_code
            return
        session.show(build_heal_answer(report))


class HealCommand:
    """What healing needs from the command line: the selected connectors, and a change for each round."""

    def __init__(self, session: Session, fleet: Fleet, targets: Targets, *, yes: bool) -> None:
        self._session = session
        self._fleet = fleet
        self._targets = targets
        self.is_confirmed = yes and not fleet.context.protected
        # The confirmation of --watch, for all rounds.
        self.confirmed: str | None = None
        self._has_looked = False

    def build(self, settings: HealSettings) -> Healer:
        """Build the healer of this command."""
        from seamark.connectors.heal import Healer  # noqa: PLC0415

        return Healer(
            read=lambda: self._fleet.connectors.list(cluster=self._targets.cluster),
            pick=self._pick,
            restart=self._restart,
            now=lambda: self._session.now().timestamp(),
            sleep=self._session.sleep,
            tell=self._session.reporter.note,
            settings=settings,
        )

    def show(self, healer: Healer) -> None:
        """Show the plan of the first round, or that there is none."""
        failing = healer.failing(healer.look())
        if failing:
            show_plan(self._session, self._fleet.connectors.restart(failing, wait_seconds=0), is_preview=True)
        else:
            self._session.show(build_heal_answer(healer.report()))

    def _pick(self, reading: Reading[Connector]) -> Sequence[Connector]:
        selection = self._targets.selection
        missing = () if self._has_looked else selection.find_missing(reading.items)
        self._has_looked = True
        # A Connect cluster that does not respond may have the missing ones; in later rounds, a missing connector was
        # deleted.
        if missing and not reading.failures:
            raise NotFoundError(f"connector {', '.join(missing)} does not exist", hint="run: seamark connectors list")
        return select_connectors(self._fleet, selection, reading.items)

    def _restart(self, connectors: tuple[Connector, ...]) -> ChangeResult:
        # Healing observes the connectors itself.
        planned = self._fleet.connectors.restart(connectors, wait_seconds=0)
        if not self.is_confirmed:
            show_plan(self._session, planned, is_preview=False)
            word = confirm_plan(self._session, self._fleet, planned, yes=False)
            self.is_confirmed = not self._fleet.context.protected
        else:
            word = find_confirmation([action.subject for action in planned.plan.actions], self._fleet.context.name)
        result = self._fleet.apply(planned, StepLines(self._session), confirm=word)
        if result.interrupted:
            raise KeyboardInterrupt
        return result


def build_heal_answer(report: HealReport) -> Answer:
    """Build the answer of every connector that had failed, with an error if some were given up or not readable."""
    failures = dict(report.failures or {})
    errors: tuple[SeamarkError, ...] = tuple(failures.values())
    if report.given_up:
        lost = {found.owner: SeamarkError(found.why or "it failed") for found in report.given_up}
        errors += (
            PartialError(
                f"gave up on {', '.join(lost)}",
                failures=lost,
                hint="show the trace with seamark connectors show NAME, fix the cause, then run heal again",
            ),
        )
    code = choose_exit_code(errors, all_failed=bool(errors) and not report.given_up and not report.connectors)
    return Answer(build_heal_view(report.connectors, failures), errors, code)


_CLUSTER = option("--cluster", metavar="NAME", help="The Connect cluster.", shell_complete=complete_clusters)


@group({"alter": "loggers set", "update": "loggers set", "level": "loggers set"})
def loggers() -> None:
    """Inspect and change log levels of workers."""


@loggers.command("list", examples=["seamark loggers list", "seamark loggers list 'org.apache.*'"])
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_loggers)
@_CLUSTER
@option("--worker", metavar="URL", help="Only this worker.", shell_complete=complete_workers)
@show_command
def list_loggers(fleet: Fleet, *, names: tuple[str, ...], cluster: str | None, worker: str | None) -> Answer:
    """List loggers and their levels.

    A logger without a level inherits the one of its parent; Connect 4.0 and later list those too.
    """
    reading = fleet.loggers.list(cluster=cluster, worker=worker)
    chosen = [found for found in reading.items if not names or any(fnmatchcase(found.name, name) for name in names)]
    asked = max(1, len(reading.failures) + (1 if reading.items else 0))
    return build_answer(build_loggers_view(chosen, reading), reading.failures, asked=asked)


@loggers.command("set", examples=["seamark loggers set org.apache.kafka debug --all-workers"])
@click.argument("name", shell_complete=complete_loggers)
@click.argument("level", type=click.Choice(LEVELS, case_sensitive=False))
@_CLUSTER
@option("--worker", multiple=True, metavar="URL", help="On this worker; repeatable.", shell_complete=complete_workers)
@option("--all-workers", is_flag=True, help="On every worker of the Connect cluster.")
@change_options
@global_options
@pass_session
def set_logger(
    session: Session,
    *,
    name: str,
    level: str,
    cluster: str | None,
    worker: tuple[str, ...],
    all_workers: bool,
    how: ChangeOptions,
) -> None:
    """Set the level of a logger and its children.

    The level is kept until the worker restarts or the change is undone. Since Connect 3.7, --all-workers includes
    workers that the context doesn't name.
    """
    if worker and all_workers:
        raise click.UsageError("pass --worker or --all-workers, not both")
    with session.fleet() as fleet:
        planned = fleet.loggers.set(name, level, cluster=cluster, workers=worker, all_workers=all_workers)
        confirm_and_apply(session, fleet, planned, how)


@group(
    {
        "plugins": "plugins list",
        "loggers": "loggers",
        "start": "connectors resume",
        "edit": "connectors update",
        # As Connect's REST API calls them (KIP-875).
        "alter-offsets": "offsets move",
        "reset-offsets": "offsets reset",
    }
)
def connectors() -> None:
    """Inspect and change connectors."""


@connectors.command(
    "list",
    examples=[
        "seamark connectors list",
        "seamark connectors list --state failed -o name",
        "seamark connectors list -l team=game -o wide",
    ],
)
@selection_options
@watch_command
def list_connectors(fleet: Fleet, *, selection: Selection, cluster: str | None) -> Answer:
    """List connectors and their health.

    NAME can be CLUSTER/NAME. Without NAME, all connectors of the context are listed.
    """
    reading = _add_labels(fleet, fleet.connectors.list(cluster=cluster), is_required=bool(selection.labels))
    return build_list_answer(reading, selection, asked=1 if cluster else len(fleet.context.connect))


# Labels cost a reading of the whole journal, and these formats don't show them.
_WITHOUT_LABELS = (OutputFormat.TABLE, OutputFormat.NAME)


def _add_labels(fleet: Fleet, reading: Reading[Connector], *, is_required: bool) -> Reading[Connector]:
    """Return the connectors with their labels if the output format shows them and the journal can be read."""
    session = click.get_current_context().find_object(Session) or Session()
    if not is_required and session.output in _WITHOUT_LABELS:
        return reading
    try:
        return replace(reading, items=fleet.connectors.read_labels(reading.items))
    except SeamarkError:
        if is_required:
            raise
        return reading


@connectors.command("show", examples=["seamark connectors show log-guild", "seamark connectors show game/log-guild"])
@click.argument("name", shell_complete=complete_connectors)
@show_command
def show_connector(fleet: Fleet, name: str) -> Answer:
    """Show tasks, offsets, changes and config.

    What can't be read is reported in its place; the rest is shown.
    """
    found = fleet.overview(name)
    return Answer(build_overview_view(found), found.errors, choose_exit_code(found.errors, all_failed=False))


for found in (create, update, delete, pause, resume, stop, restart, heal, rename, validate):
    connectors.add_command(found)


def build_list_answer(reading: Reading[Connector], selection: Selection, *, asked: int) -> Answer:
    """Build the answer of the selected connectors; a plain name that does not exist is an error, not an empty list."""
    chosen = selection.pick(reading.items)
    answer = build_answer(build_connectors_view(chosen, reading.failures), reading.failures, asked=asked)
    missing = selection.find_missing(reading.items)
    if not missing:
        return answer
    absent = tuple(_build_absence(name, reading.failures) for name in missing)
    if answer.exit_code:
        return Answer(answer.view, answer.errors + absent, answer.exit_code)
    return Answer(answer.view, absent, choose_exit_code(absent, all_failed=not chosen))


def _build_absence(name: str, failures: Mapping[str, SeamarkError]) -> NotFoundError:
    silent = f"it may be in {', '.join(failures)}, which did not respond" if failures else ""
    return NotFoundError(
        f"connector {name} does not exist",
        cause=silent,
        hint="run: seamark connectors list",
        context={"connector": name},
    )
