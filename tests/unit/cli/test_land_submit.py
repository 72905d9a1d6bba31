"""`seamark pipelines submit`: what it prints is whole, is what its reader takes, and holds no secret."""

from __future__ import annotations

import ast
import io
import json
import shlex

import pytest
from ruamel.yaml import YAML

from seamark.cli.main import execute
from seamark.cli.session import Session
from tests.unit.cli.stubs import Outcome

CONTEXTS = """\
contexts:
  dev:
    kafka: {bootstrap.servers: "127.0.0.1:9092", sasl.password: hunter2, sasl.username: me}
    databases:
      shop: {jdbc_url: "jdbc:postgresql://db/shop", dsn: secret://env/SHOP_DSN}
"""
SPEC = """\
pipelines:
  Orders_1:
    kind: land
    from: {topic: orders}
    to: {database: shop, table: orders}
    columns: {id: bigint}
    every: 10s
"""
PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    for variable in ("SEAMARK_SPARK_JARS", "SEAMARK_SPARK_MASTER", "SHOP_DSN"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "contexts.yaml").write_text(CONTEXTS)
    (tmp_path / "pipelines.yaml").write_text(SPEC)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "none.yaml").write_text("connectors: {}\n")
    pack = tmp_path / "my pack"
    pack.mkdir()
    for name in ("seamark-env.tar.gz", "seamark-main.py"):
        (pack / name).touch()
    monkeypatch.setenv("SEAMARK_CONFIG", str(tmp_path / "contexts.yaml"))
    monkeypatch.chdir(tmp_path)

    def run(*argv, pack="my pack"):
        out, err = io.StringIO(), io.StringIO()
        words = ["pipelines", "submit", "Orders_1", "-f", "pipelines.yaml", *(["--pack", pack] if pack else []), *argv]
        code = execute(words, session=Session(out=out, err=err))
        return Outcome(code, out.getvalue(), err.getvalue())

    return run


def test_line_is_one_command_of_whole_paths(desk, tmp_path):
    ended = desk("--master", "spark://h:7077", "--conf", "spark.executor.memory=2g")
    assert (ended.code, ended.err) == (0, "")
    assert shlex.split(ended.out.replace("\\\n", "")) == [
        *["spark-submit", "--master", "spark://h:7077"],
        *["--archives", f"{tmp_path}/my pack/seamark-env.tar.gz#seamark-env"],
        *["--packages", PACKAGE],
        *["--conf", "spark.executorEnv.PYTHONPATH=seamark-env", "--conf", "spark.executor.memory=2g"],
        f"{tmp_path}/my pack/seamark-main.py",
        *["pipelines", "run", "Orders_1", "-f", f"{tmp_path}/pipelines.yaml"],
        *["--context", "dev", "--yes", "--no-input"],
    ]
    assert "--once" in desk("--once").out


def test_jars_of_a_folder_stand_in_for_the_package(desk, tmp_path, monkeypatch):
    (tmp_path / "jars").mkdir()
    assert "contains no jars" in desk("--jars", "jars").err
    for name in ("b.jar", "a.jar"):
        (tmp_path / "jars" / name).touch()
    monkeypatch.setenv("SEAMARK_SPARK_JARS", "jars")
    monkeypatch.setenv("SEAMARK_SPARK_MASTER", "local[2]")
    said = shlex.split(desk().out.replace("\\\n", ""))
    assert f"{tmp_path}/jars/a.jar,{tmp_path}/jars/b.jar" in said
    assert said[said.index("--master") + 1] == "local[2]"
    assert "--packages" not in said


def test_task_is_python_with_arguments_of_the_operator(desk, tmp_path):
    ended = desk("--format", "airflow", "--master", "spark://h:7077")
    assert ended.code == 0
    compile(ended.out, "task", "exec")
    imported, made = ast.parse(ended.out).body
    assert imported.module == "airflow.providers.apache.spark.operators.spark_submit"
    assert [one.name for one in imported.names] == [made.value.func.id] == ["SparkSubmitOperator"]
    assert made.targets[0].id == "land_Orders_1"
    given = {one.arg: ast.literal_eval(one.value) for one in made.value.keywords}
    # Those of the provider's operator, and of every operator.
    assert set(given) <= {
        *("application", "application_args", "archives", "conf", "conn_id", "deploy_mode", "env_vars", "jars"),
        *("name", "packages", "task_id", "retries", "max_active_tis_per_dag"),
    }
    assert given["application"] == f"{tmp_path}/my pack/seamark-main.py"
    # How often is Airflow's to say.
    assert "--once" in given["application_args"]
    assert given["env_vars"] == {"SEAMARK_CONFIG": f"{tmp_path}/contexts.yaml"}
    assert "# The environment of the Airflow worker must set SHOP_DSN." in ended.out
    assert "spark://h:7077" in ended.out


