"""A check is added to the doctor by one module: this one."""

from __future__ import annotations

import pytest

from seamark.core.readings import Finding, Severity
from seamark.doctor import service
from seamark.doctor.evidence import Check
from seamark.doctor.service import CHECKS, list_checks, register_check
from seamark.errors import SeamarkError
from tests.unit.fleet.builders import StubConnect, StubKafka, connector, open_stub_fleet

NAME = "connectors.naming"


def examine_names(evidence):
    """connectors.naming: names of connectors have a team before the first dash."""
    for cluster in evidence.clusters:
        if isinstance(cluster.connectors, SeamarkError):
            continue
        for found in cluster.connectors:
            if "-" not in found.name:
                yield Finding(NAME, Severity.WARNING, found.owner, "no team in the name", "rename it: TEAM-NAME")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Registered for one test only: other tests compare the checks with the documentation."""
    monkeypatch.setattr(service, "_ADDED", {})
    register_check(Check(NAME, examine_names))


def examine(*names):
    game = StubConnect(connectors=tuple(connector(name) for name in names))
    return open_stub_fleet({"game": game}, kafka=StubKafka()).doctor.examine()


def test_its_findings_come_last():
    findings = examine("shop-orders", "orders")
    assert findings[-1] == Finding(NAME, Severity.WARNING, "game/orders", "no team in the name", "rename it: TEAM-NAME")
    assert [found.check for found in findings].count(NAME) == 1
    assert {found.check for found in findings} == {*(check.name for check in CHECKS), NAME}


def test_without_findings_it_is_reported_as_ok():
    (found,) = [one for one in examine("shop-orders") if one.check == NAME]
    assert found.severity is Severity.OK


def test_a_check_with_a_known_name_is_refused():
    for check in (CHECKS[0], list_checks()[-1]):
        with pytest.raises(ValueError, match="duplicate check"):
            register_check(check)
