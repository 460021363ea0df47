"""The memories of a chat and of a workspace, as the dashboard's document has them (R044-R090)."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recollect.domain import Caller, Ref, Relation
from recollect.engine.link import Link
from recollect.engine.messages import ListMessages, list_messages
from recollect.engine.recall import Recall, recall
from recollect.engine.save import Save, save
from recollect.engine.search import Search, search
from recollect.models.embed import Vector
from recollect.models.registry import Embedders
from recollect.store import identity, memories
from recollect.store.memories import find_all
from recollect.worker import Worker
from tests.doors.dashboard.conftest import DEADLINE, Desk, Object
from tests.support.chats import new_chat, say
from tests.support.clock import Clock
from tests.support.dashboard import browse, is_login_page, new_user, wrong
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import neighbour, new_caller, serve
from tests.support.routes import door_named, routes_of
from tests.support.upstream import Endpoint, Say

pytestmark = pytest.mark.anyio

ITEM = {"id", "content", "summary", "category", "source_type", "created_at", "updated_at"}
NOW = "2026-03-01T12:00:00.000000Z"


async def row(desk: Desk, memory_id: str) -> tuple[Any, ...] | None:
    """What the table has: deletion, version, vector."""
    async with desk.engine.pool.reading(desk.caller.workspace_id) as db:
        cursor = await db.execute(
            "SELECT deleted_at, content, category, origin, metadata FROM memory"
            " WHERE workspace_id = %s AND code = %s",
            [desk.caller.workspace_id, memory_id.removeprefix("mem_")],
        )
        return await cursor.fetchone()


# Of a chat.


async def test_R044_R045_R058_a_message_becomes_a_memory_the_model_finds(desk: Desk) -> None:
    made = await desk.remember_here(messageId=f"msg_{desk.message.code}")

    found = await recall(desk.engine, desk.caller, Recall(DEADLINE, limit=5, threshold=0.9))

    assert made["content"] == DEADLINE
    assert made["source_type"] == "user"
    assert [f"mem_{hit.memory.code}" for hit in found.hits] == [made["id"]]
    page = await list_messages(
        desk.engine, desk.caller, Ref(id=desk.thread.id), ListMessages(limit=5)
    )
    assert [each.memory_code for each in page.messages] == [made["id"].removeprefix("mem_")]


async def test_R054_R056_R057_an_explicit_text_is_stored_and_its_message_linked(
    desk: Desk,
) -> None:
    """The document's own call."""
    answer = await desk.http.post(
        f"{desk.chat}/memory",
        json={"messageId": f"msg_{desk.message.code}", "content": "Ship by March 15"},
    )

    assert answer.status_code == 201
    assert answer.json() == {
        "id": answer.json()["id"],
        "content": "Ship by March 15",
        "summary": None,
        "category": None,
        "source_type": "user",
        "created_at": NOW,
        "updated_at": NOW,
        "source_chat_id": f"chat_{desk.thread.code}",
        "source_message_id": f"msg_{desk.message.code}",
        "workspace_id": f"ws_{desk.caller.workspace_id}",
        "pinned": False,
        "tags": [],
        "importance": 0.5,
        "score": None,
        "why": None,
    }
    assert len(answer.json()["id"]) == len("mem_") + 24


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
async def test_R055_a_message_or_a_text_must_be_given(desk: Desk, body: Object) -> None:
    answer = await desk.http.post(f"{desk.chat}/memory", json=body)

    assert wrong(answer) == (400, "invalid_request")
    assert await desk.listed() == []


async def test_a_message_of_another_chat_is_none_of_this_ones(desk: Desk) -> None:
    other = await new_chat(desk.engine, desk.caller)
    [message] = await say(desk.engine, desk.caller, other, "said elsewhere")

    answers = [
        await desk.http.post(f"{desk.chat}/memory", json={"messageId": name})
        for name in (f"msg_{message.code}", "msg_abc123", "msg_" + "a" * 24, "")
    ]

    assert [wrong(each) for each in answers] == [(404, "message_not_found")] * 4


