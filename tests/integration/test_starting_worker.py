"""A real worker that reads its config topic slowly: seamark never takes its empty list for an answer."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from seamark.connect import ConnectClient, Timing
from seamark.devstack import Stack, StackSpec, start
from seamark.errors import NotFoundError, UnreachableError
from tests.integration.waits import wait_for

PAUSE_SECONDS = 20.0
CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "topic": "starting-lines",
    "tasks.max": "1",
}
NAMES = ("starting-a", "starting-b")
