"""The kinds of embeddings and chat endpoints. To add one, write its module and add it here.

The kind of an embedder is part of its identity: vectors of another kind are another vector space.
"""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from recollect.core.errors import Invalid
from recollect.core.settings import EmbeddingEndpoint, Upstream
from recollect.models.chat_model import ChatModel
from recollect.models.embedder import Embedder
from recollect.models.endpoint_chat import EndpointChat
from recollect.models.endpoint_embedder import EmbeddingApi, EndpointEmbedder
from recollect.models.openai_embeddings import OPENAI_EMBEDDINGS

T = TypeVar("T")


class MakeChat(Protocol):
    """Creates a chat model; raises `Invalid` if the upstream's settings are invalid."""

    def __call__(self, upstream: Upstream, *, idle_seconds: float) -> ChatModel:
        """Create the model without connecting."""
        ...


EMBEDDING_APIS: Mapping[str, EmbeddingApi] = {api.kind: api for api in (OPENAI_EMBEDDINGS,)}
CHAT_KINDS: Mapping[str, MakeChat] = {
    "openai": EndpointChat,
}


def embedding_api(endpoint: EmbeddingEndpoint) -> EmbeddingApi:
    """Return the API that an endpoint speaks; raise `Invalid` for an unknown kind."""
    return _named(EMBEDDING_APIS, endpoint.kind, "an embeddings endpoint")


def make_embedder(endpoint: EmbeddingEndpoint) -> Embedder:
    """Create the embedder of an endpoint; raise `Invalid` for an unknown kind."""
    return EndpointEmbedder(endpoint, embedding_api(endpoint))


def make_chat(upstream: Upstream, *, idle_seconds: float) -> ChatModel:
    """Create the chat model of an upstream; raise `Invalid` for an unknown kind."""
    return _named(CHAT_KINDS, upstream.kind, "a chat endpoint")(upstream, idle_seconds=idle_seconds)


def _named(kinds: Mapping[str, T], kind: str, name: str) -> T:
    if kind not in kinds:
        known = ", ".join(f"`{each}`" for each in kinds)
        raise Invalid(f"The kind of {name} is `{kind}`. It must be one of: {known}.")
    return kinds[kind]
