"""Workers: the listing."""

from __future__ import annotations

from seamark.connect.worker import Worker
from seamark.core.reading import Reading
from seamark.report.error import build_failures
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Style


def _skew(worker: Worker) -> str:
    if worker.clock_skew_seconds is None:
        return "-"
    return f"{worker.clock_skew_seconds:+.1f} s"


WORKER_LISTING: Listing[Worker] = Listing(
    kind="WorkerList",
    noun="worker",
    name=lambda worker: worker.url,
    columns=(
        Column("cluster", "CLUSTER", lambda worker: worker.cluster),
        Column("url", "URL", lambda worker: worker.url),
        Column(
            "up",
            "STATE",
            lambda worker: worker.is_up,
            text=lambda worker: "✓ UP" if worker.is_up else "✗ DOWN",
            style=lambda worker: Style.GOOD if worker.is_up else Style.BAD,
        ),
        Column("version", "VERSION", lambda worker: worker.version),
        Column("connectors", "CONNECTORS", lambda worker: worker.connectors if worker.is_up else None, right=True),
        Column("tasks", "TASKS", lambda worker: worker.tasks if worker.is_up else None, right=True),
        Column("commit", "COMMIT", lambda worker: worker.commit, wide=True),
        Column("kafka_cluster_id", "KAFKA CLUSTER", lambda worker: worker.kafka_cluster_id, wide=True),
        Column("clock_skew_seconds", "CLOCK", lambda worker: worker.clock_skew_seconds, text=_skew, wide=True),
        Column("error", "ERROR", lambda worker: worker.error),
    ),
)


def build_workers_view(reading: Reading[Worker]) -> View[Worker]:
    """Workers, and the clusters none of whose workers could be asked."""
    return View(
        WORKER_LISTING,
        reading.items,
        body=lambda: {"items": WORKER_LISTING.build_items(reading.items), "failures": build_failures(reading.failures)},
        empty="no workers",
    )