async def test_R059_a_category_is_kept_as_it_is_written(desk: Desk) -> None:
    odd = "Überraschung / Ω-42 "

    with_one = await desk.remember_here(content="one text", category=odd)
    without = await desk.remember_here(content="and another matter", category=None)

    assert (with_one["category"], without["category"]) == (odd, None)


async def test_R017_a_repetition_hands_back_what_is_there(desk: Desk) -> None:
    first = await desk.remember_here(content=DEADLINE)

    again = await desk.http.post(f"{desk.chat}/memory", json={"content": DEADLINE})

    assert again.status_code == 200
    assert again.json() == first
    assert len(await desk.listed()) == 1


async def test_R060_R061_synthesis_is_asked_for_or_not_done(
    modelled: Desk, endpoint: Endpoint
) -> None:
    told = {"content": "The project must ship by 15 March 2026.", "summary": "Project deadline"}
    endpoint.script = [Say(json.dumps(told))]

    plain = await modelled.remember_here(messageId=f"msg_{modelled.message.code}")
    asked_before = len(endpoint.asked)
    made = await modelled.remember_here(
        messageId=f"msg_{modelled.message.code}", synthesize=True, category="fact"
    )

    assert plain["content"] == DEADLINE
    assert asked_before == 0
    assert len(endpoint.asked) == 1
    assert endpoint.asked[0].json["messages"][-1]["content"] == DEADLINE
    assert (made["content"], made["summary"]) == (told["content"], told["summary"])
    assert made["category"] == "fact"


@pytest.mark.parametrize("said", ["no JSON at all", "{", '{"content": ""}', '{"content": 5}', "[]"])
async def test_R061_a_model_that_talks_nonsense_costs_nobody_the_memory(
    modelled: Desk, endpoint: Endpoint, said: str
) -> None:
    endpoint.script = [Say(said)]

    made = await modelled.remember_here(content="I live in Paris. I love tea.", synthesize=True)

    assert "Paris" in made["content"]
    assert made["summary"]


async def test_R061_without_a_model_the_synthesis_is_made_by_rule(desk: Desk) -> None:
    made = await desk.remember_here(content="Hello there! I live in Paris now.", synthesize=True)

    assert "lives in Paris" in made["content"]
    assert "Hello" not in made["content"]
    assert made["summary"]


async def test_R062_R063_R064_R065_R066_a_chat_lists_its_own_newest_first(
    desk: Desk, clock: Clock
) -> None:
    first = await desk.remember_here(content="the oldest of them")
    clock.advance(timedelta(seconds=1))
    gone = await desk.remember_here(content="one that is deleted")
    clock.advance(timedelta(seconds=1))
    last = await desk.remember_here(content="something newer")
    other = await new_chat(desk.engine, desk.caller)
    await save(desk.engine, desk.caller, Save("of another chat", thread=Ref(id=other.id)))
    await desk.remember("of no chat")
    await desk.http.delete(f"{desk.chat}/memories/{gone['id']}")

    answer = await desk.http.get(f"{desk.chat}/memories")
    paged = await desk.http.get(f"{desk.chat}/memories", params={"cursor": "x", "limit": 1})

    assert set(answer.json()) == {"memories"}
    assert [each["id"] for each in answer.json()["memories"]] == [last["id"], first["id"]]
    assert all(set(each) == ITEM for each in answer.json()["memories"])
    assert paged.json() == answer.json()


async def test_R067_R088_a_patch_replaces_the_content_and_nothing_else(
    desk: Desk, clock: Clock
) -> None:
    made = await desk.remember_here(content="the old text", category="fact")
    clock.advance(timedelta(minutes=5))

    for path in (f"{desk.chat}/memories", f"{desk.workspace}/memories"):
        answer = await desk.http.patch(
            f"{path}/{made['id']}",
            json={"content": f"new at {path}", "category": "x", "source_type": "model"},
        )
        assert answer.status_code == 200
        assert answer.json() == {
            **made,
            "content": f"new at {path}",
            "updated_at": "2026-03-01T12:05:00.000000Z",
        }

    assert (await desk.listed_here())[0]["content"] == f"new at {desk.workspace}/memories"


