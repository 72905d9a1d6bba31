"""Real servers as child processes: Kafka brokers, Connect workers, PostgreSQL, S3 and Spark.

For tests, benches and the demo. Nothing here is needed to run seamark against your own servers.

    with start_stack(StackSpec(brokers=1, workers=1)) as stack:
        stack.connect["connect"].urls

Linux only: the kernel ends every server when its supervisor dies (PR_SET_PDEATHSIG).
"""

from seamark.devstack.client import load_stack, start_stack
from seamark.devstack.stack import (
    ConnectEndpoint,
    KafkaEndpoint,
    PostgresEndpoint,
    S3Endpoint,
    ServerEntry,
    SparkEndpoint,
    Stack,
    StackSpec,
    ToxiproxyEndpoint,
)

__all__ = [
    "ConnectEndpoint",
    "KafkaEndpoint",
    "PostgresEndpoint",
    "S3Endpoint",
    "ServerEntry",
    "SparkEndpoint",
    "Stack",
    "StackSpec",
    "ToxiproxyEndpoint",
    "load_stack",
    "start_stack",
]
