"""A fleet whose context knows the database that landings land in, and records with keys where Java puts them."""

from __future__ import annotations

import json
import os

from confluent_kafka import Producer

import seamark
from seamark.kafka.partitioner import choose_partition
from tests.spark.kafka_side import WAIT_SECONDS


def open_land_fleet(stack, folder, monkeypatch, *, lake=None):
    """`lake` is on S3, and known beside the database."""
    postgres = stack.postgres
    context = {
        "journal": "file",
        "journal_folder": str(folder / "journal"),
        "insecure": True,
        "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
        "databases": {
            "shop": {
                "jdbc_url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}",
                "dsn": "secret://env/SHOP_DSN",
            }
        },
    }
    if lake is not None:
        keys = {"access_key": "secret://env/LAKE_ACCESS", "secret_key": "secret://env/LAKE_SECRET"}
        context["lakes"] = {"lake": {"url": lake.url, "endpoint": lake.endpoint, **keys}}
    (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
    for key in [key for key in os.environ if key.startswith("SEAMARK_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("SHOP_DSN", postgres.dsn)
    monkeypatch.setenv("LAKE_ACCESS", stack.s3.access_key)
    monkeypatch.setenv("LAKE_SECRET", stack.s3.secret_key)
    monkeypatch.setenv("SEAMARK_CONFIG", str(folder / "seamark.yaml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    return seamark.open()


def produce_keyed(kafka, topic, numbers, *, partitions, keys, begin_ms, step_ms=1000):
    """A record for each number; one key stands for all numbers that are the same modulo `keys`."""
    producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20})
    for number in numbers:
        key = b"key-%d" % (number % keys)
        value = {"number": number, "words": f"w{number}", "name": number % keys}
        producer.produce(
            topic,
            key=key,
            value=json.dumps(value).encode(),
            partition=choose_partition(key, partitions=partitions),
            timestamp=begin_ms + step_ms * number,
        )
    assert producer.flush(WAIT_SECONDS) == 0
