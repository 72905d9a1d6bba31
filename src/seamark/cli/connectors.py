"""`seamark connectors`."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer, choose_exit_code
from seamark.cli.complete import (
    complete_clusters,
    complete_connectors,
    complete_loggers,
    complete_plugins,
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
from seamark.cli.connector_changes import change, create, delete, pause, rename, restart, resume, stop
from seamark.cli.options import Duration, global_options, option, pass_session, show_command
from seamark.cli.selection import Targets, selection_options, target_options
from seamark.cli.session import Session
from seamark.cli.watch import watch_command
from seamark.connect.loggers import LEVELS
from seamark.connect.model import Connector
from seamark.connect.plugins import FleetPlugin
from seamark.connectors.heal import HealSettings
from seamark.connectors.model import Selection
from seamark.connectors.views import build_connector_view, build_connectors_view, build_heal_view
from seamark.connectors.worker_views import build_loggers_view, build_plugins_view
from seamark.core.readings import Reading
from seamark.errors import InterruptedRunError, NotFoundError, PartialError, SeamarkError
from seamark.policy.permissions import find_confirmation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.changes.outcome import ChangeResult
    from seamark.connectors.heal import Healer, HealReport
    from seamark.fleet import Fleet


# Pauses shorter than Connect needs for a restart would count restarts that had no time to succeed.
_SHORTEST_SECONDS = 1.0


@click.command("heal")
@target_options
@option("--once", is_flag=True, help="Restart what has failed once, look whether it runs, and end.")
@option("-w", "--watch", is_flag=True, help="Go on until Ctrl-C, also when all of them run.")
@option(
    "--max-restarts",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Give a connector up after so many restarts.",
)
@option(
    "--backoff",
    type=Duration(minimum_seconds=_SHORTEST_SECONDS),
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Time until the second restart; it doubles with each further one.",
)
@consent_options
@option("--dry-run", is_flag=True, help="Show what would be restarted now, and change nothing.")
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
    """Restart failed connectors and tasks until they run, more and more rarely, and give up in the end.

    Without any NAME all connectors of the context are looked at. Paused and stopped ones are left alone. Each round is
    one change in the journal. Ends with 3 when some were given up.
    """
    if once and watch:
        raise click.UsageError("give --once or --watch, not both")
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
            read=lambda: self._fleet.connectors.all(cluster=self._targets.cluster),
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
            show_plan(self._session, self._fleet.connectors.restart(failing), is_data=True)
        else:
            self._session.show(build_heal_answer(healer.report()))

    def _pick(self, reading: Reading[Connector]) -> Sequence[Connector]:
        selection = self._targets.selection
        missing = () if self._has_looked else selection.find_missing(reading.items)
        self._has_looked = True
        # A Connect cluster that does not respond may have the missing ones; in later rounds, a missing connector was
        # deleted.
        if missing and not reading.failures:
            raise NotFoundError(
                f"there is no connector {', '.join(missing)}", hint="seamark connectors list shows all of them"
            )
        return selection.pick(reading.items)

    def _restart(self, connectors: tuple[Connector, ...]) -> ChangeResult:
        planned = self._fleet.connectors.restart(connectors)
        if not self.is_confirmed:
            show_plan(self._session, planned, is_data=False)
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
                f"given up: {', '.join(lost)}",
                failures=lost,
                hint="seamark connectors show NAME has the whole trace; mend the cause, then heal again",
            ),
        )
    code = choose_exit_code(errors, all_failed=bool(errors) and not report.given_up and not report.connectors)
    return Answer(build_heal_view(report.connectors, failures), errors, code)


_CLUSTER = option("--cluster", metavar="NAME", help="The Connect cluster.", shell_complete=complete_clusters)


@click.group
def loggers() -> None:
    """Look at what the workers log, and change how much it is."""


@loggers.command("list")
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_loggers)
@_CLUSTER
@option("--worker", metavar="URL", help="Only this worker.", shell_complete=complete_workers)
@show_command
def list_loggers(fleet: Fleet, *, names: tuple[str, ...], cluster: str | None, worker: str | None) -> Answer:
    """List loggers and their levels, each level with the workers that have it.

    A logger without a level of its own follows the one above it; from Connect 4.0 on those are listed too.
    """
    reading = fleet.loggers.all(cluster=cluster, worker=worker)
    chosen = [found for found in reading.items if not names or any(fnmatchcase(found.name, name) for name in names)]
    asked = max(1, len(reading.failures) + (1 if reading.items else 0))
    return build_answer(build_loggers_view(chosen, reading), reading.failures, asked=asked)


@loggers.command("set")
@click.argument("name", shell_complete=complete_loggers)
@click.argument("level", type=click.Choice(LEVELS, case_sensitive=False))
@_CLUSTER
@option(
    "--worker", multiple=True, metavar="URL", help="On this worker; repeat for more.", shell_complete=complete_workers
)
@option("--all-workers", is_flag=True, help="On every worker of the cluster.")
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
    """Give a logger, and everything whose name begins with it, another level.

    It lasts until the worker restarts, or until it is undone. From Connect 3.7 on --all-workers also reaches workers
    that the context does not name.
    """
    if worker and all_workers:
        raise click.UsageError("give --worker or --all-workers, not both")
    with session.fleet() as fleet:
        planned = fleet.loggers.set(name, level, cluster=cluster, workers=worker, all_workers=all_workers)
        confirm_and_apply(session, fleet, planned, how)


@click.command("plugins")
@click.argument("names", nargs=-1, metavar="[CLASS|GLOB]...", shell_complete=complete_plugins)
@option("--differing", is_flag=True, help="Only those that are not on every worker in the same version.")
@option("--cluster", metavar="NAME", help="Only plugins of this Connect cluster.", shell_complete=complete_clusters)
@show_command
def plugins(fleet: Fleet, *, names: tuple[str, ...], differing: bool, cluster: str | None) -> Answer:
    """List connector plugins, and the workers on which one is missing or of another version.

    CLASS is a whole class name or its last part. A connector may land on any worker of its cluster.
    """
    reading = fleet.connectors.plugins(cluster=cluster)
    asked = sum(len(settings.urls) for name, settings in fleet.context.connect.items() if cluster in (None, name))
    chosen = tuple(
        plugin
        for plugin in reading.items
        if (not names or fits(plugin, names)) and (not differing or not plugin.is_everywhere)
    )
    return build_answer(build_plugins_view(chosen, reading), reading.failures, asked=asked)


def fits(plugin: FleetPlugin, names: tuple[str, ...]) -> bool:
    """Return whether one of the names or globs matches the plugin's class or its last part."""
    both = (plugin.class_name, plugin.class_name.rpartition(".")[2])
    return any(fnmatchcase(text, name) for name in names for text in both)


@click.group
def connectors() -> None:
    """Look at connectors, and change them."""


for command in (create, change, pause, resume, stop, restart, heal, rename, delete, plugins, loggers):
    connectors.add_command(command)


@connectors.command("list")
@selection_options
@watch_command
def list_connectors(fleet: Fleet, *, selection: Selection, cluster: str | None) -> Answer:
    """List connectors with their health.

    NAME may be CLUSTER/NAME. Without any, all connectors of the context are listed.
    """
    reading = fleet.connectors.all(cluster=cluster)
    return build_list_answer(reading, selection, asked=1 if cluster else len(fleet.context.connect))


@connectors.command("show")
@click.argument("name", shell_complete=complete_connectors)
@show_command
def show_connector(fleet: Fleet, name: str) -> Answer:
    """Show one connector, NAME or CLUSTER/NAME: tasks, errors, config."""
    return Answer(build_connector_view(fleet.connectors.one(name)))


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
    silent = f"it may be in {', '.join(failures)}, which did not answer" if failures else ""
    return NotFoundError(
        f"there is no connector {name}",
        cause=silent,
        hint="seamark connectors list shows all of them",
        context={"connector": name},
    )
