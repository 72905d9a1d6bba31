"""What steps need of the copies of topics. They are told apart by the ids of their plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from seamark.copies.cutover.copy_reader import CarriedReader
from seamark.core.ports import Port


class CopyPort(Protocol):
    """The copies of one context. `seamark.copies` has the real one."""

    def approach(self, copy: str) -> str:
        """Copy what has come to the source so far, while it is written to; gives what was done, in a few words."""
        ...

    def catch_up(self, copy: str) -> str:
        """Copy all that the source holds now; gives what was done, in a few words. Done again, it does nothing.

        Raises:
            SeamarkError: it did not come to its end. It can be begun again, and goes on from there.
        """
        ...

    def begin_back(self, copy: str) -> str:
        """Plan the copy from the target back to a topic of the source's name; its id. Done again, it is the same.

        Raises:
            RefusedError: the topic of the source's name is still the source, or is not as the target is.
        """
        ...

    def verify(self, copy: str, level: str) -> str:
        """Compare source and target; gives what was compared, in a few words.

        Raises:
            RefusedError: they differ. It says where.
        """
        ...

    def count_left(self, copy: str) -> int:
        """How many offsets of the source lie behind what was copied; also those of transactions that are open."""
        ...

    def read_target_ends(self, copy: str) -> Mapping[int, int]:
        """Where each partition of the target ends now."""
        ...

    def shut_out(self, owner: str, topic: str) -> Mapping[int, int]:
        """Take the partitions of a topic from whoever runs a landing. Its offsets stay; a run can move them no more.

        Gives by partition what changes when somebody takes it or moves it.
        """
        ...

    def read_epochs(self, owner: str, topic: str) -> Mapping[int, int]:
        """The same, and nobody is shut out."""
        ...

    def translate(self, copy: str, groups: Sequence[str], *, missing: str) -> Mapping[str, CarriedReader]:
        """Where groups that stand still go on in the target. `missing` is `earliest`, `latest` or "".

        Raises:
            RefusedError: a group can't be carried over: it is further than the copy, or nobody says where it starts.
        """
        ...


COPIES: Port[Callable[[], CopyPort]] = Port("copies")
"""Opens the copies of topics."""
