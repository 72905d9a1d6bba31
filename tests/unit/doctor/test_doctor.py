"""The doctor as a whole: every check speaks, none takes the others down."""

import re
from pathlib import Path

import pytest

from seamark.core.readings import Severity
from seamark.doctor.evidence import GROUP_SAMPLE, Check, Evidence, run_check
from seamark.doctor.service import CHECKS
from seamark.errors import AuthenticationError, SecretError, UnreachableError
from seamark.kafka.groups import GroupStatus
from tests.unit.fleet.builders import (
    EVERYTHING,
    StubConnect,
    StubKafka,
    connector,
    context,
    open_stub_fleet,
    sink,
    topic,
    worker,
)

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "doctor.md"
NAMES = [check.name for check in CHECKS]


def healthy_kafka():
    topics = (topic("game-offsets", partitions=25), topic("game-configs"), topic("game-status", partitions=5))
    return StubKafka(topics=topics, groups=[GroupStatus("connect-lake", "STABLE", 1, EVERYTHING)])


def healthy_connect():
    plugin_user = sink("lake")
    return StubConnect(connectors=(connector("fs"), plugin_user))


def test_a_healthy_fleet_has_no_fault_and_every_check_speaks():
    findings = open_stub_fleet({"game": healthy_connect()}, kafka=healthy_kafka()).doctor.examine()
    assert {found.check for found in findings} == set(NAMES)
    assert [found for found in findings if found.severity in {Severity.ERROR, Severity.WARNING}] == []
    # Brokers do not tell their version, and whether a history is worth its price is the reader's to say.
    infos = [found.check for found in findings if found.severity is Severity.INFO]
    assert sorted(infos) == ["kafka.known-bad", "offsets.history"]


def test_every_server_is_asked_once():
    game, kafka = healthy_connect(), healthy_kafka()
    open_stub_fleet({"game": game}, kafka=kafka).doctor.examine()
    assert game.calls == {"workers": 1, "connectors": 1, "plugins": 1}
    assert kafka.calls == {"cluster": 1, "topics": 1, "groups": 1, "close": 1}


def test_every_finding_that_is_not_fine_has_a_fix():
    kafka = StubKafka(cluster=AuthenticationError("wrong password", hint="correct it"))
    broken = StubConnect(workers=(worker(version="2.8.0", error=""), worker("http://x:1", error="refused")))
    broken.connectors = UnreachableError("busy", hint="wait")
    findings = open_stub_fleet({"game": broken}, kafka=kafka).doctor.examine()
    assert len([found for found in findings if found.severity is Severity.ERROR]) >= 2
    assert [found for found in findings if found.severity is not Severity.OK and not found.fix] == []


@pytest.mark.parametrize(
    ("clients", "kafka"),
    [
        ({"game": StubConnect(workers=SecretError("no secret", hint="set it"))}, None),
        ({"game": StubConnect(workers=(worker(error="refused"),))}, StubKafka(cluster=UnreachableError("refused"))),
    ],
    ids=["no client", "all down"],
)
def test_every_check_speaks_also_when_nobody_answers(clients, kafka):
    findings = open_stub_fleet(clients, kafka=kafka).doctor.examine()
    assert {found.check for found in findings} == set(NAMES)


def test_nobody_is_asked_for_connectors_when_no_worker_is_up():
    game = StubConnect(workers=(worker(error="refused"),))
    open_stub_fleet({"game": game}).doctor.examine()
    assert game.calls == {"workers": 1}


def test_brokers_that_can_not_even_be_asked_are_a_finding():
    fleet = open_stub_fleet({"game": healthy_connect()})

    def refuse(found):
        raise SecretError("secret://env/X is not set", hint="export X")

    fleet._build_kafka = refuse
    (finding,) = [found for found in fleet.doctor.examine() if found.check == "kafka.reachable"]
    assert (finding.severity, finding.fix) == (Severity.ERROR, "export X")


def test_a_context_without_brokers_is_examined_as_far_as_it_goes():
    findings = open_stub_fleet({"game": healthy_connect()}, kafka_config={}).doctor.examine()
    assert {found.check for found in findings} == set(NAMES)
    (finding,) = [found for found in findings if found.check == "kafka.reachable"]
    assert finding.severity is Severity.INFO


def test_only_a_sample_of_groups_is_asked_for():
    asked = []
    kafka = healthy_kafka()
    kafka.read_groups = lambda names: asked.extend(names) or StubKafka().read_groups([])
    game = StubConnect(connectors=tuple(sink(f"s{number}") for number in range(GROUP_SAMPLE + 10)))
    open_stub_fleet({"game": game}, kafka=kafka).doctor.examine()
    assert len(asked) == GROUP_SAMPLE


def test_a_check_that_raises_our_error_says_what_it_could_not_see():
    def examine(evidence):
        raise UnreachableError("the thing is away", hint="fetch it")

    (finding,) = run_check(Check("x", examine), Evidence(context()))
    assert (finding.severity, finding.message, finding.fix) == (
        Severity.WARNING,
        "not examined: the thing is away",
        "fetch it",
    )


def test_a_check_with_a_bug_does_not_hide_the_others():
    def examine(evidence):
        raise KeyError("secret-value")

    (finding,) = run_check(Check("x", examine), Evidence(context()))
    assert finding.message == "not examined: the check itself failed with KeyError"


def test_a_check_with_nothing_to_say_says_so():
    (finding,) = run_check(Check("x", lambda evidence: ()), Evidence(context()))
    assert (finding.severity, finding.message) == (Severity.OK, "nothing to check")


def test_names_are_unique_and_listed_in_the_docs_and_nothing_else_is():
    listed = re.findall(r"^### `([a-z.-]+)`$", DOCS.read_text(), flags=re.MULTILINE)
    assert listed == NAMES
    assert len(set(NAMES)) == len(NAMES)
