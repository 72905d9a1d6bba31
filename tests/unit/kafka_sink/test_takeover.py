"""A run takes over all tasks of the run before it, and says where it could not."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError

from seamark.errors import AuthorizationError, UnreachableError
from seamark.kafka_sink.producer import ProducerFailure, TaskSettings
from seamark.kafka_sink.task import take_over

SETTINGS = TaskSettings({}, reader={})


class Producers:
    """Notes who was taken and let go; some fail a few times."""

    def __init__(self, failures=()):
        self.failures = list(failures)
        self.taken, self.open = [], 0
        self._lock = threading.Lock()

    def __call__(self, name):
        with self._lock:
            self.open += 1
        return Producer(self, name)

    def take(self, name):
        with self._lock:
            if self.failures:
                raise ProducerFailure(KafkaError(self.failures.pop(0)))
            self.taken.append(name)


class Producer:
    def __init__(self, every, name):
        self.every, self.name = every, name

    def take(self):
        self.every.take(self.name)

    def close(self):
        self.every.open -= 1


def test_every_task_is_taken_and_let_go():
    producers = Producers([KafkaError._TIMED_OUT, KafkaError.COORDINATOR_NOT_AVAILABLE])
    take_over("plan", SETTINGS, tasks=12, open_producer=producers)
    assert sorted(producers.taken) == sorted(f"seamark.sink.plan.{number}" for number in range(12))
    assert producers.open == 0


def test_who_may_not_take_a_task_is_told_so():
    denied = [KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    with pytest.raises(AuthorizationError):
        take_over("plan", SETTINGS, tasks=1, open_producer=Producers(denied))
    with pytest.raises(UnreachableError):
        take_over("plan", SETTINGS, tasks=1, open_producer=Producers([KafkaError._TIMED_OUT] * 3))
