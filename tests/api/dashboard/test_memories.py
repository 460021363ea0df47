"""Memories of a chat and of a workspace on the dashboard (R044-R090)."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recollect.conversations.messages import ListMessages, list_messages
from recollect.core.domain import Caller, Ref, Relation
from recollect.memories.links import Link
from recollect.memories.queries import memories
from recollect.memories.queries.memories import find_all
from recollect.memories.save import Save, save
from recollect.models.embedder import Vector
from recollect.models.embedder_registry import Embedders
from recollect.search.hybrid import Search, search
from recollect.search.semantic import Recall, recall
from recollect.tenancy.queries import orgs as orgs_queries
from recollect.tenancy.queries import workspaces as workspaces_queries
from recollect.worker import Worker
from tests.api.dashboard.conftest import DEADLINE, Dashboard, Object
from tests.support.clock import Clock
from tests.support.conversations import add_messages, new_chat
from tests.support.dashboard import connect_signed_in, error_of, is_login_page, new_user
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import connect, in_new_workspace, key_for, make_server, new_caller
from tests.support.routes import interface_named, routes_of
from tests.support.upstream import Answer, Endpoint

pytestmark = pytest.mark.anyio

ITEM = {"id", "content", "summary", "category", "source_type", "created_at", "updated_at"}
NOW = "2026-03-01T12:00:00.000000Z"


async def row(dashboard: Dashboard, memory_id: str) -> tuple[Any, ...] | None:
    """Return the stored row of a memory."""
    async with dashboard.engine.pool.reading(dashboard.caller.workspace_id) as db:
        cursor = await db.execute(
            "SELECT deleted_at, content, category, origin, metadata FROM memory"
            " WHERE workspace_id = %s AND code = %s",
            [dashboard.caller.workspace_id, memory_id.removeprefix("mem_")],
        )
        return await cursor.fetchone()


# Memories of a chat.


async def test_R044_R045_R058_a_message_can_be_saved_as_a_memory(dashboard: Dashboard) -> None:
    memory = await dashboard.remember_in_chat(messageId=f"msg_{dashboard.message.code}")

    found = await recall(
        dashboard.engine, dashboard.caller, Recall(DEADLINE, limit=5, threshold=0.9)
    )

    assert memory["content"] == DEADLINE
    assert memory["source_type"] == "user"
    assert [f"mem_{hit.memory.code}" for hit in found.hits] == [memory["id"]]
    page = await list_messages(
        dashboard.engine, dashboard.caller, Ref(id=dashboard.thread.id), ListMessages(limit=5)
    )
    assert [each.memory_code for each in page.messages] == [memory["id"].removeprefix("mem_")]


async def test_R054_R056_R057_a_given_text_is_stored_with_its_message(
    dashboard: Dashboard,
) -> None:
    """The example call of the specification."""
    response = await dashboard.http.post(
        f"{dashboard.chat}/memory",
        json={"messageId": f"msg_{dashboard.message.code}", "content": "Ship by March 15"},
    )

    assert response.status_code == 201
    assert response.json() == {
        "id": response.json()["id"],
        "content": "Ship by March 15",
        "summary": None,
        "category": None,
        "source_type": "user",
        "created_at": NOW,
        "updated_at": NOW,
        "source_chat_id": f"chat_{dashboard.thread.code}",
        "source_message_id": f"msg_{dashboard.message.code}",
        "workspace_id": f"ws_{dashboard.caller.workspace_id}",
        "pinned": False,
        "tags": [],
        "importance": 0.5,
        "score": None,
        "why": None,
    }
    assert len(response.json()["id"]) == len("mem_") + 24


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messageId": None, "content": None},
        {"category": "fact"},
        {"content": ""},
        {"content": "  "},
        {"content": 5},
        {"content": "x", "synthesize": "yes"},
        {"messageId": 5},
    ],
)
async def test_R055_a_message_or_a_text_is_required(dashboard: Dashboard, body: Object) -> None:
    response = await dashboard.http.post(f"{dashboard.chat}/memory", json=body)

    assert error_of(response) == (400, "invalid_request")
    assert await dashboard.listed() == []


async def test_a_message_of_another_chat_is_not_found(dashboard: Dashboard) -> None:
    other = await new_chat(dashboard.engine, dashboard.caller)
    [message] = await add_messages(dashboard.engine, dashboard.caller, other, "said elsewhere")

    responses = [
        await dashboard.http.post(f"{dashboard.chat}/memory", json={"messageId": name})
        for name in (f"msg_{message.code}", "msg_abc123", "msg_" + "a" * 24, "")
    ]

    assert [error_of(each) for each in responses] == [(404, "message_not_found")] * 4


async def test_R059_a_category_is_stored_unchanged(dashboard: Dashboard) -> None:
    odd = "Überraschung / Ω-42 "

    with_category = await dashboard.remember_in_chat(content="one text", category=odd)
    without_category = await dashboard.remember_in_chat(content="and another matter", category=None)

    assert (with_category["category"], without_category["category"]) == (odd, None)


async def test_R017_saving_a_duplicate_returns_the_existing_memory(dashboard: Dashboard) -> None:
    first = await dashboard.remember_in_chat(content=DEADLINE)

    again = await dashboard.http.post(f"{dashboard.chat}/memory", json={"content": DEADLINE})

    assert again.status_code == 200
    assert again.json() == first
    assert len(await dashboard.listed()) == 1


async def test_R060_R061_a_memory_is_synthesised_only_on_request(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    synthesis = {
        "content": "The project must ship by 15 March 2026.",
        "summary": "Project deadline",
    }
    endpoint.script = [Answer(json.dumps(synthesis))]

    plain = await with_model.remember_in_chat(messageId=f"msg_{with_model.message.code}")
    calls_before = len(endpoint.requests)
    memory = await with_model.remember_in_chat(
        messageId=f"msg_{with_model.message.code}", synthesize=True, category="fact"
    )

    assert plain["content"] == DEADLINE
    assert calls_before == 0
    assert len(endpoint.requests) == 1
    assert endpoint.requests[0].json["messages"][-1]["content"] == DEADLINE
    assert (memory["content"], memory["summary"]) == (synthesis["content"], synthesis["summary"])
    assert memory["category"] == "fact"


async def test_S71_control_characters_are_removed_before_synthesis(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    await with_model.remember_in_chat(content="Tea.\u2028Milk.\x1b[31m\x07\u202e", synthesize=True)

    assert endpoint.requests[0].json["messages"][-1]["content"] == "Tea.\nMilk."


async def test_R112_a_long_summary_of_the_model_is_stored_whole(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    first, second = "s" * 5_000, "t" * 9_000
    endpoint.script = [
        Answer(json.dumps({"content": "It is due on 15 March 2026.", "summary": first})),
        Answer(json.dumps({"content": "It is due in mid-March.", "summary": second})),
    ]

    memory = await with_model.remember_in_chat(
        messageId=f"msg_{with_model.message.code}", synthesize=True
    )
    again = await with_model.http.post(
        f"{with_model.chat}/memories/{memory['id']}/rerun-extraction"
    )

    assert memory["summary"] == first
    assert again.json()["summary"] == second
    assert [each["summary"] for each in await with_model.listed()] == [second]


@pytest.mark.parametrize(
    "answer", ["no JSON at all", "{", '{"content": ""}', '{"content": 5}', "[]"]
)
async def test_R061_an_invalid_model_answer_does_not_lose_the_memory(
    with_model: Dashboard, endpoint: Endpoint, answer: str
) -> None:
    endpoint.script = [Answer(answer)]

    memory = await with_model.remember_in_chat(
        content="I live in Paris. I love tea.", synthesize=True
    )

    assert "Paris" in memory["content"]
    assert memory["summary"]


async def test_R061_without_a_model_the_synthesis_uses_rules(dashboard: Dashboard) -> None:
    memory = await dashboard.remember_in_chat(
        content="Hello there! I live in Paris now.", synthesize=True
    )

    assert "lives in Paris" in memory["content"]
    assert "Hello" not in memory["content"]
    assert memory["summary"]


async def test_R114_times_are_iso_8601_in_utc_to_the_microsecond(
    dashboard: Dashboard, clock: Clock
) -> None:
    clock.advance(timedelta(microseconds=123_457))
    memory = await dashboard.remember_in_chat(content="a statement")
    clock.advance(timedelta(days=1))

    changed = await dashboard.http.patch(
        f"{dashboard.chat}/memories/{memory['id']}", json={"content": "another statement"}
    )

    created_at = "2026-03-01T12:00:00.123457Z"
    assert (memory["created_at"], memory["updated_at"]) == (created_at, created_at)
    for shown in (
        changed.json(),
        (await dashboard.listed_in_chat())[0],
        (await dashboard.listed())[0],
    ):
        assert (shown["created_at"], shown["updated_at"]) == (
            created_at,
            "2026-03-02T12:00:00.123457Z",
        )


async def test_R062_R063_R064_R065_R066_a_chat_lists_its_own_memories_newest_first(
    dashboard: Dashboard, clock: Clock
) -> None:
    first = await dashboard.remember_in_chat(content="the oldest of them")
    clock.advance(timedelta(seconds=1))
    deleted = await dashboard.remember_in_chat(content="one that is deleted")
    clock.advance(timedelta(seconds=1))
    last = await dashboard.remember_in_chat(content="something newer")
    other = await new_chat(dashboard.engine, dashboard.caller)
    await save(dashboard.engine, dashboard.caller, Save("of another chat", thread=Ref(id=other.id)))
    await dashboard.remember("of no chat")
    await dashboard.http.delete(f"{dashboard.chat}/memories/{deleted['id']}")

    response = await dashboard.http.get(f"{dashboard.chat}/memories")
    paged = await dashboard.http.get(
        f"{dashboard.chat}/memories", params={"cursor": "x", "limit": 1}
    )

    assert set(response.json()) == {"memories"}
    assert [each["id"] for each in response.json()["memories"]] == [last["id"], first["id"]]
    assert all(set(each) == ITEM for each in response.json()["memories"])
    assert paged.json() == response.json()


async def test_R067_R088_a_patch_changes_only_the_content(
    dashboard: Dashboard, clock: Clock
) -> None:
    memory = await dashboard.remember_in_chat(content="the old text", category="fact")
    clock.advance(timedelta(minutes=5))

    for path in (f"{dashboard.chat}/memories", f"{dashboard.workspace}/memories"):
        response = await dashboard.http.patch(
            f"{path}/{memory['id']}",
            json={"content": f"new at {path}", "category": "x", "source_type": "model"},
        )
        assert response.status_code == 200
        assert response.json() == {
            **memory,
            "content": f"new at {path}",
            "updated_at": "2026-03-01T12:05:00.000000Z",
        }

    assert (await dashboard.listed_in_chat())[0][
        "content"
    ] == f"new at {dashboard.workspace}/memories"


@pytest.mark.parametrize("body", [{}, {"content": None}, {"content": ""}, {"content": 5}, []])
async def test_R068_a_patch_requires_content(dashboard: Dashboard, body: Any) -> None:
    memory = await dashboard.remember_in_chat(content="as it was")

    for path in (dashboard.chat, dashboard.workspace):
        response = await dashboard.http.patch(f"{path}/memories/{memory['id']}", json=body)
        assert error_of(response) == (400, "invalid_request")
    assert (await dashboard.listed())[0]["content"] == "as it was"


async def test_R069_a_patched_memory_is_embedded_again(
    dashboard: Dashboard, embedder: StubEmbedder
) -> None:
    far: Vector = at_cosine(0.0)
    embedder.table |= {
        "old text": far,
        "new text": at_cosine(1.0),
        "near the new": at_cosine(1.0),
        "near the old": far,
    }
    memory = await dashboard.remember_in_chat(content="old text")

    await dashboard.http.patch(
        f"{dashboard.chat}/memories/{memory['id']}", json={"content": "new text"}
    )
    new = await recall(dashboard.engine, dashboard.caller, Recall("near the new", 5, threshold=0.5))
    old = await recall(dashboard.engine, dashboard.caller, Recall("near the old", 5, threshold=0.5))

    assert [hit.memory.content for hit in new.hits] == ["new text"]
    assert old.hits == []


async def test_R070_R071_R072_R090_a_deleted_memory_is_hidden_but_still_stored(
    dashboard: Dashboard,
) -> None:
    of_chat = await dashboard.remember_in_chat(content="Ada drinks tea")
    of_workspace = await dashboard.remember("Bob rides a bicycle")

    responses = [
        await dashboard.http.delete(f"{dashboard.chat}/memories/{of_chat['id']}"),
        await dashboard.http.delete(f"{dashboard.workspace}/memories/{of_workspace['id']}"),
    ]

    assert [(each.status_code, each.content) for each in responses] == [(204, b"")] * 2
    for memory in (of_chat, of_workspace):
        stored = await row(dashboard, memory["id"])
        assert stored
        assert stored[0] is not None
        detail = await dashboard.http.get(f"{dashboard.workspace}/memories/{memory['id']}")
        assert error_of(detail) == (404, "memory_not_found")
        again = await dashboard.http.delete(f"{dashboard.workspace}/memories/{memory['id']}")
        assert error_of(again) == (404, "memory_not_found")
    assert await dashboard.listed() == []
    assert await dashboard.listed_in_chat() == []
    assert await dashboard.listed(q="Ada drinks tea") == []
    found = await recall(dashboard.engine, dashboard.caller, Recall("Ada drinks tea", 5))
    hybrid = await search(dashboard.engine, dashboard.caller, Search("Ada drinks tea"))
    assert (found.hits, hybrid.findings) == ([], [])


async def test_a_deleted_memory_can_be_restored(dashboard: Dashboard) -> None:
    memory = await dashboard.remember("Ada drinks tea")
    path = f"{dashboard.workspace}/memories/{memory['id']}"
    await dashboard.http.delete(path)

    response = await dashboard.http.post(f"{path}/restore")
    again = await dashboard.http.post(f"{path}/restore")

    assert response.status_code == 200
    assert response.json()["content"] == "Ada drinks tea"
    assert [each["id"] for each in await dashboard.listed(q="tea")] == [memory["id"]]
    assert error_of(again) == (404, "memory_not_found")


async def test_R073_R074_R075_R076_extraction_can_be_rerun_on_the_source_message(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    endpoint.script = [Answer('{"content": "Due in mid-March.", "summary": "the first summary"}')]
    plain = await with_model.remember_in_chat(messageId=f"msg_{with_model.message.code}")
    memory = await with_model.remember_in_chat(
        messageId=f"msg_{with_model.message.code}", synthesize=True
    )
    endpoint.script = [
        Answer('{"content": "other content", "summary": "another summary"}'),
        Answer('{"content": "Due on 15 March 2026.", "summary": "the second summary"}'),
    ]

    again_plain = await with_model.http.post(
        f"{with_model.chat}/memories/{plain['id']}/rerun-extraction"
    )
    again = await with_model.http.post(
        f"{with_model.chat}/memories/{memory['id']}/rerun-extraction"
    )

    assert [each.json["messages"][-1]["content"] for each in endpoint.requests] == [DEADLINE] * 3
    assert again_plain.json() == {**plain, "summary": "another summary"}
    assert again.json() == {
        **memory,
        "content": "Due on 15 March 2026.",
        "summary": "the second summary",
    }
    assert len(await with_model.listed()) == 2


async def test_R076_a_rerun_uses_a_new_embedding_model(
    dashboard: Dashboard, embedder: StubEmbedder
) -> None:
    memory = await dashboard.remember_in_chat(messageId=f"msg_{dashboard.message.code}")
    other = StubEmbedder({DEADLINE: at_cosine(1.0), "when?": at_cosine(0.95)}, model="newer")
    moved = replace(dashboard.engine, embedders=Embedders(other, {"old": embedder}))

    async with await connect_signed_in(make_server(moved), moved, dashboard.caller) as http:
        response = await http.post(f"{dashboard.chat}/memories/{memory['id']}/rerun-extraction")
    await Worker(moved, slots=1).run_until_empty()
    found = await recall(moved, dashboard.caller, Recall("when?", 5, threshold=0.9))

    assert response.status_code == 200
    assert response.json()["summary"] == DEADLINE
    assert [f"mem_{hit.memory.code}" for hit in found.hits] == [memory["id"]]


async def test_R053_chat_routes_find_only_memories_of_that_chat(dashboard: Dashboard) -> None:
    memory = await dashboard.remember_in_chat(content="of the first chat")
    other = await new_chat(dashboard.engine, dashboard.caller)
    path = f"/chat/api/chat_{other.code}/memories/{memory['id']}"

    responses = [
        await dashboard.http.patch(path, json={"content": "changed from elsewhere"}),
        await dashboard.http.delete(path),
        await dashboard.http.post(f"{path}/rerun-extraction"),
    ]

    assert [error_of(each) for each in responses] == [(404, "memory_not_found")] * 3
    assert (await dashboard.listed_in_chat())[0]["content"] == "of the first chat"


# Memories of a workspace.


async def test_R079_a_workspace_has_the_memories_of_all_its_chats(dashboard: Dashboard) -> None:
    other = await new_chat(dashboard.engine, dashboard.caller)
    texts = ["of the first chat", "quite another matter", "not from any chat"]
    await dashboard.remember_in_chat(content=texts[0])
    await dashboard.http.post(f"/chat/api/chat_{other.code}/memory", json={"content": texts[1]})
    await dashboard.remember(texts[2])

    found = await dashboard.listed()

    assert {each["content"] for each in found} == set(texts)


async def test_R081_R082_a_memory_of_a_workspace_has_no_chat(dashboard: Dashboard) -> None:
    memory = await dashboard.remember("Quarterly review meets every Thursday", category="fact")
    bare = await dashboard.remember("The office is in Bonn")
    refused = await dashboard.http.post(
        f"{dashboard.workspace}/memories", json={"category": "fact"}
    )

    assert memory["source_chat_id"] is None
    assert memory["source_message_id"] is None
    assert memory["workspace_id"] == f"ws_{dashboard.caller.workspace_id}"
    assert (memory["source_type"], memory["category"]) == ("user", "fact")
    assert bare["category"] is None
    assert error_of(refused) == (400, "invalid_request")


async def test_R083_R084_R085_R086_R087_pages_neither_skip_nor_repeat_memories(
    dashboard: Dashboard, clock: Clock
) -> None:
    for number in range(45):
        await save(dashboard.engine, dashboard.caller, Save(f"number {number}"))
        clock.advance(timedelta(seconds=number % 2))  # some share the same time
    seen: list[Object] = []
    sizes: list[int] = []
    cursor: str | None = None

    while True:
        query = {"limit": 20} | ({"cursor": cursor} if cursor else {})
        page = (await dashboard.http.get(f"{dashboard.workspace}/memories", params=query)).json()
        assert set(page) == {"items", "next_cursor", "has_more"}
        seen += page["items"]
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
        await dashboard.remember(f"inserted between two pages, {len(seen)}")
        await dashboard.http.delete(f"{dashboard.workspace}/memories/{seen[-1]['id']}")
        if not page["has_more"]:
            break

    assert sizes == [20, 20, 5]
    assert cursor is None
    assert {each["content"] for each in seen} == {f"number {number}" for number in range(45)}
    times = [each["created_at"] for each in seen]
    assert times == sorted(times, reverse=True)
    assert set(seen[0]) >= {"id", "content", "summary", "category", "source_type", "created_at"}
    assert len(await dashboard.listed()) == 20
    assert len(await dashboard.listed(limit=1)) == 1
    assert len(await dashboard.listed(limit=500)) == 45


@pytest.mark.parametrize(
    "query", [{"cursor": "x"}, {"cursor": "é"}, {"limit": 0}, {"limit": "x"}, {"cursor": "W10"}]
)
async def test_an_invalid_cursor_or_limit_is_rejected(dashboard: Dashboard, query: Object) -> None:
    response = await dashboard.http.get(f"{dashboard.workspace}/memories", params=query)

    assert error_of(response) == (400, "invalid_request")


async def test_S42_a_cursor_works_only_for_its_user_and_filters(dashboard: Dashboard) -> None:
    await dashboard.remember("one thing", category="fact")
    await dashboard.remember("and something else", category="fact")
    path = f"{dashboard.workspace}/memories"
    cursor = (await dashboard.http.get(path, params={"limit": 1})).json()["next_cursor"]
    user_id, _ = await new_user(dashboard.engine, dashboard.caller, is_admin=True)
    other = replace(dashboard.caller, user_id=user_id)

    filtered = await dashboard.http.get(path, params={"cursor": cursor, "category": "fact"})
    async with await connect_signed_in(dashboard.server, dashboard.engine, other) as http:
        of_another = await http.get(path, params={"cursor": cursor})

    assert error_of(filtered) == (400, "invalid_request")
    assert error_of(of_another) == (400, "invalid_request")


@pytest.mark.parametrize("length", [2_000, 2_001, 50_000])
async def test_R089_long_content_is_stored_completely(dashboard: Dashboard, length: int) -> None:
    memory = await dashboard.remember("short")
    path = f"{dashboard.workspace}/memories/{memory['id']}"

    response = await dashboard.http.patch(path, json={"content": "x" * length})
    beyond = await dashboard.http.patch(path, json={"content": "x" * 50_001})

    assert response.json()["content"] == "x" * length
    assert error_of(beyond) == (413, "too_large")


async def test_memories_can_be_searched_and_filtered(dashboard: Dashboard) -> None:
    fact = await dashboard.remember("Ada drinks green tea", category="fact")
    here = await dashboard.remember_in_chat(
        content="Bob prefers black coffee", category="preference"
    )
    await save(
        dashboard.engine, dashboard.caller, Save("Cy keeps bees", origin_label="mcp", tags=["bees"])
    )
    chat = f"chat_{dashboard.thread.code}"

    found = await dashboard.listed(q="green tea")
    by_category = await dashboard.listed(category="preference")
    by_chat = await dashboard.listed(chat=chat)
    by_tag = await dashboard.listed(tag="bees")
    by_both = await dashboard.listed(q="tea", category="preference")
    facets = (await dashboard.http.get(f"{dashboard.workspace}/facets")).json()

    assert found[0]["id"] == fact["id"]
    assert found[0]["score"] > 0
    assert found[0]["why"]["words"]["rank"] == 1
    assert [each["id"] for each in by_category] == [here["id"]]
    assert [each["id"] for each in by_chat] == [here["id"]]
    assert [each["content"] for each in by_tag] == ["Cy keeps bees"]
    assert fact["id"] not in [each["id"] for each in by_both]
    assert await dashboard.listed(source_type="auto_research") == []
    assert len(await dashboard.listed(source_type="user")) == 3
    assert await dashboard.listed(chat="chat_" + "a" * 24) == []
    assert facets == {
        "categories": [{"name": "fact", "count": 1}, {"name": "preference", "count": 1}],
        "source_types": [{"name": "user", "count": 3}],
        "tags": [{"name": "bees", "count": 1}],
        "chats": [{"id": chat, "title": None, "count": 1}],
    }


async def test_R106_the_count_matches_the_list(dashboard: Dashboard) -> None:
    async def count() -> int:
        return (await dashboard.http.get(f"{dashboard.workspace}/memories/count")).json()["count"]

    empty = await count()
    saved = [await dashboard.remember(text) for text in ("one", "another two", "and number three")]
    full = await count()
    await dashboard.http.delete(f"{dashboard.workspace}/memories/{saved[0]['id']}")

    assert (empty, full, await count()) == (0, 3, 2)


async def test_S76_the_detail_view_shows_history_and_source_messages(
    dashboard: Dashboard, clock: Clock
) -> None:
    memory = await dashboard.remember_in_chat(
        messageId=f"msg_{dashboard.message.code}", category="fact"
    )
    path = f"{dashboard.workspace}/memories/{memory['id']}"
    clock.advance(timedelta(minutes=1))
    await dashboard.http.patch(path, json={"content": "Now it is April 1"})
    clock.advance(timedelta(minutes=1))
    pinned = await dashboard.http.post(f"{path}/pin", json={"pinned": True})

    detail = (await dashboard.http.get(path)).json()

    assert pinned.json()["pinned"] is True
    assert detail["pinned"] is True
    history = [(each["event"], each["version"], each["content"]) for each in detail["history"]]
    assert history == [
        ("memory.updated", 3, "Now it is April 1"),
        ("memory.updated", 2, "Now it is April 1"),
        ("memory.created", 1, DEADLINE),
    ]
    assert all(each["actor"].startswith("user-") for each in detail["history"])
    assert detail["messages"] == [
        {
            "id": f"msg_{dashboard.message.code}",
            "chat_id": f"chat_{dashboard.thread.code}",
            "role": "user",
            "content": DEADLINE,
        }
    ]
    assert (detail["replaces"], detail["replaced_by"], detail["links"]) == ([], [], [])
    assert detail["valid_from"] == NOW


async def test_the_timeline_shows_old_content_and_history_keeps_recent_versions(
    dashboard: Dashboard, clock: Clock
) -> None:
    memory = await dashboard.remember("Take 0")
    path = f"{dashboard.workspace}/memories/{memory['id']}"
    for number in range(1, 25):
        clock.advance(timedelta(days=1))
        await dashboard.http.patch(path, json={"content": f"Take {number}"})

    history = (await dashboard.http.get(path)).json()["history"]
    then = {"as_of": (clock() - timedelta(days=3, hours=1)).isoformat()}
    timeline = (await dashboard.http.get(f"{dashboard.workspace}/timeline", params=then)).json()
    clock.advance(timedelta(days=1))
    await dashboard.http.patch(path, json={"content": "Take 23"})
    reverted = (await dashboard.http.get(path)).json()["history"]

    contents = [each["content"] for each in history]
    assert contents == [f"Take {number}" for number in range(24, 3, -1)] + [None] * 4
    assert [each["content"] for each in timeline["items"]] == ["Take 20"]
    assert timeline["first_at"] == NOW
    assert [each["content"] for each in reverted[:3]] == ["Take 23", "Take 24", "Take 23"]


async def test_a_superseded_memory_is_shown_in_detail_and_on_the_timeline(
    dashboard: Dashboard, clock: Clock
) -> None:
    old = await dashboard.remember("Ada lives in London")
    clock.advance(timedelta(days=1))
    new = await save(
        dashboard.engine,
        dashboard.caller,
        Save(
            "Ada lives in Paris",
            links=[Link(Ref(code=old["id"].removeprefix("mem_")), Relation.UPDATES)],
        ),
    )
    new_id = f"mem_{new.memory.code}"

    of_new = (await dashboard.http.get(f"{dashboard.workspace}/memories/{new_id}")).json()
    of_old = (await dashboard.http.get(f"{dashboard.workspace}/memories/{old['id']}")).json()

    async def at(time: str) -> list[str]:
        response = await dashboard.http.get(
            f"{dashboard.workspace}/timeline", params={"as_of": time}
        )
        return [each["content"] for each in response.json()["items"]]

    assert [each["id"] for each in of_new["replaces"]] == [old["id"]]
    assert [(each["relation"], each["direction"]) for each in of_new["links"]] == [
        ("updates", "out")
    ]
    assert of_old["superseded_by"] == new_id
    assert of_old["valid_until"] == "2026-03-02T12:00:00.000000Z"
    assert await at("2026-03-01T18:00:00Z") == ["Ada lives in London"]
    assert await at("2026-03-02T18:00:00Z") == ["Ada lives in Paris"]
    assert await at("2026-02-01T00:00:00Z") == []
    wrong_time = await dashboard.http.get(
        f"{dashboard.workspace}/timeline", params={"as_of": "yesterday"}
    )
    assert error_of(wrong_time) == (400, "invalid_request")
    timeline = (
        await dashboard.http.get(f"{dashboard.workspace}/timeline", params={"limit": 1})
    ).json()
    assert timeline["items"][0]["learned_at"] == "2026-03-02T12:00:00.000000Z"


# Access.


async def test_R049_the_router_serves_none_of_these_routes_and_its_keys_open_none(
    dashboard: Dashboard,
) -> None:
    requests = await requests_for_every_route(dashboard)
    before = await dashboard.listed()
    key = await key_for(dashboard.engine, dashboard.caller.workspace_id)

    async with connect(dashboard.server, Authorization=f"Bearer {key}") as http:
        document = (await http.get("/openapi/router.json")).json()
        responses = [await http.request(method, path, json=body) for method, path, body in requests]
        routed = [await http.request(*_at_the_router(dashboard, each)) for each in requests]

    assert "/v1/chat/completions" in document["paths"]
    assert [path for path in document["paths"] if "/chat/api" in path] == []
    assert [each.status_code for each in responses if not is_login_page(each)] == []
    assert {each.status_code for each in routed} == {404}
    assert await dashboard.listed() == before


def _at_the_router(
    dashboard: Dashboard, request: tuple[str, str, Object | None]
) -> tuple[str, str]:
    """The same path below the router's prefix for a project."""
    method, path, _ = request
    return method, f"/proj_{dashboard.caller.org_id}/v1{path}"


