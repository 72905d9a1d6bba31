"""docs/reference/contexts.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from seamark.context.context import WORKER_KEYS
from seamark.context.kafka_keys import IGNORED_KEYS, JAVA_KEYS, REFUSED_KEYS
from seamark.context.schema import CONNECT_KEYS, CONTEXT_KEYS, DATABASE_KEYS, LAKE_KEYS, ROOT_KEYS, SECTION_KEYS

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "contexts.md").read_text(encoding="utf-8")


def table_after(heading: str) -> dict[str, list[str]]:
    """The rows of the table below a heading, by the code in their first cell."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip().strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {re.findall(r"`([^`]+)`", row[0])[0]: [cell.strip() for cell in row[1:]] for row in rows}


def test_the_table_of_keys_has_every_key_and_no_other() -> None:
    known = {*ROOT_KEYS, *SECTION_KEYS, *CONTEXT_KEYS, *CONNECT_KEYS, *DATABASE_KEYS, *LAKE_KEYS}
    assert set(table_after("Keys")) == known


def test_the_table_says_which_worker_key_fills_which_key() -> None:
    rows = table_after("Keys")
    filled = {key: cells[-1].strip("`") for key, cells in rows.items() if cells[-1].startswith("`")}
    assert filled == dict(WORKER_KEYS)


def test_every_java_key_and_every_refused_key_is_on_the_page() -> None:
    missing = [key for key in sorted(JAVA_KEYS | IGNORED_KEYS | REFUSED_KEYS.keys()) if f"`{key}`" not in PAGE]
    assert missing == []


def test_the_file_of_the_page_opens(workplace) -> None:
    example = PAGE.split("```yaml\n", 1)[1].split("```", 1)[0]
    workplace.write(example)
    workplace.trust_project()
    workplace.write("group.id=connect-cluster\nconfig.storage.topic=connect-configs\n", "worker.properties")
    workplace.write("password=p\n", "ops.properties")
    workplace.environ["KAFKA_PASSWORD"] = "k"
    context = workplace.open()
    assert context.connect["game"].config_topic == "connect-configs"
    assert context.connect["game"].password.reveal() == "p"
    assert context.kafka.client_config()["sasl.password"] == "k"
