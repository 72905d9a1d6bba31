"""The connector plugins that the workers load.

FileStream and MirrorMaker come with Kafka's own jars. The JDBC and S3 connectors are not to be had by
coordinates: their release is looked for in `$SEAMARK_PLUGINS` and in the cache.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from seamark.devstack.cache import cache_folder
from seamark.devstack.jars import read_jars


@dataclass(frozen=True, slots=True)
class PluginRelease:
    """A connector release: the start of its jar's name and the jar set of its dependencies."""

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
    """What `plugin.path` points to. `missing` says where to get what was not found."""

    folder: Path
    names: tuple[str, ...]
    missing: tuple[str, ...]
    has_manifests: bool


def plugin_places() -> list[Path]:
    """The folders that are searched for connector releases, in order."""
    named = os.environ.get("SEAMARK_PLUGINS", "")
    return [Path(place) for place in named.split(os.pathsep) if place] + [cache_folder() / "plugins"]


def build_plugins(folder: Path, *, wanted: frozenset[str]) -> PluginFolder:
    """Lay out the plugin folder: one folder each, the jar and its dependencies as links."""
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
    # Either the bare jar, or the folder of an unpacked release, which brings its own dependencies.
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
