"""Key/value memories: rows, fields, saving and recall, as the contract requires."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.api.alumia.wire import shown_importance
from recollect.core.domain import Caller, MemoryId, Ref, Right
from recollect.engine import Engine
from recollect.memories.edit import EditMemory, edit_within
from recollect.memories.forget import forget_within, restore
from recollect.memories.queries import memories
from recollect.server import Server
from tests.support.alumia import (
    client_of,
    create_session,
    error_of,
    list_values,
    new_agent,
    new_project,
    recall_values,
    save_memory,
)
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import ApiClient, wait_until_blocked
from tests.support.statebase import create_memory

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
INVALID = (422, "VALIDATION_ERROR")


@pytest.fixture
async def http(engine: Engine, server: Server, caller: Caller) -> Any:
    async with client_of(engine, server, caller) as client:
        yield client


async def test_R277_a_memory_requires_only_an_org_and_a_user(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    memory = await save_memory(http, "Ada lives in London")

    assert (memory["orgId"], memory["userId"]) == (str(caller.org_id), str(caller.user_id))
    assert (memory["projectId"], memory["agentId"], memory["sessionId"]) == (None, None, None)
    for column in ("org_id", "user_id"):
        with pytest.raises(psycopg.errors.NotNullViolation):
            async with engine.writing(caller) as db:
                await db.execute(
                    f"UPDATE memory SET {column} = NULL WHERE workspace_id = %s",  # pyright: ignore[reportArgumentType]
                    [caller.workspace_id],
                )


async def test_R278_R304_R307_saving_the_same_key_updates_the_row(
    http: httpx2.AsyncClient, clock: Clock
) -> None:
    first = await save_memory(http, "London", key="home", tags=["place"], importance=8)
    clock.advance(SECOND)

    answer = await http.post("/api/v1/memories", json={"key": "home", "value": "Paris"})

    second = answer.json()["data"]
    assert answer.status_code == 200
    assert second == {**first, "value": "Paris", "updatedAt": second["updatedAt"]}
    assert second["updatedAt"] > first["updatedAt"]
    assert await list_values(http, key="home") == ["Paris"]
    assert await list_values(http) == ["Paris"]
    assert await recall_values(http, "London") == []
    assert await recall_values(http, "Paris") == ["Paris"]


async def test_R305_another_key_scope_or_context_creates_a_new_row(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    one, two = await new_project(engine, caller), await new_project(engine, caller)
    agent, other = await new_agent(engine, caller), await new_agent(engine, caller)
    variations: list[dict[str, Any]] = [
        {"key": "home"},
        {"key": "work"},
        {"key": "home", "scope": "project", "projectId": one},
        {"key": "home", "scope": "project", "projectId": two},
        {"key": "home", "scope": "agent", "agentId": agent},
        {"key": "home", "scope": "agent", "agentId": other},
    ]

    created = [await save_memory(http, "London", **each) for each in variations]
    again = [await save_memory(http, "London", **each) for each in variations]

    assert len({each["id"] for each in created}) == len(variations)
    assert again == created


async def test_R306_dedupe_create_forces_a_new_row(http: httpx2.AsyncClient) -> None:
    first = await save_memory(http, "London", key="home")
    answer = await http.post(
        "/api/v1/memories", json={"key": "home", "value": "Paris", "dedupe": "create"}
    )

    assert answer.status_code == 201
    assert answer.json()["data"]["id"] != first["id"]
    assert sorted(await list_values(http, key="home")) == ["London", "Paris"]


async def test_R304_concurrent_saves_of_a_key_create_one_row(
    http: httpx2.AsyncClient,
) -> None:
    saves = [
        http.post("/api/v1/memories", json={"key": f"key {number % 3}", "value": f"v {number}"})
        for number in range(30)
    ]

    answers = await asyncio.gather(*saves)

    assert sorted(answer.status_code for answer in answers) == [200] * 27 + [201] * 3
    saved = [answer.json()["data"] for answer in answers]
    ids_by_key = {
        key: {each["id"] for each in saved if each["key"] == key}
        for key in ("key 0", "key 1", "key 2")
    }
    assert [len(ids) for ids in ids_by_key.values()] == [1, 1, 1]
    listed = (await http.get("/api/v1/memories")).json()["data"]["items"]
    assert {each["key"]: {each["id"]} for each in listed} == ids_by_key
    assert all(each in saved for each in listed)  # each shows what one of the saves wrote


async def test_R304_a_save_survives_a_concurrent_forget_of_its_key(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    first = await save_memory(http, "London", key="home")

    async with engine.writing(caller) as db:
        await forget_within(engine, db, caller, Ref(id=MemoryId(UUID(first["id"]))))
        saving = asyncio.create_task(
            http.post("/api/v1/memories", json={"key": "home", "value": "Paris"})
        )
        await wait_until_blocked(engine)
    answer = await saving

    assert answer.status_code == 201
    assert await list_values(http, key="home") == ["Paris"]
    await restore(engine, caller, Ref(id=MemoryId(UUID(first["id"]))))
    assert sorted(await list_values(http, key="home")) == ["London", "Paris"]


async def test_a_save_keeps_a_concurrent_change_of_the_same_key(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    first = await save_memory(http, "London", key="home")

    async with engine.writing(caller) as db:
        before = await memories.find(db, caller, Ref(id=MemoryId(UUID(first["id"]))), engine.now())
        assert before
        assert await memories.lock(db, caller, Ref(id=before.id))
        saving = asyncio.create_task(
            http.post("/api/v1/memories", json={"key": "home", "value": "Paris"})
        )
        await wait_until_blocked(engine)
        await edit_within(engine, db, caller, before, EditMemory(tags=("flat",)), None)
    answer = await saving

    assert answer.status_code == 200
    assert (answer.json()["data"]["value"], answer.json()["data"]["tags"]) == ("Paris", ["flat"])


async def test_R279_values_and_keys_have_a_maximum_length(http: httpx2.AsyncClient) -> None:
    limits = [("value", 10_000), ("key", 255)]
    for name, limit in limits:
        body = {"value": "v", name: "x" * limit}
        assert (await http.post("/api/v1/memories", json=body)).status_code == 201
        refused = await http.post("/api/v1/memories", json={**body, name: "x" * (limit + 1)})
        assert error_of(refused) == INVALID

    assert len(await list_values(http)) == 2


async def test_R281_a_category_is_any_text_and_defaults_to_fact(http: httpx2.AsyncClient) -> None:
    assert (await save_memory(http, "one"))["category"] == "fact"
    assert (await save_memory(http, "two", category="Über/alles 7"))["category"] == "Über/alles 7"
    assert await list_values(http, category="fact") == ["one"]


async def test_R282_lists_can_be_filtered_by_tags(http: httpx2.AsyncClient) -> None:
    await save_memory(http, "one", tags=["red", "blue"])
    await save_memory(http, "two", tags=["red"])
    await save_memory(http, "three")

    assert await list_values(http, tag="blue") == ["one"]
    assert sorted(await list_values(http, tags="red")) == ["one", "two"]


@pytest.mark.parametrize("importance", [0, 11, 5.5, "5", True, -1])
async def test_R283_importance_is_an_integer_from_1_to_10(
    http: httpx2.AsyncClient, importance: Any
) -> None:
    refused = await http.post("/api/v1/memories", json={"value": "v", "importance": importance})

    assert error_of(refused) == INVALID
    assert (await save_memory(http, "least", importance=1))["importance"] == 1
    assert (await save_memory(http, "most", importance=10))["importance"] == 10


@given(st.floats(min_value=0, max_value=1))
def test_R283_writing_back_the_shown_importance_does_not_change_it(importance: float) -> None:
    shown = shown_importance(importance)

    assert 1 <= shown <= 10
    assert shown_importance(shown / 10) == shown


async def test_R283_R284_R298_rank_then_pin_then_importance_then_recency_decide(
    http: httpx2.AsyncClient, clock: Clock
) -> None:
    await save_memory(http, "tea one", importance=9)
    clock.advance(SECOND)
    await save_memory(http, "tea two", importance=9)
    await save_memory(http, "tea three", importance=2, pinned=True)
    await save_memory(http, "tea four", importance=3)
    await save_memory(http, "tea tea tea", importance=1)

    assert await recall_values(http, "tea") == [
        "tea tea tea",
        "tea three",
        "tea two",
        "tea one",
        "tea four",
    ]


async def test_R285_an_expired_memory_is_not_found(http: httpx2.AsyncClient, clock: Clock) -> None:
    end = clock.at + timedelta(hours=1)
    memory = await save_memory(http, "a guest code", key="code", expiresAt=end.isoformat())
    clock.at = end - SECOND
    assert await list_values(http) == await recall_values(http, "guest") == ["a guest code"]

    clock.at = end + SECOND

    assert await list_values(http) == await recall_values(http, "guest") == []
    assert error_of(await http.get(f"/api/v1/memories/{memory['id']}")) == (404, "NOT_FOUND")
    assert (await save_memory(http, "another", key="code"))["id"] != memory["id"]
    past = await http.post(
        "/api/v1/memories", json={"value": "v", "expiresAt": (end - SECOND).isoformat()}
    )
    assert error_of(past) == INVALID


async def test_R286_R301_R303_the_source_is_stored_up_to_64_characters(
    http: httpx2.AsyncClient,
) -> None:
    given = [None, "manual", "auto", "crm-sync", "x" * 64, "x" * 65]

    shown = [
        (await save_memory(http, f"v{i}", source=each))["source"] for i, each in enumerate(given)
    ]

    assert shown == ["manual", "manual", "auto", "crm-sync", "x" * 64, "x" * 64]


async def test_R289_a_scope_is_global_project_or_agent(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    project, agent = await new_project(engine, caller), await new_agent(engine, caller)

    shown = [
        (await save_memory(http, "v", scope=scope, projectId=project, agentId=agent))["scope"]
        for scope in ("global", "project", "agent")
    ]

    assert shown == ["global", "project", "agent"]
    for scope in ("workspace", "thread", "", "GLOBAL", 1):
        refused = await http.post("/api/v1/memories", json={"value": "v", "scope": scope})
        assert error_of(refused) == INVALID
    for scope in ("project", "agent"):
        nameless = await http.post("/api/v1/memories", json={"value": "v", "scope": scope})
        assert error_of(nameless) == INVALID


async def test_R296_recall_searches_every_field(
    http: httpx2.AsyncClient, embedder: StubEmbedder
) -> None:
    """By full text alone: no text is near in meaning, and no field contains the query."""
    texts = ("in the value: walnut", "by key", "by summary", "by category", "by tag", "by none")
    embedder.table = {text: at_cosine(0.0, axis=at) for at, text in enumerate(texts)}
    embedder.table["walnuts"] = at_cosine(1.0)
    await save_memory(http, texts[0])
    await save_memory(http, texts[1], key="walnut")
    await save_memory(http, texts[2], summary="about a walnut")
    await save_memory(http, texts[3], category="walnut")
    await save_memory(http, texts[4], tags=["walnut"])
    await save_memory(http, texts[5], key="hazel", summary="a hazel", tags=["hazel"])

    assert sorted(await recall_values(http, "walnuts", limit=50)) == sorted(texts[:5])


async def test_R297_part_of_a_word_matches_and_wildcards_are_literal(
    http: httpx2.AsyncClient,
) -> None:
    await save_memory(http, "The Brandenburg concerto")
    await save_memory(http, "100% of_it")

    assert await recall_values(http, "DENBU") == ["The Brandenburg concerto"]
    assert await recall_values(http, "0%") == ["100% of_it"]
    assert await recall_values(http, "f_i") == ["100% of_it"]
    assert await recall_values(http, "f%i") == []
    assert await recall_values(http, "fxi") == []


async def test_R299_the_limit_defaults_to_5_and_is_capped_at_50(http: httpx2.AsyncClient) -> None:
    for number in range(60):
        await save_memory(http, f"tea {number}")

    assert len(await recall_values(http, "tea")) == 5
    assert len(await recall_values(http, "tea", limit=50)) == 50
    assert len(await recall_values(http, "tea", limit=10_000)) == 50
    none = await http.post("/api/v1/memories/recall", json={"query": "tea", "limit": 0})
    assert error_of(none) == INVALID


async def test_R300_recall_adds_matches_by_meaning(
    http: httpx2.AsyncClient, embedder: StubEmbedder
) -> None:
    embedder.table |= {
        "She drinks no milk": at_cosine(1.0),
        "lactose": at_cosine(0.95),
        "lactose free": at_cosine(0.1),
    }
    await save_memory(http, "She drinks no milk")
    await save_memory(http, "lactose free")

    assert await recall_values(http, "lactose") == ["lactose free", "She drinks no milk"]

    embedder.is_down = True
    assert await recall_values(http, "lactose") == ["lactose free"]


async def test_N31_N32_responses_have_an_envelope_and_lists_have_pages(
    http: httpx2.AsyncClient,
) -> None:
    created = [(await save_memory(http, f"number {number}"))["id"] for number in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        answer = await http.get(
            "/api/v1/memories", params={"limit": 2} | ({"cursor": cursor} if cursor else {})
        )
        page = answer.json()
        assert set(page) == {"success", "data"}
        assert set(page["data"]) == {"items", "nextCursor", "hasMore"}
        seen += [each["id"] for each in page["data"]["items"]]
        cursor = page["data"]["nextCursor"]
        assert page["data"]["hasMore"] is bool(cursor)
        if not cursor:
            break

    assert sorted(seen) == sorted(created)
    assert error_of(await http.get("/api/v1/nothing")) == (404, "NOT_FOUND")
    assert error_of(await http.post("/api/v1/memories", content=b"{")) == (
        415,
        "UNSUPPORTED_MEDIA_TYPE",
    )
    bad = await http.post(
        "/api/v1/memories", content=b"{", headers={"content-type": "application/json"}
    )
    assert error_of(bad) == (400, "BAD_REQUEST")
    large = await http.post("/api/v1/memories", json={"value": "x" * 2_000_000})
    assert error_of(large) == (413, "PAYLOAD_TOO_LARGE")


async def test_S42_a_cursor_works_only_for_its_own_list(http: httpx2.AsyncClient) -> None:
    for number in range(3):
        await save_memory(http, f"number {number}", tags=["n"])
    page = await http.get("/api/v1/memories", params={"limit": 1})
    cursor = page.json()["data"]["nextCursor"]

    for each in (cursor[:-4], "x", "", "é", cursor):
        answer = await http.get("/api/v1/memories", params={"cursor": each, "tag": "n"})
        assert error_of(answer) == INVALID


async def test_writing_back_the_shown_memory_changes_nothing(
    http: httpx2.AsyncClient, client: ApiClient, clock: Clock
) -> None:
    theirs = await create_memory(client.http, "Ada lives in London", importance=0.37)
    found = await http.get(f"/api/v1/memories/{theirs['id']}")
    clock.advance(SECOND)

    answer = await http.patch(f"/api/v1/memories/{theirs['id']}", json=found.json()["data"])

    assert answer.json() == found.json()
    assert (await client.http.get(f"/v1/memory/{theirs['id']}")).json() == theirs


async def test_a_patch_changes_only_the_given_fields(
    http: httpx2.AsyncClient, clock: Clock
) -> None:
    memory = await save_memory(http, "London", key="home", summary="where", importance=3)
    await save_memory(http, "Berlin", key="work")
    clock.advance(SECOND)
    path = f"/api/v1/memories/{memory['id']}"

    answer = await http.patch(path, json={"value": "Paris", "importance": 4, "pinned": True})

    changed = answer.json()["data"]
    assert changed == {
        **memory,
        "value": "Paris",
        "importance": 4,
        "pinned": True,
        "updatedAt": changed["updatedAt"],
    }
    assert error_of(await http.patch(path, json={"key": "work"})) == (409, "CONFLICT")
    assert (await http.patch(path, json={"key": "home2"})).json()["data"]["key"] == "home2"


async def test_N37_deleting_requires_the_right_and_hides_the_row(
    http: httpx2.AsyncClient, engine: Engine, server: Server, caller: Caller
) -> None:
    memory = await save_memory(http, "London", key="home")
    path = f"/api/v1/memories/{memory['id']}"
    reader = replace(caller, rights=frozenset({Right.READ, Right.WRITE}))
    async with client_of(engine, server, reader) as weak:
        assert error_of(await weak.delete(path)) == (403, "FORBIDDEN")

    answer = await http.delete(path)

    assert answer.json() == {"success": True, "data": {"id": memory["id"], "deleted": True}}
    assert error_of(await http.get(path)) == (404, "NOT_FOUND")
    assert await list_values(http) == await recall_values(http, "London") == []
    async with engine.reading(caller) as db:
        rows = await (
            await db.execute(
                "SELECT content FROM memory WHERE workspace_id = %s AND deleted_at IS NOT NULL",
                [caller.workspace_id],
            )
        ).fetchall()
    assert rows == [("London",)]
    assert (await save_memory(http, "Paris", key="home"))["id"] != memory["id"]


async def test_every_form_of_an_id_finds_the_memory(
    http: httpx2.AsyncClient, client: ApiClient
) -> None:
    theirs = await create_memory(client.http, "Ada lives in London")
    ours = (await http.get(f"/api/v1/memories/{theirs['id']}")).json()["data"]

    assert (await http.get(f"/api/v1/memories/{ours['id']}")).json()["data"] == ours
    assert (await client.http.get(f"/v1/memory/{ours['id']}")).json() == theirs
    for unknown in (str(uuid4()), "nonsense", "mem_aaaaaaaaaaaa"):
        answer = await http.get(f"/api/v1/memories/{unknown}")
        assert error_of(answer) == (404, "NOT_FOUND")


async def test_R277_a_memory_keeps_its_project_agent_and_session(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    project, agent = await new_project(engine, caller), await new_agent(engine, caller)
    session = await create_session(http, projectId=project, agentId=agent)

    saved = [
        await save_memory(http, "London", projectId=project),
        await save_memory(http, "Paris", agentId=agent),
        await save_memory(http, "Oslo", sessionId=session),
    ]

    assert [(each["projectId"], each["agentId"], each["sessionId"]) for each in saved] == [
        (project, None, None),
        (None, agent, None),
        (project, agent, session),
    ]
