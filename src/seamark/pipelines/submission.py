"""A run of a landing that is given away: to spark-submit, to Airflow, or to the operator of Spark on Kubernetes.

It holds no secret, only the names of what holds them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from seamark.core.secrets import mask_value
from seamark.errors import ConfigurationError, UsageError
from seamark.pipelines.declared import PipelineSpec
from seamark.report.data import render_yaml
from seamark.spark.packing import ARCHIVE, FOLDER, PROGRAM
from seamark.spark.settings import SparkOptions, build_auth_conf

if TYPE_CHECKING:
    from seamark.context import Context


SPARK_VERSION = "4.2.0"
KAFKA_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"
"""Spark's own Kafka source, for where no folder of jars is named."""
DEFAULT_IMAGE = f"apache/spark:{SPARK_VERSION}-python3"


class SubmitForm(StrEnum):
    """What is printed."""

    SPARK_SUBMIT = "spark-submit"
    AIRFLOW = "airflow"
    SPARK_APPLICATION = "spark-application"


@dataclass(frozen=True, slots=True)
class Submission:
    """A run of the landing `name`.

    `archive` and `program` are what `seamark spark pack` wrote, by path or URL. `variables` are the names of the
    environment variables that the context needs, and `contexts` is the file it stands in, where that is one file.
    Without `is_once` it does as the spec says, which may be to run for ever: `is_endless`.
    """

    name: str
    context: str
    files: tuple[str, ...]
    archive: str
    program: str
    master: str | None = None
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    contexts: str | None = None
    image: str = ""
    is_once: bool = False
    is_endless: bool = False
    allow_python: bool = False

    @property
    def archives(self) -> str:
        """The archive, and the folder that executors unpack it to."""
        return f"{self.archive}#{FOLDER}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark, with that by which executors find the archive."""
        return {"spark.executorEnv.PYTHONPATH": FOLDER, **self.conf}

    def build_arguments(self, files: tuple[str, ...], *, is_once: bool) -> tuple[str, ...]:
        """Return the command line of seamark. It can't ask, because it has no terminal."""
        named = [word for file in files for word in ("-f", file)]
        python = ["--allow-python"] if self.allow_python else []
        once = ["--once"] if is_once else []
        return ("pipelines", "run", self.name, *named, *python, "--context", self.context, *once, "--yes", "--no-input")


_SECRET_VARIABLE = "secret://env/"  # noqa: S105 - the beginning of a reference
_OF_JARS = ("spark.jars", "spark.jars.packages")


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """How a run is given away. `pack` is the folder that `seamark spark pack` wrote, or for pods its URL."""

    form: SubmitForm
    files: tuple[Path, ...]
    pack: str = "."
    spark: SparkOptions = field(default_factory=SparkOptions)
    image: str = DEFAULT_IMAGE
    is_once: bool = False
    allow_python: bool = False


def build_submission(context: Context, declared: PipelineSpec, options: SubmitOptions) -> Submission:
    """The run, with nothing in it that must not be shown."""
    is_far = options.form is SubmitForm.SPARK_APPLICATION
    if is_far and options.spark.master:
        raise UsageError(
            "--master can't be used with --format spark-application", hint="remove --master: the operator sets it"
        )
    if is_far and any(file.is_dir() for file in options.files):
        raise UsageError("a ConfigMap can't contain folders", hint="pass the files of the spec: -f FILE")
    _check_conf(options.spark.conf, is_far=is_far)
    pack = _find_pack(options.pack, options.form)
    jars = _find_jars(options.spark.jars, is_far=is_far)
    has_source = bool(jars) or any(key in options.spark.conf for key in _OF_JARS)
    master = options.spark.master or (None if is_far else os.environ.get("SEAMARK_SPARK_MASTER") or None)
    # An operator of SparkApplications runs them on Kubernetes.
    auth = build_auth_conf("k8s:" if is_far else master or "")
    return Submission(
        declared.landing.name,
        context=context.name,
        files=tuple(str(file.absolute()) for file in options.files),
        archive=f"{pack}/{ARCHIVE}",
        program=f"{pack}/{PROGRAM}",
        master=master,
        jars=jars,
        packages=() if has_source else (KAFKA_PACKAGE,),
        conf={**auth, **options.spark.conf},
        variables=_find_variables(context),
        contexts=_find_contexts(context),
        image=options.image,
        is_once=options.is_once,
        is_endless=declared.every_seconds is not None and not options.is_once,
        allow_python=options.allow_python,
    )


def _check_conf(conf: Mapping[str, str], *, is_far: bool) -> None:
    for key, value in conf.items():
        if mask_value(key, value) != value:
            raise UsageError(
                f"refusing to print {key}: it is a secret, and the output is stored in files and visible in process "
                "lists",
                hint="set it in spark-defaults.conf or in the environment of Spark",
            )
    if not is_far and conf.get("spark.submit.deployMode", "client") != "client":
        raise UsageError(
            "spark.submit.deployMode must be client: the driver reads contexts and spec files of this machine",
            hint="remove spark.submit.deployMode; for Kubernetes, use --format spark-application",
        )


def _find_pack(place: str, form: SubmitForm) -> str:
    if "://" in place:
        if form is SubmitForm.SPARK_APPLICATION:
            return place.rstrip("/")
        raise UsageError(
            f"invalid value {place!r} for --pack: the driver reads a folder of its own machine",
            hint="pass the folder that seamark spark pack created: --pack DIR",
        )
    if form is SubmitForm.SPARK_APPLICATION:
        raise UsageError(
            f"invalid value {place!r} for --pack: pods can't access folders of this machine",
            hint="upload the output of seamark spark pack, and pass --pack s3a://BUCKET/FOLDER; or add it to the "
            "image, and pass --pack local:///FOLDER",
        )
    folder = Path(place).absolute()
    if form is SubmitForm.AIRFLOW and Path(place).is_absolute():
        # One of the worker's machine, which may be another.
        return str(folder)
    if missing := [name for name in (ARCHIVE, PROGRAM) if not (folder / name).is_file()]:
        raise ConfigurationError(
            f"folder {place} does not contain {' and '.join(missing)}",
            hint=f"create them: seamark spark pack --dir {place}; or pass their folder with --pack",
        )
    return str(folder)


def _find_jars(folder: str | Path | None, *, is_far: bool) -> tuple[str, ...]:
    named = folder or (None if is_far else os.environ.get("SEAMARK_SPARK_JARS"))
    if not named:
        return ()
    found = tuple(str(jar.absolute()) for jar in sorted(Path(named).glob("*.jar")))
    if not found:
        raise ConfigurationError(f"folder {named} contains no jars", hint="pass the folder that contains them")
    # In a pod, a path is one of its image.
    return tuple(f"local://{jar}" for jar in found) if is_far else found


def _find_variables(context: Context) -> tuple[str, ...]:
    """The variables that the context needs: those it refers to, and those that set it."""
    from seamark.context.layer import OriginKind  # noqa: PLC0415

    referred = {
        one.raw.removeprefix(_SECRET_VARIABLE) for one in context.values if one.raw.startswith(_SECRET_VARIABLE)
    }
    setting = {one.origin.place for one in context.values if one.origin.kind is OriginKind.ENVIRONMENT}
    return tuple(sorted(referred | setting))


def _find_contexts(context: Context) -> str | None:
    """The file that the context stands in; None where it is in several, or in none."""
    from seamark.context.layer import OriginKind  # noqa: PLC0415

    found = {str(one.origin.path) for one in context.values if one.origin.kind is OriginKind.FILE and one.origin.path}
    return found.pop() if len(found) == 1 else None


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
