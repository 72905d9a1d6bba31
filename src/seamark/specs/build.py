"""From what a file says to a desired connector, with the checks that hold for every format."""

from __future__ import annotations

from seamark.connectors.spec import DesiredConnector
from seamark.core.files import Place
from seamark.specs.keys import STATES
from seamark.specs.nodes import build_spec_error


def build_connector(
    name: str, config: dict[str, str], *, place: Place, cluster: str | None, state: str
) -> DesiredConnector:
    """The desired connector. `name` is taken out of the config; it must not be another one there."""
    named = config.pop("name", name)
    if named != name:
        raise build_spec_error(
            place, f"the connector is {name}, and its config says {named}", hint="take name out of the config"
        )
    if not config.get("connector.class"):
        raise build_spec_error(
            place, f"connector {name} has no connector.class", hint="say which plugin it is, in its config or a default"
        )
    return DesiredConnector(name, config, place, cluster, state)


def check_name(name: str, place: Place) -> str:
    """The name, which must not be empty."""
    if not name:
        raise build_spec_error(place, "the name is empty", hint="give the connector a name")
    return name


def check_state(state: str, place: Place) -> str:
    """The state in Connect's own spelling."""
    if state and state.lower() not in STATES:
        raise build_spec_error(place, "the state is not one of Connect's", hint=f"write one of {', '.join(STATES)}")
    return state.upper()
