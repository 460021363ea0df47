"""`/v1/memories`, which the official clients call (N10, N11), beside the documented `/v1/memory`."""

from typing import Any

import pytest

from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import Visitor
from tests.support.statebase import NO_MEMORY, complaint, open_session, remember

pytestmark = pytest.mark.anyio

ASKED = "where does Ada live?"


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder(
        {
            ASKED: at_cosine(1.0),
            "near": at_cosine(0.9),
            "middling": at_cosine(0.75, turn=1),
            "far": at_cosine(0.3, turn=2),
        }
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"session_id": None, "tags": None, "metadata": None, "type": None, "embed": None},
    ],
)
async def test_N10_N11_a_memory_needs_no_session_here(
    visitor: Visitor, given: dict[str, Any]
) -> None:
    answer = await visitor.http.post("/v1/memories", json={"content": "near", **given})

    memory = answer.json()
    assert answer.status_code == 201
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


async def test_N10_both_spellings_of_a_route_show_the_same_memory(visitor: Visitor) -> None:
    memory = await remember(visitor.http, "near")

    answers = [
        await visitor.http.get(f"/v1/{name}/{memory['id']}") for name in ("memory", "memories")
    ]

    assert [answer.json() for answer in answers] == [memory, memory]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_N10_a_memory_is_changed_by_either_method(visitor: Visitor, method: str) -> None:
    memory = await remember(visitor.http, "near", tags=["a"])
    nulls = {"type": None, "tags": None, "metadata": None}

    answer = await visitor.http.request(
        method, f"/v1/memories/{memory['id']}", json={"content": "far", **nulls}
    )

    assert (answer.status_code, answer.json()) == (200, {**memory, "content": "far", "version": 2})


async def test_N10_a_memory_is_deleted_by_id(visitor: Visitor) -> None:
    memory = await remember(visitor.http, "near")
    address = f"/v1/memories/{memory['id']}"

    answer = await visitor.http.delete(address)

    assert (answer.status_code, answer.content) == (204, b"")
    gone = await visitor.http.get(address)
    assert (gone.status_code, gone.json()) == (404, NO_MEMORY)


async def test_N10_a_query_searches_and_none_lists(visitor: Visitor) -> None:
    memory = await remember(visitor.http, "near")

    searched = (await visitor.http.get("/v1/memories", params={"query": ASKED})).json()
    listed = (await visitor.http.get("/v1/memories")).json()

    hit = {**memory, "score": pytest.approx(0.9, abs=1e-3), "found_by": "meaning"}
    assert searched == {"object": "list", "data": [hit], "query": ASKED, "degraded": False}
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
async def test_N10_a_search_by_query_string_takes_every_filter(
    visitor: Visitor, path: str, parameters: dict[str, str], texts: list[str]
) -> None:
    await remember(visitor.http, "near", type="fact", tags=["a"], user_id="ada")
    await remember(visitor.http, "middling", type="event", tags=["b", "c"])
    await remember(visitor.http, "far", type="policy", tags=["a"])

    answer = await visitor.http.get(path, params={"query": ASKED, **parameters})

    assert [hit["content"] for hit in answer.json()["data"]] == texts


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
async def test_N10_bad_parameters_are_an_invalid_request(
    visitor: Visitor, parameters: dict[str, str]
) -> None:
    answer = await visitor.http.get("/v1/memories", params=parameters)

    assert complaint(answer) == (400, "invalid_request", next(iter(parameters)))


async def test_N10_the_older_search_route_needs_its_query(visitor: Visitor) -> None:
    answer = await visitor.http.get("/v1/memories/search")

    assert complaint(answer) == (400, "invalid_request", "query")


async def test_N10_the_search_by_body_answers_on_both_spellings(visitor: Visitor) -> None:
    await remember(visitor.http, "near")

    answers = [
        await visitor.http.post(f"/v1/{name}/search", json={"query": ASKED})
        for name in ("memory", "memories")
    ]

    assert answers[0].json() == answers[1].json()
    assert [hit["content"] for hit in answers[1].json()["data"]] == ["near"]


async def test_N10_an_unknown_session_is_refused_here_too(visitor: Visitor) -> None:
    answer = await visitor.http.post(
        "/v1/memories", json={"content": "near", "session_id": "sess_aaaaaaaaaaaa"}
    )

    assert complaint(answer) == (404, "session_not_found", None)


async def test_N11_nulls_leave_a_search_unfiltered(visitor: Visitor) -> None:
    session = await open_session(visitor.http, user_id="ada")
    await remember(visitor.http, "near", session, type="fact", tags=["a"])
    names = ("session_id", "user_id", "type", "tags", "limit", "threshold")

    answer = await visitor.http.post(
        "/v1/memory/search", json={"query": ASKED, **dict.fromkeys(names)}
    )

    assert [hit["content"] for hit in answer.json()["data"]] == ["near"]
