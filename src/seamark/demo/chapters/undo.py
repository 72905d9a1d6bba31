"""Chapter: every change can be looked at, and taken back."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter
from seamark.demo.chapters.files import ALL_RUN, write_and_apply

UNDO = Chapter(
    name="undo",
    title="Undo",
    set_up=write_and_apply,
    acts=(
        Act(
            "A quick change without the files.",
            "seamark connectors change read-login --set batch.size=7 --yes",
        ),
        Act("Who did what, and when?", "seamark journal list"),
        Act(
            "One change, step by step.",
            "seamark journal show {change}",
            look="What was before stands there too: that is what an undo puts back.",
        ),
        Act("Take it back.", "seamark journal undo {change} --yes", until=ALL_RUN),
        Act(
            "Now something that hurts.",
            "seamark connectors delete read-logout --yes",
            look="It says what stays behind: the position of what was read.",
        ),
        Act(
            "Take that back too.",
            "seamark journal undo {change} --yes",
            until=ALL_RUN,
            look="It is there again, with its config, and goes on where it stopped.",
        ),
        Act("Nothing is missing.", "seamark plan -f config"),
    ),
)
