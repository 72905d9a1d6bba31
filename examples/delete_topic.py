"""Show the topics, and delete one.

    python examples/delete_topic.py TOPIC [CONTEXT]

The delete is a plan first. It is refused while a connector or a group uses the topic. What groups had committed on it
is kept in the journal. Run `seamark init` once before the first change of a context.
"""

import sys

import seamark


def main(name: str, context: str | None = None) -> None:
    """List all topics with their sizes, then delete one of them."""
    with seamark.open(context) as fleet:
        for topic in fleet.topics.list(sizes=True):
            print(topic.name, topic.records, topic.bytes)
        planned = fleet.topics.delete(name)
        print(planned)  # what a person would be asked to say yes to
        result = fleet.apply(planned)
        print("done" if result.is_done else "not done", result.change)


if __name__ == "__main__":
    main(*sys.argv[1:])
