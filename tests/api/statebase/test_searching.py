"""Search memories by meaning (R195-R207, R223), with known cosine similarities."""

import json
from typing import Any, ClassVar

import pytest

from recollect.core.settings import Settings
from recollect.engine import Engine
from recollect.models.from_settings import make_embedders
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import ApiClient, connect, key_for, make_server, new_caller, open_engine
from tests.support.live_server import serve_app
from tests.support.statebase import (
    create_memory,
    error_body,
    error_of,
    open_session,
    search,
    search_texts,
)

pytestmark = pytest.mark.anyio

QUESTION = "where does Ada live?"


@pytest.fixture
def embedder() -> StubEmbedder:
    """An embedder where the text `a 0.8` has cosine 0.8 to the question."""
    stub = StubEmbedder({QUESTION: at_cosine(1.0)})
    for hundredths in range(101):
        cosine = hundredths / 100
        for turn, name in enumerate("abcdefg"):
            stub.table[f"{name} {cosine}"] = at_cosine(cosine, axis=turn)
    return stub


async def test_R195_a_search_covers_all_sessions_of_the_caller_only(
    client: ApiClient, engine: Engine
) -> None:
    outsider = await new_caller(engine)
    key = await key_for(engine, outsider.workspace_id)
    async with connect(make_server(engine), **{"X-API-Key": key}) as http:
        await create_memory(http, "c 0.95")
    await create_memory(client.http, "a 0.9", await open_session(client.http))
    await create_memory(client.http, "b 0.8", await open_session(client.http))

    texts = await search_texts(client.http, QUESTION)

    assert texts == ["a 0.9", "b 0.8"]


@pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": None}, {"query": "  "}])
async def test_R196_a_query_is_required(client: ApiClient, body: dict[str, Any]) -> None:
    response = await client.http.post("/v1/memory/search", json=body)

    assert error_of(response) == (400, "invalid_request", "query")


@pytest.mark.parametrize("query", [["Ada"], 7, {"text": "Ada"}, True])
async def test_R196_a_query_must_be_a_string(client: ApiClient, query: Any) -> None:
    response = await client.http.post("/v1/memory/search", json={"query": query})

    assert error_of(response) == (400, "invalid_request", "query")


async def test_R197_a_search_can_be_filtered_by_session(client: ApiClient) -> None:
    ours = await open_session(client.http)
    await create_memory(client.http, "a 0.8", ours)
    await create_memory(client.http, "b 0.9")

    assert await search_texts(client.http, QUESTION, session_id=ours["id"]) == ["a 0.8"]


@pytest.mark.parametrize("session_id", ["sess_aaaaaaaaaaaa", "nonsense", ""])
async def test_R197_an_unknown_session_finds_nothing(client: ApiClient, session_id: str) -> None:
    await create_memory(client.http, "a 0.9")

    assert await search_texts(client.http, QUESTION, session_id=session_id) == []


async def test_R198_a_user_filter_covers_all_their_sessions(client: ApiClient) -> None:
    for text, user in [("a 0.9", "ada"), ("b 0.8", "grace"), ("c 0.75", "ada"), ("d 0.95", None)]:
        await create_memory(client.http, text, await open_session(client.http, user_id=user))

    assert await search_texts(client.http, QUESTION, user_id="ada") == ["a 0.9", "c 0.75"]
    assert await search_texts(client.http, QUESTION, user_id="nobody") == []


async def test_R199_a_search_can_be_filtered_by_type(client: ApiClient) -> None:
    await create_memory(client.http, "a 0.9", type="fact")
    await create_memory(client.http, "b 0.8", type="policy")
    await create_memory(client.http, "c 0.75")

    assert await search_texts(client.http, QUESTION, type="policy") == ["b 0.8"]
    assert await search_texts(client.http, QUESTION, type="general") == ["c 0.75"]