async def requests_for_every_route(dashboard: Dashboard) -> list[tuple[str, str, Object | None]]:
    """Return a valid request for each route with a chat, memory or workspace id."""
    memory = await dashboard.remember_in_chat(content=f"a text of {dashboard.caller.user_id}")
    memory_id = memory["id"]
    return [
        ("GET", f"{dashboard.chat}/memories", None),
        ("POST", f"{dashboard.chat}/memory", {"content": "by an outsider"}),
        ("PATCH", f"{dashboard.chat}/memories/{memory_id}", {"content": "by an outsider"}),
        ("POST", f"{dashboard.chat}/memories/{memory_id}/rerun-extraction", None),
        ("DELETE", f"{dashboard.chat}/memories/{memory_id}", None),
        ("GET", f"{dashboard.workspace}/memories", None),
        ("GET", f"{dashboard.workspace}/memories?q=text", None),
        ("POST", f"{dashboard.workspace}/memories", {"content": "by an outsider"}),
        ("GET", f"{dashboard.workspace}/memories/{memory_id}", None),
        ("PATCH", f"{dashboard.workspace}/memories/{memory_id}", {"content": "by an outsider"}),
        ("POST", f"{dashboard.workspace}/memories/{memory_id}/pin", {"pinned": True}),
        ("POST", f"{dashboard.workspace}/memories/{memory_id}/restore", None),
        ("DELETE", f"{dashboard.workspace}/memories/{memory_id}", None),
        ("GET", f"{dashboard.workspace}/memories/count", None),
        ("GET", f"{dashboard.workspace}/facets", None),
        ("GET", f"{dashboard.workspace}/timeline", None),
    ]


