"""The health of topics: what their copies, their settings and their readers need to be told."""

from seamark.fleet.brokers.topic_health.examine import read_topic_health

__all__ = ["read_topic_health"]
