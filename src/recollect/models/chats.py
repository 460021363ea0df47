"""Which chat model a name means: the default upstream's, a named one's, or a built-in one."""

from collections.abc import Mapping

from recollect.models.chat import Chat, Route

# Clients name models as they like; they fill no memory with that.
_MOST_REFUSALS = 1_000


class Chats:
    """The chat models of one process. `NAME/M` is the model `M` of the upstream `NAME`."""

    def __init__(
        self,
        default: Route | None = None,
        named: Mapping[str, Route] | None = None,
        builtin: Mapping[str, Chat] | None = None,
    ) -> None:
        # A route's model is what that upstream is asked for when nobody says; it may be empty.
        self._default = default
        self._named = dict(named or {})
        self._builtin = dict(builtin or {})
        self._refusals: set[tuple[int, str]] = set()

    def find(self, model: str | None) -> Route | None:
        """Whom to ask for this model; None when there is nobody."""
        if model in self._builtin:
            return Route(self._builtin[model], model)
        name, slash, rest = (model or "").partition("/")
        if slash and rest and name in self._named:
            return Route(self._named[name].chat, rest)
        if self._default:
            return Route(self._default.chat, model or self._default.model)
        if not model and self._builtin:
            first = next(iter(self._builtin))
            return Route(self._builtin[first], first)
        return None

    def takes_tools(self, route: Route) -> bool:
        """Whether a request for this model may offer tools; learnt from refusals, too."""
        return route.chat.takes_tools and (id(route.chat), route.model) not in self._refusals

    def note_refusal(self, route: Route) -> None:
        """Remember for the life of the process that this model refuses tools."""
        if len(self._refusals) < _MOST_REFUSALS:
            self._refusals.add((id(route.chat), route.model))

    @property
    def background(self) -> Route | None:
        """Whom background work asks: a configured upstream with a model; None when there is none.

        The built-in model has nothing to add to what the engine does by itself.
        """
        routes = [self._default, *self._named.values()]
        return next((each for each in routes if each and each.model), None)

    @property
    def upstreams(self) -> Mapping[str, Route]:
        """The configured upstreams, by the prefix of their models' names."""
        return {**({"": self._default} if self._default else {}), **self._named}

    @property
    def builtin(self) -> list[str]:
        """The names of the built-in models."""
        return list(self._builtin)

    async def aclose(self) -> None:
        """Let go of every model."""
        routes = [each for each in [self._default, *self._named.values()] if each]
        for chat in [*(each.chat for each in routes), *self._builtin.values()]:
            await chat.aclose()
