"""Changes that a fake and a real Connect must make alike."""

from __future__ import annotations

import pytest

from seamark.connect.caller import Timing
from seamark.connect.config import is_same_config
from seamark.connect.model import State
from seamark.errors import (
    AlreadyExistsError,
    DeadlineError,
    NotFoundError,
    RefusedError,
    RejectedError,
    UsageError,
)
from tests.contract.connect.targets import TEN_LINES, Target
from tests.fakes.connect import FILE_SOURCE, texts

SOON = Timing(deadline_seconds=1.0, first_pause_seconds=0.05, longest_pause_seconds=0.2)


@pytest.mark.quirk(6)
def test_created_is_not_yet_running(target: Target):
    name = target.name()
    answer = target.raw("POST", "/connectors", {"name": name, "config": target.source_config()})
    assert answer.status == 201
    assert answer.json["tasks"] == []
    assert answer.json["config"]["name"] == name
    assert target.wait_until_running(name).tasks[0].state is State.RUNNING


def test_create_gives_the_connector_back(target: Target):
    name, config = target.name(), target.source_config()
    connector = target.client.create_connector(name, config)
    assert connector.status is None
    assert is_same_config(connector.config, config)
    assert connector.owner == f"{target.spec.id}/{name}"


@pytest.mark.quirk(1)
def test_what_exists_already_is_a_409_that_is_not_waited_for(target: Target):
    name = target.shared_source()
    answer = target.raw("POST", "/connectors", {"name": name, "config": target.source_config()})
    assert (answer.status, answer.message) == (409, texts.already_exists(name))
    with pytest.raises(AlreadyExistsError):
        target.client.create_connector(name, target.source_config())


@pytest.mark.quirk(20)
def test_a_config_that_names_another_connector_is_a_400(target: Target):
    name = target.name()
    config = {**target.source_config(), "name": "other"}
    for answer in (
        target.raw("PUT", f"/connectors/{name}/config", config),
        target.raw("POST", "/connectors", {"name": name, "config": config}),
    ):
        assert (answer.status, answer.message) == (400, texts.name_mismatch("other", name))
    with pytest.raises(UsageError):
        target.client.put_config(name, config)


@pytest.mark.quirk(20)
def test_connect_trims_a_name_and_the_client_does_not_let_it(target: Target):
    name = target.name()
    answer = target.raw("POST", "/connectors", {"name": f"  {name} ", "config": target.source_config()})
    assert (answer.status, answer.json["name"]) == (201, name)
    with pytest.raises(UsageError):
        target.client.create_connector(f" {name}", target.source_config())


def test_an_invalid_config_is_rejected_with_every_reason(target: Target):
    name = target.name()
    with pytest.raises(RejectedError) as caught:
        target.client.create_connector(name, {"connector.class": FILE_SOURCE, "tasks.max": "zero"})
    assert "contains the following 3 error(s)" in caught.value.cause
    assert 'Missing required configuration "topic"' in caught.value.cause
    with pytest.raises(NotFoundError):
        target.client.read_config(name)


def test_a_plugin_that_is_not_installed_is_rejected_and_nothing_is_left_open(target: Target):
    """3.5 answers with a 500; its text proves that nothing was done."""
    with pytest.raises(RejectedError) as caught:
        target.client.create_connector(target.name(), {"connector.class": "com.example.Nope"})
    assert "Failed to find any class that implements Connector" in caught.value.cause
    assert "500" in caught.value.cause or target.spec.version == "4.3.1"


BAD_BODIES = {
    "not json": (b"{", 500, "Unexpected end-of-input"),
    "nothing": (b"", 500, "Cannot invoke"),
    "unknown field": (b'{"zz": 1}', 500, 'Unrecognized field "zz"'),
    "no config": (b'{"name": "x"}', 500, texts.NULL_CONFIG),
    "no class": (b'{"name": "x", "config": {}}', 400, "Connector config {name=x} contains no connector type"),
    "nested": (b'{"name": "x", "config": {"a": {}}}', 500, "Cannot deserialize value of type `java.lang.String`"),
}


@pytest.mark.parametrize("kind", BAD_BODIES)
def test_a_malformed_body_is_mostly_a_500(target: Target, kind: str):
    body, status, text = BAD_BODIES[kind]
    answer = target.raw("POST", "/connectors", body)
    assert answer.status == status
    assert answer.message.startswith(text)


