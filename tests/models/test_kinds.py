"""Settings name the kind of an endpoint, and the kind is part of an embedder's identity."""

import pytest

from recollect.core.errors import Invalid, Unavailable
from recollect.core.settings import EmbeddingEndpoint, Settings, read_settings
from recollect.models.embedder import EmbedderIdentity
from recollect.models.from_settings import make_chat_models, make_embedders
from recollect.models.kinds import CHAT_KINDS, EMBEDDING_APIS, make_embedder
from tests.support.embedder import StubEmbedder

URL = "https://example.org/v1"


@pytest.mark.parametrize("kind", EMBEDDING_APIS)
def test_an_embedder_has_its_kind_in_its_identity(kind: str) -> None:
    embedder = make_embedder(EmbeddingEndpoint(URL, "m", kind=kind))

    assert (embedder.identity.kind, embedder.identity.model) == (kind, "m")


@pytest.mark.parametrize("kind", EMBEDDING_APIS)
def test_the_address_of_an_identity_gives_the_same_identity(kind: str) -> None:
    identity = make_embedder(EmbeddingEndpoint(URL, "m", kind=kind)).identity

    again = make_embedder(EmbeddingEndpoint(identity.endpoint, "m", kind=kind))

    assert again.identity == identity


def test_an_unknown_kind_is_rejected_with_the_known_ones() -> None:
    embedders = Settings(embedding_url=URL, embedding_model="m", embedding_kind="carrier-pigeon")
    named = Settings(embedders={"lab": EmbeddingEndpoint(URL, "m", kind="carrier-pigeon")})
    chats = Settings(chat_url=URL, chat_kind="carrier-pigeon")

    for settings in (embedders, named):
        with pytest.raises(Invalid, match=f"`carrier-pigeon`.*{'`, `'.join(EMBEDDING_APIS)}"):
            make_embedders(settings, StubEmbedder())
    with pytest.raises(Invalid, match=f"`carrier-pigeon`.*{'`, `'.join(CHAT_KINDS)}"):
        make_chat_models(chats)


def test_the_settings_file_names_the_kind_of_each_endpoint() -> None:
    settings = read_settings(
        {},
        overrides={
            "embedders": {
                "a": {"url": URL, "model": "m", "kind": "openai"},
                "b": {"url": URL, "model": "m"},
            },
            "upstreams": {"a": {"url": URL, "kind": "openai"}, "b": {"url": URL}},
        },
    )

    assert {each.kind for each in settings.embedders.values()} == {"openai"}
    assert {each.kind for each in settings.upstreams.values()} == {"openai"}


def test_an_embedder_of_an_unknown_kind_is_not_recreated() -> None:
    embedders = make_embedders(Settings(), StubEmbedder())

    assert embedders.of(EmbedderIdentity("openai", URL + "/embeddings", "m")).identity.model == "m"
    with pytest.raises(Unavailable):
        embedders.of(EmbedderIdentity("carrier-pigeon", URL, "m"))