async def test_S41_no_route_is_open_to_users_outside_the_workspace(dashboard: Dashboard) -> None:
    """Tries an admin of another org, and a member of the org without access."""
    requests = await requests_for_every_route(dashboard)
    closed = await in_new_workspace(dashboard.engine, dashboard.caller)
    user_id, _ = await new_user(dashboard.engine, dashboard.caller)
    async with dashboard.engine.pool.everywhere() as db:
        await orgs_queries.set_workspaces(db, dashboard.caller.org_id, is_on=True)
        await workspaces_queries.add_workspace_member(db, closed.workspace_id, user_id)
    outsiders = [
        await new_caller(dashboard.engine),
        Caller(dashboard.caller.org_id, user_id, closed.workspace_id, frozenset()),
    ]

    for outsider in outsiders:
        async with await connect_signed_in(dashboard.server, dashboard.engine, outsider) as http:
            for method, path, body in requests:
                response = await http.request(method, path, json=body)
                thing = (
                    "chat_not_found" if path.startswith(dashboard.chat) else "workspace_not_found"
                )
                assert error_of(response) == (404, thing), (method, path)
    assert [each["content"] for each in await dashboard.listed()] == [
        f"a text of {dashboard.caller.user_id}"
    ]


async def test_S41_memories_of_another_workspace_are_not_found(dashboard: Dashboard) -> None:
    memory = await dashboard.remember("of the first workspace")
    other = await in_new_workspace(dashboard.engine, dashboard.caller)
    path = f"/chat/api/workspaces/ws_{other.workspace_id}/memories/{memory['id']}"

    responses = [
        await dashboard.http.get(path),
        await dashboard.http.patch(path, json={"content": "x"}),
        await dashboard.http.delete(path),
        await dashboard.http.post(f"{path}/pin", json={"pinned": True}),
        await dashboard.http.post(f"{path}/restore"),
    ]

    assert [error_of(each) for each in responses] == [(404, "memory_not_found")] * 5


