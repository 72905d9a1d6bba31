"""The archive for a cluster: the options of spark-submit that go with it."""

from __future__ import annotations

from seamark.report.listing import Column, Listing, View
from seamark.spark.pack_model import SparkPack, SubmitOption

SUBMIT_OPTION_LISTING: Listing[SubmitOption] = Listing(
    kind="SubmitOptionList",
    noun="option of spark-submit",
    # As a command line takes it: spark-submit $(seamark spark pack -o name) job.py
    name=str,
    columns=(
        Column("option", "OPTION", lambda option: option.option),
        Column("value", "VALUE", lambda option: option.value),
    ),
)


def build_pack_view(pack: SparkPack) -> View[SubmitOption]:
    """The options, and for programs what is in the archive."""
    return View(
        SUBMIT_OPTION_LISTING,
        pack.submit_options,
        body=lambda: {
            "items": SUBMIT_OPTION_LISTING.build_items(pack.submit_options),
            "archive": pack.archive,
            "python": pack.python,
            "packages": list(pack.packages),
            "jars": list(pack.jars),
            "program": pack.program,
        },
    )
