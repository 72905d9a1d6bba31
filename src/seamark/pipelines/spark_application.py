"""A SparkApplication, for the operator of Spark on Kubernetes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from seamark.pipelines.submission import SPARK_VERSION, Submission
from seamark.report.data import render_yaml

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
    yield "Once, before it:"
    files = [f"--from-file={file}" for file in run.files]
    yield shlex.join(("kubectl", "create", "configmap", name, *files))
    secret = shlex.join(
        ("kubectl", "create", "secret", "generic", name, *([f"--from-file={run.contexts}"] if run.contexts else ()))
    )
    if run.contexts or run.variables:
        yield " ".join((secret, *(f'--from-literal={one}="${one}"' for one in run.variables)))
    yield "Then: kubectl apply -f this file. The Python of the image is of the version that seamark spark pack ran on."


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