async def test_R048_every_route_returns_the_sign_in_page_without_a_session(
    dashboard: Dashboard,
) -> None:
    interface = interface_named(dashboard.server, "dashboard")
    routes = [each for each in routes_of(interface) if each.path.startswith("/chat/api")]
    del dashboard.http.headers["cookie"]

    responses = {
        str(route): await dashboard.http.request(
            route.method,
            route.path.replace("{workspace_id}", f"ws_{dashboard.caller.workspace_id}")
            .replace("{chat_id}", f"chat_{dashboard.thread.code}")
            .replace("{memory_id}", "mem_" + "a" * 24),
        )
        for route in routes
    }

    assert len(responses) > 15
    assert [name for name, response in responses.items() if not is_login_page(response)] == []


async def test_R080_a_chat_without_a_workspace_belongs_to_the_default_one(
    dashboard: Dashboard,
) -> None:
    """Every chat has a workspace: the default one if the request names none."""
    memory = await dashboard.remember_in_chat(content="said in some chat")

    found = await dashboard.listed(q="some chat")

    assert [each["id"] for each in found] == [memory["id"]]
    async with dashboard.engine.reading(dashboard.caller) as db:
        known = await memories.find(
            db,
            dashboard.caller,
            Ref(code=memory["id"].removeprefix("mem_")),
            dashboard.engine.now(),
        )
        assert known
        assert await find_all(db, dashboard.caller, [known.id], dashboard.engine.now())