def test_application_is_yaml_that_takes_secrets_from_where_they_are(desk, tmp_path):
    ended = desk("--format", "spark-application", "--image", "shop/spark:1", pack="s3a://bucket/pack/")
    assert ended.code == 0
    found = YAML(typ="safe").load(ended.out)
    assert (found["apiVersion"], found["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    assert found["metadata"]["name"] == "land-orders-1"
    spec = found["spec"]
    assert (spec["type"], spec["pythonVersion"], spec["mode"], spec["image"]) == (
        *("Python", "3", "cluster"),
        "shop/spark:1",
    )
    assert spec["mainApplicationFile"] == "s3a://bucket/pack/seamark-main.py"
    assert spec["deps"] == {
        "archives": ["s3a://bucket/pack/seamark-env.tar.gz#seamark-env"],
        "packages": [PACKAGE],
    }
    assert spec["arguments"][:5] == ["pipelines", "run", "Orders_1", "-f", "/etc/seamark/spec/pipelines.yaml"]
    # It goes on by itself, so that it is never to end.
    assert "--once" not in spec["arguments"]
    assert spec["restartPolicy"] == {"type": "Always"}
    assert spec["driver"]["env"] == [
        {"name": "SHOP_DSN", "valueFrom": {"secretKeyRef": {"name": "land-orders-1", "key": "SHOP_DSN"}}},
        {"name": "SEAMARK_CONFIG", "value": "/etc/seamark/contexts/contexts.yaml"},
    ]
    assert spec["driver"]["configMaps"] == [{"name": "land-orders-1", "path": "/etc/seamark/spec"}]
    assert spec["driver"]["secrets"][0]["secretType"] == "Generic"
    assert not {"env", "secrets", "configMaps"} & set(spec["executor"])
    assert f"# kubectl create configmap land-orders-1 --from-file={tmp_path}/pipelines.yaml\n" in ended.out
    assert (
        "restartPolicy:\n    type: OnFailure\n"
        in desk("--format", "spark-application", "--once", pack="local:///a").out
    )


@pytest.mark.parametrize("form", ["spark-submit", "airflow", "spark-application"])
def test_no_secret_is_printed(desk, form, monkeypatch):
    monkeypatch.setenv("SHOP_DSN", "postgresql://me:hidden@db/shop")
    place = {"airflow": "/opt/pack", "spark-application": "https://files/pack"}.get(form, "my pack")
    ended = desk("--format", form, "-o", "json", pack=place)
    document = json.loads(ended.out)
    assert (document["kind"], document["form"]) == ("Submission", form)
    assert not [word for word in ("hunter2", "hidden") if word in ended.out]


@pytest.mark.parametrize(
    ("argv", "pack", "words"),
    [
        (["--conf", "spark.hadoop.fs.s3a.secret.key=x"], "my pack", "it is a secret"),
        (["--conf", "spark.driver.extraJavaOptions=-Dpassword=x"], "my pack", "it is a secret"),
        (["--conf", "spark.submit.deployMode=cluster"], "my pack", "contexts and spec files of this machine"),
        (["--format", "spark-application"], "my pack", "pods can't access folders"),
        (["--format", "spark-application", "--master", "yarn"], "s3a://b", "--master can't be used"),
        (["--format", "spark-application", "-f", "more"], "s3a://b", "can't contain folders"),
        ([], "s3a://b", "a folder of its own machine"),
        (["--format", "airflow"], "nowhere", "folder nowhere does not contain seamark-env.tar.gz and seamark-main.py"),
        ([], None, "folder . does not contain seamark-env.tar.gz and seamark-main.py"),
    ],
)
def test_what_would_not_run_is_refused(desk, argv, pack, words):
    ended = desk(*argv, pack=pack)
    assert ended.code == 64
    assert ended.out == ""
    assert words in ended.err
    assert "=x" not in ended.err