@pytest.mark.parametrize("body", [{}, {"content": None}, {"content": ""}, {"content": 5}, []])
async def test_R068_a_patch_needs_content(desk: Desk, body: Any) -> None:
    made = await desk.remember_here(content="as it was")

    for path in (desk.chat, desk.workspace):
        answer = await desk.http.patch(f"{path}/memories/{made['id']}", json=body)
        assert wrong(answer) == (400, "invalid_request")
    assert (await desk.listed())[0]["content"] == "as it was"


async def test_R069_a_patch_moves_the_memory_to_its_new_meaning(
    desk: Desk, embedder: StubEmbedder
) -> None:
    far: Vector = at_cosine(0.0)
    embedder.table |= {
        "old text": far,
        "new text": at_cosine(1.0),
        "near the new": at_cosine(1.0),
        "near the old": far,
    }
    made = await desk.remember_here(content="old text")

    await desk.http.patch(f"{desk.chat}/memories/{made['id']}", json={"content": "new text"})
    new = await recall(desk.engine, desk.caller, Recall("near the new", 5, threshold=0.5))
    old = await recall(desk.engine, desk.caller, Recall("near the old", 5, threshold=0.5))

    assert [hit.memory.content for hit in new.hits] == ["new text"]
    assert old.hits == []


async def test_R070_R071_R072_R090_a_deleted_memory_is_hidden_everywhere_and_kept(
    desk: Desk,
) -> None:
    of_chat = await desk.remember_here(content="Ada drinks tea")
    of_workspace = await desk.remember("Bob rides a bicycle")

    answers = [
        await desk.http.delete(f"{desk.chat}/memories/{of_chat['id']}"),
        await desk.http.delete(f"{desk.workspace}/memories/{of_workspace['id']}"),
    ]

    assert [(each.status_code, each.content) for each in answers] == [(204, b"")] * 2
    for made in (of_chat, of_workspace):
        kept = await row(desk, made["id"])
        assert kept
        assert kept[0] is not None
        detail = await desk.http.get(f"{desk.workspace}/memories/{made['id']}")
        assert wrong(detail) == (404, "memory_not_found")
        again = await desk.http.delete(f"{desk.workspace}/memories/{made['id']}")
        assert wrong(again) == (404, "memory_not_found")
    assert await desk.listed() == []
    assert await desk.listed_here() == []
    assert await desk.listed(q="Ada drinks tea") == []
    found = await recall(desk.engine, desk.caller, Recall("Ada drinks tea", 5))
    hybrid = await search(desk.engine, desk.caller, Search("Ada drinks tea"))
    assert (found.hits, hybrid.findings) == ([], [])


async def test_a_deleted_memory_can_be_brought_back(desk: Desk) -> None:
    made = await desk.remember("Ada drinks tea")
    path = f"{desk.workspace}/memories/{made['id']}"
    await desk.http.delete(path)

    answer = await desk.http.post(f"{path}/restore")
    again = await desk.http.post(f"{path}/restore")

    assert answer.status_code == 200
    assert answer.json()["content"] == "Ada drinks tea"
    assert [each["id"] for each in await desk.listed(q="tea")] == [made["id"]]
    assert wrong(again) == (404, "memory_not_found")


async def test_R073_R074_R075_R076_extraction_is_rerun_on_the_message_it_came_from(
    modelled: Desk, endpoint: Endpoint
) -> None:
    endpoint.script = [Say('{"content": "Due in mid-March.", "summary": "the first summary"}')]
    plain = await modelled.remember_here(messageId=f"msg_{modelled.message.code}")
    made = await modelled.remember_here(messageId=f"msg_{modelled.message.code}", synthesize=True)
    endpoint.script = [
        Say('{"content": "other content", "summary": "another summary"}'),
        Say('{"content": "Due on 15 March 2026.", "summary": "the second summary"}'),
    ]

    again_plain = await modelled.http.post(
        f"{modelled.chat}/memories/{plain['id']}/rerun-extraction"
    )
    again = await modelled.http.post(f"{modelled.chat}/memories/{made['id']}/rerun-extraction")

    assert [each.json["messages"][-1]["content"] for each in endpoint.asked] == [DEADLINE] * 3
    assert again_plain.json() == {**plain, "summary": "another summary"}
    assert again.json() == {
        **made,
        "content": "Due on 15 March 2026.",
        "summary": "the second summary",
    }
    assert len(await modelled.listed()) == 2


