"""Resolve model names to the default upstream, a named upstream, or a built-in chat model."""

from collections.abc import Mapping

from recollect.models.backoff import Backoff
from recollect.models.chat_model import ChatModel, ChatRoute

# Clients choose model names freely, so the set of names is bounded.
_MAX_REFUSALS = 1_000


class ChatModels:
    """The chat models of one process. `NAME/M` is the model `M` of the upstream `NAME`."""

    def __init__(
        self,
        default: ChatRoute | None = None,
        named: Mapping[str, ChatRoute] | None = None,
        builtin: Mapping[str, ChatModel] | None = None,
    ) -> None:
        # The model of a route is the upstream's default model; it may be empty.
        self._default = default
        self._named = dict(named or {})
        self._builtin = dict(builtin or {})
        self._without_tools: set[tuple[int, str]] = set()
        self._backoffs: dict[int, Backoff] = {}

    def find(self, model: str | None) -> ChatRoute | None:
        """Return the route for a model name; None if there is none."""
        if model in self._builtin:
            return ChatRoute(self._builtin[model], model)
        name, slash, rest = (model or "").partition("/")
        if slash and rest and name in self._named:
            return ChatRoute(self._named[name].chat, rest)
        if self._default:
            return ChatRoute(self._default.chat, model or self._default.model)
        if not model and self._builtin:
            first = next(iter(self._builtin))
            return ChatRoute(self._builtin[first], first)
        return None

    def takes_tools(self, route: ChatRoute) -> bool:
        """Whether a request for this model may offer tools. Earlier refusals count."""
        return route.chat.takes_tools and (id(route.chat), route.model) not in self._without_tools

    def note_refusal(self, route: ChatRoute) -> None:
        """Remember, until the process ends, that this model refuses tools."""
        if len(self._without_tools) < _MAX_REFUSALS:
            self._without_tools.add((id(route.chat), route.model))

    def backoff(self, route: ChatRoute) -> Backoff:
        """Return the backoff of background work for the upstream of a route."""
        return self._backoffs.setdefault(id(route.chat), Backoff())

    @property
    def background(self) -> ChatRoute | None:
        """The route for background work: the first upstream with a default model; None if none.

        The built-in model is not used: it adds nothing to the engine's own rules.
        """
        routes = [self._default, *self._named.values()]
        return next((each for each in routes if each and each.model), None)

    @property
    def upstreams(self) -> Mapping[str, ChatRoute]:
        """The configured upstreams, by the prefix of their models' names."""
        return {**({"": self._default} if self._default else {}), **self._named}

    @property
    def builtin(self) -> list[str]:
        """The names of the built-in models."""
        return list(self._builtin)

    async def aclose(self) -> None:
        """Close every model."""
        routes = [each for each in [self._default, *self._named.values()] if each]
        for chat in [*(each.chat for each in routes), *self._builtin.values()]:
            await chat.aclose()
