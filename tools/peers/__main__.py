"""Print the comparison of seamark with other tools as Markdown."""

from __future__ import annotations

import sys

from tools.peers import format_markdown, read_comparison

if __name__ == "__main__":
    comparison = read_comparison()
    sys.stdout.write(format_markdown(comparison))
    sys.stdout.write("\n" + "".join(f"- {code}: {name}\n" for code, name in comparison.peers.items()))
