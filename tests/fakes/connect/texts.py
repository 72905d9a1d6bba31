"""What Connect says, word for word. Kept apart from the client's table: the contract tests hold both to a real one."""

from __future__ import annotations

NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
TWO_HOPS = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
REBALANCE_EXPECTED = "Request cannot be completed because a rebalance is expected"
TIMED_OUT = "Request timed out"
TIMED_OUT_BUSY = (
    "Request timed out. The worker is currently ensuring membership in the cluster, which began at "
    "2026-11-15T01:00:00.000Z"
)
TOPIC_TRACKING_OFF = "Topic tracking is disabled."
NO_OFFSETS_GIVEN = "Partitions / offsets need to be provided for an alter offsets request"
NO_LEVEL_GIVEN = "Desired 'level' parameter was not specified in request."
_READING = (
    "The worker is currently initializing and reading to the end of internal topics, which began at "
    "2026-11-15T01:00:00.000Z"
)
TIMED_OUT_STARTING = f"Request timed out. {_READING}"
STARTING = f"Worker is still starting up. {_READING}"
HEALTHY = "Worker has completed startup and is ready to handle requests."
NULL_CONFIG = 'Cannot invoke "java.util.Map.get(Object)" because "connectorConfig" is null'
NULL_CREATE = (
    'Cannot invoke "org.apache.kafka.connect.runtime.rest.entities.CreateConnectorRequest.name()" because '
    '"createRequest" is null'
)
NULL_OFFSETS = (
    'Cannot invoke "org.apache.kafka.connect.runtime.rest.entities.ConnectorOffsets.offsets()" because '
    '"offsets" is null'
)
FORWARDED = "Error trying to forward REST request: {text}"
FORWARDING_BROKE = "IO Error trying to forward REST request: {reason}"


def not_found(name: str) -> str:
    """Info, config, tasks, offsets, delete."""
    return f"Connector {name} not found"


def unknown_connector(name: str) -> str:
    """Stop, pause, resume."""
    return f"Unknown connector {name}"


def unknown_connector_colon(name: str) -> str:
    """Restart."""
    return f"Unknown connector: {name}"


def no_status(name: str) -> str:
    """Status."""
    return f"No status found for connector {name}"


def already_exists(name: str) -> str:
    """The 409 that is not a rebalance."""
    return f"Connector {name} already exists"


def name_mismatch(included: str, name: str) -> str:
    """A config that names another connector."""
    return f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"


def not_stopped(name: str) -> str:
    """A change of offsets too early."""
    return (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        f"specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
    )


def offsets_changed(verb: str, *, looked_at: bool) -> str:
    """Success of a change of offsets: `altered` or `reset`. The long text where the plugin did not look at them."""
    if looked_at:
        return f"The offsets for this connector have been {verb} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {verb} successfully. However, if this "
        f"connector manages offsets externally, they will need to be manually {verb} in the system that the connector "
        "uses."
    )


def not_modifiable(name: str) -> str:
    """A plugin that refuses."""
    return f"Failed to modify offsets for connector {name} because it doesn't support external modification of offsets"


def zombie(verb: str, name: str) -> str:
    """A sink whose group still has members: `alter` or `reset`."""
    return (
        f"Failed to {verb} consumer group offsets for connector {name} either because its tasks haven't stopped "
        f"completely yet or the connector was resumed before the request to {verb} its offsets could be successfully "
        "completed. If the connector is in a stopped state, this operation can be safely retried. If it doesn't "
        "eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink tasks."
    )


def invalid_config(errors: list[str]) -> str:
    """A config that does not pass validation."""
    lines = "\n".join(errors)
    return (
        f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{lines}\nYou can also "
        "find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
    )


def unrecognized_field(field: str, entity: str) -> str:
    """What Jackson says of a field it does not know."""
    kind = f"org.apache.kafka.connect.runtime.rest.entities.{entity}"
    return f'Unrecognized field "{field}" (class {kind}), not marked as ignorable'
