"""Changes of offsets, which Connect has from 3.6 on."""

from __future__ import annotations

import pytest

from seamark.connect.model import State
from seamark.core.offsets import Offset
from seamark.errors import RejectedError, UnknownOutcomeError, UsageError
from tests.contract.connect.targets import TEN_LINES, Target
from tests.fakes.connect import texts

pytestmark = pytest.mark.needs("WRITE_OFFSETS")


def wait_for_map(target: Target, name: str, wanted: dict[str, object]) -> None:
    """Wait for the offsets: a worker lists a new partition when it has read its record from the topic."""
    target.wait_for(f"{name} has the offsets {wanted}", lambda: read_map(target, name) == wanted or None)


def read_map(target: Target, name: str) -> dict[str, object]:
    """Offsets by file name."""
    offsets = target.client.read_offsets(name)
    return {str(offset.partition["filename"]): (offset.offset or {})["position"] for offset in offsets}


@pytest.mark.quirk(11)
def test_offsets_of_a_running_connector_can_not_be_changed(target: Target):
    name = target.shared_source()
    body = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 1}}]}
    for answer in (
        target.raw("PATCH", f"/connectors/{name}/offsets", body),
        target.raw("DELETE", f"/connectors/{name}/offsets", worker=1),
    ):
        assert (answer.status, answer.message) == (400, texts.not_stopped(name))
    with pytest.raises(RejectedError) as caught:
        target.client.patch_offsets(name, [Offset({"filename": "f"}, {"position": 1})])
    assert "stop it" in caught.value.hint


@pytest.mark.quirk(11)
def test_stopped_and_then_paused_is_not_stopped(target: Target):
    name = target.create_source()
    target.stop(name)
    target.client.pause(name)
    target.wait_for("it says PAUSED", lambda: target.client.read_status(name).state is State.PAUSED)
    with pytest.raises(RejectedError) as caught:
        target.client.delete_offsets(name)
    assert texts.not_stopped(name) in caught.value.cause


@pytest.mark.quirk(13, 14)
def test_a_change_merges_and_null_forgets_one(target: Target):
    name = target.create_stopped_source()
    file = target.client.read_config(name)["file"]
    change = target.client.patch_offsets(name, [Offset({"filename": file}, {"position": 7})])
    assert change.message == texts.offsets_changed("altered", looked_at=True)
    assert not change.may_be_external
    # A partition that the connector never reads is taken without a word: only reading back and comparing shows it.
    target.client.patch_offsets(name, [Offset({"filename": "other"}, {"position": 3})])
    wait_for_map(target, name, {file: 7, "other": 3})
    target.client.patch_offsets(name, [Offset({"filename": "other"}, None)])
    wait_for_map(target, name, {file: 7})


@pytest.mark.quirk(13)
def test_an_offset_that_is_left_out_forgets_it_and_the_client_never_leaves_it_out(target: Target):
    name = target.create_stopped_source()
    file = target.client.read_config(name)["file"]
    assert read_map(target, name) == {file: len(TEN_LINES)}
    answer = target.raw("PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": {"filename": file}}]})
    assert answer.status == 200
    assert read_map(target, name) == {}
    with pytest.raises(UsageError):
        target.client.patch_offsets(
            name, [Offset({"filename": file}, None), Offset({"filename": file}, {"position": 1})]
        )


def test_forgetting_all_can_be_repeated(target: Target):
    name = target.create_stopped_source()
    for _ in range(2):
        change = target.client.delete_offsets(name)
        assert change.message == texts.offsets_changed("reset", looked_at=True)
        assert target.client.read_offsets(name) == ()


def test_a_changed_offset_is_where_the_connector_goes_on(target: Target):
    name = target.create_stopped_source()
    file = target.client.read_config(name)["file"]
    target.client.patch_offsets(name, [Offset({"filename": file}, {"position": 7})])
    target.client.resume(name)
    target.wait_until_running(name)
    target.wait_for("it has read the rest again", lambda: read_map(target, name) == {file: len(TEN_LINES)})


@pytest.mark.parametrize("body", [{}, {"offsets": None}, {"offsets": []}], ids=["absent", "null", "empty"])
def test_no_offsets_are_a_400(target: Target, body: dict):
    answer = target.raw("PATCH", f"/connectors/{target.name()}/offsets", body)
    assert (answer.status, answer.message) == (400, texts.NO_OFFSETS_GIVEN)


def test_no_body_and_a_foreign_field_are_500s(target: Target):
    path = f"/connectors/{target.name()}/offsets"
    assert target.raw("PATCH", path, b"").message == texts.NULL_OFFSETS
    answer = target.raw("PATCH", path, {"zz": 1})
    assert answer.status == 500
    assert answer.message.startswith(texts.unrecognized_field("zz", "ConnectorOffsets"))


