"""Empty Connect clusters in a process of their own: `python -m bench.fleets.serve`."""

from __future__ import annotations

from contextlib import ExitStack

from bench.fleets.child import receive_order, say_ready
from tests.fakes.connect import FakeConnect


def main() -> None:
    """Serve until the parent is gone. The order names the clusters of each context; the answer has their URLs."""
    order: dict[str, list[str]] = receive_order()
    with ExitStack() as running:
        say_ready(
            {
                context: {cluster: list(running.enter_context(FakeConnect()).urls) for cluster in clusters}
                for context, clusters in order.items()
            }
        )


if __name__ == "__main__":
    main()
