"""The endpoints below /connectors, offsets apart."""

from __future__ import annotations

from typing import Any

from tests.fakes.connect import texts
from tests.fakes.connect.message import Refusal, Reply, build_json, to_strings
from tests.fakes.connect.plugins import find_errors, require_plugin
from tests.fakes.connect.state import FakeConnector, Shown
from tests.fakes.connect.worker import Call

_STATES = {"running": "RUNNING", "paused": "PAUSED", "stopped": "STOPPED"}


def list_connectors(call: Call) -> Reply:
    """Names, or with `expand` everything. A connector without status is silently left out of that."""
    state = call.state
    expand = call.request.query.get("expand")
    if expand is None:
        return build_json(200, list(state.connectors))
    fleet: dict[str, dict[str, Any]] = {}
    for name, connector in state.connectors.items():
        shown = state.show(connector)
        if "status" in expand and shown is None:
            continue
        entry = fleet[name] = {}
        if "info" in expand:
            entry["info"] = call.info_body(connector)
        if "status" in expand and shown is not None:
            entry["status"] = call.status_body(shown, name=name, kind=connector.plugin.type)
    return build_json(200, fleet)


def create(call: Call) -> Reply:
    """A new connector."""
    known = ("name", "config", "initial_state") if call.setup.is_at_least(3, 7) else ("name", "config")
    body = call.request.read_object("CreateConnectorRequest", absent=texts.NULL_CREATE, fields=known)
    target = _initial_state(body.get("initial_state"))
    name = str(body.get("name") or "").strip()
    config = _named_config(name, None if body.get("config") is None else to_strings(body["config"]))
    _validate(call, config)
    call = call.hand_to_leader()
    if name in call.state.connectors:
        raise Refusal(409, texts.already_exists(name))
    return _put(call, name, config, target=target)


def read_info(call: Call) -> Reply:
    """Name, config, tasks, type."""
    return build_json(200, call.info_body(call.connector(texts.not_found(call.name))))


def read_config(call: Call) -> Reply:
    """The config alone."""
    return build_json(200, call.connector(texts.not_found(call.name)).config)


def read_tasks(call: Call) -> Reply:
    """The tasks with their configs."""
    connector = call.connector(texts.not_found(call.name))
    return build_json(
        200,
        [
            {"id": {"connector": connector.name, "task": number}, "config": _task_config(connector)}
            for number in range(connector.task_count)
        ],
    )


def read_tasks_config(call: Call) -> Reply:
    """The same in the form that 4.0 removed."""
    connector = call.connector(texts.not_found(call.name))
    tasks = {f"{connector.name}-{number}": _task_config(connector) for number in range(connector.task_count)}
    return build_json(200, tasks)


def read_status(call: Call) -> Reply:
    """What the status topic says, of a deleted connector too while it still does."""
    connector = call.state.connectors.get(call.name)
    if connector is None:
        shown, kind = call.state.show_lingering(call.name), "unknown"
    else:
        shown, kind = call.state.show(connector), connector.plugin.type
    if shown is None:
        raise Refusal(404, texts.no_status(call.name))
    return build_json(200, call.status_body(shown, name=call.name, kind=kind))


def read_task_status(call: Call) -> Reply:
    """The status of one task."""
    number = call.request.segments[3]
    connector = call.state.connectors.get(call.name)
    shown = None if connector is None else call.state.show(connector)
    if connector is None or shown is None or not number.isdigit() or int(number) >= len(shown.tasks):
        raise Refusal(404, f"No status found for task {call.name}-{number}")
    tasks = call.status_body(shown, name=call.name, kind=connector.plugin.type)["tasks"]
    return build_json(200, tasks[int(number)])


def put_config(call: Call) -> Reply:
    """A whole config, for a new connector or a known one."""
    config = _named_config(call.name, call.request.read_strings(absent=texts.NULL_CONFIG))
    _validate(call, config)
    call = call.hand_to_leader()
    return _put(call, call.name, config)


def patch_config(call: Call) -> Reply:
    """Some keys of a config; null removes one."""
    changes = call.request.read_strings(absent=texts.NULL_CONFIG)
    call = call.hand_to_leader()
    connector = call.connector(texts.not_found(call.name))
    merged = {**connector.config, **changes}
    config: dict[str, str | None] = {key: value for key, value in merged.items() if value is not None}
    _validate(call, config)
    return _put(call, call.name, config)


def delete(call: Call) -> Reply:
    """The config goes; offsets stay."""
    call = call.hand_to_leader()
    connector = call.connector(texts.not_found(call.name))
    call.state.work(connector)
    call.state.delete(call.name)
    return Reply(204)


def pause(call: Call) -> Reply:
    """Any worker takes it."""
    return _change_state(call, "PAUSED", 202)


def resume(call: Call) -> Reply:
    """Any worker takes it."""
    return _change_state(call, "RUNNING", 202)


def stop(call: Call) -> Reply:
    """Only the leader takes it, and the connector is looked for twice: where it was asked and where it is done."""
    call.connector(texts.unknown_connector(call.name))
    return _change_state(call.hand_to_leader(), "STOPPED", 204)


