"""The supported versions of Connect, Spark and Python, from the code's own tables, the locks and devstack's jars."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from seamark.connect.capability import SINCE, parse_version
from seamark.devstack.downloads import CHECKSUMS
from seamark.devstack.stack import KAFKA_VERSION, SPARK_VERSION

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
# The jars of Spark's drivers and executors whose version users may have to match.
_JARS = {
    "kafka-clients": "Kafka's client in Spark",
    "delta-spark_4.2_2.13": "Delta Lake",
    "hadoop-aws": "the S3 file system",
    "postgresql": "PostgreSQL's JDBC driver",
}


def list_connect_versions() -> list[str]:
    """Return the versions of Connect that tests start, the oldest first."""
    found = set(re.findall(r"^\w+  connect-([\d.]+)/", CHECKSUMS.read_text(encoding="utf-8"), re.MULTILINE))
    return sorted({*found, KAFKA_VERSION}, key=lambda one: [int(part) for part in one.split(".")])


def build_connect_versions() -> str:
    """Return which version of Connect can do what: a row for each capability."""
    versions = list_connect_versions()
    rows = [f"| capability | since | {' | '.join(versions)} |", f"|---|---|{'---|' * len(versions)}"]
    for capability, since in SINCE.items():
        cells = ["yes" if (parse_version(one) or (0, 0)) >= since else "no" for one in versions]
        rows.append(f"| {capability} | {since[0]}.{since[1]} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def build_dependencies() -> str:
    """Return the versions of Python, and of what seamark runs with: extras, and the jars of Spark that are tested."""
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    rows = ["| part | versions | needed for |", "|---|---|---|"]
    pythons = [one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: Python :: \d\.\d+$", one)]
    rows.append(f"| Python | {', '.join(pythons)} | everything |")
    for extra, needs in project["optional-dependencies"].items():
        rows += [f"| `{need}` | {version} | the extra `{extra}` |" for need, version in _split(needs)]
    rows.append(f"| Spark | {SPARK_VERSION} | copies, pipelines, the Kafka sink; tested |")
    rows += [f"| `{jar}` | {version} | {what}; tested |" for jar, version, what in list_jars()]
    return "\n".join(rows) + "\n"


def list_jars() -> Iterator[tuple[str, str, str]]:
    """Yield the jars of `_JARS` with their versions, as devstack downloads them."""
    text = CHECKSUMS.read_text(encoding="utf-8")
    for jar, what in _JARS.items():
        place = re.escape(f"  spark-{SPARK_VERSION}/{jar}-")
        (version,) = re.findall(rf"{place}([\d.]+)\.jar$", text, re.MULTILINE)
        yield jar, version, what


def _split(needs: list[str]) -> Iterator[tuple[str, str]]:
    for need in needs:
        found = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?([^\w\[].*)", need)
        if found and found[1] != "seamark":
            yield found[1], found[2]