def test_a_body_without_a_media_type_is_a_415(target: Target):
    answer = target.raw("POST", "/connectors", b'{"name": "x"}', content_type=None)
    assert (answer.status, answer.message) == (415, "HTTP 415 Unsupported Media Type")


@pytest.mark.quirk(19)
def test_a_config_can_be_seen_to_be_the_same_before_it_is_put(target: Target):
    config = target.source_config()
    name = target.name()
    assert target.raw("PUT", f"/connectors/{name}/config", config).status == 201
    target.wait_until_running(name)
    assert is_same_config(target.client.read_config(name), config)
    # Connect takes it again all the same, and restarts the connector for it.
    assert target.raw("PUT", f"/connectors/{name}/config", config).status == 200
    target.wait_until_running(name)
    changed = {**config, "batch.size": "7"}
    assert not is_same_config(target.client.read_config(name), changed)
    assert target.client.put_config(name, changed).config["batch.size"] == "7"
    target.wait_for("the change is told", lambda: target.client.read_config(name).get("batch.size") == "7")


@pytest.mark.quirk(19)
def test_a_mask_is_never_written_back(target: Target):
    name = target.shared_source()
    before = target.client.read_config(name)
    with pytest.raises(RefusedError):
        target.client.put_config(name, {**before, "some.password": "********"})
    assert target.client.read_config(name) == before


@pytest.mark.needs("PATCH_CONFIG")
def test_a_patch_of_the_config_merges_and_null_removes(target: Target):
    name = target.create_source()
    before = target.client.read_config(name)
    assert target.client.patch_config(name, {"batch.size": "5"}).config == {**before, "batch.size": "5"}
    target.wait_for("the key is there", lambda: target.client.read_config(name).get("batch.size") == "5")
    assert target.client.patch_config(name, {"batch.size": None}).config == before


@pytest.mark.quirk(9)
def test_pause_and_resume_take_effect_later(target: Target):
    name = target.create_source()
    assert target.raw("PUT", f"/connectors/{name}/pause", worker=1).status == 202
    assert target.wait_for_state(name, State.PAUSED).tasks[0].state is State.PAUSED
    target.client.resume(name)
    target.wait_until_running(name)
    target.client.pause(name)
    target.wait_for_state(name, State.PAUSED)


@pytest.mark.quirk(9)
def test_stop_takes_the_tasks_away(target: Target):
    name = target.create_source()
    assert target.raw("PUT", f"/connectors/{name}/stop").status == 204
    status = target.wait_for_state(name, State.STOPPED)
    assert status.tasks == ()
    target.wait_for("no task is listed", lambda: target.raw("GET", f"/connectors/{name}").json["tasks"] == [])
    target.client.resume(name)
    target.wait_until_running(name)


def test_restarts_are_taken_in_every_form(target: Target):
    name = target.create_source()
    assert target.raw("POST", f"/connectors/{name}/restart", worker=1).status == 204
    target.wait_until_running(name)
    both = target.raw("POST", f"/connectors/{name}/restart?includeTasks=true")
    assert both.status == 202
    assert both.json["connector"]["state"] == "RESTARTING"
    assert [task["state"] for task in both.json["tasks"]] == ["RESTARTING"]
    target.wait_until_running(name)
    for restart in (
        lambda: target.client.restart(name, include_tasks=True, only_failed=True),
        lambda: target.client.restart(name),
        lambda: target.client.restart_task(name, 0),
    ):
        restart()
        target.wait_until_running(name)


def test_a_task_that_is_not_there_can_not_be_restarted(target: Target):
    name = target.shared_source()
    with pytest.raises(NotFoundError) as caught:
        target.client.restart_task(name, 7)
    assert f"Unknown task: {name}-7" in caught.value.cause


@pytest.mark.quirk(1)
def test_a_409_that_never_ends_ends_at_the_deadline(target: Target):
    """Connect says "no known leader" for ever when a task of a stopped connector is restarted."""
    name = target.create_source()
    target.stop(name)
    with pytest.raises(DeadlineError) as caught:
        target.open(timing=SOON).restart_task(name, 0)
    assert caught.value.exit_code == 6
    # A rebalance that is still going on after the stop has its own wording; both are "later".
    assert texts.NO_LEADER in caught.value.cause or texts.STALE in caught.value.cause