async def test_R200_any_matching_tag_is_enough(client: ApiClient) -> None:
    for text, tags in [
        ("a 0.9", ["a"]),
        ("b 0.85", ["b"]),
        ("c 0.8", ["a", "b"]),
        ("d 0.75", ["c"]),
    ]:
        await create_memory(client.http, text, tags=tags)
    await create_memory(client.http, "e 0.95")

    assert await search_texts(client.http, QUESTION, tags=["a", "b"]) == [
        "a 0.9",
        "b 0.85",
        "c 0.8",
    ]
    assert await search_texts(client.http, QUESTION, tags=["nowhere"]) == []


async def test_R201_filters_combine(client: ApiClient) -> None:
    ours = await open_session(client.http, user_id="ada")
    theirs = await open_session(client.http, user_id="ada")
    for text, session, kind, tag in [
        ("a 0.9", ours, "fact", "home"),
        ("b 0.9", theirs, "fact", "home"),
        ("c 0.9", ours, "event", "home"),
        ("d 0.9", ours, "fact", "work"),
    ]:
        await create_memory(client.http, text, session, type=kind, tags=[tag])

    texts = await search_texts(
        client.http, QUESTION, session_id=ours["id"], user_id="ada", type="fact", tags=["home"]
    )

    assert texts == ["a 0.9"]


async def test_R202_the_limit_is_10_by_default_and_50_at_most(client: ApiClient) -> None:
    session = await open_session(client.http)
    for _ in range(60):
        await create_memory(client.http, "a 0.9", session)

    counts = [
        len(await search(client.http, QUESTION, **given))
        for given in (
            {},
            {"limit": None},
            {"limit": 1},
            {"limit": 50},
            {"limit": 51},
            {"limit": 9999},
        )
    ]

    assert counts == [10, 10, 1, 50, 50, 50]


@pytest.mark.parametrize("limit", [0, -1, "ten", "10", 1.5, True, []])
async def test_R202_a_limit_must_be_a_positive_integer(client: ApiClient, limit: Any) -> None:
    response = await client.http.post("/v1/memory/search", json={"query": QUESTION, "limit": limit})

    assert error_of(response) == (400, "invalid_request", "limit")


async def test_R203_the_default_threshold_is_0_7(client: ApiClient) -> None:
    await create_memory(client.http, "a 0.69")
    await create_memory(client.http, "b 0.71")

    assert await search_texts(client.http, QUESTION) == ["b 0.71"]
    assert await search_texts(client.http, QUESTION, threshold=None) == ["b 0.71"]
    assert await search_texts(client.http, QUESTION, threshold=0.6) == ["b 0.71", "a 0.69"]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, "0.5", True, [], -1, 2])
async def test_R204_a_threshold_outside_0_to_1_is_rejected(
    client: ApiClient, threshold: Any
) -> None:
    response = await client.http.post(
        "/v1/memory/search", json={"query": QUESTION, "threshold": threshold}
    )

    assert error_of(response) == (400, "invalid_request", "threshold")


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.0, ["a 1.0", "b 0.5", "c 0.0"]),
        (0, ["a 1.0", "b 0.5", "c 0.0"]),
        (1.0, ["a 1.0"]),
        (1, ["a 1.0"]),
    ],
)
async def test_R204_thresholds_0_and_1_are_allowed(
    client: ApiClient, threshold: float, expected: list[str]
) -> None:
    for text in ("a 1.0", "b 0.5", "c 0.0"):
        await create_memory(client.http, text)

    assert await search_texts(client.http, QUESTION, threshold=threshold) == expected


@pytest.mark.parametrize("query", [QUESTION, "  spaces kept \n", "日本 🐘 <b>&amp;"])
async def test_R205_the_response_repeats_the_query_unchanged(client: ApiClient, query: str) -> None:
    response = await client.http.post("/v1/memory/search", json={"query": query})

    expected: dict[str, Any] = {"object": "list", "data": [], "query": query, "degraded": False}
    assert response.status_code == 200
    assert response.json() == expected  # not degraded: no memory lacks a vector