def test_values_that_are_not_plain_are_refused_by_connect_and_before_it_by_the_client(target: Target):
    name = target.create_source()
    target.stop(name)
    for value, word in (({"a": 1}, "MAP"), (2**70, "class java.math.BigInteger")):
        body = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": value}}]}
        answer = target.raw("PATCH", f"/connectors/{name}/offsets", body)
        said = f"Offsets may only contain primitive types as values, but field position contains {word}"
        assert (answer.status, answer.message) == (500, said)
        with pytest.raises(UsageError):
            target.client.patch_offsets(name, [Offset({"filename": "f"}, {"position": value})])


@pytest.mark.quirk(14)
def test_what_the_plugin_itself_refuses_is_a_500_and_must_be_read_back(target: Target):
    name = target.create_stopped_source()
    before = read_map(target, name)
    with pytest.raises(UnknownOutcomeError) as caught:
        target.client.patch_offsets(name, [Offset({"filename": "f"}, {"position": -1})])
    assert "should be a non-negative value" in caught.value.cause
    assert read_map(target, name) == before


def unparsed(word: str) -> str:
    said = f"Failed to parse the following Kafka {word} value in the provided offsets: 'x'."
    return f"{said} {word.title()} values for sink connectors need to be integers."


KEYS = "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'"
SINK_BODIES = {
    "keys": ({"partition": {"a": 1}, "offset": {"kafka_offset": 1}}, KEYS),
    "no partition": (
        {"offset": {"kafka_offset": 1}},
        "The partition for a sink connector offset cannot be null or missing",
    ),
    "null topic": (
        {"partition": {"kafka_topic": None, "kafka_partition": 0}, "offset": None},
        "Kafka topic names must be valid strings and may not be null",
    ),
    "null partition": (
        {"partition": {"kafka_topic": "t", "kafka_partition": None}, "offset": None},
        "Kafka partitions must be valid numbers and may not be null",
    ),
    "partition": (
        {"partition": {"kafka_topic": "t", "kafka_partition": "x"}, "offset": {"kafka_offset": 1}},
        unparsed("partition"),
    ),
    "offset": (
        {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": "x"}},
        unparsed("offset"),
    ),
    "no offset": (
        {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"position": 1}},
        "The offset for a sink connector should either be null or contain the key 'kafka_offset'",
    ),
}


def test_offsets_that_are_no_sinks_are_400s(target: Target):
    name = target.name()
    target.client.create_connector(name, target.sink_config("contract-none"), initial_state="STOPPED")
    target.wait_for_state(name, State.STOPPED)
    for entry, text in SINK_BODIES.values():
        answer = target.raw("PATCH", f"/connectors/{name}/offsets", {"offsets": [entry]})
        assert (answer.status, answer.message) == (400, text)


@pytest.mark.quirk(12, 13)
def test_a_sinks_group_is_moved_and_forgotten(target: Target):
    sink, topic = target.create_stopped_sink()
    # A partition may be a number or its digits.
    target.client.patch_offsets(sink, [Offset({"kafka_topic": topic, "kafka_partition": "0"}, {"kafka_offset": 3})])
    (offset,) = target.client.read_offsets(sink)
    assert offset == Offset({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 3})
    # Past the end is taken too.
    target.client.patch_offsets(sink, [Offset({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 99999})])
    assert target.client.read_offsets(sink)[0].offset == {"kafka_offset": 99999}
    target.client.delete_offsets(sink)
    assert target.client.read_offsets(sink) == ()


@pytest.mark.quirk(12)
def test_a_sinks_bad_partition_leaves_the_outcome_open(target: Target):
    sink, topic = target.create_stopped_sink()
    with pytest.raises(UnknownOutcomeError) as caught:
        target.client.patch_offsets(
            sink,
            [
                Offset({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 4}),
                Offset({"kafka_topic": f"{topic}-none", "kafka_partition": 0}, {"kafka_offset": 4}),
            ],
        )
    assert f"Failed to alter consumer group offsets for connector {sink}" in caught.value.cause
    # Half of it was done.
    assert target.client.read_offsets(sink)[0].offset == {"kafka_offset": 4}


def test_created_stopped_with_an_offset_it_begins_there(target: Target):
    name = target.name()
    config = target.source_config()
    target.client.create_connector(name, config, initial_state="STOPPED")
    target.wait_for_state(name, State.STOPPED)
    target.client.patch_offsets(name, [Offset({"filename": config["file"]}, {"position": 14})])
    target.client.resume(name)
    target.wait_until_running(name)
    target.wait_for("it has read the rest", lambda: read_map(target, name) == {config["file"]: len(TEN_LINES)})