async def test_R076_a_rerun_picks_up_a_new_embedding_model(
    desk: Desk, embedder: StubEmbedder
) -> None:
    made = await desk.remember_here(messageId=f"msg_{desk.message.code}")
    other = StubEmbedder({DEADLINE: at_cosine(1.0), "when?": at_cosine(0.95)}, model="newer")
    moved = replace(desk.engine, embedders=Embedders(other, {"old": embedder}))

    async with await browse(serve(moved), moved, desk.caller) as http:
        answer = await http.post(f"{desk.chat}/memories/{made['id']}/rerun-extraction")
    await Worker(moved, slots=1).run_until_empty()
    found = await recall(moved, desk.caller, Recall("when?", 5, threshold=0.9))

    assert answer.status_code == 200
    assert answer.json()["summary"] == DEADLINE
    assert [f"mem_{hit.memory.code}" for hit in found.hits] == [made["id"]]


async def test_R053_routes_of_a_chat_act_inside_it_alone(desk: Desk) -> None:
    made = await desk.remember_here(content="of the first chat")
    other = await new_chat(desk.engine, desk.caller)
    path = f"/chat/api/chat_{other.code}/memories/{made['id']}"

    answers = [
        await desk.http.patch(path, json={"content": "changed from elsewhere"}),
        await desk.http.delete(path),
        await desk.http.post(f"{path}/rerun-extraction"),
    ]

    assert [wrong(each) for each in answers] == [(404, "memory_not_found")] * 3
    assert (await desk.listed_here())[0]["content"] == "of the first chat"


# Of a workspace.


async def test_R079_a_workspace_has_the_memories_of_all_its_chats(desk: Desk) -> None:
    other = await new_chat(desk.engine, desk.caller)
    texts = ["of the first chat", "quite another matter", "said by nobody in a chat"]
    await desk.remember_here(content=texts[0])
    await desk.http.post(f"/chat/api/chat_{other.code}/memory", json={"content": texts[1]})
    await desk.remember(texts[2])

    found = await desk.listed()

    assert {each["content"] for each in found} == set(texts)


async def test_R081_R082_a_memory_of_a_workspace_has_no_chat(desk: Desk) -> None:
    made = await desk.remember("Quarterly review meets every Thursday", category="fact")
    bare = await desk.remember("The office is in Bonn")
    refused = await desk.http.post(f"{desk.workspace}/memories", json={"category": "fact"})

    assert made["source_chat_id"] is None
    assert made["source_message_id"] is None
    assert made["workspace_id"] == f"ws_{desk.caller.workspace_id}"
    assert (made["source_type"], made["category"]) == ("user", "fact")
    assert bare["category"] is None
    assert wrong(refused) == (400, "invalid_request")


async def test_R083_R084_R085_R086_R087_pages_neither_skip_nor_repeat(
    desk: Desk, clock: Clock
) -> None:
    for number in range(45):
        await save(desk.engine, desk.caller, Save(f"number {number}"))
        clock.advance(timedelta(seconds=number % 2))  # some at the very same time
    seen: list[Object] = []
    sizes: list[int] = []
    cursor: str | None = None

    while True:
        query = {"limit": 20} | ({"cursor": cursor} if cursor else {})
        page = (await desk.http.get(f"{desk.workspace}/memories", params=query)).json()
        assert set(page) == {"items", "next_cursor", "has_more"}
        seen += page["items"]
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
        await desk.remember(f"inserted in the middle of the walk, {len(seen)}")
        await desk.http.delete(f"{desk.workspace}/memories/{seen[-1]['id']}")
        if not page["has_more"]:
            break

    assert sizes == [20, 20, 5]
    assert cursor is None
    assert {each["content"] for each in seen} == {f"number {number}" for number in range(45)}
    times = [each["created_at"] for each in seen]
    assert times == sorted(times, reverse=True)
    assert set(seen[0]) >= {"id", "content", "summary", "category", "source_type", "created_at"}
    assert len(await desk.listed()) == 20
    assert len(await desk.listed(limit=1)) == 1
    assert len(await desk.listed(limit=500)) == 45


