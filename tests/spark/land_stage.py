"""A topic and a table for landings, and everything that is to be compared afterwards."""

from __future__ import annotations

import json
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition

from seamark.pipelines.spark_job import LandEnds, run_landing
from seamark.tables.definition import DeadLetters, LandColumn, Landing

COLUMNS = (
    LandColumn("part", "int", "kafka.partition"),
    LandColumn("place", "bigint", "kafka.offset"),
    LandColumn("number", "bigint"),
    LandColumn("words", "text"),
)
TABLE = "part int, place bigint, number bigint, words text"


class TopicStage:
    """The topic's side of a landing."""

    def __init__(self, kafka, *, partitions):
        self.kafka = kafka
        self.topic, self.partitions = kafka.topic(partitions), partitions
        self.name = f"land_{uuid4().hex[:8]}"

    def produce(self, values, *, keys=None, partition=None, **settings):
        """Values as JSON; bytes and None as they are."""
        producer = Producer({"bootstrap.servers": self.kafka.servers, "linger.ms": 20, **settings})
        if "transactional.id" in settings:
            producer.init_transactions(30)
            producer.begin_transaction()
        for place, value in enumerate(values):
            producer.produce(
                self.topic,
                key=None if keys is None else encode(keys[place]),
                value=encode(value),
                partition=place % self.partitions if partition is None else partition,
            )
        if "transactional.id" not in settings:
            assert producer.flush(60) == 0
        return producer

    def read_ends(self):
        consumer = Consumer({"bootstrap.servers": self.kafka.servers, "group.id": "ends"})
        try:
            spots = [TopicPartition(self.topic, number) for number in range(self.partitions)]
            return {spot.partition: consumer.get_watermark_offsets(spot, timeout=30)[1] for spot in spots}
        finally:
            consumer.close()

    def read_group(self, group):
        consumer = Consumer({"bootstrap.servers": self.kafka.servers, "group.id": group})
        try:
            spots = [TopicPartition(self.topic, number) for number in range(self.partitions)]
            return {spot.partition: spot.offset for spot in consumer.committed(spots, timeout=30)}
        finally:
            consumer.close()


class LandStage(TopicStage):
    def __init__(self, stack, kafka, *, partitions=3, table=TABLE):
        super().__init__(kafka, partitions=partitions)
        self.dsn = stack.postgres.dsn
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"CREATE TABLE {self.name} ({table})")
        self.ends = LandEnds({"kafka.bootstrap.servers": kafka.servers}, target=self.dsn)

    def build(self, columns=COLUMNS, **more):
        return Landing(
            self.name,
            topic=self.topic,
            table=self.name,
            columns=columns,
            **more,
        )

    @property
    def letters(self):
        """Dead letters in a table of its own."""
        return DeadLetters(f"{self.name}_dead")

    def run(self, spark, landing=None, **more):
        return run_landing(spark, landing or self.build(), self.ends, **more)

    def read(self, text, *values):
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(text.format(table=self.name), values).fetchall()

    def move(self, partition, *, to):
        """Move the ledger, as an operator does."""
        with psycopg.connect(self.dsn) as connection:
            changed = connection.execute(
                "UPDATE seamark_ledger SET next_offset = %s, moves = moves + 1 "
                "WHERE owner = %s AND partition_number = %s",
                [to, f"pipeline/{self.name}", partition],
            )
            assert changed.rowcount == 1

    def read_ledger(self):
        """The ledger's offsets; none before the first landing in this database has created the table."""
        query = "SELECT partition_number, next_offset FROM seamark_ledger WHERE owner = %s"
        try:
            return dict(self.read(query, f"pipeline/{self.name}"))
        except psycopg.errors.UndefinedTable:
            return {}

    def remove(self):
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self.name}, {self.name}_dead")
            connection.execute("DELETE FROM seamark_ledger WHERE owner = %s", [f"pipeline/{self.name}"])


def encode(value):
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


@contextmanager
def open_land_stage(stack, kafka, **more):
    stage = LandStage(stack, kafka, **more)
    try:
        yield stage
    finally:
        stage.remove()
