"""The child process of spec programs on a machine that offers no protection."""

from __future__ import annotations

from seamark.specs import program as child
from seamark.specs import sandbox as isolation


def main() -> None:
    """Run the child with every protection switched off."""
    isolation._enter_user_namespace = lambda: False
    isolation._drop_capabilities = lambda: None
    child.main()


if __name__ == "__main__":
    main()
