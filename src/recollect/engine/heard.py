"""What this process has heard of late: vectors of messages whose stretch is still open."""

from collections import OrderedDict
from collections.abc import Mapping

from recollect.models.embed import Vector

# Some hundred conversations going on at once; 2,048 vectors of 384 numbers are 3 MB.
_MOST = 2_048


class Heard:
    """Vectors by the digest of what was said; the least used ones are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Vector] = OrderedDict()

    def get(self, key: bytes) -> Vector | None:
        """The vector, if it was heard."""
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

    def keep(self, vectors: Mapping[bytes, Vector]) -> None:
        """Remember vectors."""
        self._known.update(vectors)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
