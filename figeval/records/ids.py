"""Sets of ids in 16 bytes each, so that runs over many millions of examples fit into memory.

An id is represented by a digest of 128 bits. Two different ids of the same task have the same one with a probability of
1e-21 for a billion ids, so they are not told apart by their texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Digests: TypeAlias = NDArray[np.bytes_]

BYTES = 16


def digest_of(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=BYTES).digest()


def digests_of(names: Iterable[str]) -> bytearray:
    """Return the digests of ids, one after the other."""
    digests = bytearray()
    for name in names:
        digests += digest_of(name)
    return digests


def find_repeated(digests: bytearray) -> bytes | None:
    """Return a digest that occurs more than once, or None; the digests are sorted in place, which takes no memory."""
    array = _array(digests)
    array.sort()
    again = (array[1:] == array[:-1]).nonzero()[0]
    return bytes(digests[BYTES * int(again[0]) :][:BYTES]) if len(again) else None


@dataclass(frozen=True)
class Ids:
    """A set of ids, each of which has a number from 0.

    Attributes:
        digests: digests of the ids, one after the other, without repetitions.
    """

    digests: bytes | bytearray

    @classmethod
    def of(cls, names: Iterable[str]) -> Ids:
        """Return the set of these ids, whose numbers are their places."""
        return cls(digests_of(names))

    def __len__(self) -> int:
        return len(self.digests) // BYTES

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.number(name) is not None

    def number(self, name: str) -> int | None:
        """Return the number of an id, or None if the set does not have it."""
        ranked, order = self._ranked
        digest = digest_of(name)
        rank = int(ranked.searchsorted(digest))
        return int(order[rank]) if rank < len(ranked) and ranked[rank] == digest.rstrip(b"\0") else None

    def first_places(self, digests: bytes | bytearray) -> NDArray[np.int64]:
        """Return the place of the first of `digests` that equals each id, or -1 if none does, by number; shape (n,)."""
        import numpy as np

        positions = np.full(len(self), -1, dtype=np.int64)
        ranked, order = self._ranked
        array = _array(digests)
        if not len(ranked) or not len(array):
            return positions
        ranks = ranked.searchsorted(array).clip(max=len(ranked) - 1)
        matches = (ranked[ranks] == array).nonzero()[0][::-1]  # the first one is written last and stays
        positions[order[ranks[matches]]] = matches
        return positions

    @cached_property
    def _ranked(self) -> tuple[Digests, Any]:
        """The digests in ascending order, and the number of each."""
        digests = _array(self.digests)
        order = digests.argsort(kind="stable")
        return digests[order], order


def _array(digests: bytes | bytearray) -> Digests:
    """Return digests as an array of shape (n,) without copying them."""
    import numpy as np

    return np.frombuffer(digests, dtype=f"S{BYTES}")  # NULs at the end are not shown, but all have the same length
