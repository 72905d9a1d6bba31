"""A copy with a login, by a principal with only the rights of docs/how-to/copy.md; its password shows nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from seamark.devstack import StackSpec, start_stack
from tests.spark.kafka_side import KafkaSide

ROOT = Path(__file__).parents[3]
ROWS = 2000
RUN_SECONDS = 900

READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DESCRIBE, CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


@pytest.fixture(scope="module")
def guarded():
    with start_stack(StackSpec(brokers=1, workers=0, authorizer=True), name="copy-acl") as stack:
        yield stack


def grant(guarded, *, source, target, control):
    """What docs/how-to/copy.md and docs/how-to/spark-kafka-sink.md ask for, in this order."""
    topic, transaction = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
    wanted = [
        *((topic, source, LITERAL, one) for one in (READ, DESCRIBE, CONFIGS)),
        *((topic, target, LITERAL, one) for one in (CREATE, WRITE, READ, DESCRIBE, CONFIGS)),
        *((topic, control, LITERAL, one) for one in (CREATE, READ, WRITE, DESCRIBE, CONFIGS)),
        *((transaction, "seamark.sink.", PREFIXED, one) for one in (WRITE, DESCRIBE)),
        *((transaction, "seamark.copy.", PREFIXED, one) for one in (WRITE, DESCRIBE)),
        (ResourceType.GROUP, "spark-kafka-", PREFIXED, READ),
    ]
    user = f"User:{guarded.kafka.login_user}"
    admin = AdminClient({"bootstrap.servers": guarded.kafka.bootstrap_servers})
    rights = [AclBinding(*what, user, "*", operation, AclPermissionType.ALLOW) for *what, operation in wanted]
    for future in admin.create_acls(rights).values():
        future.result(timeout=30)


class Watch(threading.Thread):
    """Looks for a text in the command lines and environments' names of every process, again and again."""

    def __init__(self, text):
        super().__init__(daemon=True)
        self.text, self.seen, self.looks, self.ended = text.encode(), set(), 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.3):
            self.looks += 1
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    words = file.read_bytes()
                    if self.text in words and file.parent.name != str(os.getpid()):
                        self.seen.add(words)


def test_documented_rights_are_enough_and_the_password_shows_nowhere(stack, guarded, tmp_path):
    password = guarded.kafka.login_password
    with KafkaSide(guarded.kafka.bootstrap_servers) as kafka:
        source = kafka.topic(partitions=4)
        kafka.fill(source, ROWS)
        target = f"t-{uuid4().hex[:8]}"
        kafka._made.append(target)
        grant(guarded, source=source, target=target, control=kafka.control)
        environ = write_context(guarded, tmp_path, jars=stack.spark.jars)
        plan = (
            "plan",
            source,
            "--partitions",
            "4:2",
            "--partitioner",
            "crc32",
            "--target",
            target,
            "--out",
            "plan.json",
        )
        copy(plan, environ, tmp_path)
        events = tmp_path / "events"
        events.mkdir()
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.ui.enabled": "false",
        }
        confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        watch = Watch(password)
        watch.start()
        said = copy(("run", "plan.json", "--yes", "--control-topic", kafka.control, *confs, "-vv"), environ, tmp_path)
        watch.ended.set()
        watch.join()
        assert len(kafka.read(target)) == ROWS
    assert watch.looks > 10
    assert watch.seen == set()
    logs = [file.read_text() for file in events.rglob("*") if file.is_file()]
    assert any("SparkListenerJobStart" in log for log in logs)
    # The options stand in Spark's plans by name, and masked.
    for text in (*logs, said, (tmp_path / "plan.json").read_text()):
        assert password not in text


def write_context(guarded, folder, *, jars):
    """The password stands in the environment; the context refers to it."""
    kafka = {
        "bootstrap.servers": guarded.kafka.login_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": guarded.kafka.login_user,
        "sasl.password": "secret://env/COPY_PASSWORD",
    }
    context = {"journal": "file", "journal_folder": str(folder / "journal"), "insecure": True, "kafka": kafka}
    (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
    return {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "SEAMARK_CONFIG": str(folder / "seamark.yaml"),
        "SEAMARK_SPARK_JARS": jars,
        "SEAMARK_SPARK_MASTER": "local[2]",
        "COPY_PASSWORD": guarded.kafka.login_password,
    }


def copy(argv, environ, folder):
    done = subprocess.run(
        [sys.executable, "-m", "seamark.cli", "copies", *argv],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
