"""Connect's JSON as values."""

from __future__ import annotations

import json

import pytest

from seamark.connect import wire
from seamark.connect.model import State
from seamark.core.refs import ConnectorType


def status(state="RUNNING", tasks=("RUNNING",), **more):
    return {
        "name": "x",
        "connector": {"state": state, "worker_id": "w:1", **more},
        "tasks": [{"id": i, "state": word, "worker_id": "w:1"} for i, word in enumerate(tasks)],
        "type": "source",
    }


def info(name="x", **config):
    return {
        "name": name,
        "config": {"name": name, **config},
        "tasks": [{"connector": name, "task": 0}],
        "type": "source",
    }


def dump(value):
    return json.dumps(value).encode()


def test_a_fleet_is_read_by_name():
    body = dump({n: {"info": info(n, a="1"), "status": status()} for n in ("b", "a")})
    connectors = wire.build_fleet(body, cluster="game")
    assert [c.owner for c in connectors] == ["game/a", "game/b"]
    assert connectors[0].config == {"name": "a", "a": "1"}
    assert connectors[0].type is ConnectorType.SOURCE
    assert connectors[0].status.tasks[0].worker_id == "w:1"


def test_a_connector_that_is_being_deleted_is_left_out_and_one_without_status_is_kept():
    body = dump({"gone": {"info": None, "status": status()}, "new": {"info": info("new")}})
    connectors = wire.build_fleet(body, cluster="game")
    assert [(c.name, c.status) for c in connectors] == [("new", None)]


def test_words_of_a_newer_connect_become_unknown():
    body = dump({"x": {"info": {**info(), "type": "teapot"}, "status": status("BREWING", ["STEEPING"])}})
    (connector,) = wire.build_fleet(body, cluster="game")
    assert connector.type is ConnectorType.UNKNOWN
    assert connector.status.state is State.UNKNOWN
    assert connector.status.tasks[0].state is State.UNKNOWN


def test_fields_of_a_newer_connect_are_ignored():
    body = dump({"x": {"info": {**info(), "zz": 1}, "status": {**status(version="1", zz=[]), "zz": {}}, "zz": None}})
    (connector,) = wire.build_fleet(body, cluster="game")
    assert connector.status.version == "1"


def test_a_failed_task_keeps_its_trace():
    value = status("RUNNING", ["FAILED"])
    value["tasks"][0]["trace"] = "java.lang.Boom\n\tat x"
    assert wire.build_status(dump(value)).tasks[0].trace == "java.lang.Boom\n\tat x"


def test_null_values_of_a_config_are_left_out_and_numbers_become_strings():
    assert wire.build_config(dump({"a": "1", "b": None, "c": 2, "d": True})) == {"a": "1", "c": "2", "d": "true"}


def test_a_null_worker_id_is_no_id():
    value = status()
    value["connector"]["worker_id"] = None
    assert wire.build_status(dump(value)).worker_id == ""


def test_offsets_keep_both_maps_and_null():
    offsets = [{"partition": {"f": "a"}, "offset": None}, {"partition": {"t": 1}, "offset": {"p": 2.5, "s": True}}]
    first, second = wire.build_offsets(dump({"offsets": offsets}))
    assert first.offset is None
    assert (second.partition, second.offset) == ({"t": 1}, {"p": 2.5, "s": True})


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'"x"', b'{"x": 1}', b'{"x": {"info": {"name": "x"}}}', b'{"x": ', b"\xff\xfe"],
)
def test_a_body_that_is_not_connects_is_malformed(body):
    with pytest.raises(wire.MalformedBodyError):
        wire.build_fleet(body, cluster="game")


def test_a_malformed_body_is_described_without_its_values():
    body = dump({"x": {"info": {"name": "x", "config": ["hunter22"]}}})
    with pytest.raises(wire.MalformedBodyError) as caught:
        wire.build_fleet(body, cluster="game")
    assert "hunter22" not in str(caught.value)
    assert "x.info.config" in str(caught.value)


def test_external_offsets_are_noticed_in_the_success_text():
    plain = {"message": "The offsets for this connector have been altered successfully"}
    external = {
        "message": "The Connect framework-managed offsets for this connector have been altered successfully. However, "
        "if this connector manages offsets externally, they will need to be manually altered in the system that the "
        "connector uses."
    }
    assert not wire.build_offsets_change(dump(plain)).may_be_external
    assert wire.build_offsets_change(dump(external)).may_be_external


def test_a_validation_names_the_keys_with_errors():
    body = dump(
        {
            "name": "P",
            "error_count": 1,
            "groups": [],
            "configs": [
                {"definition": None, "value": {"name": "topic", "errors": ["Missing"], "visible": True}},
                {"definition": {}, "value": {"name": "file", "errors": []}},
            ],
        }
    )
    found = wire.build_validation(body)
    assert not found.is_valid
    assert found.errors == {"topic": ("Missing",)}


def test_a_validation_names_the_keys_that_the_plugin_calls_passwords():
    configs = [
        {
            "definition": {"name": "sftp.login", "type": "PASSWORD"},
            "value": {"name": "sftp.login", "value": "[hidden]"},
        },
        {"definition": {"name": "topic", "type": "STRING"}, "value": {"name": "topic"}},
        {"definition": {"name": "odd", "type": None}, "value": {"name": "odd"}},
        {"definition": None, "value": {"name": "unknown"}},
        {"value": {"name": "older"}},
    ]
    found = wire.build_validation(dump({"name": "P", "error_count": 0, "groups": [], "configs": configs}))
    assert (found.secret, found.is_valid) == (frozenset({"sftp.login"}), True)


def test_loggers_plugins_topics_worker_and_health_are_read():
    assert wire.build_loggers(dump({"root": {"level": "INFO"}}))[0].last_modified_ms is None
    assert wire.build_loggers(dump({"root": {"level": "INFO", "last_modified": 5}}))[0].last_modified_ms == 5
    assert wire.build_plugins(dump([{"class": "A", "type": "sink"}]))[0].version == ""
    assert wire.build_topics(dump({"x": {"topics": ["b", "a"]}})) == ("a", "b")
    root = dump({"version": "4.3.1", "commit": "c", "kafka_cluster_id": "k"})
    assert wire.build_worker(root, cluster="game", url="u").kafka_cluster_id == "k"
    assert wire.build_health(dump({"status": "healthy", "message": "m"})).is_healthy


def test_ten_thousand_connectors_are_read():
    body = dump({f"c{i}": {"info": info(f"c{i}", a="1"), "status": status()} for i in range(10_000)})
    assert len(wire.build_fleet(body, cluster="game")) == 10_000