@pytest.mark.parametrize(
    "query", [{"cursor": "x"}, {"cursor": "é"}, {"limit": 0}, {"limit": "x"}, {"cursor": "W10"}]
)
async def test_a_page_that_cannot_be_is_explained(desk: Desk, query: Object) -> None:
    answer = await desk.http.get(f"{desk.workspace}/memories", params=query)

    assert wrong(answer) == (400, "invalid_request")


async def test_S42_a_cursor_belongs_to_who_asked_and_to_what_was_asked(desk: Desk) -> None:
    await desk.remember("one thing", category="fact")
    await desk.remember("and something else", category="fact")
    path = f"{desk.workspace}/memories"
    cursor = (await desk.http.get(path, params={"limit": 1})).json()["next_cursor"]
    user_id, _ = await new_user(desk.engine, desk.caller, is_admin=True)
    other = replace(desk.caller, user_id=user_id)

    filtered = await desk.http.get(path, params={"cursor": cursor, "category": "fact"})
    async with await browse(desk.server, desk.engine, other) as http:
        of_another = await http.get(path, params={"cursor": cursor})

    assert wrong(filtered) == (400, "invalid_request")
    assert wrong(of_another) == (400, "invalid_request")


@pytest.mark.parametrize("length", [2_000, 2_001, 50_000])
async def test_R089_long_contents_are_stored_whole(desk: Desk, length: int) -> None:
    made = await desk.remember("short")
    path = f"{desk.workspace}/memories/{made['id']}"

    answer = await desk.http.patch(path, json={"content": "x" * length})
    beyond = await desk.http.patch(path, json={"content": "x" * 50_001})

    assert answer.json()["content"] == "x" * length
    assert wrong(beyond) == (413, "too_large")


async def test_memories_are_found_and_told_apart(desk: Desk) -> None:
    fact = await desk.remember("Ada drinks green tea", category="fact")
    here = await desk.remember_here(content="Bob prefers black coffee", category="preference")
    await save(desk.engine, desk.caller, Save("Cy keeps bees", origin_label="mcp", tags=["bees"]))
    chat = f"chat_{desk.thread.code}"

    found = await desk.listed(q="green tea")
    by_category = await desk.listed(category="preference")
    by_chat = await desk.listed(chat=chat)
    by_tag = await desk.listed(tag="bees")
    by_both = await desk.listed(q="tea", category="preference")
    facets = (await desk.http.get(f"{desk.workspace}/facets")).json()

    assert found[0]["id"] == fact["id"]
    assert found[0]["score"] > 0
    assert found[0]["why"]["words"]["rank"] == 1
    assert [each["id"] for each in by_category] == [here["id"]]
    assert [each["id"] for each in by_chat] == [here["id"]]
    assert [each["content"] for each in by_tag] == ["Cy keeps bees"]
    assert fact["id"] not in [each["id"] for each in by_both]
    assert await desk.listed(source_type="auto_research") == []
    assert len(await desk.listed(source_type="user")) == 3
    assert await desk.listed(chat="chat_" + "a" * 24) == []
    assert facets == {
        "categories": [{"name": "fact", "count": 1}, {"name": "preference", "count": 1}],
        "source_types": [{"name": "user", "count": 3}],
        "tags": [{"name": "bees", "count": 1}],
        "chats": [{"id": chat, "title": None, "count": 1}],
    }


async def test_R106_the_count_is_that_of_the_list(desk: Desk) -> None:
    async def count() -> int:
        return (await desk.http.get(f"{desk.workspace}/memories/count")).json()["count"]

    at_first = await count()
    made = [await desk.remember(text) for text in ("one", "another two", "and number three")]
    full = await count()
    await desk.http.delete(f"{desk.workspace}/memories/{made[0]['id']}")

    assert (at_first, full, await count()) == (0, 3, 2)


