"""Read, change, delete and list memories (R208-R222, R224-R225)."""

from datetime import timedelta
from typing import Any

import pytest

from recollect.engine import Engine
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import ApiClient, connect, key_for, make_server, new_caller
from tests.support.statebase import (
    NO_MEMORY,
    NO_SESSION,
    create_memory,
    error_body,
    error_of,
    list_texts,
    open_session,
    search_texts,
)

pytestmark = pytest.mark.anyio

TABLES = ("memory", "memory_vector", "memory_word", "memory_terms")


async def vectors(engine: Engine, client: ApiClient) -> list[str]:
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT embedding::text FROM memory_vector WHERE workspace_id = %s ORDER BY 1",
            [client.caller.workspace_id],
        )
        return [row[0] for row in await cursor.fetchall()]


async def test_R208_one_memory_reads_as_it_was_created(client: ApiClient) -> None:
    memory = await create_memory(
        client.http,
        "Ada lives in London",
        type="fact",
        tags=["home"],
        metadata={"n": {"m": [1]}},
        summary="Ada's home",
        key="ada-home",
        importance=0.8,
        pinned=True,
        expires_at="2027-01-01T00:00:00Z",
        user_id="ada",
    )

    response = await client.http.get(f"/v1/memory/{memory['id']}")

    assert (response.status_code, response.json()) == (200, memory)


async def test_R208_every_form_of_an_id_finds_the_memory(client: ApiClient, engine: Engine) -> None:
    memory = await create_memory(client.http, "Ada lives in London")
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT id, code FROM memory WHERE workspace_id = %s", [client.caller.workspace_id]
        )
        [(uuid, code)] = await cursor.fetchall()
    short = code[:12]
    id_forms = [f"mem_{short}", f"mem-{short}", short, f"mem_{code}", code, str(uuid), uuid.hex]

    responses = [await client.http.get(f"/v1/memory/{each}") for each in id_forms]

    assert [response.json() for response in responses] == [memory] * len(id_forms)
    wrong_suffix = await client.http.get(f"/v1/memory/mem_{short}{'x' * 12}")
    assert (wrong_suffix.status_code, wrong_suffix.json()) == (404, NO_MEMORY)


@pytest.mark.parametrize(
    "memory_id",
    [
        "mem_aaaaaaaaaaaa",
        "00000000-0000-0000-0000-000000000000",
        "nonsense",
        "mem_",
        "日本",
        "%20",
        "search",
    ],
)
async def test_R209_R225_an_unknown_id_is_not_found(client: ApiClient, memory_id: str) -> None:
    existing = await create_memory(client.http, "Ada lives in London")
    address = f"/v1/memory/{memory_id}"

    responses = [
        await client.http.get(address),
        await client.http.patch(address, json={"content": "Ada lives in Paris"}),
        await client.http.delete(address),
    ]

    assert [(each.status_code, each.json()) for each in responses] == [(404, NO_MEMORY)] * 3
    assert (await client.http.get(f"/v1/memory/{existing['id']}")).json() == existing


async def test_R209_a_memory_of_another_org_is_not_found(client: ApiClient, engine: Engine) -> None:
    outsider = await new_caller(engine)
    key = await key_for(engine, outsider.workspace_id)
    async with connect(make_server(engine), **{"X-API-Key": key}) as http:
        theirs = await create_memory(http, "Grace lives in New York")
        address = f"/v1/memory/{theirs['id']}"

        responses = [
            await client.http.get(address),
            await client.http.patch(address, json={"content": "Grace lives nowhere"}),
            await client.http.delete(address),
        ]

        assert [(each.status_code, each.json()) for each in responses] == [(404, NO_MEMORY)] * 3
        assert (await http.get(address)).json() == theirs


