"""Create the embedders and chat models that are named in the settings."""

from collections.abc import Mapping

from recollect.core.settings import EmbeddingEndpoint, Settings, Upstream
from recollect.models.chat_model import ChatModel, ChatRoute
from recollect.models.chat_registry import ChatModels
from recollect.models.embedder import Embedder, EmbedderIdentity
from recollect.models.embedder_registry import Embedders
from recollect.models.endpoint_embedder import identity_of
from recollect.models.kinds import EMBEDDING_APIS, embedding_api, make_chat, make_embedder

BUILTIN = "builtin"


def make_embedders(settings: Settings, builtin: Embedder) -> Embedders:
    """Create the embedders of the settings. The built-in one is always available."""
    default = builtin
    if settings.embedding_url and settings.embedding_model:
        default = make_embedder(_default_endpoint(settings, settings.embedding_url))
    named: dict[str, Embedder] = {
        name: make_embedder(each) for name, each in settings.embedders.items()
    }
    named.setdefault(BUILTIN, builtin)
    keys = _keys_by_endpoint(settings)

    def recreate(identity: EmbedderIdentity) -> Embedder | None:
        if identity == builtin.identity:
            return builtin
        if identity.kind not in EMBEDDING_APIS:
            return None
        # A key is sent only to the exact endpoint it was configured for.
        key = keys.get((identity.kind, identity.endpoint))
        return make_embedder(
            EmbeddingEndpoint(identity.endpoint, identity.model, key, identity.kind)
        )

    return Embedders(default, named, recreate)


def make_chat_models(
    settings: Settings, builtin: Mapping[str, ChatModel] | None = None
) -> ChatModels:
    """Create the chat models of the settings."""

    def route(upstream: Upstream) -> ChatRoute:
        chat = make_chat(upstream, idle_seconds=float(settings.chat_idle_seconds))
        return ChatRoute(chat, upstream.model or "")

    default = None
    if settings.chat_url:
        default = route(
            Upstream(
                settings.chat_url,
                settings.chat_key,
                settings.chat_model,
                settings.chat_tools,
                settings.chat_kind,
            )
        )
    return ChatModels(
        default, {name: route(each) for name, each in settings.upstreams.items()}, builtin
    )


def _default_endpoint(settings: Settings, url: str) -> EmbeddingEndpoint:
    return EmbeddingEndpoint(
        url, settings.embedding_model or "", settings.embedding_key, settings.embedding_kind
    )


def _keys_by_endpoint(settings: Settings) -> dict[tuple[str, str], str | None]:
    """Return the keys by the kind and the address that an identity has."""
    endpoints = list(settings.embedders.values())
    if settings.embedding_url:
        endpoints.append(_default_endpoint(settings, settings.embedding_url))
    identities = [(identity_of(each, embedding_api(each)), each.key) for each in endpoints]
    return {(identity.kind, identity.endpoint): key for identity, key in identities}
