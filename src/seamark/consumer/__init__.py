"""Exactly once for a plain Python consumer: offsets in the user's database, in the transaction of the user's rows."""

from __future__ import annotations

from seamark.consumer.exact_consumer import ExactConsumer

__all__ = ["ExactConsumer"]