@pytest.mark.parametrize(
    "change",
    [
        {"content": "Ada lives in Paris"},
        {"type": "event"},
        {"tags": ["work"]},
        {"summary": "Where Ada is"},
        {"key": "ada"},
        {"importance": 0.25},
        {"pinned": True},
        {"expires_at": "2027-01-01T00:00:00.000000Z"},
    ],
)
async def test_R210_a_change_affects_only_the_given_fields(
    client: ApiClient, clock: Clock, change: dict[str, Any]
) -> None:
    memory = await create_memory(
        client.http, "Ada lives in London", type="fact", tags=["home"], metadata={"n": 1}
    )
    clock.advance(timedelta(seconds=5))
    ignored = {"session_id": None, "metadata": None, "unknown": "ignored"}

    response = await client.http.patch(f"/v1/memory/{memory['id']}", json={**ignored, **change})

    expected = {**memory, **change, "updated_at": "2026-03-01T12:00:05.000000Z", "version": 2}
    assert (response.status_code, response.json()) == (200, expected)
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == expected


@pytest.mark.parametrize("body", [{}, {"content": None, "tags": None, "type": None}])
async def test_R210_an_empty_change_changes_nothing(
    client: ApiClient, body: dict[str, Any]
) -> None:
    memory = await create_memory(client.http, "Ada lives in London")

    response = await client.http.patch(f"/v1/memory/{memory['id']}", json=body)

    assert (response.status_code, response.json()) == (200, memory)


