"""The plugins the fake knows, and how it validates a config."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.fakes.connect.message import Refusal

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
JDBC_SOURCE = "io.aiven.connect.jdbc.JdbcSourceConnector"
S3_SINK = "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"
REFUSING_SOURCE = "org.example.RefusingSourceConnector"


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin. `alters` is what its `alterOffsets` does: True looks, False does not, None refuses.

    `passwords` are its keys of the type PASSWORD. The type is source, sink, transformation, predicate or converter.
    """

    class_name: str
    type: str
    version: str
    alters: bool | None = False
    required: tuple[str, ...] = ()
    passwords: tuple[str, ...] = ()


def default_plugins(version: str) -> tuple[PluginSpec, ...]:
    """What a fresh fake has: Kafka's two file connectors, two of Aiven's, and one that refuses changes of offsets."""
    return (
        PluginSpec(FILE_SINK, "sink", version, alters=True),
        PluginSpec(S3_SINK, "sink", "2.15.0", passwords=("aws.secret.access.key",)),
        PluginSpec(FILE_SOURCE, "source", version, alters=True, required=("topic",)),
        PluginSpec(JDBC_SOURCE, "source", "6.10.0", passwords=("connection.password",)),
        PluginSpec(REFUSING_SOURCE, "source", "1.0", alters=None),
    )


def find_plugin(plugins: tuple[PluginSpec, ...], name: str) -> PluginSpec | None:
    """A plugin by class name, simple name, or simple name without `Connector`."""
    for plugin in plugins:
        simple = plugin.class_name.rpartition(".")[2]
        if name in (plugin.class_name, simple, simple.removesuffix("Connector")):
            return plugin
    return None


def require_plugin(plugins: tuple[PluginSpec, ...], config: dict[str, str | None], *, is_modern: bool) -> PluginSpec:
    """The plugin a config asks for."""
    name = config.get("connector.class")
    if name is None:
        words = ", ".join(f"{key}={value}" for key, value in config.items())
        raise Refusal(400, f"Connector config {{{words}}} contains no connector type")
    plugin = find_plugin(plugins, name)
    if plugin is None:
        available = ", ".join(f"PluginDesc{{name='{entry.class_name}'}}" for entry in plugins)
        # 3.5 answers 500 here, 4.3 answers 400.
        raise Refusal(
            400 if is_modern else 500,
            f"Failed to find any class that implements Connector and which name matches {name}, available connectors "
            f"are: {available}",
        )
    return plugin


def find_errors(plugin: PluginSpec, config: dict[str, str | None]) -> dict[str, list[str]]:
    """What is wrong with a config, by key."""
    errors: dict[str, list[str]] = {}
    for key in plugin.required:
        if not config.get(key):
            errors[key] = [f'Missing required configuration "{key}" which has no default value.']
    tasks = config.get("tasks.max", "1") or ""
    if not re.fullmatch(r"-?\d+", tasks):
        errors["tasks.max"] = [
            f"Invalid value {tasks} for configuration tasks.max: Not a number of type INT",
            "Invalid value null for configuration tasks.max: Value must be non-null",
        ]
    elif int(tasks) < 1:
        errors["tasks.max"] = [f"Invalid value {tasks} for configuration tasks.max: Value must be at least 1"]
    if plugin.type == "sink" and not (config.get("topics") or config.get("topics.regex")):
        errors["topics"] = ["Must configure one of topics or topics.regex"]
        errors["topics.regex"] = ["Must configure one of topics or topics.regex"]
    return errors


def find_passwords(
    plugins: tuple[PluginSpec, ...], plugin: PluginSpec, config: dict[str, str | None]
) -> tuple[str, ...]:
    """Return the PASSWORD keys of a connector and, with their prefixes, of its transformations and predicates."""
    found = list(plugin.passwords)
    for kind in ("transforms", "predicates"):
        for alias in map(str.strip, (config.get(kind) or "").split(",")):
            used = find_plugin(plugins, config.get(f"{kind}.{alias}.type") or "")
            found += [f"{kind}.{alias}.{key}" for key in (used.passwords if used else ())]
    return tuple(found)


def build_validation(
    name: str, config: dict[str, str | None], errors: dict[str, list[str]], passwords: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The body of a validation: every key that was given, has an error or is a PASSWORD."""
    keys = list(dict.fromkeys([*config, *errors, *passwords]))
    return {
        "name": name,
        "error_count": sum(map(len, errors.values())),
        "groups": ["Common"],
        "configs": [
            {
                "definition": {"name": key, "type": "PASSWORD"} if key in passwords else None,
                "value": {
                    "name": key,
                    "value": config.get(key),
                    "recommended_values": [],
                    "errors": errors.get(key, []),
                    "visible": True,
                },
            }
            for key in keys
        ],
    }
