"""A cache of the vectors of recent messages, whose segment is still open, per process."""

from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

# Enough for about a hundred active conversations; 2,048 vectors of 384 numbers take 3 MB.
_MAX_ENTRIES = 2_048


class VectorCache:
    """Vectors by the digest of their text. Drops the least recently used ones."""

    def __init__(self) -> None:
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()

    def get(self, key: bytes) -> Vector | None:
        """The vector, if it is cached."""
        if key in self._vectors:
            self._vectors.move_to_end(key)
        return self._vectors.get(key)

    def put(self, vectors: Mapping[bytes, Vector]) -> None:
        """Cache vectors."""
        self._vectors.update(vectors)
        while len(self._vectors) > _MAX_ENTRIES:
            self._vectors.popitem(last=False)
