"""A living Connect cluster of several workers, each with plugins and log levels of its own."""

from __future__ import annotations

from seamark.connect.loggers import LoggerLevel, find_level
from seamark.connect.model import Plugin, Worker
from seamark.errors import UnreachableError
from tests.unit.fleet.builders import KAFKA_ID
from tests.unit.fleet.living import SINK, SOURCE, LivingConnect

W1, W2 = "http://w1:8083", "http://w2:8083"


class OperatedConnect(LivingConnect):
    def __init__(self, *, urls=(W1, W2), **more):
        super().__init__(**more)
        self.urls = urls
        self.loggers = {url: {"root": "INFO"} for url in urls}
        self.plugins = {url: [Plugin(SOURCE, "source", "4.3.1"), Plugin(SINK, "sink", "4.3.1")] for url in urls}
        self.away = set()

    def read_workers(self):
        return tuple(Worker(self.cluster, url, self.version, kafka_cluster_id=KAFKA_ID) for url in self.urls)

    def read_plugins(self, url=None, *, connectors_only=True):
        self._reach(url)
        plugins = self.plugins[url or self.urls[0]]
        return tuple(plugin for plugin in plugins if plugin.type in ("source", "sink") or not connectors_only)

    def read_loggers(self, url=None):
        self._reach(url)
        return tuple(LoggerLevel(name, level) for name, level in sorted(self.loggers[url].items()))

    def read_logger(self, name, url=None):
        self._reach(url)
        return find_level(name, self.loggers[url])

    def set_logger(self, name, level, *, scope="worker", url=None):
        self._called(f"set_logger {scope}", name)
        for where in self.urls if scope == "cluster" else [url]:
            if where not in self.away:
                below = [other for other in self.loggers[where] if other.startswith(name)]
                self.loggers[where] |= dict.fromkeys([*below, name], level)

    def _reach(self, url):
        if url in self.away:
            raise UnreachableError(f"can't reach {url}", cause="connection refused")
