"""What a command found, and what it may say of what it did not."""

from __future__ import annotations

from seamark.cli.answer import build_answer
from seamark.connectors.worker_views import WORKER_LISTING
from seamark.errors import DeadlineError
from seamark.report.listing import View


def test_empty_list_is_called_empty_only_where_everybody_answered():
    view = View(WORKER_LISTING, (), empty="no workers")
    assert build_answer(view, {}, asked=1).view.empty == "no workers"
    failed = build_answer(view, {"game": DeadlineError("later")}, asked=1)
    assert failed.view.empty == ""
    assert failed.exit_code == 6
