"""What a Connect 3.5.2 does not have: the raw refusal, and the client that does not even ask."""

from __future__ import annotations

import pytest

from seamark.core.offsets import Offset
from seamark.errors import NotFoundError, UnsupportedError
from tests.contract.connect.targets import Target
from tests.fakes.connect import texts

pytestmark = [pytest.mark.old_only, pytest.mark.quirk(17)]
NOT_ALLOWED = (405, "HTTP 405 Method Not Allowed")


@pytest.mark.quirk(16)
def test_offsets_can_be_read_but_not_changed(target: Target):
    name = target.create_stopped_source()
    before = target.client.read_offsets(name)
    body = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 1}}]}
    answer = target.raw("PATCH", f"/connectors/{name}/offsets", body)
    assert (answer.status, answer.message) == NOT_ALLOWED
    with pytest.raises(UnsupportedError) as caught:
        target.client.patch_offsets(name, [Offset({"filename": "f"}, {"position": 1})])
    assert "3.6" in caught.value.hint
    assert target.client.read_offsets(name) == before


@pytest.mark.quirk(16)
def test_offsets_can_not_be_forgotten(target: Target):
    name = target.create_stopped_source()
    before = target.client.read_offsets(name)
    answer = target.raw("DELETE", f"/connectors/{name}/offsets")
    assert (answer.status, answer.message) == NOT_ALLOWED
    with pytest.raises(UnsupportedError):
        target.client.delete_offsets(name)
    assert target.client.read_offsets(name) == before


def test_single_config_keys_can_not_be_changed(target: Target):
    name = target.shared_source()
    answer = target.raw("PATCH", f"/connectors/{name}/config", {"batch.size": "5"})
    assert (answer.status, answer.message) == NOT_ALLOWED
    with pytest.raises(UnsupportedError):
        target.client.patch_config(name, {"batch.size": "5"})


def test_an_initial_state_is_a_field_it_does_not_know(target: Target):
    name, config = target.name(), target.source_config()
    answer = target.raw("POST", "/connectors", {"name": name, "config": config, "initial_state": "STOPPED"})
    assert answer.status == 500
    assert answer.message.startswith(texts.unrecognized_field("initial_state", "CreateConnectorRequest"))
    with pytest.raises(UnsupportedError):
        target.client.create_connector(name, config, initial_state="STOPPED")
    with pytest.raises(NotFoundError):
        target.client.read_config(name)


def test_the_scope_of_a_log_level_is_overheard(target: Target):
    """The old worker takes "cluster" for itself alone and says nothing; so the client does not ask."""
    path = "/admin/loggers/org.seamark.contract.old"
    answer = target.raw("PUT", f"{path}?scope=cluster", {"level": "WARN"})
    assert (answer.status, answer.json) == (200, ["org.seamark.contract.old"])
    with pytest.raises(UnsupportedError):
        target.client.set_logger("org.seamark.contract.old", "WARN", scope="cluster")


def test_there_is_no_health(target: Target):
    answer = target.raw("GET", "/health")
    assert (answer.status, answer.message) == (404, "HTTP 404 Not Found")
    with pytest.raises(UnsupportedError):
        target.client.read_health()


def test_tasks_config_is_still_there(target: Target):
    name = target.shared_source()
    assert list(target.raw("GET", f"/connectors/{name}/tasks-config").json) == [f"{name}-0"]
