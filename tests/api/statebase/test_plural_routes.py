"""`/v1/memories`, which the official clients use instead of `/v1/memory` (N10, N11)."""

from typing import Any

import pytest

from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import ApiClient
from tests.support.statebase import NO_MEMORY, create_memory, error_of, open_session

pytestmark = pytest.mark.anyio

QUESTION = "where does Ada live?"


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder(
        {
            QUESTION: at_cosine(1.0),
            "near": at_cosine(0.9),
            "middling": at_cosine(0.75, axis=1),
            "far": at_cosine(0.3, axis=2),
        }
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"session_id": None, "tags": None, "metadata": None, "type": None, "embed": None},
    ],
)
async def test_N10_N11_the_plural_route_needs_no_session(
    client: ApiClient, given: dict[str, Any]
) -> None:
    response = await client.http.post("/v1/memories", json={"content": "near", **given})

    memory = response.json()
    assert response.status_code == 201
    assert memory == {
        "object": "memory",
        "id": memory["id"],
        "session_id": "",
        "content": "near",
        "type": "general",
        "tags": [],
        "metadata": {},
        "created_at": "2026-03-01T12:00:00.000000Z",
        "embedding_id": memory["id"].replace("mem_", "vec_"),
        "vector_available": True,
        "user_id": None,
        "updated_at": "2026-03-01T12:00:00.000000Z",
        "version": 1,
        "summary": None,
        "key": None,
        "importance": 0.5,
        "pinned": False,
        "expires_at": None,
    }


async def test_N10_singular_and_plural_routes_return_the_same_memory(client: ApiClient) -> None:
    memory = await create_memory(client.http, "near")

    responses = [
        await client.http.get(f"/v1/{name}/{memory['id']}") for name in ("memory", "memories")
    ]

    assert [response.json() for response in responses] == [memory, memory]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_N10_put_and_patch_change_a_memory(client: ApiClient, method: str) -> None:
    memory = await create_memory(client.http, "near", tags=["a"])
    nulls = {"type": None, "tags": None, "metadata": None}

    response = await client.http.request(
        method, f"/v1/memories/{memory['id']}", json={"content": "far", **nulls}
    )

    assert (response.status_code, response.json()) == (
        200,
        {**memory, "content": "far", "version": 2},
    )


async def test_N10_a_memory_is_deleted_by_id(client: ApiClient) -> None:
    memory = await create_memory(client.http, "near")
    address = f"/v1/memories/{memory['id']}"

    response = await client.http.delete(address)

    assert (response.status_code, response.content) == (204, b"")
    gone = await client.http.get(address)
    assert (gone.status_code, gone.json()) == (404, NO_MEMORY)


async def test_N10_a_query_searches_and_no_query_lists(client: ApiClient) -> None:
    memory = await create_memory(client.http, "near")

    searched = (await client.http.get("/v1/memories", params={"query": QUESTION})).json()
    listed = (await client.http.get("/v1/memories")).json()

    hit = {**memory, "score": pytest.approx(0.9, abs=1e-3), "found_by": "meaning"}
    assert searched == {"object": "list", "data": [hit], "query": QUESTION, "degraded": False}
    assert listed == {
        "object": "list",
        "data": [memory],
        "has_more": False,
        "first_id": memory["id"],
        "last_id": memory["id"],
    }


@pytest.mark.parametrize(
    ("parameters", "texts"),
    [
        ({}, ["near", "middling"]),
        ({"threshold": "0.8"}, ["near"]),
        ({"threshold": "0"}, ["near", "middling", "far"]),
        ({"threshold": "0", "limit": "2"}, ["near", "middling"]),
        ({"threshold": "0", "top_k": "1"}, ["near"]),
        ({"threshold": "0", "top_k": "1", "limit": "3"}, ["near"]),
        ({"threshold": "0", "top_k": "9999"}, ["near", "middling", "far"]),
        ({"threshold": "0", "types": "fact,event"}, ["near", "middling"]),
        ({"threshold": "0", "types": " fact , policy "}, ["near", "far"]),
        ({"threshold": "0", "type": "policy"}, ["far"]),
        ({"threshold": "0", "tags": "a"}, ["near", "far"]),
        ({"threshold": "0", "tags": "b, c"}, ["middling"]),
        ({"threshold": "0", "tags": "a", "types": "policy"}, ["far"]),
        ({"threshold": "0", "user_id": "ada"}, ["near"]),
    ],
)
@pytest.mark.parametrize("path", ["/v1/memories", "/v1/memories/search"])
async def test_N10_a_search_by_query_string_supports_every_filter(
    client: ApiClient, path: str, parameters: dict[str, str], texts: list[str]
) -> None:
    await create_memory(client.http, "near", type="fact", tags=["a"], user_id="ada")
    await create_memory(client.http, "middling", type="event", tags=["b", "c"])
    await create_memory(client.http, "far", type="policy", tags=["a"])

    response = await client.http.get(path, params={"query": QUESTION, **parameters})

    assert [hit["content"] for hit in response.json()["data"]] == texts


@pytest.mark.parametrize(
    "parameters",
    [
        {"query": ""},
        {"query": "  "},
        {"limit": "0"},
        {"top_k": "0"},
        {"threshold": "1.1"},
        {"threshold": "-0.1"},
        {"threshold": "nan"},
        {"threshold": "inf"},
        {"threshold": "much"},
        {"starting_after": "nonsense"},
    ],
)
async def test_N10_invalid_parameters_are_rejected(
    client: ApiClient, parameters: dict[str, str]
) -> None:
    response = await client.http.get("/v1/memories", params=parameters)

    assert error_of(response) == (400, "invalid_request", next(iter(parameters)))


async def test_N10_the_older_search_route_requires_a_query(client: ApiClient) -> None:
    response = await client.http.get("/v1/memories/search")

    assert error_of(response) == (400, "invalid_request", "query")


async def test_N10_singular_and_plural_routes_both_search_by_body(client: ApiClient) -> None:
    await create_memory(client.http, "near")

    responses = [
        await client.http.post(f"/v1/{name}/search", json={"query": QUESTION})
        for name in ("memory", "memories")
    ]

    assert responses[0].json() == responses[1].json()
    assert [hit["content"] for hit in responses[1].json()["data"]] == ["near"]


async def test_N10_the_plural_route_rejects_an_unknown_session(client: ApiClient) -> None:
    response = await client.http.post(
        "/v1/memories", json={"content": "near", "session_id": "sess_aaaaaaaaaaaa"}
    )

    assert error_of(response) == (404, "session_not_found", None)


async def test_N11_null_filters_do_not_filter_a_search(client: ApiClient) -> None:
    session = await open_session(client.http, user_id="ada")
    await create_memory(client.http, "near", session, type="fact", tags=["a"])
    names = ("session_id", "user_id", "type", "tags", "limit", "threshold")

    response = await client.http.post(
        "/v1/memory/search", json={"query": QUESTION, **dict.fromkeys(names)}
    )

    assert [hit["content"] for hit in response.json()["data"]] == ["near"]
