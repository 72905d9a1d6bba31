"""A SparkApplication, for the operator of Spark on Kubernetes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from seamark.pipelines.submission import SPARK_VERSION, Submission
from seamark.report.data import render_yaml

_CONNECTION = "spark_default"


def render_task(run: Submission) -> str:
    """Python text that makes one task. It ends when all is landed: how often is Airflow's to say."""
    return "\n".join(_build_text(run)) + "\n"


def _build_text(run: Submission) -> Iterator[str]:
    task = "land_" + re.sub(r"[^A-Za-z0-9_]", "_", run.name)
    yield "from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator"
    yield ""
    yield f"# Airflow connection {_CONNECTION} has the Spark master{f': {run.master}' if run.master else ''}."
    if run.variables:
        yield f"# The environment of the Airflow worker must set {', '.join(run.variables)}."
    yield "# The task can be retried on any worker: its offsets are stored with the rows."
    yield f"{task} = SparkSubmitOperator("
    yield from (f"    {text}" for text in _build_settings(run, task))
    yield ")"


def _build_settings(run: Submission, task: str) -> Iterator[str]:
    yield f"task_id={_quote(task)},"
    yield f"name={_quote(f'seamark pipeline {run.name}')},"
    yield f"conn_id={_quote(_CONNECTION)},"
    # The driver reads the contexts and the spec of the worker's machine.
    yield 'deploy_mode="client",'
    yield f"application={_quote(run.program)},"
    yield from _build_list("application_args", run.build_arguments(run.files, is_once=True))
    yield f"archives={_quote(run.archives)},"
    if run.jars:
        yield f"jars={_quote(','.join(run.jars))},"
    if run.packages:
        yield f"packages={_quote(','.join(run.packages))},"
    yield from _build_dict("conf", run.settings)
    if run.contexts:
        yield from _build_dict("env_vars", {"SEAMARK_CONFIG": run.contexts})
    yield "retries=3,"
    # A second run would fence the first one.
    yield "max_active_tis_per_dag=1,"


def _build_list(name: str, words: Sequence[str]) -> Iterator[str]:
    yield f"{name}=["
    yield from (f"    {_quote(word)}," for word in words)
    yield "],"


def _build_dict(name: str, values: Mapping[str, str]) -> Iterator[str]:
    yield f"{name}={{"
    yield from (f"    {_quote(key)}: {_quote(value)}," for key, value in values.items())
    yield "},"


def _quote(text: str) -> str:
    """A text as Python writes it, in double quotes. Every escape of JSON is one of Python's."""
    return json.dumps(text)


def render_line(run: Submission) -> str:
    """One command for a shell, a line for each option."""
    return " \\\n  ".join(("spark-submit", *_build_parts(run))) + "\n"


def _build_parts(run: Submission) -> Iterator[str]:
    if run.master is not None:
        yield shlex.join(("--master", run.master))
    yield shlex.join(("--archives", run.archives))
    if run.jars:
        yield shlex.join(("--jars", ",".join(run.jars)))
    if run.packages:
        yield shlex.join(("--packages", ",".join(run.packages)))
    for key, value in run.settings.items():
        yield shlex.join(("--conf", f"{key}={value}"))
    yield shlex.join((run.program, *run.build_arguments(run.files, is_once=run.is_once)))


_SPEC = PurePosixPath("/etc/seamark/spec")
_CONTEXTS = PurePosixPath("/etc/seamark/contexts")
# The driver plans, and moves no records.
_DRIVER = {"cores": 1, "memory": "1g", "serviceAccount": "spark-operator-spark"}
_EXECUTOR = {"instances": 2, "cores": 1, "memory": "1g"}


def render_application(run: Submission) -> str:
    """A file for kubectl. What the driver reads comes from a ConfigMap and a Secret, made as its first lines say."""
    name = build_kubernetes_name(run.name)
    head = "".join(f"# {text}\n" for text in _build_head(run, name))
    return head + render_yaml(
        {
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": name},
            "spec": _build_spec(run, name),
        }
    )


def build_kubernetes_name(name: str) -> str:
    """A name that Kubernetes takes: small letters, digits and dashes, at most 63."""
    return f"land-{re.sub(r'[^a-z0-9]+', '-', name.lower())}"[:63].strip("-")


def _build_head(run: Submission, name: str) -> Iterator[str]:
    yield "Run once, before the first start:"
    files = [f"--from-file={file}" for file in run.files]
    yield shlex.join(("kubectl", "create", "configmap", name, *files))
    secret = shlex.join(
        ("kubectl", "create", "secret", "generic", name, *([f"--from-file={run.contexts}"] if run.contexts else ()))
    )
    if run.contexts or run.variables:
        yield " ".join((secret, *(f'--from-literal={one}="${one}"' for one in run.variables)))
    yield "Then run kubectl apply -f with this file. The image needs the Python version that seamark spark pack used."


def _build_spec(run: Submission, name: str) -> dict[str, Any]:
    files = tuple(str(_SPEC / PurePosixPath(file).name) for file in run.files)
    settings = dict(run.settings)
    if run.packages:
        # The image's user may have no home.
        settings.setdefault("spark.jars.ivy", "/tmp/.ivy2")  # noqa: S108 - in a container of its own
    return {
        "type": "Python",
        "pythonVersion": "3",
        "mode": "cluster",
        "image": run.image,
        "sparkVersion": SPARK_VERSION,
        "mainApplicationFile": run.program,
        "arguments": run.build_arguments(files, is_once=run.is_once),
        "deps": _build_deps(run),
        "sparkConf": settings,
        "restartPolicy": _build_restarts(is_endless=run.is_endless),
        "driver": {**_DRIVER, **_build_sources(run, name)},
        "executor": _EXECUTOR,
    }


def _build_deps(run: Submission) -> dict[str, Any]:
    deps = {"archives": (run.archives,), "jars": run.jars, "packages": run.packages}
    return {key: value for key, value in deps.items() if value}


def _build_restarts(*, is_endless: bool) -> dict[str, Any]:
    if is_endless:
        return {"type": "Always"}
    return {
        "type": "OnFailure",
        "onFailureRetries": 3,
        "onFailureRetryInterval": 30,
        "onSubmissionFailureRetries": 3,
        "onSubmissionFailureRetryInterval": 30,
    }


def _build_sources(run: Submission, name: str) -> dict[str, Any]:
    """What the driver alone sees: the spec, the contexts, and the variables of these."""
    env: list[dict[str, Any]] = [
        {"name": one, "valueFrom": {"secretKeyRef": {"name": name, "key": one}}} for one in run.variables
    ]
    found: dict[str, Any] = {"configMaps": [{"name": name, "path": str(_SPEC)}]}
    if run.contexts:
        env.append({"name": "SEAMARK_CONFIG", "value": str(_CONTEXTS / PurePosixPath(run.contexts).name)})
        found["secrets"] = [{"name": name, "path": str(_CONTEXTS), "secretType": "Generic"}]
    return {**found, "env": env} if env else found
