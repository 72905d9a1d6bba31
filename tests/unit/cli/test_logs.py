"""`-vv` shows the log of everything, and no secret."""

from __future__ import annotations

import io
import logging

import pytest

from seamark.cli.main import start_logging


@pytest.fixture
def root():
    """The root logger, put back afterwards."""
    logger = logging.getLogger()
    level, handlers = logger.level, list(logger.handlers)
    yield logger
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_words_to_the_jvm_are_not_logged_as_passwords_are_among_them(root):
    stream = io.StringIO()
    start_logging(stream, verbose=2)
    logging.getLogger("py4j.clientserver").debug("Command to send: c\no1\nkafka.sasl.password\nshush\ne\n")
    logging.getLogger("py4j.clientserver").warning("the connection broke off")
    logging.getLogger("another").debug("hello")
    assert "shush" not in stream.getvalue()
    assert "the connection broke off" in stream.getvalue()
    assert "DEBUG another: hello" in stream.getvalue()
