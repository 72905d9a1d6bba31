"""Chapter: connectors from files."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter
from seamark.demo.chapters.files import ALL_RUN, write_files

AS_CODE = Chapter(
    name="code",
    title="Connectors as code",
    set_up=write_files,
    acts=(
        Act(
            "Every change is written to a journal before it is made. It is a topic beside the data, made once.",
            "seamark init --yes",
        ),
        Act(
            "A folder says what should run. This file makes three connectors of two entries.",
            "cat config/files.yaml",
        ),
        Act(
            "What would have to be done? A plan asks Connect and changes nothing.",
            "seamark plan -f config",
            look="Three to create. The connectors of chapter 1 are not in this folder, so they are left alone.",
        ),
        Act(
            "Do it. Connect validates every config first; then it is waited until all tasks run.",
            "seamark apply -f config --yes",
            until=ALL_RUN,
        ),
        Act(
            "The same plan again.",
            "seamark plan -f config",
            look="Nothing to do. An apply that changes nothing restarts nothing.",
        ),
        Act(
            "Now one value changes in the file.",
            "sed -i 's/batch.size: 100/batch.size: 500/' config/files.yaml",
        ),
        Act(
            "The plan shows that field, and what it means for the running tasks.",
            "seamark plan -f config",
            look="Both sources come from one entry, so both change. The sink does not.",
        ),
        Act("And go.", "seamark apply -f config --yes", until=ALL_RUN),
    ),
)
