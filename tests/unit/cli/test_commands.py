"""Each reading command: what it writes where, and how it ends."""

from __future__ import annotations

import json

import pytest

from seamark.connect.model import State, Worker
from seamark.core.offsets import Offset
from seamark.core.readings import Finding, Severity
from seamark.errors import AuthenticationError, UnreachableError
from tests.unit.cli.stubs import StubFleet, connector, run_seamark

UNREACHABLE = UnreachableError("lake does not answer", cause="connection refused", hint="seamark doctor")


def build_fleet(**changes):
    values = {
        "connectors_found": [
            connector("log-purchase"),
            connector("log-guild", tasks=[State.RUNNING, State.FAILED]),
            connector("lake-logs", cluster="lake", state=State.PAUSED),
        ],
        "workers_found": [Worker("game", "http://w1:8083", "4.3.1"), Worker("game", "http://w2:8083", error="refused")],
        "offsets_found": [Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 42})],
        "findings": [Finding("connect.reachable", Severity.OK, "http://w1:8083", "answers")],
        "clusters": ("game", "lake"),
    }
    return StubFleet(**{**values, **changes})


COMMANDS = [
    ["status"],
    ["connectors", "list"],
    ["connectors", "show", "log-guild"],
    ["workers", "list"],
    ["offsets", "show", "log-purchase"],
    ["doctor"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_writes_its_result_to_standard_output_only(command, snapshot):
    fleet = build_fleet()
    ended = run_seamark(*command, fleet=fleet)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == snapshot
    assert (fleet.reads, fleet.closed) == (1, 1)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_gives_a_document_to_programs(command):
    ended = run_seamark(*command, "-o", "json", fleet=build_fleet())
    document = json.loads(ended.out)
    assert document["apiVersion"] == "seamark/v1"
    assert document["kind"]
    assert ended.err == ""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_error_of_the_fleet_decides_the_exit_code(command):
    fleet = build_fleet(error=AuthenticationError("w1 does not know us", hint="check the password"))
    ended = run_seamark(*command, fleet=fleet)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err == "error: w1 does not know us\nhint:  check the password\n"
    ended = run_seamark(*command, "-o", "json", fleet=fleet)
    assert json.loads(ended.err)["code"] == "AUTHENTICATION"
    assert fleet.closed == 2


@pytest.mark.parametrize("command", [["status"], ["connectors", "list"], ["workers", "list"]], ids=" ".join)
def test_partial_read_gives_what_was_read_and_ends_with_3(command):
    ended = run_seamark(*command, fleet=build_fleet(failures={"lake": UNREACHABLE}))
    assert ended.code == 3
    assert "game" in ended.out
    assert ended.err == "error: lake does not answer\ncause: connection refused\nhint:  seamark doctor\n"


@pytest.mark.parametrize("command", [["status"], ["connectors", "list"], ["workers", "list"]], ids=" ".join)
def test_partial_read_is_seen_in_the_document_too(command):
    ended = run_seamark(*command, "-o", "json", fleet=build_fleet(failures={"lake": UNREACHABLE}))
    (failure,) = json.loads(ended.out)["failures"]
    assert failure["cluster"] == "lake"
    assert failure["error"]["code"] == "UNREACHABLE"
    assert json.loads(ended.err)["message"] == "lake does not answer"


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ([UNREACHABLE, UNREACHABLE], 6),
        ([AuthenticationError("no"), AuthenticationError("no")], 4),
        ([AuthenticationError("no"), UNREACHABLE], 6),
    ],
)
def test_read_that_failed_everywhere_ends_with_the_shared_code_or_6(failures, code):
    fleet = build_fleet(connectors_found=[], failures=dict(zip(("game", "lake"), failures, strict=True)))
    ended = run_seamark("connectors", "list", fleet=fleet)
    assert ended.code == code
    assert ended.err.count("error:") == 2


