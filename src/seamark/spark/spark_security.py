"""How seamark's Spark sessions are protected, by their master."""

from __future__ import annotations

import re
from collections.abc import Mapping

# For these masters Spark generates a secret for each application and gives it to the executors itself
# (`SecurityManager.initializeAuth`, Spark 4.2). A standalone master has one secret, which its owner configures.
_GENERATED = re.compile(r"local|local\[(?:\d+|\*)(?:\s*,\s*(?:\d+|\*))?\]|yarn|k8s:.*")

AUTHENTICATE = "spark.authenticate"


def build_auth_conf(master: str) -> dict[str, str]:
    """Return the settings with which the processes of an application authenticate each other; none if it can't be."""
    return {AUTHENTICATE: "true"} if _GENERATED.fullmatch(master) else {}


def find_open_connections(master: str, conf: Mapping[str, str]) -> str:
    """Return a warning if any process that reaches the driver can take part in the application; "" if none can."""
    if conf.get(AUTHENTICATE, "false").strip().lower() == "true":
        return ""
    return (
        f"the Spark application on {master} doesn't authenticate its connections: set spark.authenticate and "
        "spark.authenticate.secret in spark-defaults.conf of the driver and of the master"
    )
