"""`seamark connectors heal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, choose_exit_code
from seamark.cli.carry_out import confirm_plan, show_plan
from seamark.cli.confirm import confirm, consent_options
from seamark.cli.duration import Duration
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.progress import StepLines
from seamark.cli.session import Session
from seamark.cli.targets import Targets, target_options
from seamark.connectors.heal_view import build_heal_view
from seamark.connectors.healing import HealSettings
from seamark.errors import InterruptedRunError, NotFoundError, PartialError, SeamarkError
from seamark.policy.permission import find_confirmation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.changes.result import ChangeResult
    from seamark.connect.connector import Connector
    from seamark.connectors.heal import Healer, HealReport
    from seamark.core.reading import Reading
    from seamark.fleet import Fleet

# Shorter pauses than Connect needs for a restart would count restarts that never had a chance.
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
        clinic = Clinic(session, fleet, targets, yes=yes)
        healer = clinic.build(settings)
        if dry_run:
            clinic.show(healer)
            return
        if watch:
            is_protected = fleet.context.protected
            clinic.confirmed = confirm(
                session,
                yes=yes,
                word=fleet.context.name if is_protected else "yes",
                what=f"restart whatever fails, {max_restarts} times at most",
                is_protected=is_protected,
            )
            clinic.is_confirmed = True
        try:
            report = healer.run(once=once, watch=watch)
        except KeyboardInterrupt:
            session.give(build_heal_answer(healer.report()))
            session.exit_code = InterruptedRunError.exit_code
            return
        session.give(build_heal_answer(report))


class Clinic:
    """What healing needs of a command line: the connectors that are meant, and a change for each round."""

    def __init__(self, session: Session, fleet: Fleet, targets: Targets, *, yes: bool) -> None:
        self._session = session
        self._fleet = fleet
        self._targets = targets
        self.is_confirmed = yes and not fleet.context.protected
        # What --watch was confirmed with, for all rounds.
        self.confirmed: str | None = None
        self._has_looked = False

    def build(self, settings: HealSettings) -> Healer:
        """The healer of this command."""
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
        """The plan of the first round, or that there is none."""
        failing = healer.failing(healer.look())
        if failing:
            show_plan(self._session, self._fleet.connectors.restart(failing), is_data=True)
        else:
            self._session.give(build_heal_answer(healer.report()))

    def _pick(self, reading: Reading[Connector]) -> Sequence[Connector]:
        selection = self._targets.selection
        missing = () if self._has_looked else selection.find_missing(reading.items)
        self._has_looked = True
        # A cluster that is away may hold the ones that are not seen; later on, one that goes away is gone.
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
    """Every connector that had failed; an error where some were given up or could not be seen."""
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