async def test_R210_writing_back_the_same_values_changes_nothing(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    memory = await create_memory(client.http, "Ada lives in London", tags=["a"], metadata={"n": 1})
    clock.advance(timedelta(seconds=5))

    response = await client.http.patch(f"/v1/memory/{memory['id']}", json=memory)

    traces = (await client.http.get("/v1/traces", params={"action": "memory.updated"})).json()
    assert response.json() == memory
    assert traces["data"] == []


async def test_R211_new_content_gets_a_new_embedding(
    client: ApiClient, engine: Engine, embedder: StubEmbedder
) -> None:
    memory = await create_memory(client.http, "Ada lives in London")
    before = await vectors(engine, client)

    response = await client.http.patch(
        f"/v1/memory/{memory['id']}", json={"content": "Ada moved to Paris"}
    )

    after = await vectors(engine, client)
    assert response.json()["vector_available"] is True
    assert len(before) == len(after) == 1
    assert before != after
    assert await search_texts(client.http, "Ada moved to Paris", threshold=0.99) == [
        "Ada moved to Paris"
    ]
    assert await search_texts(client.http, "Ada lives in London", threshold=0.99) == []


async def test_R211_new_content_is_no_longer_found_by_old_words(
    client: ApiClient, embedder: StubEmbedder
) -> None:
    memory = await create_memory(client.http, "Ada lives in London")
    embedder.is_down = True

    await client.http.patch(f"/v1/memory/{memory['id']}", json={"content": "Ada moved to Paris"})

    assert await search_texts(client.http, "London") == []
    assert await search_texts(client.http, "Paris") == ["Ada moved to Paris"]


async def test_R212_unchanged_content_keeps_its_embedding(
    client: ApiClient, engine: Engine, embedder: StubEmbedder
) -> None:
    memory = await create_memory(client.http, "Ada lives in London")
    before = await vectors(engine, client)
    asked = list(embedder.seen_texts)

    for change in ({"tags": ["home"]}, {"content": "Ada lives in London", "type": "fact"}):
        response = await client.http.patch(f"/v1/memory/{memory['id']}", json=change)
        assert response.json()["vector_available"] is True

    assert embedder.seen_texts == asked
    assert await vectors(engine, client) == before


@pytest.mark.parametrize("tags", [["c"], [], ["b", "a"]])
async def test_R213_tags_are_replaced(client: ApiClient, tags: list[str]) -> None:
    memory = await create_memory(client.http, "Ada lives in London", tags=["a", "b"])

    response = await client.http.patch(f"/v1/memory/{memory['id']}", json={"tags": tags})

    assert response.json()["tags"] == tags
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json()["tags"] == tags


async def test_R214_metadata_is_merged(client: ApiClient) -> None:
    memory = await create_memory(client.http, "Ada lives in London", metadata={"a": 1, "b": 2})

    response = await client.http.patch(
        f"/v1/memory/{memory['id']}", json={"metadata": {"b": 3, "c": 4}}
    )

    assert response.json()["metadata"] == {"a": 1, "b": 3, "c": 4}
    read = (await client.http.get(f"/v1/memory/{memory['id']}")).json()
    assert read["metadata"] == {"a": 1, "b": 3, "c": 4}


async def test_R215_the_content_limit_also_applies_to_a_change(client: ApiClient) -> None:
    memory = await create_memory(client.http, "Ada lives in London", tags=["a"])
    address = f"/v1/memory/{memory['id']}"

    longer = await client.http.patch(address, json={"content": "é" * 10_001, "tags": ["b"]})
    unchanged = (await client.http.get(address)).json()
    fitting = await client.http.patch(address, json={"content": "é" * 10_000})

    assert longer.status_code == 413
    assert longer.json() == error_body(
        "content_too_large",
        "`content` may have at most 10,000 characters; this has 10,001.",
        param="content",
    )
    assert unchanged == memory
    assert fitting.json()["content"] == "é" * 10_000


@pytest.mark.parametrize("content", ["", " \n", 7, {"text": "Ada"}])
async def test_R215_content_cannot_be_emptied(client: ApiClient, content: Any) -> None:
    memory = await create_memory(client.http, "Ada lives in London")

    response = await client.http.patch(f"/v1/memory/{memory['id']}", json={"content": content})

    assert error_of(response) == (400, "invalid_request", "content")
    assert (await client.http.get(f"/v1/memory/{memory['id']}")).json() == memory


async def test_R216_a_deleted_memory_leaves_no_rows(client: ApiClient, engine: Engine) -> None:
    memory = await create_memory(client.http, "Ada lives in London", tags=["home"])
    address = f"/v1/memory/{memory['id']}"

    response = await client.http.delete(address)

    assert (response.status_code, response.content) == (204, b"")
    async with engine.pool.everywhere() as db:
        rows = [
            await (
                await db.execute(
                    f"SELECT count(*) FROM {table} WHERE workspace_id = %s",
                    [client.caller.workspace_id],
                )
            ).fetchone()
            for table in TABLES
        ]
    assert rows == [(0,)] * len(TABLES)
    again = [await client.http.get(address), await client.http.delete(address)]
    assert [(each.status_code, each.json()) for each in again] == [(404, NO_MEMORY)] * 2
    assert await list_texts(client.http) == []
    assert await search_texts(client.http, "Ada lives in London", threshold=0.0) == []


async def test_R217_a_list_contains_every_memory_newest_first(
    client: ApiClient, clock: Clock
) -> None:
    made: list[dict[str, Any]] = []
    for text in ("first", "second", "third"):
        made.insert(0, await create_memory(client.http, text, embed=text != "second"))
        clock.advance(timedelta(seconds=1))

    response = await client.http.get("/v1/memory")

    assert response.status_code == 200
    assert response.json() == {
        "object": "list",
        "data": made,
        "has_more": False,
        "first_id": made[0]["id"],
        "last_id": made[-1]["id"],
    }


async def test_R218_session_user_and_type_filters_can_be_combined(client: ApiClient) -> None:
    by_ada = await open_session(client.http, user_id="ada")
    by_ada_too = await open_session(client.http, user_id="ada")
    by_grace = await open_session(client.http, user_id="grace")
    for text, session, kind in [
        ("one", by_ada, "fact"),
        ("two", by_ada, "event"),
        ("three", by_ada_too, "fact"),
        ("four", by_grace, "fact"),
    ]:
        await create_memory(client.http, text, session, type=kind)

    async def texts(**parameters: str) -> set[str]:
        return set(await list_texts(client.http, **parameters))

    assert await texts(session_id=by_ada["id"]) == {"one", "two"}
    assert await texts(user_id="ada") == {"one", "two", "three"}
    assert await texts(type="fact") == {"one", "three", "four"}
    assert await texts(session_id=by_ada["id"], type="fact") == {"one"}
    assert await texts(user_id="ada", type="fact") == {"one", "three"}
    assert await texts(session_id=by_ada["id"], user_id="ada", type="event") == {"two"}
    assert await texts(session_id=by_ada["id"], user_id="grace") == set()
    assert await texts(session_id="sess_aaaaaaaaaaaa") == set()


@pytest.mark.parametrize("tags", ["a,b", " a , b ", "a,,b,", "b,a,nowhere"])
async def test_R219_tags_are_a_comma_separated_list(client: ApiClient, tags: str) -> None:
    for text, given in [("one", ["a"]), ("two", ["b", "x"]), ("three", ["c"]), ("four", [])]:
        await create_memory(client.http, text, tags=given)

    assert set(await list_texts(client.http, tags=tags)) == {"one", "two"}


async def test_R220_the_limit_is_20_by_default_and_100_at_most(
    client: ApiClient,
) -> None:
    session = await open_session(client.http)
    for n in range(105):
        await create_memory(client.http, f"fact {n}", session, embed=False)

    counts = [
        len(await list_texts(client.http, **given))
        for given in ({}, {"limit": 1}, {"limit": 100}, {"limit": 101}, {"limit": 10**30})
    ]

    assert counts == [20, 1, 100, 100, 100]


@pytest.mark.parametrize("limit", ["0", "-1", "ten", "1.5", "", "1e3"])
async def test_R220_a_limit_must_be_a_positive_integer(client: ApiClient, limit: str) -> None:
    response = await client.http.get("/v1/memory", params={"limit": limit})

    assert error_of(response) == (400, "invalid_request", "limit")


async def test_R221_paging_returns_each_of_45_memories_once(
    client: ApiClient, clock: Clock
) -> None:
    session = await open_session(client.http)
    made: list[str] = []
    for n in range(45):  # several share the same instant
        made.insert(0, (await create_memory(client.http, f"fact {n}", session, embed=False))["id"])
        clock.advance(timedelta(seconds=n % 3 // 2))

    pages: list[list[str]] = []
    more, after = True, {}
    while more:
        page = (await client.http.get("/v1/memory", params=after)).json()
        assert [page["first_id"], page["last_id"]] == [
            page["data"][0]["id"],
            page["data"][-1]["id"],
        ]
        pages.append([each["id"] for each in page["data"]])
        more, after = page["has_more"], {"starting_after": page["last_id"]}
        await create_memory(client.http, "a new memory", session, embed=False)

    listed_ids = [each for page in pages for each in page]
    assert [len(page) for page in pages] == [20, 20, 5]
    assert len(set(listed_ids)) == 45
    assert set(listed_ids) == set(made)


@pytest.mark.parametrize("after", ["mem_aaaaaaaaaaaa", "nonsense", "", "sess_aaaaaaaaaaaa"])
async def test_R221_an_unknown_starting_after_is_rejected(client: ApiClient, after: str) -> None:
    await create_memory(client.http, "Ada lives in London")

    response = await client.http.get("/v1/memory", params={"starting_after": after})

    assert error_of(response) == (400, "invalid_request", "starting_after")


async def test_R222_all_six_types_can_be_saved_filtered_and_listed(client: ApiClient) -> None:
    types = ["fact", "preference", "event", "policy", "observation", "general"]

    for each in types:
        await create_memory(client.http, f"a {each}", type=each)

    assert [await list_texts(client.http, type=each) for each in types] == [
        [f"a {each}"] for each in types
    ]
    assert [
        await search_texts(client.http, f"a {each}", type=each, threshold=0.99) for each in types
    ] == [[f"a {each}"] for each in types]


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (b"{}", "`content` is required.", "content"),
        (
            b'{"session_id": 7, "content": "Ada"}',
            "`session_id` must be text.",
            "session_id",
        ),
        (b'{"content": "Ada"', "The body is not valid JSON.", None),
        (b"", "The body must be a JSON object.", None),
    ],
)
async def test_R224_invalid_input_returns_invalid_request(
    client: ApiClient, body: bytes, message: str, param: str | None
) -> None:
    response = await client.http.post(
        "/v1/memory", content=body, headers={"content-type": "application/json"}
    )

    assert response.status_code == 400
    assert response.json() == error_body("invalid_request", message, param=param)


async def test_R225_a_not_found_error_names_the_kind(client: ApiClient) -> None:
    memory = await client.http.get("/v1/memory/mem_aaaaaaaaaaaa")
    session = await client.http.get("/v1/sessions/sess_aaaaaaaaaaaa")
    trace = await client.http.get("/v1/traces/trace_aaaaaaaaaaaa")

    assert (memory.status_code, memory.json()) == (404, NO_MEMORY)
    assert (session.status_code, session.json()) == (404, NO_SESSION)
    assert (trace.status_code, trace.json()) == (
        404,
        error_body("resource_not_found", "There is no such trace."),
    )
