"""Which embedder serves whom: the server's own, those a workspace may name, those still in use."""

from collections.abc import Callable, Mapping

from recollect.errors import Unavailable
from recollect.models.embed import Embedder, Identity


class Embedders:
    """The embedders of one process; those of earlier generations are made when first needed."""

    def __init__(
        self,
        default: Embedder,
        named: Mapping[str, Embedder] | None = None,
        revive: Callable[[Identity], Embedder | None] = lambda _: None,
    ) -> None:
        self._default = default
        self._named = dict(named or {})
        self._revive = revive
        self._by_identity = {each.identity: each for each in [default, *self._named.values()]}

    def configured(self, name: str | None) -> Embedder:
        """The embedder a workspace has chosen, the server's own where it chose none."""
        if name is None:
            return self._default
        if name not in self._named:
            raise Unavailable("embedder")
        return self._named[name]

    def has(self, name: str) -> bool:
        """Whether a workspace may choose an embedder by this name."""
        return name in self._named

    def of(self, identity: Identity) -> Embedder:
        """The embedder whose vectors a generation holds, for as long as that generation serves."""
        if identity not in self._by_identity:
            revived = self._revive(identity)
            if revived is None:
                raise Unavailable("embedder")
            self._by_identity[identity] = revived
        return self._by_identity[identity]

    async def aclose(self) -> None:
        """Let go of every embedder."""
        for each in self._by_identity.values():
            await each.aclose()
