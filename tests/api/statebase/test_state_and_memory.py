"""Memories compared with session state, and how a memory is stored (R177-R194)."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from recollect.core.domain import new_code
from recollect.engine import Engine
from recollect.maintenance import tidy
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import ApiClient
from tests.support.statebase import (
    NO_MEMORY,
    NO_SESSION,
    create_memory,
    error_body,
    error_of,
    list_texts,
    open_session,
    search,
    search_texts,
)

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)


async def count_memories(engine: Engine, client: ApiClient) -> int:
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT count(*) FROM memory WHERE workspace_id = %s", [client.caller.workspace_id]
        )
        row = await cursor.fetchone()
    assert row
    return row[0]


async def test_R177_memories_are_shared_by_sessions_but_state_is_not(client: ApiClient) -> None:
    ours = await open_session(client.http, initial_state={"step": 3})
    other = await open_session(client.http)
    await create_memory(client.http, "Ada lives in London", ours)

    from_anywhere = await search_texts(client.http, "Ada lives in London")
    states = [
        (await client.http.get(f"/v1/sessions/{each['id']}/state")).json()["state"]
        for each in (ours, other)
    ]

    assert from_anywhere == ["Ada lives in London"]
    assert states == [{"step": 3}, {}]


async def test_R178_state_expires_with_its_session_but_memories_stay(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    session = await open_session(client.http, initial_state={"step": 3}, ttl_seconds=60)
    memory = await create_memory(client.http, "Ada lives in London", session)
    address = f"/v1/sessions/{session['id']}"

    clock.advance(timedelta(seconds=59))
    before = await client.http.get(address)
    clock.advance(timedelta(seconds=1))
    after = [await client.http.get(each) for each in (address, f"{address}/state")]

    assert before.json()["state"] == {"step": 3}
    assert [(each.status_code, each.json()) for each in after] == [(404, NO_SESSION)] * 2
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory
    assert await search_texts(client.http, "Ada lives in London") == ["Ada lives in London"]


async def test_R178_maintenance_deletes_expired_state_but_no_memory(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    session = await open_session(client.http, initial_state={"secret": "plan"}, ttl_seconds=60)
    memory = await create_memory(client.http, "Ada lives in London", session)
    body = {"input": "a secret question", "output": "a secret answer"}
    await client.http.post(f"/v1/sessions/{session['id']}/turns", json=body)
    clock.advance(DAY)

    await tidy(engine)

    async with engine.pool.everywhere() as db:
        values = [client.caller.workspace_id]
        rows = [
            await (await db.execute(query, values)).fetchall()
            for query in (
                "SELECT state, metadata FROM thread WHERE workspace_id = %s",
                "SELECT state FROM thread_state WHERE workspace_id = %s",
                "SELECT input FROM turn WHERE workspace_id = %s",
            )
        ]
    assert rows == [[({}, {})], [], []]
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory


async def test_R179_state_is_nested_json(client: ApiClient) -> None:
    state = {"cart": {"items": [{"sku": "a", "n": 2, "price": 1.5}], "ok": True}, "note": None}

    session = await open_session(client.http, initial_state=state)
    read = await client.http.get(f"/v1/sessions/{session['id']}")

    assert session["state"] == state
    assert read.json() == session


@pytest.mark.parametrize("content", [{"text": "Ada"}, 7, ["Ada"], True, 1.5])
async def test_R180_the_content_of_a_memory_must_be_text(client: ApiClient, content: Any) -> None:
    session = await open_session(client.http)

    response = await client.http.post(
        "/v1/memory", json={"session_id": session["id"], "content": content}
    )

    assert response.status_code == 400
    assert response.json() == error_body(
        "invalid_request",
        "`content` must be text.",
        param="content",
    )
    assert await list_texts(client.http) == []


async def test_R181_R191_saving_returns_the_whole_memory(client: ApiClient, clock: Clock) -> None:
    session = await open_session(client.http, user_id="ada")
    body = {"session_id": session["id"], "content": "Ada lives in London"}

    response = await client.http.post("/v1/memory", json=body)

    memory = response.json()
    assert response.status_code == 201
    assert memory == {
        "object": "memory",
        "id": memory["id"],
        "session_id": session["id"],
        "content": "Ada lives in London",
        "type": "general",
        "tags": [],
        "metadata": {},
        "created_at": "2026-03-01T12:00:00.000000Z",
        "embedding_id": memory["id"].replace("mem_", "vec_"),
        "vector_available": True,
        "user_id": "ada",
        "updated_at": "2026-03-01T12:00:00.000000Z",
        "version": 1,
        "summary": None,
        "key": None,
        "importance": 0.5,
        "pinned": False,
        "expires_at": None,
    }


@pytest.mark.parametrize("body", [{"content": "Ada"}, {"content": "Ada", "session_id": None}])
async def test_R182_a_session_is_required(client: ApiClient, body: dict[str, Any]) -> None:
    response = await client.http.post("/v1/memory", json=body)

    assert response.status_code == 400
    assert response.json() == error_body(
        "invalid_request", "`session_id` is required.", param="session_id"
    )


@pytest.mark.parametrize("content", [{}, {"content": ""}, {"content": None}, {"content": " \n"}])
async def test_R183_content_is_required(client: ApiClient, content: dict[str, Any]) -> None:
    session = await open_session(client.http)

    response = await client.http.post("/v1/memory", json={"session_id": session["id"], **content})

    assert error_of(response) == (400, "invalid_request", "content")
    assert await list_texts(client.http) == []


async def test_R184_ten_thousand_characters_of_any_script_are_stored(client: ApiClient) -> None:
    content = "思い出🐘é" * 2_000

    memory = await create_memory(client.http, content)

    assert len(content) == 10_000
    assert memory["content"] == content
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory


@pytest.mark.parametrize("letter", ["a", "é", "🐘"])
async def test_R184_R226_over_ten_thousand_characters_is_too_large(
    client: ApiClient, engine: Engine, letter: str
) -> None:
    session = await open_session(client.http)
    body = {"session_id": session["id"], "content": letter * 10_001}

    response = await client.http.post("/v1/memory", json=body)

    assert response.status_code == 413
    assert response.json() == error_body(
        "content_too_large",
        "`content` may have at most 10,000 characters; this has 10,001.",
        param="content",
    )
    assert await count_memories(engine, client) == 0


@pytest.mark.parametrize("given", [{}, {"type": None}])
async def test_R185_the_default_type_is_general(client: ApiClient, given: dict[str, Any]) -> None:
    memory = await create_memory(client.http, "Ada lives in London", **given)

    assert memory["type"] == "general"


@pytest.mark.parametrize("given", ["fact", "preference", "event", "policy"])
async def test_R186_the_documented_types_are_stored(client: ApiClient, given: str) -> None:
    memory = await create_memory(client.http, "Ada lives in London", type=given)

    assert memory["type"] == given
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory


async def test_R187_tags_keep_their_order(client: ApiClient) -> None:
    tags = ["travel", "Preferences", "日本", "two words", "travel"]

    memory = await create_memory(client.http, "Ada lives in London", tags=tags)

    assert memory["tags"] == tags
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory


@pytest.mark.parametrize("tags", ["travel", {"travel": True}, 7, [7], [None], [["travel"]], [""]])
async def test_R187_tags_must_be_an_array_of_strings(client: ApiClient, tags: Any) -> None:
    session = await open_session(client.http)
    body = {"session_id": session["id"], "content": "Ada lives in London", "tags": tags}

    response = await client.http.post("/v1/memory", json=body)

    assert error_of(response) == (400, "invalid_request", "tags")
    assert await list_texts(client.http) == []


async def test_R188_nested_metadata_is_stored_unchanged(client: ApiClient) -> None:
    metadata = {
        "source": {"app": "mail", "ids": [1, 2.5, -3], "flags": {"new": True, "old": None}},
        "日本": "🐘",
        "": "an empty key",
        "largest": 2**63 - 1,
        "smallest": -(2**63),
        "huge": 1e300,
        "wide": 1e25,
        "tiny": 5e-324,
    }

    memory = await create_memory(client.http, "Ada lives in London", metadata=metadata)

    read = (await client.http.get(f"/v1/memory/{memory['id']}")).json()
    assert memory["metadata"] == metadata
    assert read == memory


async def test_R188_writing_back_the_same_metadata_changes_nothing(client: ApiClient) -> None:
    metadata = {"wide": 1e25, "round": 100000.0, "exact": 0.1, "list": [1e300]}
    memory = await create_memory(client.http, "Ada lives in London", metadata=metadata)
    address = f"/v1/memory/{memory['id']}"
    read = (await client.http.get(address)).json()

    response = await client.http.patch(address, json={"metadata": read["metadata"]})

    assert response.json() == memory


@pytest.mark.parametrize("metadata", ["source", ["source"], 7, True])
async def test_R188_metadata_must_be_an_object(client: ApiClient, metadata: Any) -> None:
    session = await open_session(client.http)
    body = {"session_id": session["id"], "content": "Ada lives in London", "metadata": metadata}

    response = await client.http.post("/v1/memory", json=body)

    assert error_of(response) == (400, "invalid_request", "metadata")
    assert await list_texts(client.http) == []


@pytest.mark.parametrize("given", [{}, {"embed": None}, {"embed": True}])
async def test_R189_a_memory_is_embedded_by_default(
    client: ApiClient, embedder: StubEmbedder, given: dict[str, Any]
) -> None:
    memory = await create_memory(client.http, "Ada lives in London", **given)

    assert memory["vector_available"] is True
    assert memory["embedding_id"] == memory["id"].replace("mem_", "vec_")
    assert "Ada lives in London" in embedder.seen_texts


async def test_R190_a_memory_without_embedding_is_listed_but_never_found(
    client: ApiClient, embedder: StubEmbedder, engine: Engine
) -> None:
    await create_memory(client.http, "Grace lives in New York")
    memory = await create_memory(client.http, "Ada lives in London", embed=False)

    by_meaning = await search(client.http, "Ada lives in London", threshold=0.0)
    embedder.is_down = True
    by_words = await search(client.http, "Ada lives in London")

    assert (memory["vector_available"], memory["embedding_id"]) == (False, None)
    assert "Ada lives in London" not in embedder.seen_texts[:-2]
    assert [each["content"] for each in by_meaning] == ["Grace lives in New York"]
    assert memory["id"] not in {each["id"] for each in by_words}
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory
    assert sorted(await list_texts(client.http)) == [
        "Ada lives in London",
        "Grace lives in New York",
    ]


async def test_R192_ids_are_mem_plus_twelve_characters(client: ApiClient) -> None:
    session = await open_session(client.http)
    shape = re.compile(r"mem_[A-Za-z0-9]{12}")

    made = [
        (await create_memory(client.http, f"fact {n}", session, embed=False))["id"]
        for n in range(50)
    ]
    more = [f"mem_{new_code()[:12]}" for _ in range(1_000)]  # their generator

    assert all(shape.fullmatch(each) for each in made + more)
    assert len(set(made + more)) == 1_050


async def test_R193_times_are_iso_8601_in_utc(client: ApiClient, clock: Clock) -> None:
    clock.advance(timedelta(microseconds=123_456))

    memory = await create_memory(client.http, "Ada lives in London")

    assert memory["created_at"] == "2026-03-01T12:00:00.123456Z"
    assert datetime.fromisoformat(memory["created_at"]) == clock.at


@pytest.mark.parametrize(
    "session_id", ["sess_aaaaaaaaaaaa", "nonsense", "", "sess_", "日本", "x" * 5_000]
)
async def test_R194_R225_saving_in_an_unknown_session_stores_nothing(
    client: ApiClient, engine: Engine, session_id: str
) -> None:
    response = await client.http.post(
        "/v1/memory", json={"session_id": session_id, "content": "Ada lives in London"}
    )

    assert (response.status_code, response.json()) == (404, NO_SESSION)
    assert await count_memories(engine, client) == 0


async def test_R194_saving_in_an_expired_session_stores_nothing(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    session = await open_session(client.http, ttl_seconds=60)
    clock.advance(DAY)

    response = await client.http.post(
        "/v1/memory", json={"session_id": session["id"], "content": "Ada lives in London"}
    )

    assert (response.status_code, response.json()) == (404, NO_SESSION)
    assert await count_memories(engine, client) == 0


async def test_an_expired_memory_is_not_found_anywhere(client: ApiClient, clock: Clock) -> None:
    session = await open_session(client.http)
    memory = await create_memory(
        client.http, "The code is 4711", session, expires_at="2026-03-01T14:00:00+01:00"
    )
    address = f"/v1/memory/{memory['id']}"
    before = (await client.http.get(address)).json()

    clock.advance(timedelta(hours=1))
    after = await client.http.get(address)

    assert before == memory
    assert memory["expires_at"] == "2026-03-01T13:00:00.000000Z"
    assert (after.status_code, after.json()) == (404, NO_MEMORY)
    assert await list_texts(client.http) == []
    assert await search_texts(client.http, "The code is 4711") == []
    session = (await client.http.get(f"/v1/sessions/{session['id']}")).json()
    assert session["memory_count"] == 0


async def test_a_memory_saved_without_an_embedder_is_found_by_words(
    client: ApiClient, embedder: StubEmbedder
) -> None:
    embedder.is_down = True

    memory = await create_memory(client.http, "Ada lives in London")
    response = await client.http.post("/v1/memory/search", json={"query": "London"})

    assert (memory["vector_available"], memory["embedding_id"]) == (False, None)
    assert response.json()["degraded"] is True
    assert [each["content"] for each in response.json()["data"]] == ["Ada lives in London"]
