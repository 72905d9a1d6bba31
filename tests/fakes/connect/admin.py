"""The endpoints that are about workers: root, health, plugins, loggers."""

from __future__ import annotations

import time
from typing import Any

from tests.fakes.connect import texts
from tests.fakes.connect.message import Refusal, Reply, build_json
from tests.fakes.connect.plugins import (
    PluginSpec,
    build_validation,
    find_errors,
    find_passwords,
    find_plugin,
    require_plugin,
)
from tests.fakes.connect.worker import Call

_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")


def read_root(call: Call) -> Reply:
    """Version and the Kafka cluster."""
    body = {"version": call.setup.version, "commit": "fake", "kafka_cluster_id": call.setup.kafka_cluster_id}
    return build_json(200, body)


def read_health(_call: Call) -> Reply:
    """Always well; a fault can say otherwise."""
    return build_json(200, {"status": "healthy", "message": texts.HEALTHY})


def list_plugins(call: Call) -> Reply:
    """What can be loaded."""
    plugins = [
        {"class": plugin.class_name, "type": plugin.type, "version": plugin.version}
        for plugin in call.setup.plugins
        if plugin.type in ("source", "sink") or call.request.first("connectorsOnly", "true") == "false"
    ]
    if call.request.first("connectorsOnly", "true") == "false":
        plugins.append({"class": _CONVERTER, "type": "converter", "version": call.setup.version})
    return build_json(200, plugins)


def read_plugin_config(call: Call) -> Reply:
    """The keys a plugin knows."""
    if call.request.segments[1] == _CONVERTER:
        return build_json(
            200, [{"name": "schemas.enable", "type": "BOOLEAN", "required": False, "default_value": "true"}]
        )
    plugin = _find(call)
    keys = ["name", "connector.class", "tasks.max", *plugin.required]
    described = [{"name": key, "type": "STRING", "required": key in plugin.required} for key in keys]
    passwords = [{"name": key, "type": "PASSWORD", "required": False} for key in plugin.passwords]
    rest = {"default_value": None, "importance": "HIGH", "documentation": "What it does.", "group": "Common"}
    return build_json(200, [entry | rest for entry in (*described, *passwords)])


def validate(call: Call) -> Reply:
    """What is wrong with a config."""
    asked = call.request.segments[1]
    config = call.request.read_strings(absent=texts.NULL_CONFIG)
    included = config.get("connector.class")
    if included is not None and not _short(included).endswith(_short(asked)):
        raise Refusal(400, f"Included connector type {included} does not match request type {asked}")
    plugin = _require(call, config)
    errors = find_errors(plugin, config)
    if "topics" in errors and not call.setup.is_at_least(4, 0):
        raise Refusal(500, f"org.apache.kafka.common.config.ConfigException: {errors['topics'][0]}")
    passwords = find_passwords(call.setup.plugins, plugin, config)
    return build_json(200, build_validation(included or asked, config, errors, passwords))


def list_loggers(call: Call) -> Reply:
    """Every logger that has a level."""
    return build_json(200, {name: _level_body(call, *level) for name, level in call.state.loggers.items()})


def read_logger(call: Call) -> Reply:
    """One logger."""
    name = call.request.segments[2]
    level = call.state.loggers.get(name)
    if level is None:
        raise Refusal(404, f"Logger {name} not found.")
    return build_json(200, _level_body(call, *level))


def set_logger(call: Call) -> Reply:
    """Set a level on this worker, or from 3.7 on on all of them. An unknown scope is taken for this worker."""
    name = call.request.segments[2]
    level = call.request.read_strings(absent="levelMap is null").get("level")
    if level is None:
        raise Refusal(400, texts.NO_LEVEL_GIVEN)
    if level.upper() not in _LEVELS:
        raise Refusal(404, f"invalid log level '{level}'.")
    call.state.loggers[name] = (level.upper(), int(time.time() * 1000))
    if call.request.first("scope").lower() == "cluster" and call.setup.is_at_least(3, 7):
        return Reply(204)
    return build_json(
        200, sorted(known for known in call.state.loggers if known == name or known.startswith(f"{name}."))
    )


def _level_body(call: Call, level: str, modified: int | None) -> dict[str, Any]:
    return {"level": level, "last_modified": modified} if call.setup.is_at_least(3, 7) else {"level": level}


def _find(call: Call) -> PluginSpec:
    name = call.request.segments[1]
    plugin = find_plugin(call.setup.plugins, name)
    if plugin is None:
        raise Refusal(404, f"Unknown plugin {name}.")
    return plugin


def _require(call: Call, config: dict[str, str | None]) -> PluginSpec:
    """The plugin; a validation wraps its complaint in a 500 with the name of the exception."""
    is_modern = call.setup.is_at_least(4, 0)
    try:
        return require_plugin(call.setup.plugins, config, is_modern=is_modern)
    except Refusal as refusal:
        name = "org.apache.kafka.connect.errors.ConnectException"
        if is_modern or refusal.reply.status == 400:
            name = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"
        raise Refusal(500, f"{name}: {refusal}") from None


def _short(name: str) -> str:
    return name.removesuffix("Connector")
