"""Start a Java program from a folder of jars."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from seamark.devstack.downloads import cache_folder, read_jars
from seamark.errors import DevstackError

# Heaps: a broker was seen at 370 MB and a worker at 480 MB resident under test loads.
BROKER_HEAP = "512m"
WORKER_HEAP = "1g"


def find_java() -> str:
    """Return the java program: of `$JAVA_HOME`, else on the PATH; 17 or later."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if not java or not Path(java).exists():
        raise DevstackError("java is not installed", hint="install Java 17 or later")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        raise DevstackError(
            "Kafka needs Java 17 or later", cause=said.strip().split("\n")[0], hint="set JAVA_HOME to Java 17 or later"
        )
    return java


def java_command(
    libs: Path, main_class: str, *arguments: str, heap: str, log_config: Path | None = None, full_jit: bool = False
) -> list[str]:
    """Return the command line of one of Kafka's programs."""
    options = [
        f"-Xmx{heap}",
        # Eight JVMs share two cores here: no collector threads.
        "-XX:+UseSerialGC",
        "-Djava.awt.headless=true",
        "-Dorg.jline.terminal.dumb=true",
    ]
    if not full_jit:
        options.append("-XX:TieredStopAtLevel=1")
    if log_config:
        options += [f"-Dlog4j2.configurationFile={log_config}", f"-Dlog4j.configuration=file:{log_config}"]
    return [find_java(), *options, "-cp", f"{libs}/*", main_class, *arguments]


def write_properties(path: Path, values: dict[str, str]) -> None:
    """Write a Java properties file. Values here contain no character that needs escaping except the backslash."""
    lines = [f"{key}={value}".replace("\\", "\\\\") for key, value in values.items()]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)


LOG4J2 = """\
status = error
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""

LOG4J1 = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


# FileStream and MirrorMaker come with Kafka's own jars. The JDBC and S3 connectors are not available by coordinates:
# their release is searched for in `$SEAMARK_PLUGINS` and in the cache.


@dataclass(frozen=True, slots=True)
class PluginRelease:
    """A connector release: the prefix of its jar's name and the jar set of its dependencies."""

    name: str
    jar: str
    dependencies: str
    where: str


RELEASES = (
    PluginRelease(
        "jdbc",
        jar="jdbc-connector-for-apache-kafka",
        dependencies="plugin-jdbc-6.10.0",
        where="Aiven's jdbc-connector-for-apache-kafka, release v6.10.0",
    ),
    PluginRelease(
        "s3",
        jar="s3-connector-for-apache-kafka",
        dependencies="plugin-s3-2.15.0",
        where="Aiven's cloud-storage-connectors-for-apache-kafka, release s3 v2.15.0",
    ),
)


@dataclass(frozen=True, slots=True)
class PluginFolder:
    """The folder for `plugin.path`. `missing` describes where to get what was not found."""

    folder: Path
    names: tuple[str, ...]
    missing: tuple[str, ...]
    has_manifests: bool


def plugin_places() -> list[Path]:
    """Return the folders that are searched for connector releases, in order."""
    named = os.environ.get("SEAMARK_PLUGINS", "")
    return [Path(place) for place in named.split(os.pathsep) if place] + [cache_folder() / "plugins"]


def fetch_plugins(wanted: frozenset[str]) -> None:
    """Download the dependencies of connectors into the cache."""
    for release in RELEASES:
        if release.name in wanted and (found := _find(release)) is not None and not found.is_dir():
            read_jars(release.dependencies)


def build_plugins(folder: Path, *, wanted: frozenset[str]) -> PluginFolder:
    """Build the plugin folder: one folder each, with links to the jar and its dependencies."""
    folder.mkdir()
    names, missing, manifests = [], [], True
    for release in RELEASES:
        if release.name not in wanted:
            continue
        found = _find(release)
        if found is None:
            places = ", ".join(str(place) for place in plugin_places())
            missing.append(f"the {release.name} connector was not found: put {release.where} into one of {places}")
            continue
        target = folder / release.name
        if found.is_dir():
            shutil.copytree(found, target)
            jars = sorted(target.rglob(f"{release.jar}*.jar"))
        else:
            target.mkdir()
            for jar in [found, *read_jars(release.dependencies).glob("*.jar")]:
                (target / jar.name).symlink_to(jar)
            jars = [found]
        names.append(release.name)
        manifests = manifests and all(_has_manifest(jar) for jar in jars)
    return PluginFolder(folder, names=tuple(names), missing=tuple(missing), has_manifests=manifests)


def _find(release: PluginRelease) -> Path | None:
    # Either the bare jar, or the folder of an unpacked release, which has its own dependencies.
    for place in plugin_places():
        found = sorted(place.glob(f"{release.jar}*"), reverse=True)
        for path in found:
            if path.is_dir() or path.suffix == ".jar":
                return path.resolve()
    return None


def _has_manifest(jar: Path) -> bool:
    # Without service manifests a worker finds a plugin only by scanning its classes.
    with zipfile.ZipFile(jar) as archive:
        return any(name.startswith("META-INF/services/org.apache.kafka.connect.") for name in archive.namelist())
