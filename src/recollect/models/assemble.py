"""The models that the settings ask for."""

from collections.abc import Mapping

from recollect.models.chat import Chat, Route
from recollect.models.chats import Chats
from recollect.models.embed import Embedder, Identity
from recollect.models.endpoint import EndpointEmbedder, embeddings_url, identity_of
from recollect.models.registry import Embedders
from recollect.models.upstream import UpstreamChat
from recollect.settings import Endpoint, Settings, Upstream

BUILTIN = "builtin"


def assemble(settings: Settings, builtin: Embedder) -> Embedders:
    """The embedders the settings ask for; the built-in one always stays within reach."""
    default = builtin
    if settings.embedding_url and settings.embedding_model:
        default = EndpointEmbedder(
            Endpoint(settings.embedding_url, settings.embedding_model, settings.embedding_key)
        )
    named: dict[str, Embedder] = {
        name: EndpointEmbedder(each) for name, each in settings.embedders.items()
    }
    named.setdefault(BUILTIN, builtin)
    keys = _keys(settings)

    def revive(identity: Identity) -> Embedder | None:
        if identity == builtin.identity:
            return builtin
        if not identity.endpoint.startswith(("http://", "https://")):
            return None
        # A key goes back only to the very endpoint it was configured for.
        return EndpointEmbedder(
            Endpoint(identity.endpoint, identity.model, keys.get(identity.endpoint))
        )

    return Embedders(default, named, revive)


def assemble_chats(settings: Settings, builtin: Mapping[str, Chat] | None = None) -> Chats:
    """The chat models the settings ask for."""

    def route(upstream: Upstream) -> Route:
        chat = UpstreamChat(upstream, idle_seconds=float(settings.chat_idle_seconds))
        return Route(chat, upstream.model or "")

    default = None
    if settings.chat_url:
        default = route(
            Upstream(settings.chat_url, settings.chat_key, settings.chat_model, settings.chat_tools)
        )
    return Chats(default, {name: route(each) for name, each in settings.upstreams.items()}, builtin)


def _keys(settings: Settings) -> dict[str, str | None]:
    endpoints = list(settings.embedders.values())
    if settings.embedding_url:
        endpoints.append(Endpoint(settings.embedding_url, "", settings.embedding_key))
    return {identity_of(embeddings_url(each.url), "").endpoint: each.key for each in endpoints}