async def test_S76_all_there_is_to_know_of_a_memory(desk: Desk, clock: Clock) -> None:
    made = await desk.remember_here(messageId=f"msg_{desk.message.code}", category="fact")
    path = f"{desk.workspace}/memories/{made['id']}"
    clock.advance(timedelta(minutes=1))
    await desk.http.patch(path, json={"content": "Now it is April 1"})
    clock.advance(timedelta(minutes=1))
    pinned = await desk.http.post(f"{path}/pin", json={"pinned": True})

    detail = (await desk.http.get(path)).json()

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
            "id": f"msg_{desk.message.code}",
            "chat_id": f"chat_{desk.thread.code}",
            "role": "user",
            "content": DEADLINE,
        }
    ]
    assert (detail["replaces"], detail["replaced_by"], detail["links"]) == ([], [], [])
    assert detail["valid_from"] == NOW


async def test_a_memory_is_seen_in_the_words_of_the_time_and_of_many_changes_the_last_are_kept(
    desk: Desk, clock: Clock
) -> None:
    made = await desk.remember("Take 0")
    path = f"{desk.workspace}/memories/{made['id']}"
    for number in range(1, 25):
        clock.advance(timedelta(days=1))
        await desk.http.patch(path, json={"content": f"Take {number}"})

    history = (await desk.http.get(path)).json()["history"]
    then = {"as_of": (clock() - timedelta(days=3, hours=1)).isoformat()}
    timeline = (await desk.http.get(f"{desk.workspace}/timeline", params=then)).json()
    clock.advance(timedelta(days=1))
    await desk.http.patch(path, json={"content": "Take 23"})
    back = (await desk.http.get(path)).json()["history"]

    known = [each["content"] for each in history]
    assert known == [f"Take {number}" for number in range(24, 3, -1)] + [None] * 4
    assert [each["content"] for each in timeline["items"]] == ["Take 20"]
    assert timeline["first_at"] == NOW
    assert [each["content"] for each in back[:3]] == ["Take 23", "Take 24", "Take 23"]


async def test_what_a_memory_replaced_is_shown_and_seen_at_its_time(
    desk: Desk, clock: Clock
) -> None:
    old = await desk.remember("Ada lives in London")
    clock.advance(timedelta(days=1))
    new = await save(
        desk.engine,
        desk.caller,
        Save(
            "Ada lives in Paris",
            links=[Link(Ref(code=old["id"].removeprefix("mem_")), Relation.UPDATES)],
        ),
    )
    new_id = f"mem_{new.memory.code}"

    of_new = (await desk.http.get(f"{desk.workspace}/memories/{new_id}")).json()
    of_old = (await desk.http.get(f"{desk.workspace}/memories/{old['id']}")).json()

    async def at(time: str) -> list[str]:
        answer = await desk.http.get(f"{desk.workspace}/timeline", params={"as_of": time})
        return [each["content"] for each in answer.json()["items"]]

    assert [each["id"] for each in of_new["replaces"]] == [old["id"]]
    assert [(each["relation"], each["direction"]) for each in of_new["links"]] == [
        ("updates", "out")
    ]
    assert of_old["superseded_by"] == new_id
    assert of_old["valid_until"] == "2026-03-02T12:00:00.000000Z"
    assert await at("2026-03-01T18:00:00Z") == ["Ada lives in London"]
    assert await at("2026-03-02T18:00:00Z") == ["Ada lives in Paris"]
    assert await at("2026-02-01T00:00:00Z") == []
    wrong_time = await desk.http.get(f"{desk.workspace}/timeline", params={"as_of": "yesterday"})
    assert wrong(wrong_time) == (400, "invalid_request")
    timeline = (await desk.http.get(f"{desk.workspace}/timeline", params={"limit": 1})).json()
    assert timeline["items"][0]["learned_at"] == "2026-03-02T12:00:00.000000Z"


# Who may.


async def test_R049_the_router_has_none_of_these_routes(desk: Desk) -> None:
    router = door_named(desk.server, "router")

    assert [each for each in routes_of(router) if "/chat/api" in each.path] == []