@pytest.mark.quirk(1)
def test_a_follower_that_may_not_forward_says_so_with_a_409(target: Target):
    name = target.name()
    answers = [target.raw("DELETE", f"/connectors/{name}?forward=false", worker=worker) for worker in (0, 1)]
    said = sorted((answer.status, answer.message) for answer in answers)
    assert said == [(404, texts.not_found(name)), (409, texts.TWO_HOPS)]


@pytest.mark.quirk(4, 18)
def test_any_worker_takes_any_change(target: Target):
    name, config = target.name(), target.source_config()
    one, two = (target.open(urls=[url]) for url in target.urls)
    one.create_connector(name, config)
    target.wait_until_running(name)
    two.put_config(name, {**config, "batch.size": "9"})
    target.wait_for("the first worker tells the change", lambda: one.read_config(name).get("batch.size") == "9")
    two.stop(name)
    target.wait_for_state(name, State.STOPPED)
    one.delete_connector(name)


@pytest.mark.quirk(18, 20)
def test_a_name_that_followers_mangle_never_hits_another_connector(target: Target):
    """Connect's own fault: a follower hands `a;b` on as `a`. seamark asks until it has found the right worker."""
    victim = target.create_source()
    name = target.name(prefix=f"{victim};")
    config = target.source_config()
    with pytest.raises(RefusedError):
        target.client.create_connector(name, config)
    assert target.raw("POST", "/connectors", {"name": name, "config": config}).status == 201
    # Its tasks may never come: Connect loses their configs on the same way. The connector itself does.
    target.wait_for_state(name, State.RUNNING, with_tasks=False)
    for urls in (target.urls, target.urls[::-1]):
        target.open(urls=urls).restart(name)
        target.wait_for_state(name, State.RUNNING, with_tasks=False)
    for urls in (target.urls, target.urls[::-1]):
        target.open(urls=urls).stop(name)
        target.wait_for_state(name, State.STOPPED, with_tasks=False)
    target.open(urls=target.urls[::-1]).delete_connector(name)
    target.wait_for("it is gone", lambda: name not in target.raw("GET", "/connectors").json)
    # Its rebalance shows the other one UNASSIGNED for a moment.
    target.wait_until_running(victim)
    assert victim in target.raw("GET", "/connectors").json


@pytest.mark.quirk(7)
def test_a_deleted_connector_is_gone_when_its_status_is(target: Target):
    name = target.create_source()
    assert target.raw("DELETE", f"/connectors/{name}").status == 204

    def is_gone() -> bool:
        answer = target.raw("GET", f"/connectors/{name}/status")
        if answer.status == 404:
            return answer.message == texts.no_status(name)
        # Once the config is gone nobody knows any more what it was.
        return answer.json["type"] not in ("source", "unknown")

    target.wait_for("its status is gone", is_gone)

    def is_unknown() -> bool:
        # The worker that is asked here may hear of it a little later.
        try:
            target.client.read_connector(name)
        except NotFoundError:
            return True
        return False

    target.wait_for("it is not found", is_unknown)
    with pytest.raises(NotFoundError):
        target.client.delete_connector(name)


@pytest.mark.quirk(8)
def test_a_connector_of_the_same_name_goes_on_where_the_old_one_stopped(target: Target):
    name = target.create_stopped_source()
    config = target.client.read_config(name)
    target.client.delete_connector(name)
    target.wait_for("it is gone", lambda: target.raw("GET", f"/connectors/{name}/status").status == 404)
    with open(config["file"], "a") as file:  # noqa: PTH123 - append
        file.write("one more\n")
    target.client.create_connector(name, config)
    target.wait_until_running(name)
    wanted = {"position": len(TEN_LINES) + len("one more\n")}

    def has_gone_on() -> bool:
        return [dict(offset.offset or {}) for offset in target.client.read_offsets(name)] == [wanted]

    target.wait_for("its offset is behind the new line", has_gone_on)


@pytest.mark.needs("INITIAL_STATE")
@pytest.mark.quirk(17)
def test_a_connector_can_be_created_stopped(target: Target):
    name = target.name()
    target.client.create_connector(name, target.source_config(), initial_state="stopped")
    assert target.wait_for_state(name, State.STOPPED).tasks == ()
    assert target.client.read_offsets(name) == ()


def test_a_write_passes_over_a_dead_url(target: Target):
    name = target.name()
    client = target.open(urls=["http://127.0.0.1:1", target.urls[0]])
    client.create_connector(name, target.source_config())
    # Created is not visible everywhere, and the leader may be the other worker.
    assert target.wait_for_config(client, name)["name"] == name
