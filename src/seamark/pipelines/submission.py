"""A run of a landing that is given away: to spark-submit, to Airflow, or to the operator of Spark on Kubernetes.

It holds no secret, only the names of what holds them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.core.secrets import mask_value
from seamark.errors import ConfigurationError, UsageError
from seamark.pipelines.declared import PipelineSpec
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