def restart(call: Call) -> Reply:
    """The connector alone on its worker, or with its tasks through the leader."""
    connector = call.connector(texts.unknown_connector_colon(call.name))
    with_tasks = call.request.first("includeTasks") == "true"
    only_failed = call.request.first("onlyFailed") == "true"
    if not with_tasks and not only_failed:
        call = call.hand_to_owner()
        connector = call.connector(texts.unknown_connector_colon(call.name))
        _restart_shown(call, connector, tasks=False, only_failed=False)
        return Reply(204)
    call = call.hand_to_leader()
    connector = call.connector(texts.unknown_connector_colon(call.name))
    shown = call.state.show(connector)
    if shown is None:
        raise Refusal(404, f"Status for connector {call.name} not found")
    between = _restarting(shown, tasks=with_tasks, only_failed=only_failed)
    _restart_shown(call, connector, tasks=with_tasks, only_failed=only_failed)
    return build_json(202, call.status_body(between, name=call.name, kind=connector.plugin.type))


def restart_task(call: Call) -> Reply:
    """One task. Of a stopped connector the leader does not know where it runs, and says so for ever."""
    connector = call.connector(texts.unknown_connector_colon(call.name))
    number = call.request.segments[3]
    if not number.isdigit() or int(number) >= connector.last_task_count:
        raise Refusal(404, f"Unknown task: {call.name}-{number}")
    if int(number) >= connector.task_count:
        raise Refusal(409, texts.NO_LEADER)
    call = call.hand_to_owner()
    shown = call.state.show(connector)
    if shown is not None:
        tasks = tuple(connector.target if i == int(number) else state for i, state in enumerate(shown.tasks))
        call.state.set_shown(connector, Shown(shown.state, tasks, shown.trace))
    return Reply(204)


def read_topics(call: Call) -> Reply:
    """The topics a connector used. Of one that is not there: none."""
    _require_tracking(call)
    if connector := call.state.connectors.get(call.name):
        call.state.work(connector)
    return build_json(200, {call.name: {"topics": sorted(call.state.used_topics.get(call.name, ()))}})


def reset_topics(call: Call) -> Reply:
    """Forget the topics a connector used."""
    _require_tracking(call)
    call.state.used_topics.pop(call.name, None)
    return Reply(202)


def _require_tracking(call: Call) -> None:
    if not call.setup.topic_tracking:
        raise Refusal(403, texts.TOPIC_TRACKING_OFF)


def _initial_state(word: Any) -> str | None:
    if word is None:
        return None
    target = _STATES.get(str(word).lower())
    if target is None:
        kind = "org.apache.kafka.connect.runtime.rest.entities.CreateConnectorRequest$InitialState"
        raise Refusal(500, f"Cannot construct instance of `{kind}`, problem: No enum constant {word}")
    return target


def _named_config(name: str, config: dict[str, str | None] | None) -> dict[str, str | None]:
    if config is None:
        raise Refusal(500, texts.NULL_CONFIG)
    included = config.get("name")
    if included is not None and included != name:
        raise Refusal(400, texts.name_mismatch(included, name))
    return {**config, "name": name}


def _validate(call: Call, config: dict[str, str | None]) -> None:
    plugin = require_plugin(call.setup.plugins, config, is_modern=call.setup.is_at_least(4, 0))
    errors = [text for texts_of_key in find_errors(plugin, config).values() for text in texts_of_key]
    if errors:
        raise Refusal(400, texts.invalid_config(errors))


def _put(call: Call, name: str, config: dict[str, str | None], *, target: str | None = None) -> Reply:
    plugin = require_plugin(call.setup.plugins, config, is_modern=True)
    known = call.state.connectors.get(name)
    # Connect answers with the tasks it had before the change: none for a new connector.
    tasks = 0 if known is None else known.task_count
    is_new = call.state.put(name, config, plugin, target=target)
    body = {
        "name": name,
        "config": config,
        "tasks": [{"connector": name, "task": number} for number in range(tasks)],
        "type": plugin.type,
    }
    return build_json(201 if is_new else 200, body)


def _change_state(call: Call, target: str, status: int) -> Reply:
    connector = call.connector(texts.unknown_connector(call.name))
    call.state.work(connector)
    call.state.set_target(connector, target)
    return Reply(status)


def _task_config(connector: FakeConnector) -> dict[str, str | None]:
    task = connector.plugin.class_name.removesuffix("Connector") + "Task"
    return {**connector.config, "task.class": task}


def _restarting(shown: Shown, *, tasks: bool, only_failed: bool) -> Shown:
    state = "RESTARTING" if not only_failed or shown.state == "FAILED" else shown.state
    states = tuple("RESTARTING" if tasks and (not only_failed or word == "FAILED") else word for word in shown.tasks)
    return Shown(state, states)


def _restart_shown(call: Call, connector: FakeConnector, *, tasks: bool, only_failed: bool) -> None:
    """After a restart what failed runs again."""
    shown = call.state.show(connector)
    if shown is None:
        return
    between = _restarting(shown, tasks=tasks, only_failed=only_failed)
    after = [connector.target if word == "RESTARTING" else word for word in (between.state, *between.tasks)]
    call.state.set_shown(connector, Shown(after[0], tuple(after[1:])))
