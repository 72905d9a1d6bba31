"""Starting a Java program from a folder of jars."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from seamark.errors import DevstackError

# Heaps: a broker was seen at 370 MB and a worker at 480 MB resident under test loads.
BROKER_HEAP = "512m"
WORKER_HEAP = "1g"


def find_java() -> str:
    """The java program: of `$JAVA_HOME`, else on the PATH; 17 or later."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if not java or not Path(java).exists():
        raise DevstackError("java is needed and is not on this machine", hint="install Java 17 or later")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        raise DevstackError("Kafka needs Java 17 or later", cause=said.strip().split("\n")[0], hint="set JAVA_HOME")
    return java


def java_command(
    libs: Path, main_class: str, *arguments: str, heap: str, log_config: Path | None = None, full_jit: bool = False
) -> list[str]:
    """The command line of one of Kafka's programs."""
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
    """Write a Java properties file. Values here hold no character that needs escaping but the backslash."""
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
