"""The registry of embedders: the default, the named ones, and those of earlier generations."""

from collections.abc import Callable, Mapping

from recollect.core.errors import Unavailable
from recollect.models.embedder import Embedder, EmbedderIdentity


class Embedders:
    """The embedders of one process. Those of earlier generations are created on first use."""

    def __init__(
        self,
        default: Embedder,
        named: Mapping[str, Embedder] | None = None,
        recreate: Callable[[EmbedderIdentity], Embedder | None] = lambda _: None,
    ) -> None:
        self._default = default
        self._named = dict(named or {})
        self._recreate = recreate
        self._by_identity = {each.identity: each for each in [default, *self._named.values()]}

    def configured(self, name: str | None) -> Embedder:
        """Return the embedder a workspace has chosen, or the default if `name` is None."""
        if name is None:
            return self._default
        if name not in self._named:
            raise Unavailable("embedder")
        return self._named[name]

    def has(self, name: str) -> bool:
        """Whether a workspace may choose an embedder by this name."""
        return name in self._named

    def of(self, identity: EmbedderIdentity) -> Embedder:
        """Return the embedder of a generation; raise `Unavailable` if it cannot be created."""
        if identity not in self._by_identity:
            recreated = self._recreate(identity)
            if recreated is None:
                raise Unavailable("embedder")
            self._by_identity[identity] = recreated
        return self._by_identity[identity]

    async def aclose(self) -> None:
        """Close every embedder."""
        for each in self._by_identity.values():
            await each.aclose()
