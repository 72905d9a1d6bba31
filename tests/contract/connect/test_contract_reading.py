"""Reads that a fake and a real Connect must answer alike."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from seamark.connect.capability import Capability
from seamark.connect.model import Connector, State
from seamark.connectors.model import Health, build_health
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RejectedError, UsageError
from tests.contract.connect.targets import SOURCE_END, TEN_LINES, Target
from tests.fakes.connect import FILE_SINK, FILE_SOURCE, JDBC_SOURCE, texts


def test_every_worker_tells_its_version_and_its_kafka_cluster(target: Target):
    workers = target.client.read_workers()
    assert [worker.version for worker in workers] == [target.spec.version] * 2
    assert len({worker.kafka_cluster_id for worker in workers}) == 1
    assert workers[0].kafka_cluster_id
    assert [worker.clock_skew_seconds for worker in workers] == [0.0, 0.0]


@pytest.mark.quirk(17)
def test_capabilities_follow_the_version(target: Target):
    capabilities = target.client.read_capabilities()
    assert capabilities.has(Capability.READ_OFFSETS)
    assert capabilities.has(Capability.HEALTH) is (target.spec.version == "4.3.1")
    assert capabilities.words == target.spec.version


@pytest.mark.quirk(5, 6)
def test_the_fleet_is_read_in_one_call_with_config_and_status(target: Target):
    names = {target.shared_source(), target.create_source()}

    def read_healthy() -> dict[str, Connector] | None:
        # The rebalance of a create may take the other one from its worker for a moment.
        found = {connector.name: connector for connector in target.client.read_connectors()}
        is_well = all(name in found and build_health(found[name].status) is Health.HEALTHY for name in names)
        return found if is_well else None

    fleet = target.wait_for("both are in the fleet, and well", read_healthy)
    for name in names:
        connector = fleet[name]
        assert connector.cluster == target.spec.id
        assert connector.type is ConnectorType.SOURCE
        assert connector.plugin == FILE_SOURCE
        assert connector.config == target.client.read_config(name)
    target.wait_for("the first worker names them too", lambda: names <= set(target.raw("GET", "/connectors").json))


@pytest.mark.quirk(10)
def test_status_names_the_worker_of_each_task(target: Target):
    name = target.shared_source()
    # The case before may have left a rebalance behind, which shows it UNASSIGNED.
    status = target.wait_until_running(name)
    workers = {url.removeprefix("http://") for url in target.urls}
    assert {status.worker_id, *(task.worker_id for task in status.tasks)} <= workers
    assert [task.id for task in status.tasks] == [0]
    assert (status.version == "4.3.1") is (target.spec.version == "4.3.1")
    path = f"/connectors/{name}/tasks/0/status"
    target.wait_for("its task runs", lambda: target.raw("GET", path).json["state"] == "RUNNING")
    missing = target.raw("GET", f"/connectors/{name}/tasks/7/status")
    assert (missing.status, missing.message) == (404, f"No status found for task {name}-7")


def test_info_config_and_tasks_belong_together(target: Target):
    name = target.shared_source()

    def read_running() -> Connector | None:
        found = target.client.read_connector(name)
        return found if found.status is not None and found.status.state is State.RUNNING else None

    connector = target.wait_for("it is told with its status, and runs", read_running)
    info = target.raw("GET", f"/connectors/{name}").json
    assert info["tasks"] == [{"connector": name, "task": 0}]
    assert info["type"] == "source"
    (task,) = target.raw("GET", f"/connectors/{name}/tasks").json
    assert task["id"] == {"connector": name, "task": 0}
    assert task["config"]["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
    assert task["config"]["file"] == connector.config["file"]


@pytest.mark.quirk(20)
def test_topics_are_those_the_connector_used(target: Target):
    name = target.shared_source()
    topic = target.client.read_config(name)["topic"]
    assert target.wait_for("the topic is listed", lambda: target.client.read_topics(name)) == (topic,)
    # Nothing is said of a connector that is not there.
    assert target.raw("PUT", f"/connectors/{target.name()}/topics/reset").status == 202


@pytest.mark.quirk(20)
def test_topics_of_a_connector_that_is_not_there_are_none_and_no_error(target: Target):
    assert target.client.read_topics(target.name()) == ()


def test_a_source_tells_its_offsets(target: Target):
    name = target.shared_source()
    target.wait_for_offset(name, SOURCE_END)
    (offset,) = target.client.read_offsets(name)
    assert offset.partition == {"filename": target.client.read_config(name)["file"]}
    assert offset.offset == {"position": len(TEN_LINES)}


@pytest.mark.quirk(15)
def test_offsets_in_a_topic_of_the_connectors_own_are_told_too(target: Target):
    config = target.source_config()
    config["offsets.storage.topic"] = config["topic"] + "-offsets"
    name = target.name()
    target.client.create_connector(name, config)
    target.wait_until_running(name)
    target.wait_for_offset(name, SOURCE_END)
    assert [dict(offset.offset or {}) for offset in target.client.read_offsets(name)] == [{"position": len(TEN_LINES)}]


@pytest.mark.quirk(12)
def test_a_sink_tells_the_next_record_of_its_group(target: Target):
    sink, topic = target.create_stopped_sink()
    (offset,) = target.client.read_offsets(sink)
    assert offset.partition == {"kafka_topic": topic, "kafka_partition": 0}
    assert offset.offset == {"kafka_offset": 10}


def test_plugins_are_listed_with_type_and_version(target: Target):
    plugins = {plugin.class_name: plugin for plugin in target.client.read_plugins(target.urls[1])}
    assert (plugins[FILE_SOURCE].type, plugins[FILE_SOURCE].version) == ("source", target.spec.version)
    assert plugins[FILE_SINK].type == "sink"
    everything = target.raw("GET", "/connector-plugins?connectorsOnly=false").json
    assert {entry["type"] for entry in everything} >= {"source", "sink", "converter"}
    found = target.client.read_plugins(target.urls[1], connectors_only=False)
    assert {plugin.type for plugin in found} == {entry["type"] for entry in everything}
    assert {plugin.class_name for plugin in found} > plugins.keys()
    unknown = target.raw("GET", "/connector-plugins/Nope/config")
    assert (unknown.status, unknown.message) == (404, "Unknown plugin Nope.")


def test_a_plugin_reports_its_password_keys(target: Target):
    assert target.client.read_password_keys(FILE_SOURCE) == frozenset()
    assert "connection.password" in target.client.read_password_keys(JDBC_SOURCE)
    found = target.client.validate_config(JDBC_SOURCE, {"name": "x", "topics": "t"})
    assert "connection.password" in found.secret
    assert target.client.read_password_keys("org.apache.kafka.connect.json.JsonConverter") == frozenset()
    with pytest.raises(NotFoundError):
        target.client.read_password_keys("com.example.Nope")


def test_config_keys_of_a_plugin_have_types_and_documentation(target: Target):
    keys = {key.name: key for key in target.client.read_config_keys(FILE_SOURCE)}
    assert (keys["topic"].type, keys["topic"].is_required, keys["topic"].default) == ("STRING", True, None)
    assert keys["topic"].documentation
    assert keys["topic"].importance == "HIGH"
    assert keys.keys() >= {"name", "connector.class", "tasks.max"}
    assert any(key.is_password for key in target.client.read_config_keys(JDBC_SOURCE))
    (enable,) = (
        key
        for key in target.client.read_config_keys("org.apache.kafka.connect.json.JsonConverter")
        if key.name == "schemas.enable"
    )
    assert (enable.type, enable.is_required, enable.default) == ("BOOLEAN", False, "true")


@pytest.mark.quirk(4)
def test_a_good_config_validates(target: Target):
    found = target.client.validate_config(FILE_SOURCE, {"name": "x", "topic": "t"})
    assert (found.is_valid, found.errors) == (True, {})


@pytest.mark.quirk(4)
def test_a_bad_config_is_told_by_key_and_nothing_is_created(target: Target):
    name = target.name()
    found = target.client.validate_config(FILE_SOURCE, {"name": name, "tasks.max": "zero"})
    assert found.error_count == 3
    assert set(found.errors) == {"topic", "tasks.max"}
    assert found.errors["topic"] == ('Missing required configuration "topic" which has no default value.',)
    with pytest.raises(NotFoundError):
        target.client.read_config(name)


def test_a_config_for_another_plugin_is_no_match(target: Target):
    path = f"/connector-plugins/{FILE_SINK}/config/validate"
    answer = target.raw("PUT", path, {"connector.class": FILE_SOURCE})
    assert answer.status == 400
    assert answer.message == f"Included connector type {FILE_SOURCE} does not match request type {FILE_SINK}"


def test_a_plugin_that_is_not_there_is_rejected(target: Target):
    with pytest.raises(RejectedError, match="validate") as caught:
        target.client.validate_config("com.example.Nope", {})
    assert "Failed to find any class that implements Connector" in caught.value.cause


def test_loggers_have_levels_and_can_be_set_on_one_worker(target: Target):
    url = target.urls[0]
    logger = "org.seamark.contract." + target.name().replace("-", ".")
    assert target.client.set_logger(logger, "debug", url=url) == (logger,)
    levels = {level.name: level for level in target.client.read_loggers(url)}
    assert levels[logger].level == "DEBUG"
    assert (levels[logger].last_modified_ms is not None) is (target.spec.version == "4.3.1")
    assert "root" in levels


def test_a_log_level_that_is_none_is_rejected(target: Target):
    with pytest.raises(RejectedError) as caught:
        target.client.set_logger("root", "LOUD")
    assert not isinstance(caught.value, NotFoundError)
    assert "invalid log level 'LOUD'." in caught.value.cause
    assert target.raw("PUT", "/admin/loggers/root", {}).message == texts.NO_LEVEL_GIVEN
    missing = target.raw("GET", "/admin/loggers/no.such.logger")
    assert (missing.status, missing.message) == (404, "Logger no.such.logger not found.")


@pytest.mark.needs("HEALTH")
@pytest.mark.quirk(17)
def test_a_worker_says_it_is_healthy(target: Target):
    for url in target.urls:
        health = target.client.read_health(url)
        assert health.is_healthy
        assert health.message == texts.HEALTHY


WORDINGS = {
    "info": ("GET", "", texts.not_found, lambda client, name: client.read_connector(name)),
    "config": ("GET", "/config", texts.not_found, lambda client, name: client.read_config(name)),
    "offsets": ("GET", "/offsets", texts.not_found, lambda client, name: client.read_offsets(name)),
    "delete": ("DELETE", "", texts.not_found, lambda client, name: client.delete_connector(name)),
    "pause": ("PUT", "/pause", texts.unknown_connector, lambda client, name: client.pause(name)),
    "resume": ("PUT", "/resume", texts.unknown_connector, lambda client, name: client.resume(name)),
    "stop": ("PUT", "/stop", texts.unknown_connector, lambda client, name: client.stop(name)),
    "restart": ("POST", "/restart", texts.unknown_connector_colon, lambda client, name: client.restart(name)),
    "task": (
        "POST",
        "/tasks/0/restart",
        texts.unknown_connector_colon,
        lambda client, name: client.restart_task(name, 0),
    ),
    "status": ("GET", "/status", texts.no_status, lambda client, name: client.read_status(name)),
}


@pytest.mark.quirk(6)
@pytest.mark.parametrize("kind", WORDINGS)
def test_a_connector_that_is_not_there_is_said_in_four_ways(target: Target, kind: str):
    method, path, wording, call = WORDINGS[kind]
    name = target.name()
    answer = target.raw(method, f"/connectors/{name}{path}")
    assert (answer.status, answer.message) == (404, wording(name))
    with pytest.raises(NotFoundError) as caught:
        call(target.client, name)
    assert wording(name) in caught.value.cause
    assert caught.value.context["cluster"] == target.spec.id


def test_a_path_that_does_not_exist_and_a_method_that_does_not_fit(target: Target):
    nowhere = target.raw("GET", "/connectors/x/nowhere")
    assert (nowhere.status, nowhere.message) == (404, "HTTP 404 Not Found")
    method = target.raw("DELETE", "/connectors")
    assert (method.status, method.message) == (405, "HTTP 405 Method Not Allowed")


HOSTILE = ["../admin", "a b/c", "%2f", "größe-日本", "a?expand=info", "a#b", "a;b", "a\\b", "a\nb", "a+b c", "a\0b"]


@pytest.mark.quirk(20)
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_no_name_leads_to_another_path(target: Target, name: str):
    """It is not found, or from 4.0 on Jetty refuses it; never is it something else."""
    with pytest.raises(RejectedError) as caught:
        target.client.read_status(name)
    if isinstance(caught.value, NotFoundError):
        assert texts.no_status(name) in caught.value.cause
    else:
        assert target.spec.version == "4.3.1" or "\0" in name
        assert "control character" in caught.value.hint


@pytest.mark.quirk(20)
@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_quoting_can_not_save_are_not_sent(target: Target, name: str):
    with pytest.raises(UsageError):
        target.client.delete_connector(name)


def test_a_dead_first_url_is_passed_over(target: Target):
    client = target.open(urls=["http://127.0.0.1:1", *target.urls])
    assert client.read_capabilities().words == target.spec.version
    client.read_connectors()
    down, *up = client.read_workers()
    assert "refused" in down.error
    assert all(worker.is_up for worker in up)


def test_quoted_paths_reach_the_connector_they_name(target: Target):
    name = target.name(prefix="a b größe-")
    target.client.create_connector(name, target.source_config())
    target.wait_until_running(name)
    assert target.raw("GET", f"/connectors/{quote(name)}/config").json["name"] == name
    for url in target.urls:
        assert target.open(urls=[url]).read_config(name)["name"] == name
