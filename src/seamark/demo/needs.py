"""What this machine has for the demo, and how to get what it has not."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from seamark.demo.chapter import Need
from seamark.errors import DevstackError


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that is not there: what, and how to get it."""

    need: Need
    why: str
    hint: str = ""

    def __str__(self) -> str:
        """For a line of text: `PostgreSQL (on Debian: apt-get install postgresql)`."""
        return f"{self.need} ({self.hint or self.why})"


def find_lacks(needs: Iterable[Need]) -> tuple[Lack, ...]:
    """Those of the needs that this machine does not meet. Nothing is fetched or started for it."""
    found = []
    for need in dict.fromkeys(needs):
        try:
            _CHECKS[need]()
        except DevstackError as error:
            found.append(Lack(need, error.message, error.hint))
    return tuple(found)


def build_refusal(lacks: Iterable[Lack]) -> DevstackError:
    """The error for a machine on which not even the servers can start."""
    lacks = tuple(lacks)
    return DevstackError(
        f"the demo needs {' and '.join(lack.need for lack in lacks)}",
        cause="; ".join(lack.why for lack in lacks),
        hint="; ".join(lack.hint for lack in lacks if lack.hint),
    )


def _check_java() -> None:
    from seamark.devstack.java import find_java  # noqa: PLC0415

    if not sys.platform.startswith("linux"):
        raise DevstackError("the servers of the demo run on Linux only", hint="use a Linux machine")
    try:
        find_java()
    except DevstackError as error:
        hint = "on Debian: apt-get install openjdk-17-jre-headless; or set JAVA_HOME"
        raise DevstackError(error.message, cause=error.cause, hint=hint) from None


def _check_jars() -> None:
    from seamark.devstack.spec import KAFKA_VERSION  # noqa: PLC0415

    _check_jar_set(f"kafka-{KAFKA_VERSION}")


def _check_jar_set(name: str) -> None:
    from seamark.devstack.cache import cache_folder  # noqa: PLC0415

    if not (cache_folder() / "jars" / name).is_dir() and not shutil.which("mvn"):
        raise DevstackError(
            f"Maven is needed to fetch the jars {name} and is not on this machine",
            hint="on Debian: apt-get install maven",
        )


def _check_postgres() -> None:
    from seamark.devstack.servers.postgres import find_programs  # noqa: PLC0415

    find_programs()
    if not shutil.which("psql"):
        raise DevstackError("psql is not on this machine", hint="on Debian: apt-get install postgresql-client")


def _check_s3() -> None:
    from seamark.devstack.cache import cache_folder  # noqa: PLC0415
    from seamark.devstack.servers.s3 import VERSION  # noqa: PLC0415

    if not (cache_folder() / "bin" / f"versitygw-{VERSION}").is_dir() and not shutil.which("go"):
        raise DevstackError("Go is needed to build the S3 server and is not on this machine", hint="install Go")


def _check_plugin(name: str) -> None:
    from seamark.devstack.plugins import RELEASES, plugin_places  # noqa: PLC0415

    (release,) = (release for release in RELEASES if release.name == name)
    found = [path for place in plugin_places() for path in place.glob(f"{release.jar}*")]
    if not any(path.is_dir() or path.suffix == ".jar" for path in found):
        raise DevstackError(
            f"the {name} connector was not found",
            hint=f"put {release.where} into a folder and name it in SEAMARK_PLUGINS",
        )
    if not any(path.is_dir() for path in found):
        _check_jar_set(release.dependencies)


def _check_spark() -> None:
    from seamark.devstack.spec import SPARK_VERSION  # noqa: PLC0415

    missing = [package for package in ("pyspark", "pyarrow", "deltalake") if find_spec(package) is None]
    if missing:
        raise DevstackError(f"{' and '.join(missing)} is not installed", hint="pip install 'seamark[spark]'")
    _check_jar_set(f"spark-{SPARK_VERSION}")


_CHECKS: Mapping[Need, Callable[[], None]] = {
    Need.JAVA: _check_java,
    Need.JARS: _check_jars,
    Need.POSTGRES: _check_postgres,
    Need.JDBC: lambda: _check_plugin("jdbc"),
    Need.S3: _check_s3,
    Need.S3_SINK: lambda: _check_plugin("s3"),
    Need.SPARK: _check_spark,
}