async def everything(desk: Desk) -> list[tuple[str, str, Object | None]]:
    """A request for each route that names a chat, a memory or a workspace, and would succeed."""
    made = await desk.remember_here(content=f"a text of {desk.caller.user_id}")
    mine = made["id"]
    return [
        ("GET", f"{desk.chat}/memories", None),
        ("POST", f"{desk.chat}/memory", {"content": "by a stranger"}),
        ("PATCH", f"{desk.chat}/memories/{mine}", {"content": "by a stranger"}),
        ("POST", f"{desk.chat}/memories/{mine}/rerun-extraction", None),
        ("DELETE", f"{desk.chat}/memories/{mine}", None),
        ("GET", f"{desk.workspace}/memories", None),
        ("GET", f"{desk.workspace}/memories?q=text", None),
        ("POST", f"{desk.workspace}/memories", {"content": "by a stranger"}),
        ("GET", f"{desk.workspace}/memories/{mine}", None),
        ("PATCH", f"{desk.workspace}/memories/{mine}", {"content": "by a stranger"}),
        ("POST", f"{desk.workspace}/memories/{mine}/pin", {"pinned": True}),
        ("POST", f"{desk.workspace}/memories/{mine}/restore", None),
        ("DELETE", f"{desk.workspace}/memories/{mine}", None),
        ("GET", f"{desk.workspace}/memories/count", None),
        ("GET", f"{desk.workspace}/facets", None),
        ("GET", f"{desk.workspace}/timeline", None),
    ]


async def test_S41_nobody_outside_a_workspace_reaches_into_it(desk: Desk) -> None:
    """Another org's admin, and a member of the org who was not let in."""
    requests = await everything(desk)
    closed = await neighbour(desk.engine, desk.caller)
    user_id, _ = await new_user(desk.engine, desk.caller)
    async with desk.engine.pool.everywhere() as db:
        await identity.set_workspaces(db, desk.caller.org_id, is_on=True)
        await identity.add_workspace_member(db, closed.workspace_id, user_id)
    strangers = [
        await new_caller(desk.engine),
        Caller(desk.caller.org_id, user_id, closed.workspace_id, frozenset()),
    ]

    for stranger in strangers:
        async with await browse(desk.server, desk.engine, stranger) as http:
            for method, path, body in requests:
                answer = await http.request(method, path, json=body)
                thing = "chat_not_found" if path.startswith(desk.chat) else "workspace_not_found"
                assert wrong(answer) == (404, thing), (method, path)
    assert [each["content"] for each in await desk.listed()] == [f"a text of {desk.caller.user_id}"]


async def test_S41_memories_of_one_workspace_are_none_of_anothers(desk: Desk) -> None:
    made = await desk.remember("of the first workspace")
    other = await neighbour(desk.engine, desk.caller)
    path = f"/chat/api/workspaces/ws_{other.workspace_id}/memories/{made['id']}"

    answers = [
        await desk.http.get(path),
        await desk.http.patch(path, json={"content": "x"}),
        await desk.http.delete(path),
        await desk.http.post(f"{path}/pin", json={"pinned": True}),
        await desk.http.post(f"{path}/restore"),
    ]

    assert [wrong(each) for each in answers] == [(404, "memory_not_found")] * 5


async def test_R048_every_route_shows_strangers_the_login_page(desk: Desk) -> None:
    door = door_named(desk.server, "dashboard")
    routes = [each for each in routes_of(door) if each.path.startswith("/chat/api")]
    del desk.http.headers["cookie"]

    answers = {
        str(route): await desk.http.request(
            route.method,
            route.path.replace("{workspace_id}", f"ws_{desk.caller.workspace_id}")
            .replace("{chat_id}", f"chat_{desk.thread.code}")
            .replace("{memory_id}", "mem_" + "a" * 24),
        )
        for route in routes
    }

    assert len(answers) > 15
    assert [name for name, answer in answers.items() if not is_login_page(answer)] == []


async def test_R080_a_chat_without_a_workspace_is_of_the_default_one(desk: Desk) -> None:
    """There is no chat elsewhere: whoever names no workspace is in the default one."""
    made = await desk.remember_here(content="said in some chat")

    found = await desk.listed(q="some chat")

    assert [each["id"] for each in found] == [made["id"]]
    async with desk.engine.reading(desk.caller) as db:
        known = await memories.find(
            db, desk.caller, Ref(code=made["id"].removeprefix("mem_")), desk.engine.now()
        )
        assert known
        assert await find_all(db, desk.caller, [known.id], desk.engine.now())
