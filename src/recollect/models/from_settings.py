"""Create the embedders and chat models that are named in the settings."""

from collections.abc import Mapping

from recollect.core.settings import EmbeddingEndpoint, Settings, Upstream
from recollect.models.chat_model import ChatModel, ChatRoute
from recollect.models.chat_registry import ChatModels
from recollect.models.embedder import Embedder, EmbedderIdentity
from recollect.models.embedder_registry import Embedders
from recollect.models.endpoint_chat import EndpointChat
from recollect.models.endpoint_embedder import EndpointEmbedder, embeddings_url, identity_of

BUILTIN = "builtin"


def make_embedders(settings: Settings, builtin: Embedder) -> Embedders:
    """Create the embedders of the settings. The built-in one is always available."""
    default = builtin
    if settings.embedding_url and settings.embedding_model:
        default = EndpointEmbedder(
            EmbeddingEndpoint(
                settings.embedding_url, settings.embedding_model, settings.embedding_key
            )
        )
    named: dict[str, Embedder] = {
        name: EndpointEmbedder(each) for name, each in settings.embedders.items()
    }
    named.setdefault(BUILTIN, builtin)
    keys = _keys_by_endpoint(settings)

    def recreate(identity: EmbedderIdentity) -> Embedder | None:
        if identity == builtin.identity:
            return builtin
        if not identity.endpoint.startswith(("http://", "https://")):
            return None
        # A key is sent only to the exact endpoint it was configured for.
        return EndpointEmbedder(
            EmbeddingEndpoint(identity.endpoint, identity.model, keys.get(identity.endpoint))
        )

    return Embedders(default, named, recreate)


def make_chat_models(
    settings: Settings, builtin: Mapping[str, ChatModel] | None = None
) -> ChatModels:
    """Create the chat models of the settings."""

    def route(upstream: Upstream) -> ChatRoute:
        chat = EndpointChat(upstream, idle_seconds=float(settings.chat_idle_seconds))
        return ChatRoute(chat, upstream.model or "")

    default = None
    if settings.chat_url:
        default = route(
            Upstream(settings.chat_url, settings.chat_key, settings.chat_model, settings.chat_tools)
        )
    return ChatModels(
        default, {name: route(each) for name, each in settings.upstreams.items()}, builtin
    )


def _keys_by_endpoint(settings: Settings) -> dict[str, str | None]:
    endpoints = list(settings.embedders.values())
    if settings.embedding_url:
        endpoints.append(EmbeddingEndpoint(settings.embedding_url, "", settings.embedding_key))
    return {identity_of(embeddings_url(each.url), "").endpoint: each.key for each in endpoints}
