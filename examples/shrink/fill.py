"""Purchases of some players, keyed by player, as a Java producer would place them: fill.py TOPIC COUNT.

The brokers are those of the current context.
"""

import sys
import time

from confluent_kafka import Producer

import seamark

PLAYERS = 5000


def main(topic: str, count: int) -> None:
    """Write to the topic; the newest record is of now."""
    client = seamark.open().context.kafka.client_config()
    # librdkafka's own default places keys by another hash than Java's.
    producer = Producer({**client, "partitioner": "murmur2_random", "linger.ms": 20})
    now_ms = int(time.time() * 1000)
    for number in range(count):
        producer.produce(
            topic,
            key=f"player-{number % PLAYERS}",
            value=f'{{"item": {number % 97}, "number": {number}}}',
            headers=[("shop", b"main")],
            timestamp=now_ms - (count - number) * 10,
        )
        # Gives the client room for more.
        producer.poll(0 if number % 1000 else 0.01)
    left = producer.flush(60)
    print(f"{count - left} of {count} records are in {topic}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
