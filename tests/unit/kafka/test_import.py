"""The package is cheap until somebody asks a broker."""

import subprocess
import sys


def test_importing_the_package_does_not_load_librdkafka():
    code = "import sys, seamark.kafka; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_opening_the_brokers_does_not_load_the_second_client():
    code = (
        "import sys; from seamark.kafka.brokers import Brokers\n"
        "Brokers({'bootstrap.servers': '127.0.0.1:1'}).close(); sys.exit('kafka' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
