"""The Korean documentation: which pages have it, its message catalogs, and the checks that keep them in step."""

# Pages that exist in Korean, as paths in the repository. Sphinx builds only these, with `-D language=ko`.
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/start/index.md",
    "docs/start/your-own-cluster.md",
    "docs/start/first-change.md",
    "docs/start/connectors-as-code.md",
    "docs/start/rewind-and-undo.md",
    "docs/start/fewer-partitions.md",
    "docs/start/lake-fleet.md",
    "docs/start/spark-cluster.md",
    "docs/start/practice.md",
    "docs/start/demo.md",
    "docs/how-to/coming-from.md",
    "docs/explanation/offsets.md",
    "docs/runbooks/README.md",
    "docs/runbooks/connector-recreated.md",
    "docs/runbooks/data-topic-recreated.md",
    "docs/runbooks/journal-topic-lost.md",
    "docs/runbooks/moved-to-another-cluster.md",
    "docs/runbooks/offsets-topic-deleted.md",
    "docs/runbooks/offsets-topic-repartitioned.md",
    "docs/runbooks/poison-record.md",
    "docs/runbooks/source-rewound.md",
)
