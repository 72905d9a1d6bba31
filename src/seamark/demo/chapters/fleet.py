"""Chapter: what there is."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter, Need

FLEET = Chapter(
    name="fleet",
    title="The fleet",
    wishes=(Need.POSTGRES, Need.JDBC, Need.S3, Need.S3_SINK),
    acts=(
        Act(
            "A broker and two Connect workers run. We give them something to do: a source, a topic and a sink.",
            "python -m seamark.devstack seed --rows 1000",
        ),
        Act(
            "What runs, in one look.",
            "seamark status",
            look="One line for each Connect cluster. What is in trouble would stand below it, with its cause.",
        ),
        Act(
            "Every connector with one honest word for its health.",
            "seamark connectors list",
            look="HEALTHY means that the connector and all of its tasks run. Connect alone would say RUNNING earlier.",
        ),
        Act(
            "One of them, in full.",
            "seamark connectors show log-purchase",
            look="Tasks, the workers they run on, and the config. Passwords are never shown.",
        ),
        Act(
            "And what it remembers of what it has read.",
            "seamark offsets show log-purchase",
        ),
    ),
)
