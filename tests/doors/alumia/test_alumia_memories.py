"""Key/value memories: what the document says of rows, fields, saving and recall."""

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

from recollect.domain import Caller, MemoryId, Ref, Right
from recollect.doors.alumia.wire import shown_importance
from recollect.engine.change import Change, change_within
from recollect.engine.core import Engine
from recollect.engine.forget import forget_within, restore
from recollect.server import Server
from recollect.store import memories
from tests.support.alumia import (
    client_of,
    complaint,
    kept,
    new_agent,
    new_project,
    recalled,
    session,
    values,
)
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import Visitor, until_blocked
from tests.support.statebase import remember

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
INVALID = (422, "VALIDATION_ERROR")


@pytest.fixture
async def http(engine: Engine, server: Server, caller: Caller) -> Any:
    async with client_of(engine, server, caller) as client:
        yield client


async def test_R277_a_memory_has_an_org_and_a_user_and_may_have_the_rest(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    memory = await kept(http, "Ada lives in London")

    assert (memory["orgId"], memory["userId"]) == (str(caller.org_id), str(caller.user_id))
    assert (memory["projectId"], memory["agentId"], memory["sessionId"]) == (None, None, None)
    for column in ("org_id", "user_id"):
        with pytest.raises(psycopg.errors.NotNullViolation):
            async with engine.writing(caller) as db:
                await db.execute(
                    f"UPDATE memory SET {column} = NULL WHERE workspace_id = %s",  # pyright: ignore[reportArgumentType]
                    [caller.workspace_id],
                )


async def test_R278_R304_R307_a_save_of_the_same_key_updates_the_row(
    http: httpx2.AsyncClient, clock: Clock
) -> None:
    first = await kept(http, "London", key="home", tags=["place"], importance=8)
    clock.advance(SECOND)

    answer = await http.post("/api/v1/memories", json={"key": "home", "value": "Paris"})

    second = answer.json()["data"]
    assert answer.status_code == 200
    assert second == {**first, "value": "Paris", "updatedAt": second["updatedAt"]}
    assert second["updatedAt"] > first["updatedAt"]
    assert await values(http, key="home") == ["Paris"]
    assert await values(http) == ["Paris"]
    assert await recalled(http, "London") == []
    assert await recalled(http, "Paris") == ["Paris"]


async def test_R305_another_key_scope_or_context_makes_a_new_row(
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

    made = [await kept(http, "London", **each) for each in variations]
    again = [await kept(http, "London", **each) for each in variations]

    assert len({each["id"] for each in made}) == len(variations)
    assert again == made


async def test_R306_dedupe_create_forces_a_new_row(http: httpx2.AsyncClient) -> None:
    first = await kept(http, "London", key="home")
    answer = await http.post(
        "/api/v1/memories", json={"key": "home", "value": "Paris", "dedupe": "create"}
    )

    assert answer.status_code == 201
    assert answer.json()["data"]["id"] != first["id"]
    assert sorted(await values(http, key="home")) == ["London", "Paris"]


async def test_R304_two_saves_of_a_key_at_one_instant_make_one_row(
    http: httpx2.AsyncClient,
) -> None:
    saves = [
        http.post("/api/v1/memories", json={"key": f"key {number % 3}", "value": f"v {number}"})
        for number in range(30)
    ]

    answers = await asyncio.gather(*saves)

    assert sorted(answer.status_code for answer in answers) == [200] * 27 + [201] * 3
    assert len(await values(http, limit=100)) == 3


async def test_R304_a_save_of_a_key_that_is_just_being_forgotten_is_kept(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    first = await kept(http, "London", key="home")

    async with engine.writing(caller) as db:
        await forget_within(engine, db, caller, Ref(id=MemoryId(UUID(first["id"]))))
        saving = asyncio.create_task(
            http.post("/api/v1/memories", json={"key": "home", "value": "Paris"})
        )
        await until_blocked(engine)
    answer = await saving

    assert answer.status_code == 201
    assert await values(http, key="home") == ["Paris"]
    await restore(engine, caller, Ref(id=MemoryId(UUID(first["id"]))))
    assert sorted(await values(http, key="home")) == ["London", "Paris"]


async def test_a_save_of_a_key_that_is_just_being_changed_loses_nothing_of_the_change(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    first = await kept(http, "London", key="home")

    async with engine.writing(caller) as db:
        before = await memories.find(db, caller, Ref(id=MemoryId(UUID(first["id"]))), engine.now())
        assert before
        assert await memories.lock(db, caller, Ref(id=before.id))
        saving = asyncio.create_task(
            http.post("/api/v1/memories", json={"key": "home", "value": "Paris"})
        )
        await until_blocked(engine)
        await change_within(engine, db, caller, before, Change(tags=("flat",)), None)
    answer = await saving

    assert answer.status_code == 200
    assert (answer.json()["data"]["value"], answer.json()["data"]["tags"]) == ("Paris", ["flat"])


async def test_R279_D11_a_value_has_a_limit_and_so_has_a_key(http: httpx2.AsyncClient) -> None:
    limits = [("value", 10_000), ("key", 255)]
    for name, most in limits:
        body = {"value": "v", name: "x" * most}
        assert (await http.post("/api/v1/memories", json=body)).status_code == 201
        refused = await http.post("/api/v1/memories", json={**body, name: "x" * (most + 1)})
        assert complaint(refused) == INVALID

    assert len(await values(http)) == 2


async def test_R281_a_category_is_free_and_fact_by_default(http: httpx2.AsyncClient) -> None:
    assert (await kept(http, "one"))["category"] == "fact"
    assert (await kept(http, "two", category="Über/alles 7"))["category"] == "Über/alles 7"
    assert await values(http, category="fact") == ["one"]


async def test_R282_tags_filter(http: httpx2.AsyncClient) -> None:
    await kept(http, "one", tags=["red", "blue"])
    await kept(http, "two", tags=["red"])
    await kept(http, "three")

    assert await values(http, tag="blue") == ["one"]
    assert sorted(await values(http, tags="red")) == ["one", "two"]


@pytest.mark.parametrize("importance", [0, 11, 5.5, "5", True, -1])
async def test_R283_importance_is_a_whole_number_from_1_to_10(
    http: httpx2.AsyncClient, importance: Any
) -> None:
    refused = await http.post("/api/v1/memories", json={"value": "v", "importance": importance})

    assert complaint(refused) == INVALID
    assert (await kept(http, "least", importance=1))["importance"] == 1
    assert (await kept(http, "most", importance=10))["importance"] == 10


@given(st.floats(min_value=0, max_value=1))
def test_R283_what_was_shown_and_written_back_is_shown_again(importance: float) -> None:
    shown = shown_importance(importance)

    assert 1 <= shown <= 10
    assert shown_importance(shown / 10) == shown


async def test_R283_R284_R298_each_step_of_the_order_decides(
    http: httpx2.AsyncClient, clock: Clock
) -> None:
    await kept(http, "tea one", importance=9)
    clock.advance(SECOND)
    await kept(http, "tea two", importance=9)
    await kept(http, "tea three", importance=2, pinned=True)
    await kept(http, "tea four", importance=3)
    await kept(http, "tea tea tea", importance=1)

    assert await recalled(http, "tea") == [
        "tea tea tea",
        "tea three",
        "tea two",
        "tea one",
        "tea four",
    ]


async def test_R285_a_row_past_its_time_is_gone(http: httpx2.AsyncClient, clock: Clock) -> None:
    end = clock.at + timedelta(hours=1)
    memory = await kept(http, "a guest code", key="code", expiresAt=end.isoformat())
    clock.at = end - SECOND
    assert await values(http) == await recalled(http, "guest") == ["a guest code"]

    clock.at = end + SECOND

    assert await values(http) == await recalled(http, "guest") == []
    assert complaint(await http.get(f"/api/v1/memories/{memory['id']}")) == (404, "NOT_FOUND")
    assert (await kept(http, "another", key="code"))["id"] != memory["id"]
    past = await http.post(
        "/api/v1/memories", json={"value": "v", "expiresAt": (end - SECOND).isoformat()}
    )
    assert complaint(past) == INVALID


async def test_R286_R301_R303_the_source_is_kept_and_cut_to_64_characters(
    http: httpx2.AsyncClient,
) -> None:
    given = [None, "manual", "auto", "crm-sync", "x" * 64, "x" * 65]

    shown = [(await kept(http, f"v{i}", source=each))["source"] for i, each in enumerate(given)]

    assert shown == ["manual", "manual", "auto", "crm-sync", "x" * 64, "x" * 64]


async def test_R289_a_scope_is_one_of_three(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    project, agent = await new_project(engine, caller), await new_agent(engine, caller)

    shown = [
        (await kept(http, "v", scope=scope, projectId=project, agentId=agent))["scope"]
        for scope in ("global", "project", "agent")
    ]

    assert shown == ["global", "project", "agent"]
    for scope in ("workspace", "thread", "", "GLOBAL", 1):
        refused = await http.post("/api/v1/memories", json={"value": "v", "scope": scope})
        assert complaint(refused) == INVALID
    for scope in ("project", "agent"):
        nameless = await http.post("/api/v1/memories", json={"value": "v", "scope": scope})
        assert complaint(nameless) == INVALID


async def test_R296_each_field_is_searched(http: httpx2.AsyncClient) -> None:
    await kept(http, "in the value: walnut")
    await kept(http, "by key", key="walnut")
    await kept(http, "by summary", summary="about a walnut")
    await kept(http, "by category", category="walnut")
    await kept(http, "by tag", tags=["walnut"])

    assert sorted(await recalled(http, "walnut")) == [
        "by category",
        "by key",
        "by summary",
        "by tag",
        "in the value: walnut",
    ]


async def test_R297_part_of_a_word_is_found_and_wildcards_are_letters(
    http: httpx2.AsyncClient,
) -> None:
    await kept(http, "The Brandenburg concerto")
    await kept(http, "100% of_it")

    assert await recalled(http, "DENBU") == ["The Brandenburg concerto"]
    assert await recalled(http, "0%") == ["100% of_it"]
    assert await recalled(http, "f_i") == ["100% of_it"]
    assert await recalled(http, "f%i") == []
    assert await recalled(http, "fxi") == []


async def test_R299_five_at_first_fifty_at_most(http: httpx2.AsyncClient) -> None:
    for number in range(60):
        await kept(http, f"tea {number}")

    assert len(await recalled(http, "tea")) == 5
    assert len(await recalled(http, "tea", limit=50)) == 50
    assert len(await recalled(http, "tea", limit=10_000)) == 50
    none = await http.post("/api/v1/memories/recall", json={"query": "tea", "limit": 0})
    assert complaint(none) == INVALID


async def test_R300_meaning_is_found_on_top_of_words(
    http: httpx2.AsyncClient, embedder: StubEmbedder
) -> None:
    embedder.table |= {
        "She drinks no milk": at_cosine(1.0),
        "lactose": at_cosine(0.95),
        "lactose free": at_cosine(0.1),
    }
    await kept(http, "She drinks no milk")
    await kept(http, "lactose free")

    assert await recalled(http, "lactose") == ["lactose free", "She drinks no milk"]

    embedder.is_down = True
    assert await recalled(http, "lactose") == ["lactose free"]


async def test_N31_N32_answers_have_their_envelope_and_lists_their_pages(
    http: httpx2.AsyncClient,
) -> None:
    made = [(await kept(http, f"number {number}"))["id"] for number in range(5)]
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

    assert sorted(seen) == sorted(made)
    assert complaint(await http.get("/api/v1/nothing")) == (404, "NOT_FOUND")
    assert complaint(await http.post("/api/v1/memories", content=b"{")) == (
        415,
        "UNSUPPORTED_MEDIA_TYPE",
    )
    bad = await http.post(
        "/api/v1/memories", content=b"{", headers={"content-type": "application/json"}
    )
    assert complaint(bad) == (400, "BAD_REQUEST")
    large = await http.post("/api/v1/memories", json={"value": "x" * 2_000_000})
    assert complaint(large) == (413, "PAYLOAD_TOO_LARGE")


async def test_S42_a_cursor_is_good_for_its_own_list_alone(http: httpx2.AsyncClient) -> None:
    for number in range(3):
        await kept(http, f"number {number}", tags=["n"])
    page = await http.get("/api/v1/memories", params={"limit": 1})
    cursor = page.json()["data"]["nextCursor"]

    for each in (cursor[:-4], "x", "", "é", cursor):
        answer = await http.get("/api/v1/memories", params={"cursor": each, "tag": "n"})
        assert complaint(answer) == INVALID


async def test_writing_back_what_was_shown_changes_nothing(
    http: httpx2.AsyncClient, visitor: Visitor, clock: Clock
) -> None:
    theirs = await remember(visitor.http, "Ada lives in London", importance=0.37)
    found = await http.get(f"/api/v1/memories/{theirs['id']}")
    clock.advance(SECOND)

    answer = await http.patch(f"/api/v1/memories/{theirs['id']}", json=found.json()["data"])

    assert answer.json() == found.json()
    assert (await visitor.http.get(f"/v1/memory/{theirs['id']}")).json() == theirs


async def test_a_patch_changes_what_it_names(http: httpx2.AsyncClient, clock: Clock) -> None:
    memory = await kept(http, "London", key="home", summary="where", importance=3)
    await kept(http, "Berlin", key="work")
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
    assert complaint(await http.patch(path, json={"key": "work"})) == (409, "CONFLICT")
    assert (await http.patch(path, json={"key": "home2"})).json()["data"]["key"] == "home2"


async def test_N37_D18_a_delete_needs_the_right_and_hides_the_row(
    http: httpx2.AsyncClient, engine: Engine, server: Server, caller: Caller
) -> None:
    memory = await kept(http, "London", key="home")
    path = f"/api/v1/memories/{memory['id']}"
    reader = replace(caller, rights=frozenset({Right.READ, Right.WRITE}))
    async with client_of(engine, server, reader) as weak:
        assert complaint(await weak.delete(path)) == (403, "FORBIDDEN")

    answer = await http.delete(path)

    assert answer.json() == {"success": True, "data": {"id": memory["id"], "deleted": True}}
    assert complaint(await http.get(path)) == (404, "NOT_FOUND")
    assert await values(http) == await recalled(http, "London") == []
    async with engine.reading(caller) as db:
        rows = await (
            await db.execute(
                "SELECT content FROM memory WHERE workspace_id = %s AND deleted_at IS NOT NULL",
                [caller.workspace_id],
            )
        ).fetchall()
    assert rows == [("London",)]
    assert (await kept(http, "Paris", key="home"))["id"] != memory["id"]


async def test_every_spelling_of_an_id_finds_the_memory(
    http: httpx2.AsyncClient, visitor: Visitor
) -> None:
    theirs = await remember(visitor.http, "Ada lives in London")
    ours = (await http.get(f"/api/v1/memories/{theirs['id']}")).json()["data"]

    assert (await http.get(f"/api/v1/memories/{ours['id']}")).json()["data"] == ours
    assert (await visitor.http.get(f"/v1/memory/{ours['id']}")).json() == theirs
    for unknown in (str(uuid4()), "nonsense", "mem_aaaaaaaaaaaa"):
        answer = await http.get(f"/api/v1/memories/{unknown}")
        assert complaint(answer) == (404, "NOT_FOUND")


async def test_R277_a_memory_keeps_the_session_it_was_saved_in(
    http: httpx2.AsyncClient,
) -> None:
    told = await session(http)

    memory = await kept(http, "London", sessionId=told)

    assert memory["sessionId"] == told
