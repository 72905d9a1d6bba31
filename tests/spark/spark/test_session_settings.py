"""What a session of seamark is started with, without a JVM."""

from __future__ import annotations

import logging

import pytest

from seamark.core.secrets import mask_value
from seamark.errors import ConfigurationError
from seamark.spark import sessions as module
from seamark.spark.sessions import CONFS, open_session
from seamark.spark.settings import build_auth_conf

CANARY = "plume00quill"


class Builder:
    """Takes the place of `SparkSession.builder`; what it is given would be on the JVM's command line."""

    def __init__(self):
        self.settings, self.hadoop = {}, {}

    def appName(self, _name):  # noqa: N802 - PySpark's name
        return self

    def config(self, key, value):
        self.settings[key] = value
        return self

    def getOrCreate(self):  # noqa: N802 - PySpark's name
        return self

    @property
    def sparkContext(self):  # noqa: N802 - PySpark's name
        return self

    @property
    def _jsc(self):
        return self

    def hadoopConfiguration(self):  # noqa: N802 - Hadoop's name
        return self

    def set(self, key, value):
        self.hadoop[key] = value


@pytest.fixture
def builder(monkeypatch):
    found = Builder()
    monkeypatch.setattr(module.SparkSession, "builder", found)
    monkeypatch.delenv("SEAMARK_SPARK_JARS", raising=False)
    return found


def test_a_secret_of_hadoop_is_set_in_the_running_jvm(builder):
    conf = {"spark.hadoop.fs.s3a.bucket.b.secret.key": CANARY, "spark.hadoop.fs.s3a.bucket.b.endpoint": "http://s3"}
    open_session("local[1]", conf=conf)
    assert CANARY not in str(builder.settings)
    assert builder.settings["spark.hadoop.fs.s3a.bucket.b.endpoint"] == "http://s3"
    assert builder.hadoop == {"fs.s3a.bucket.b.secret.key": CANARY}


@pytest.mark.parametrize("key", ["spark.authenticate.secret", "spark.ssl.keyPassword"])
def test_another_secret_is_refused_before_spark_starts(builder, key):
    with pytest.raises(ConfigurationError, match=key) as caught:
        open_session("local[1]", conf={key: CANARY})
    assert CANARY not in str(caught.value.as_dict())
    assert builder.settings == {}


def test_no_setting_of_ours_counts_as_a_secret():
    assert [key for key, value in CONFS.items() if mask_value(key, value) != value] == []


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2, 4]", "yarn", "k8s://https://api:6443"])
def test_the_ui_is_off_and_connections_are_authenticated(builder, caplog, master):
    with caplog.at_level(logging.WARNING):
        open_session(master)
    assert (builder.settings["spark.ui.enabled"], builder.settings["spark.authenticate"]) == ("false", "true")
    assert caplog.records == []


def test_a_standalone_master_is_as_its_owner_configured_it_with_a_warning(builder, caplog):
    with caplog.at_level(logging.WARNING):
        open_session("spark://master:7077")
    assert "spark.authenticate" not in builder.settings
    assert "doesn't authenticate its connections" in caplog.text


def test_the_caller_decides(builder):
    open_session("local[1]", conf={"spark.ui.enabled": "true", "spark.authenticate": "false"})
    assert (builder.settings["spark.ui.enabled"], builder.settings["spark.authenticate"]) == ("true", "false")


def test_a_cluster_in_one_process_has_no_generated_secret():
    assert build_auth_conf("local-cluster[2,1,1024]") == {}