async def test_R206_a_result_contains_the_memory_and_its_score(client: ApiClient) -> None:
    memory = await create_memory(
        client.http, "a 0.9", type="fact", tags=["home"], metadata={"n": 1}
    )

    [hit] = await search(client.http, QUESTION)

    assert hit == {**memory, "score": pytest.approx(0.9, abs=1e-3), "found_by": "meaning"}
    assert type(hit["score"]) is float


async def test_R207_scores_are_between_0_and_1_and_descending(
    client: ApiClient, embedder: StubEmbedder
) -> None:
    embedder.table["opposite"] = at_cosine(-0.9)
    for text in ("c 0.3", "a 1.0", "opposite", "b 0.75", "d 0.0"):
        await create_memory(client.http, text)

    hits = await search(client.http, QUESTION, threshold=0.0)

    assert [(hit["content"], hit["score"]) for hit in hits] == [
        ("a 1.0", pytest.approx(1.0, abs=1e-3)),
        ("b 0.75", pytest.approx(0.75, abs=1e-3)),
        ("c 0.3", pytest.approx(0.3, abs=1e-3)),
        ("d 0.0", pytest.approx(0.0, abs=1e-3)),
        ("opposite", 0.0),
    ]
    assert all(0.0 <= hit["score"] <= 1.0 for hit in hits)


class TwoModelEndpoint:
    """An embeddings endpoint with two well-known models of different dimensions."""

    dimensions: ClassVar = {"text-embedding-004": 768, "text-embedding-3-small": 1536}
    similar = frozenset({QUESTION, "Ada lives in London"})

    def __init__(self) -> None:
        self.models: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = json.loads((await receive())["body"])
        self.models.add(request["model"])
        dimension = self.dimensions[request["model"]]
        data = [
            {"index": index, "embedding": at_cosine(text in self.similar, dimension).tolist()}
            for index, text in enumerate(request["input"])
        ]
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"data": data}).encode()})


@pytest.mark.parametrize("model", TwoModelEndpoint.dimensions)
async def test_R223_both_named_embedding_models_work(
    database_url: str, clock: Clock, embedder: StubEmbedder, model: str
) -> None:
    endpoint = TwoModelEndpoint()
    with serve_app(endpoint) as url:
        settings = Settings(embedding_url=url, embedding_model=model)
        embedders = make_embedders(settings, embedder)
        async with open_engine(database_url, embedders, clock) as engine:
            caller = await new_caller(engine)
            key = await key_for(engine, caller.workspace_id)
            async with connect(make_server(engine), **{"X-API-Key": key}) as http:
                saved = await create_memory(http, "Ada lives in London")
                await create_memory(http, "something else")

                hits = await search(http, QUESTION)

            async with engine.pool.everywhere() as db:
                cursor = await db.execute(
                    "SELECT model, dimension FROM generation WHERE workspace_id = %s",
                    [caller.workspace_id],
                )
                generations = await cursor.fetchall()
        await embedders.aclose()

    assert endpoint.models == {model}
    assert generations == [(model, TwoModelEndpoint.dimensions[model])]
    assert hits == [{**saved, "score": pytest.approx(1.0), "found_by": "meaning"}]


async def test_a_query_over_10000_characters_is_rejected(client: ApiClient) -> None:
    response = await client.http.post("/v1/memory/search", json={"query": "a" * 10_001})

    assert response.status_code == 400
    assert response.json() == error_body(
        "invalid_request",
        "`query` may have at most 10,000 characters; this has 10,001.",
        param="query",
    )


async def test_an_empty_tag_list_filters_nothing(client: ApiClient) -> None:
    await create_memory(client.http, "a 0.9")

    assert await search_texts(client.http, QUESTION, tags=[]) == ["a 0.9"]


async def test_an_identical_text_passes_every_threshold(
    client: ApiClient,
) -> None:
    texts = [f"statement number {n}" for n in range(40)]
    session = await open_session(client.http)
    for text in texts:
        await create_memory(client.http, text, session)

    missed = [
        text for text in texts if text not in await search_texts(client.http, text, threshold=1.0)
    ]

    assert missed == []
