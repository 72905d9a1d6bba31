"""Hostile configs and names against a fleet: all are refused at plan, and no worker ever hears of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from seamark.changes.plan import Plan
from seamark.connect.model import Connector
from seamark.context import open_context
from seamark.errors import RefusedError, SeamarkError
from seamark.fleet.fleet import Fleet
from tests.fakes.connect import FakeConnect
from tests.unit.core.hostile import HOSTILE
from tests.unit.core.hostile_names import NAMES
from tests.unit.fleet.builders import EmptyScan, StubKafka
from tests.unit.fleet.living import register

CONTEXT = """\
contexts:
  dev:
    kafka: {{bootstrap.servers: 'b:1'}}
    journal: file
    connect:
      game: {{urls: '{url}', group_id: workers, offsets_topic: offsets}}
"""
SINK_CLASS = "io.aiven.connect.http.HttpSinkConnector"
PRESENT = {"connector.class": SINK_CLASS, "topics": "t", "tasks.max": "1"}
CASES = pytest.mark.parametrize(("config", "rule"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])


@pytest.fixture(scope="module")
def connect() -> Iterator[FakeConnect]:
    with FakeConnect() as made:
        made.add_connector("orders", PRESENT)
        yield made


@pytest.fixture(scope="module")
def fleet(connect: FakeConnect, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    tmp_path = tmp_path_factory.mktemp("hostile")
    (tmp_path / "seamark.yaml").write_text(CONTEXT.format(url=connect.urls[0]))
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    context = open_context(environ=environ, cwd=tmp_path, user_dir=tmp_path / "user", system_dir=tmp_path / "etc")
    with Fleet(context, build_kafka=lambda _: StubKafka(), open_scan=lambda _, name, __: EmptyScan(name)) as opened:
        yield opened


@pytest.fixture(autouse=True)
def heard_nothing(connect: FakeConnect) -> Iterator[None]:
    """No test here ends with a worker that was asked to change or to validate something."""
    yield
    assert [line for line in connect.asked() if not line.startswith("GET ")] == []


@pytest.fixture(scope="module")
def orders(fleet: Fleet) -> Connector:
    return fleet.connectors.get("orders")


@pytest.fixture(scope="module")
def saved(fleet: Fleet) -> list[str]:
    """Two plans as files hold them: a new connector, and a change."""
    plans = (fleet.connectors.create("new", PRESENT), fleet.connectors.set("orders", {"tasks.max": "2"}))
    return [json.dumps(planned.plan.to_file()) for planned in plans]


def refusal(act: Callable[..., object], *arguments: object) -> SeamarkError:
    with pytest.raises(RefusedError) as caught:
        act(*arguments)
    assert "the policy of context dev doesn't allow" in caught.value.message
    return caught.value


@CASES
def test_a_hostile_config_is_refused_at_create(fleet, connect, config, rule) -> None:
    asked = len(connect.requests)
    error = refusal(fleet.connectors.create, "new", config)
    assert rule in error.context["rules"].split(", ")
    assert f"{rule} game/new: " in error.cause
    # Not even a look: validating a config would load its classes.
    assert len(connect.requests) == asked


@CASES
def test_a_hostile_config_is_refused_at_change_and_set(fleet, orders, config, rule) -> None:
    config = {"connector.class": SINK_CLASS} | config
    assert rule in refusal(fleet.connectors.update, orders, config).context["rules"]
    assert rule in refusal(fleet.connectors.set, orders, config).context["rules"]


@CASES
def test_a_hostile_config_in_a_saved_plan_is_refused(fleet, saved, config, rule) -> None:
    for text in saved:
        data = json.loads(text)
        data["actions"][0]["config"] = config
        plan = Plan.from_dict(data)
        assert rule in refusal(fleet.review, register(fleet, plan)).context["rules"]


def test_hostile_configs_in_a_spec_are_refused_all_at_once(fleet, tmp_path) -> None:
    for name, config, _ in HOSTILE:
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "config": config}))
    error = refusal(fleet.plan, tmp_path)
    assert error.message.endswith(f"doesn't allow {len(HOSTILE)} connectors")
    assert {case[2] for case in HOSTILE} <= set(error.context["rules"].split(", "))


def test_no_hostile_name_reaches_connect(fleet, connect, saved) -> None:
    asked = len(connect.requests)
    for name in NAMES:
        data = json.loads(saved[0])
        data["actions"][0]["name"] = name
        assert refusal(fleet.connectors.create, name, PRESENT).context["rules"] == "P001"
        assert refusal(fleet.review, register(fleet, Plan.from_dict(data))).context["rules"] == "P001"
    # A plan is compared with the clusters that it is for, and with the list of all connectors.
    assert {seen.path for seen in list(connect.requests)[asked:]} <= {"/", "/connectors"}


def test_nothing_is_renamed_to_a_hostile_name(fleet, connect, orders) -> None:
    asked = len(connect.requests)
    # Each asks which versions the workers run, so some of them must do.
    for name in NAMES[::8]:
        assert refusal(fleet.connectors.rename, orders, name).context["rules"] == "P001"
    assert {seen.path for seen in list(connect.requests)[asked:]} <= {"/"}


def test_what_is_refused_says_every_rule_and_how_to_allow_it(fleet) -> None:
    config = PRESENT | {"producer.override.bootstrap.servers": "evil:1", "x": "${env:HOME}"}
    error = refusal(fleet.connectors.create, "new", config)
    assert error.message == "the policy of context dev doesn't allow connector game/new"
    assert error.cause == (
        "P005 game/new: producer.override.bootstrap.servers names a client override that is not allowed; "
        "P012 game/new: x names a variable of the worker's environment: HOME"
    )
    assert error.hint == (
        "allow it: client_overrides: [default, KEY] in `policy` of the context (docs/reference/policy.md); "
        "allow it: environment: [NAME] in `policy` of the context (docs/reference/policy.md)"
    )
    assert error.exit_code == 5
