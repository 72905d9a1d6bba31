"""Asking Connect's own classes: a Java program that runs as long as the tests do, one JSON line a batch."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

from seamark.devstack.downloads import connect_jars
from seamark.devstack.java import find_java

SOURCE = Path(__file__).parent / "java" / "Oracle.java"
# Both of Kafka's kinds of logging, silent: what is logged is asked for nowhere.
SILENT = [
    f"-Dlog4j2.configurationFile={SOURCE.with_name('log4j2.properties')}",
    f"-Dlog4j.configuration=file:{SOURCE.with_name('log4j.properties')}",
]


def compile_oracle(folder, *, version):
    javac = Path(find_java()).with_name("javac")
    command = [
        str(javac),
        "--release",
        "17",
        "-proc:none",
        "-Xlint:all",
        "-Werror",
        "-cp",
        f"{connect_jars(version)}/*",
    ]
    done = subprocess.run(
        [*command, "-d", str(folder), str(SOURCE)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Oracle:
    """The running program. A batch of questions costs one line, so thousands of them are fast."""

    def __init__(self, classes, *, version="4.3.1"):
        options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *SILENT]
        self._process = subprocess.Popen(
            [find_java(), *options, "-cp", f"{classes}:{connect_jars(version)}/*", "Oracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask_all(self, questions):
        self._process.stdin.write(json.dumps(questions) + "\n")
        self._process.stdin.flush()
        answers = json.loads(self._process.stdout.readline())
        assert len(answers) == len(questions)
        return answers

    def ask(self, question):
        return self.ask_all([question])[0]

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


def tag(value):
    """A Python value with the name of its Java type, as the program takes and gives it."""
    match value:
        case None:
            return ["null", None]
        case bool():
            return ["bool", value]
        case int():
            return ["long" if -(2**63) <= value < 2**63 else "big", str(value)]
        case float():
            return ["double", struct.pack(">d", value).hex()]
        case str():
            return ["text", value]
        case bytes():
            return ["bytes", value.hex()]
        case list():
            return ["list", [tag(item) for item in value]]
        case dict():
            return ["map", [[name, tag(item)] for name, item in value.items()]]
    raise TypeError(type(value))


def untag(tagged):
    """The Python value of an answer."""
    kind, value = tagged
    match kind:
        case "long":
            return int(value)
        case "double":
            return struct.unpack(">d", bytes.fromhex(value))[0]
        case "list":
            return [untag(item) for item in value]
        case "map":
            return {name: untag(item) for name, item in value}
    return value


def fields(mapping):
    """A map's fields in its order, as the program takes them."""
    return None if mapping is None else [[name, *tag(value)] for name, value in mapping.items()]


def hexed(data):
    return None if data is None else data.hex()


def unhexed(text):
    return None if text is None else bytes.fromhex(text)
