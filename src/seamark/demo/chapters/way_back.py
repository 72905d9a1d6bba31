"""Chapter: a config that can't run, and the way back from it."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter
from seamark.demo.chapters.files import ALL_RUN, write_and_apply

WAY_BACK = Chapter(
    name="way-back",
    title="A config that can't run",
    set_up=write_and_apply,
    acts=(
        Act(
            "A mistake in the file this time. Connect's validation will not see it: the folder is not there.",
            "sed -i 's#/lake/#/nowhere/#' config/files.yaml",
        ),
        Act(
            "Apply it all the same.",
            "seamark apply -f config --yes",
            codes=(3,),
            until=ALL_RUN,
            look="The task failed, so the old config was put back, and runs. Exit code 3: not all could be done.",
        ),
        Act("The sink writes where it did before.", "seamark connectors list write-login"),
        Act("We take the mistake out of the file.", "sed -i 's#/nowhere/#/lake/#' config/files.yaml"),
        Act("Files and fleet agree again.", "seamark plan -f config"),
    ),
)
