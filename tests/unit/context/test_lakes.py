"""The lakes of a context."""

from __future__ import annotations

import pytest

from seamark.errors import ConfigurationError, InvalidSettingError, MissingSettingError


@pytest.fixture(autouse=True)
def _trusted(workplace):
    workplace.trust_project()


FILE = """
contexts:
  dev:
    kafka: {bootstrap.servers: 127.0.0.1:9092}
    lakes:
      lake:
        url: s3://bucket/raw/
        endpoint: https://s3.example.com
        region: eu-central-1
        access_key: canary-1
        secret_key: secret://env/LAKE_KEY
      folder:
        url: /data/lake
"""


def test_lakes_are_opened_with_their_keys(workplace):
    workplace.write(FILE)
    workplace.environ["LAKE_KEY"] = "canary-2"
    lakes = workplace.open().lakes
    lake = lakes["lake"]
    assert (lake.url, lake.endpoint, lake.region) == ("s3://bucket/raw", "https://s3.example.com", "eu-central-1")
    assert (lake.access_key.reveal(), lake.secret_key.reveal()) == ("canary-1", "canary-2")
    assert (lakes["folder"].url, lakes["folder"].access_key) == ("/data/lake", None)


def test_keys_are_never_shown(workplace):
    workplace.write(FILE)
    context = workplace.open()
    shown = {setting.key: setting for setting in context.settings()}
    assert shown["lakes.lake.access_key"].value == "(sensitive)"
    assert shown["lakes.lake.secret_key"].value == "secret://env/LAKE_KEY"
    assert shown["lakes.lake.url"].value == "s3://bucket/raw/"
    assert "canary" not in f"{context!r}{context.lakes!r}{context.settings()!r}"


def test_a_variable_sets_a_key(workplace):
    workplace.write(FILE)
    workplace.environ["SEAMARK_CONTEXTS__DEV__LAKES__LAKE__ACCESS_KEY"] = "other"
    assert workplace.open().lakes["lake"].access_key.reveal() == "other"


def test_url_is_needed(workplace):
    workplace.write(FILE.replace("url: /data/lake", "region: x"))
    with pytest.raises(MissingSettingError, match=r"lakes\.folder\.url"):
        workplace.open()


@pytest.mark.parametrize("url", ["gs://bucket/x", "data/lake", "s3://me:canary-3@bucket/x", "s3://bucket?x=1"])
def test_url_that_leads_nowhere_is_refused(workplace, url):
    workplace.write(FILE.replace("/data/lake", url))
    with pytest.raises(InvalidSettingError) as caught:
        workplace.open()
    assert "canary" not in f"{caught.value.as_dict()}"


def test_keys_go_together(workplace):
    workplace.write(FILE.replace("        access_key: canary-1\n", ""))
    with pytest.raises(InvalidSettingError, match="is set without the other key"):
        workplace.open()


def test_an_unknown_key_names_the_nearest(workplace):
    workplace.write(FILE.replace("region:", "regionx:"))
    with pytest.raises(ConfigurationError) as caught:
        workplace.open()
    assert caught.value.hint == "use region, the most similar key"
