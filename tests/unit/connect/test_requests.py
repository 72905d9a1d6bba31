"""What is sent, and what is refused before it is sent."""

from __future__ import annotations

import json
from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.connect import requests
from seamark.connect.config import is_same_config
from seamark.connect.requests import build_path
from seamark.core.offsets import Offset
from seamark.errors import RefusedError, UsageError

HOSTILE = [
    "../admin",
    "..%2fadmin",
    "%2e%2e",
    "%2f",
    "a b/c",
    "a?expand=info",
    "a#b",
    "a;b=c",
    "größe-日本",
    "a\\b",
    "a\nb",
    "//evil.example/x",
    "http://evil.example",
    "@evil",
    "a%00b",
    "...",
    " x",
]
NAMES = HOSTILE + [f"{name}{suffix}" for name in HOSTILE for suffix in ("/stop", "/../..", "%", "&x=1", ".", "é")]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_to_another_path(name):
    url = httpx2.URL("http://h:1" + requests.status(name).path)
    sent = url.raw_path.decode()
    assert url.host == "h"
    assert sent.startswith("/connectors/")
    assert sent.endswith("/status")
    segment = sent.removeprefix("/connectors/").removesuffix("/status")
    assert "/" not in segment
    assert "?" not in segment
    assert unquote(segment) == name


@given(st.text(min_size=1).filter(lambda name: name not in (".", "..")))
def test_any_text_survives_the_way_into_a_path(name):
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    url = httpx2.URL("http://h:1" + build_path("connectors", name, "config"))
    assert unquote(url.raw_path.decode().split("/")[2]) == name
    assert url.raw_path.count(b"/") == 3


@pytest.mark.parametrize("name", ["", ".", ".."])
@pytest.mark.parametrize("build", [requests.info, requests.delete, requests.status, requests.offsets])
def test_names_that_mean_another_path_are_refused(name, build):
    with pytest.raises(UsageError):
        build(name)


@pytest.mark.parametrize("name", ["..", " x", "x\t"])
def test_a_connector_that_could_never_be_addressed_is_not_created(name):
    with pytest.raises(UsageError):
        requests.create(name, {}, initial_state=None)


@pytest.mark.parametrize("name", ["a;b", "a%41", "a/b", "a{b}", "a\\b", "a\nb"])
def test_names_under_which_connect_goes_wrong_get_no_config(name):
    for build in (lambda: requests.create(name, {}, initial_state=None), lambda: requests.put_config(name, {})):
        with pytest.raises(RefusedError):
            build()


@pytest.mark.parametrize("name", ["a;b", "%41", "a/offsets", "a{b}"])
def test_names_that_followers_mangle_are_not_handed_on(name):
    for request in (
        requests.delete(name),
        requests.change_state(name, "stop"),
        requests.restart(name, include_tasks=True, only_failed=False),
        requests.restart_task(name, 0),
        requests.delete_offsets(name),
        requests.patch_offsets(name, [Offset({"a": 1}, None)]),
    ):
        assert request.path.endswith("forward=false")
    assert "forward" not in requests.delete("plain name").path
    assert "forward" not in requests.change_state(name, "pause").path


def test_create_sends_name_config_and_state():
    request = requests.create("x", {"a": "ü"}, initial_state="stopped")
    assert request.path == "/connectors"
    assert json.loads(request.body) == {"name": "x", "config": {"a": "ü"}, "initial_state": "STOPPED"}


def test_the_repr_of_a_request_holds_no_secret():
    request = requests.create("x", {"connection.password": "hunter22"}, initial_state=None)
    assert b"hunter22" in request.body
    assert "hunter22" not in repr(request)


def test_create_refuses_a_state_that_is_none():
    with pytest.raises(UsageError, match="FAST"):
        requests.create("x", {}, initial_state="FAST")


@pytest.mark.parametrize("mask", ["(sensitive)", "********", "[hidden]", "••••"])
def test_a_mask_is_never_written_back(mask):
    with pytest.raises(RefusedError, match=r"connection\.password"):
        requests.put_config("x", {"connection.password": mask})


def test_a_config_of_another_connector_is_refused():
    with pytest.raises(UsageError, match="other"):
        requests.put_config("x", {"name": "other"})


def test_a_value_that_is_not_a_string_is_refused():
    with pytest.raises(UsageError, match=r"tasks\.max"):
        requests.put_config("x", {"tasks.max": 1})


def test_same_config_looks_past_the_name_that_connect_adds():
    assert is_same_config({"name": "x", "a": "1"}, {"a": "1"})
    assert not is_same_config({"name": "x", "a": "1"}, {"a": "1", "b": ""})


def test_offsets_always_carry_the_offset_key_because_a_missing_one_resets():
    body = json.loads(requests.patch_offsets("x", [Offset({"f": "a"}, None), Offset({"f": "b"}, {"p": 1})]).body)
    assert body == {
        "offsets": [{"partition": {"f": "a"}, "offset": None}, {"partition": {"f": "b"}, "offset": {"p": 1}}]
    }


@pytest.mark.parametrize(
    "offsets",
    [
        [],
        [Offset({"a": 1, "b": 2}, {"p": 1}), Offset({"b": 2, "a": 1}, {"p": 2})],
        [Offset({"a": 1}, {"p": {"nested": 1}})],
        [Offset({"a": 2**63}, {"p": 1})],
        [Offset({"a": 1}, {"p": -(2**63) - 1})],
    ],
    ids=["none", "twice", "nested", "too large", "too small"],
)
def test_offsets_that_connect_would_take_wrongly_are_refused(offsets):
    with pytest.raises(UsageError):
        requests.patch_offsets("x", offsets)


def test_an_unknown_scope_is_refused_because_connect_would_take_it_for_worker():
    with pytest.raises(UsageError, match="galaxy"):
        requests.set_logger("root", "INFO", scope="galaxy")


def test_restart_only_names_what_is_asked():
    assert requests.restart("x", include_tasks=False, only_failed=False).path == "/connectors/x/restart"
    path = requests.restart("x", include_tasks=True, only_failed=True).path
    assert path == "/connectors/x/restart?includeTasks=true&onlyFailed=true"


def test_what_queues_on_the_herder_is_known():
    assert requests.config("x").queues
    assert requests.offsets("x").queues
    assert requests.set_logger("root", "INFO", scope="worker").queues
    assert not requests.fleet().queues
    assert not requests.status("x").queues