def test_one_cluster_that_failed_is_all_when_only_it_was_asked():
    ended = run_seamark("connectors", "list", "--cluster", "lake", fleet=build_fleet(failures={"lake": UNREACHABLE}))
    assert ended.code == 6


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["game/log-purchase", "game/log-guild", "lake/lake-logs"]),
        (["log-guild"], ["game/log-guild"]),
        (["log-*"], ["game/log-purchase", "game/log-guild"]),
        (["lake/*"], ["lake/lake-logs"]),
        (["-e", "guild|lake"], ["game/log-guild", "lake/lake-logs"]),
        (["--state", "failed"], ["game/log-guild"]),
        (["--state", "DEGRADED"], ["game/log-guild"]),
        (["--state", "paused", "--state", "degraded"], ["game/log-guild", "lake/lake-logs"]),
        (["--cluster", "lake"], ["lake/lake-logs"]),
        (["log-*", "--state", "healthy"], ["game/log-purchase"]),
        (["nothing-*"], []),
    ],
)
def test_connectors_are_selected(arguments, names):
    ended = run_seamark("connectors", "list", "-o", "name", *arguments, fleet=build_fleet())
    assert (ended.code, ended.out.split()) == (0, names)


def test_name_that_is_nowhere_is_an_error():
    ended = run_seamark("connectors", "list", "nope", fleet=build_fleet())
    assert ended.code == 1
    assert "error: connector nope does not exist\n" in ended.err


def test_some_names_that_are_nowhere_make_the_result_partial():
    ended = run_seamark("connectors", "list", "-o", "name", "nope", "log-guild", fleet=build_fleet())
    assert (ended.code, ended.out) == (3, "game/log-guild\n")


def test_absence_is_not_certain_while_a_cluster_is_silent():
    ended = run_seamark("connectors", "list", "nope", fleet=build_fleet(failures={"lake": UNREACHABLE}))
    assert ended.code == 3
    assert "cause: it may be in lake, which did not respond\n" in ended.err


def test_wrong_expression_is_a_usage_error_before_anything_is_read():
    fleet = build_fleet()
    ended = run_seamark("connectors", "list", "-e", "(", fleet=fleet)
    assert ended.code == 64
    assert "invalid regular expression '('" in ended.err
    assert fleet.reads == 0


def test_empty_listing_says_so_beside_the_data():
    ended = run_seamark("connectors", "list", fleet=StubFleet())
    assert (ended.code, ended.out, ended.err) == (0, "", "no connectors\n")
    ended = run_seamark("connectors", "list", "-q", fleet=StubFleet())
    assert (ended.out, ended.err) == ("", "")


def test_doctor_ends_with_1_when_something_is_in_error():
    bad = Finding("topic", Severity.ERROR, "connect-offsets", "is not compacted", "compact it")
    ended = run_seamark("doctor", fleet=build_fleet(findings=[bad]))
    assert ended.code == 1
    assert "fix: compact it" in ended.out
    warning = Finding("cve", Severity.WARNING, "w1", "old")
    assert run_seamark("doctor", fleet=build_fleet(findings=[warning])).code == 0


def test_doctor_fails_on_warnings_if_asked():
    warning = Finding("cve", Severity.WARNING, "w1", "old")
    assert run_seamark("doctor", "--fail-on", "warning", fleet=build_fleet(findings=[warning])).code == 1
    remark = Finding("cve", Severity.INFO, "w1", "old")
    assert run_seamark("doctor", "--fail-on", "warning", fleet=build_fleet(findings=[remark])).code == 0


def test_hostile_name_can_not_reach_a_terminal():
    fleet = build_fleet(connectors_found=[connector("evil\x1b]0;owned\x07\n✓ fake")])
    ended = run_seamark("connectors", "list", "--color", "never", fleet=fleet, terminal=True)
    assert "evil\\x1b]0;owned\\x07\\n✓ fake" in ended.out
    assert "\x1b" not in ended.out
    assert len(ended.out.splitlines()) == 2
