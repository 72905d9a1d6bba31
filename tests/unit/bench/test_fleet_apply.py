"""The bench of the real fleet, on a fake one: both legs come to the same, and its check sees what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest

import bench.fixtures.fleets.bare_rest as bare_rest
from bench.cases.fleet_apply import BENCH, Site, Told, apply_bare, apply_ours, check_fleet, open_ground
from bench.fixtures.fleets.bare_rest import BareRest
from bench.fixtures.fleets.rounds import build_rounds, write_files
from bench.harness.definition import WrongResultError
from seamark.changes.timing import FLEET_PACE
from seamark.connectors import actions as apply_connector
from seamark.connectors.run_state import AwaitRunning
from seamark.specs import load_spec
from tests.fakes.connect import Answer, FakeConnect, texts

SIZE = 20


@pytest.fixture
def fake() -> Iterator[FakeConnect]:
    with FakeConnect(workers=2) as cluster:
        yield cluster


@pytest.fixture
def site(fake: FakeConnect, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    # A wrong fleet stays wrong here, so nobody has to wait for it.
    monkeypatch.setattr(bare_rest, "_DEADLINE_SECONDS", 0.5)
    monkeypatch.setattr(bare_rest, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(apply_connector, "AwaitRunning", partial(AwaitRunning, stable_seconds=0.0))
    cluster = {"urls": list(fake.urls), "group_id": "workers", "offsets_topic": "offsets"}
    context = {"journal": "file", "connect": {"connect": cluster}}
    with open_ground(fake.urls[0], size=SIZE, context=context) as opened:
        opened.begin()
        yield opened


def test_claim_is_the_one_of_the_issue() -> None:
    (ratio,) = BENCH.ratios
    assert (ratio.over, ratio.under, ratio.bar) == ("bare", "ours", 0.9)
    assert BENCH.sizes == (500,)


def test_rounds_have_the_numbers_of_the_issue() -> None:
    create, change, delete, run = build_rounds(500, prefix="b", file="/f")
    assert [len(create.created), len(change.changed), len(delete.deleted), len(run.created)] == [500, 50, 50, 100]
    assert [len(one.wanted) for one in (create, change, delete, run)] == [500, 500, 450, 550]
    assert {one.state for one in create.created} == {"STOPPED"}
    assert {one.state for one in run.created} == {"RUNNING"}
    assert not {one.name for one in change.changed} & set(delete.deleted)


def test_files_say_what_a_round_wants(tmp_path: Path) -> None:
    *_, last = build_rounds(SIZE, prefix="b", file="/f")
    write_files(tmp_path / "spec", last.wanted, spec="one")
    found = {
        one.name: (dict(one.config), one.state.upper()) for one in load_spec([tmp_path / "spec"], environ={}).connectors
    }
    assert found == {one.name: (one.config, one.state) for one in last.wanted}


def test_both_legs_come_to_the_fleet_of_the_last_round(site: Site, fake: FakeConnect) -> None:
    for leg in (apply_bare, apply_ours):
        told = leg(site)
        check_fleet(site, told)
        assert {title.partition(":")[0] for title in told.seconds} == {"create", "change", "delete", "run"}
        assert len(fake.asked("POST /connectors")) == SIZE + SIZE // 5
        assert len(fake.asked("/config/validate")) >= SIZE + SIZE // 5 + SIZE // 10
        site.begin()
        assert fake.state.connectors == {}
        fake.requests.clear()


def test_bare_leg_asks_again_on_a_409(site: Site, fake: FakeConnect) -> None:
    fake.faults.add(match="POST /connectors", times=2, do=Answer(409, texts.STALE))
    told = apply_bare(site)
    check_fleet(site, told)
    assert len(fake.asked("POST /connectors")) == SIZE + SIZE // 5 + 2


def test_connector_that_is_not_as_it_should_be_is_seen(site: Site, fake: FakeConnect) -> None:
    told = apply_bare(site)
    name = site.rounds[-1].wanted[0].name
    fake.state.connectors[name].config["batch.size"] = "1"
    with pytest.raises(WrongResultError, match=f"1 connectors .*{name}"):
        check_fleet(site, told)


def test_connector_that_does_not_run_is_seen(site: Site, fake: FakeConnect) -> None:
    told = apply_bare(site)
    last = site.rounds[-1].wanted[-1]
    fake.add_connector(last.name, last.config, state="RUNNING", tasks=["FAILED"])
    with pytest.raises(WrongResultError, match=last.name):
        check_fleet(site, told)


def test_connector_too_many_is_seen(site: Site, fake: FakeConnect) -> None:
    told = apply_bare(site)
    fake.add_connector("bench-left", {})
    with pytest.raises(WrongResultError, match="bench-left"):
        check_fleet(site, told)


def test_name_with_a_409_in_it_is_no_409(site: Site) -> None:
    told = apply_bare(site)
    told.begun(409, "create connector/connect/bench-409abc-0409 as STOPPED")
    check_fleet(site, told)


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (Told(failures=["it broke"]), "1 failures, first it broke"),
        (Told(words=["asked again after a 409"]), "a 409 was shown"),
    ],
)
def test_what_was_said_is_judged_before_the_fleet(told: Told, fault: str) -> None:
    client = httpx2.Client(base_url="http://127.0.0.1:1", trust_env=False)
    site = Site(SIZE, BareRest(client, writers=FLEET_PACE.writers), Path("/nowhere"), {}, run="abc")
    with pytest.raises(WrongResultError, match=fault):
        check_fleet(site, told)
