"""One plan for each kind of action, from the scenarios: caught right before it is applied, with the fakes around it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from seamark.changes.plan import Plan, PlannedChange, _build_plan, _hash
from seamark.changes.registration import Registrations
from seamark.dead_letters.action import ReturnConfig
from seamark.fleet.changes import Changes
from tests.unit.dead_letters.test_skip import BATCH
from tests.unit.fleet.living import SOURCE_CONFIG
from tests.unit.scenarios.connectors import FILE
from tests.unit.scenarios.copies import CopyEnvironment
from tests.unit.scenarios.environment import Environment, open_environment
from tests.unit.scenarios.registry import Scenario, read_scenarios
from tests.unit.scenarios.stored_offsets import SkipEnvironment

Play = Callable[[Environment], None]


def create_with_offsets(env: Environment) -> None:
    """Create a connector with the offsets of an export."""
    env.write("offsets.json", {"new": [{"partition": FILE, "offset": {"position": 15}}]})
    file = env.write("new.json", {"name": "new", "config": SOURCE_CONFIG})
    env.change("connectors", "create", "-f", file, "--offsets-file", "offsets.json")


def cut_over_again(env: CopyEnvironment) -> None:
    """Undo the undo of a cutover: possible where no group had offsets in the target."""
    env.brokers.groups.clear()
    del env.game.configs["lake"]
    env.run("copies", "cutover", env.copy(), "--allow-aborted-records", "--yes")
    env.undo()
    env.undo()


def return_config(env: SkipEnvironment) -> None:
    """Return the config of a sink that a search has left with another one."""
    env.game.configs["lake"][BATCH] = "1"
    with env.open_fleet() as fleet:
        fleet.apply(fleet._planner.plan("undo the search", [ReturnConfig("game", "lake", {BATCH: None}, "STOPPED")]))


# Kinds of which no recorded scenario makes a plan.
OWN = {
    "create-with-offsets": Scenario("create-with-offsets", create_with_offsets, Environment),
    "cutover-again": Scenario("cutover-again", cut_over_again, CopyEnvironment),
    "return-config": Scenario("return-config", return_config, SkipEnvironment),
}
# The scenarios that make plans of each other kind: together they have every kind of step.
RECORDED = {
    "alter-topic-config": ("topics-alter",),
    "apply-connector": (
        "apply-update",
        "apply-create",
        "apply-secrets",
        "apply-prune",
        "connectors-create",
        "connectors-change-secret",
    ),
    "change-offsets": (
        "offsets-move-source-to",
        "offsets-move-old-workers",
        "offsets-move-sink-earliest",
        "offsets-forget",
    ),
    "create-connector": ("connectors-delete",),
    "create-topic": ("topics-create",),
    "cut-back": ("copy-cutover",),
    "cutover": ("copy-cutover", "copy-cutover-in-place", "copy-cutover-pipeline"),
    "delete-connector": ("connectors-delete",),
    "delete-with-offsets": ("connectors-delete-with-offsets",),
    "delete-group": ("groups-delete",),
    "delete-new-topic": ("topics-create",),
    "delete-topic": ("topics-delete",),
    "find-failing-record": ("offsets-skip-searched",),
    "grow-topic": ("topics-grow",),
    "import-offsets": ("import-topic-absent",),
    "label-connector": ("apply-labels",),
    "move-group": ("groups-move",),
    "purge-offsets": ("offsets-purge",),
    "register-pipeline": ("apply-pipeline", "destroy-pipeline"),
    "relocate-offsets": ("offsets-relocate", "offsets-relocate-back"),
    "remove-connector": ("connectors-rename", "connectors-rename-with-offsets"),
    "rename-connector": ("connectors-rename-with-offsets", "connectors-rename"),
    "repair-offsets": ("offsets-mend", "offsets-mend-chosen"),
    "restore-table": ("pipelines-rebuild",),
    "restart-connector": ("connectors-restart", "connectors-heal"),
    "set-connector-state": ("apply-state", "connectors-resume"),
    "set-logger": ("loggers-set", "loggers-set-one-worker"),
    "set-run-state": ("connectors-pause",),
    "skip-record": ("offsets-skip",),
    "swap-table": ("pipelines-rebuild",),
    "write-offset-file": ("import-file",),
    "write-offset-records": ("offsets-purge",),
    "write-offsets-file": ("import-file",),
}
KINDS = tuple(sorted({*OWN, *RECORDED}))


def find_examples() -> list[tuple[str, Scenario]]:
    """Return every kind of action with each of its scenarios."""
    known = read_scenarios()
    named = [(kind, known[name]) for kind, names in RECORDED.items() for name in names]
    return sorted([*named, *OWN.items()], key=lambda one: one[0])


class CaughtError(BaseException):
    """A plan of the wanted kind is about to be applied. Nothing on the way catches it."""

    def __init__(self, changes: Changes, planned: PlannedChange) -> None:
        super().__init__()
        self.changes = changes
        self.planned = planned


@dataclass(frozen=True, slots=True)
class Example:
    """A plan, where it would be applied, and the place of the action that it is an example of."""

    changes: Changes
    plan: Plan
    place: int

    @property
    def body(self) -> dict[str, Any]:
        """What the file of the plan holds, without its hash."""
        body: dict[str, Any] = json.loads(json.dumps(self.plan.to_file()))
        del body["sha256"]
        return body

    def replace_action(self, action: Any) -> dict[str, Any]:
        """Return the content of a file whose action is another one."""
        body = self.body
        body["actions"][self.place] = action
        return body

    def review(self, body: dict[str, Any]) -> PlannedChange:
        """Read and review a file of which somebody has computed the hash, and has registered it.

        Raises:
            SeamarkError: the file, or what it would do, is refused.
        """
        return self.changes.review(_build_plan(build_file(body), Path("plan.json")))


def build_file(body: dict[str, Any]) -> bytes:
    """Return a plan file with the hash of its content, as anybody can compute it."""
    return json.dumps({**body, "sha256": _hash(body)}).encode()


@contextmanager
def open_example(kind: str, scenario: Scenario, folder: Path) -> Iterator[Example]:
    """Play a scenario until a plan with an action of a kind is about to be applied; the fakes stay as they are.

    From then on every plan counts as registered: the tests are about what is refused or shown beyond that.
    """

    def catch(changes: Changes, planned: PlannedChange | Plan, **more: Any) -> Any:
        if isinstance(planned, PlannedChange) and any(action.kind == kind for action in planned.plan.actions):
            raise CaughtError(changes, planned)
        return apply(changes, planned, **more)

    apply = Changes.apply
    with pytest.MonkeyPatch.context() as patch, open_environment(scenario.environment, folder, output="text") as env:
        patch.setattr(Changes, "apply", catch)
        # What no record may be written to is known from the context.
        env.context = {**env.context, "config_topic": "connect-configs", "status_topic": "connect-status"}
        try:
            scenario.play(env)
        except CaughtError as caught:
            changes, planned = caught.changes, caught.planned
        else:
            raise AssertionError(f"{scenario.name} makes no plan of {kind}")
        patch.setattr(Registrations, "check", lambda *_: None)
        place = next(place for place, action in enumerate(planned.plan.actions) if action.kind == kind)
        yield Example(changes, _complete(changes, planned), place)


def _complete(changes: Changes, planned: PlannedChange) -> Plan:
    """Return the plan with a precondition for everything that it changes.

    The undo of a rename has none for what is another connector by then, and can't be saved; as a plan of its own it
    can.
    """
    plan = planned.plan
    if plan.undoes and plan.actions[0].kind == "remove-connector":
        again = changes._planner.plan(plan.title, plan.actions).plan
        return replace(plan, preconditions=again.preconditions)
    return plan
