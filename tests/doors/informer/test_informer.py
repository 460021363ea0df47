"""The informer door: chats, messages, files, and the six memory routes of the document."""

import base64
import json
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx2
import numpy as np
import pytest
from psycopg import sql

from recollect.domain import CURRENT, Caller, Filter, Right
from recollect.doors import refs
from recollect.doors.informer.turns import take_turn
from recollect.doors.under_way import UnderWay
from recollect.engine.core import Engine
from recollect.engine.messages import NewMessage
from recollect.engine.spaces import embed_query
from recollect.models.chat import Route as ModelRoute
from recollect.models.chats import Chats
from recollect.models.registry import Embedders
from recollect.server import Server
from recollect.store import vectors
from recollect.worker import Worker
from tests.engine.test_segments import ScriptedChat
from tests.support.clock import Clock
from tests.support.dashboard import PASSWORD, new_user, visit_from
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import key_for, neighbour, new_caller, serve, visit
from tests.support.live import on_a_port
from tests.support.routes import Route, door_named, operation, routes_of
from tests.support.tools import rows
from tests.support.upstream import Endpoint, Raw, Say, chats_of
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

Http = httpx2.AsyncClient
Object = dict[str, Any]
NOBODY = "aaaaaaaaaaaa"


async def new_chat(http: Http, **more: Any) -> str:
    answer = await http.post("/api/chats", json={"name": "Planning", **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def say(http: Http, chat: str, *texts: str) -> list[str]:
    said = [
        {"role": ("user", "assistant")[number % 2], "content": text}
        for number, text in enumerate(texts)
    ]
    answer = await http.post(f"/api/chats/{chat}/messages", json={"messages": said})
    assert answer.status_code == 201, answer.text
    return [each["id"] for each in answer.json()["messages"]]


async def remember(http: Http, chat: str, ids: list[str], **more: Any) -> Object:
    answer = await http.post(f"/api/chats/{chat}/memories", json={"messageIds": ids, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def listed(http: Http, chat: str, **query: Any) -> Object:
    answer = await http.get(f"/api/chats/{chat}/memories", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def found(http: Http, chat: str, query: str, **more: Any) -> list[Object]:
    body = {"query": query, **more}
    answer = await http.post(f"/api/chats/{chat}/memories/search", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def complaint(answer: httpx2.Response) -> tuple[int, str]:
    body = answer.json()
    assert set(body) == {"statusCode", "error", "message"}
    assert body["statusCode"] == answer.status_code
    return body["statusCode"], body["error"]


# Listing.


async def test_R123_R126_R127_R128_R129_R130_R131_memories_are_listed_as_hal_with_their_counts(
    http: Http, clock: Clock
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, *(f"Line {number}" for number in range(20)))
    first = await remember(http, chat, ids[:12], summary="Q4 targets", reason="topic_change")
    clock.advance(timedelta(minutes=1))
    second = await remember(http, chat, ids[12:], summary="Retention")

    body = await listed(http, chat)

    items = body["_embedded"]["inf:memory"]
    assert body["_links"] == {"self": {"href": f"/api/chats/{chat}/memories"}}
    assert (body["start"], body["count"], body["total"]) == (0, 2, 2)
    assert [(each["id"], each["messageCount"]) for each in items] == [
        (first["id"], 12),
        (second["id"], 8),
    ]
    for each in items:
        assert set(each) == {
            "id",
            "chatId",
            "summary",
            "reason",
            "messageCount",
            "createdAt",
            "updatedAt",
        }
        assert each["chatId"] == chat
        assert datetime.fromisoformat(each["createdAt"]) <= datetime.fromisoformat(
            each["updatedAt"]
        )


async def test_R127_R128_an_empty_chat_has_an_empty_array(http: Http) -> None:
    body = await listed(http, await new_chat(http))

    assert body["_embedded"] == {"inf:memory": []}
    assert (body["start"], body["count"], body["total"]) == (0, 0, 0)


async def test_R126_the_self_link_names_the_chat_whatever_spelling_was_asked(http: Http) -> None:
    chat = await new_chat(http)

    body = await listed(http, chat.replace("chat-", "sess_"))

    assert body["_links"]["self"]["href"] == f"/api/chats/{chat}/memories"


MEMORY_ROUTES = [
    ("GET", "/api/chats/{chat}/memories", None),
    ("POST", "/api/chats/{chat}/memories", {"messageIds": [f"msg-{NOBODY}"]}),
    ("POST", "/api/chats/{chat}/memories/search", {"query": "x"}),
    ("GET", "/api/memories/{memory}", None),
    ("PUT", "/api/memories/{memory}", {"action": "regenerate"}),
    ("DELETE", "/api/memories/{memory}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), MEMORY_ROUTES)
async def test_R124_N25_without_a_credential_every_memory_route_answers_401(
    front: Server, method: str, path: str, body: Object | None
) -> None:
    async with visit(front) as stranger:
        answer = await stranger.request(
            method, path.format(chat=f"chat-{NOBODY}", memory=f"mem-{NOBODY}"), json=body
        )

    assert complaint(answer) == (401, "Unauthorized")


@pytest.mark.parametrize(("method", "path", "body"), MEMORY_ROUTES)
async def test_R125_R151_N25_what_is_not_there_answers_404(
    http: Http, method: str, path: str, body: Object | None
) -> None:
    for wrong in (NOBODY, "nonsense!"):
        answer = await http.request(
            method, path.format(chat=f"chat-{wrong}", memory=f"mem-{wrong}"), json=body
        )
        assert complaint(answer) == (404, "Not Found")


# Creating.


async def test_R132_R137_R140_R143_R144_R145_the_documents_example_creates_a_memory(
    http: Http, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "We need an export", "As PDF?", "Yes, and by Friday")
    summary = "Initial project requirements discussion"

    body = await remember(http, chat, ids, summary=summary)

    assert set(body) == {
        "id",
        "chatId",
        "summary",
        "reason",
        "messageCount",
        "embedding",
        "createdAt",
    }
    assert body["id"].startswith("mem-")
    assert (body["chatId"], body["summary"], body["reason"], body["messageCount"]) == (
        chat,
        summary,
        "user_created",
        3,
    )
    assert len(body["embedding"]) == embedder.dimension
    assert all(isinstance(each, float) for each in body["embedding"])


async def test_R144_a_message_named_twice_counts_once(http: Http) -> None:
    chat = await new_chat(http)
    [message] = await say(http, chat, "We need an export")

    body = await remember(http, chat, [message, message, message.replace("msg-", "msg_")])

    assert body["messageCount"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messageIds": "msg-1"},
        {"messageIds": []},
        {"messageIds": [7]},
        {"messageIds": None},
        {"messageIds": [f"msg-{NOBODY}"]},
        {"messageIds": ["nonsense!"]},
        {"messageIds": ["{own}", f"msg-{NOBODY}"]},
        {"messageIds": ["{own}"], "reason": "because"},
        {"messageIds": ["{own}"], "summary": ""},
        {"messageIds": ["{own}"], "summary": 7},
    ],
)
async def test_R138_R139_R142_what_cannot_be_made_is_refused_and_leaves_no_row(
    http: Http, body: Object
) -> None:
    chat = await new_chat(http)
    [own] = await say(http, chat, "We need an export")
    if isinstance(body.get("messageIds"), list):
        body = {
            **body,
            "messageIds": [own if each == "{own}" else each for each in body["messageIds"]],
        }

    answer = await http.post(f"/api/chats/{chat}/memories", json=body)

    assert complaint(answer) == (400, "Bad Request")
    assert (await listed(http, chat))["total"] == 0


async def test_R139_a_message_of_another_chat_is_refused(http: Http) -> None:
    chat, other = await new_chat(http), await new_chat(http)
    foreign = await say(http, other, "We need an export")

    answer = await http.post(f"/api/chats/{chat}/memories", json={"messageIds": foreign})

    assert complaint(answer) == (400, "Bad Request")


@pytest.mark.parametrize(
    "reason",
    [
        "user_created",
        "completed_discussion",
        "topic_change",
        "length_threshold",
        "time_threshold",
    ],
)
async def test_R142_each_reason_round_trips(http: Http, reason: str) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "We need an export")

    made = await remember(http, chat, ids, summary="Export", reason=reason)

    assert made["reason"] == reason
    assert (await http.get(f"/api/memories/{made['id']}")).json()["reason"] == reason


async def test_R140_a_summary_is_kept_byte_for_byte(http: Http) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "We need an export")
    summary = "  Exports:\n\tPDF – ok 👍  "

    made = await remember(http, chat, ids, summary=summary)

    assert made["summary"] == summary
    assert (await http.get(f"/api/memories/{made['id']}")).json()["summary"] == summary


async def test_R141_R148_without_one_a_summary_is_written_and_the_vector_is_made_of_it(
    http: Http, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "When is the Lisbon export due?", "It is due on 12 September 2026.")

    made = await remember(http, chat, ids)

    assert made["summary"] == (
        "User asks: When is the Lisbon export due? Assistant says: It is due on 12 September 2026."
    )
    assert made["summary"] in embedder.asked


async def test_R148_a_custom_summary_is_what_is_embedded(
    http: Http, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "We need an export")

    await remember(http, chat, ids, summary="Export talk")

    assert "Export talk" in embedder.asked
    assert "We need an export" not in embedder.asked


async def test_R149_a_memory_is_found_at_once(http: Http) -> None:
    chat = await new_chat(http)
    made = await remember(http, chat, await say(http, chat, "hello"), summary="Export talk")

    assert [each["memory"]["id"] for each in await found(http, chat, "Export talk")] == [made["id"]]


# One memory.


async def test_R150_R152_R153_R154_a_memory_shows_its_messages_and_files(
    http: Http, clock: Clock
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "What were our Q4 targets?", "The Q4 targets were $2.5M...")
    content = bytes(range(256)) * 800
    upload = {"filename": "Q4_report.pdf", "data": base64.b64encode(content).decode()}
    file = (await http.post(f"/api/messages/{ids[0]}/files", json=upload)).json()
    made = await remember(http, chat, list(reversed(ids)), summary="Targets")

    body = (await http.get(f"/api/memories/{made['id']}")).json()

    assert set(body) == {
        "id",
        "chatId",
        "summary",
        "reason",
        "embedding",
        "messages",
        "files",
        "createdAt",
        "updatedAt",
    }
    assert [(each["id"], each["role"], each["content"]) for each in body["messages"]] == [
        (ids[0], "user", "What were our Q4 targets?"),
        (ids[1], "assistant", "The Q4 targets were $2.5M..."),
    ]
    assert all(set(each) == {"id", "role", "content", "createdAt"} for each in body["messages"])
    assert body["files"] == [{"id": file["id"], "filename": "Q4_report.pdf", "size": 204800}]


@pytest.mark.parametrize("body", [{}, {"action": "delete"}, {"action": None}, {"action": 1}])
async def test_R155_only_regenerate_is_an_action(http: Http, body: Object) -> None:
    chat = await new_chat(http)
    made = await remember(http, chat, await say(http, chat, "hello"), summary="Export talk")

    answer = await http.put(f"/api/memories/{made['id']}", json=body)

    assert complaint(answer) == (400, "Bad Request")


async def test_R156_R157_R159_regenerating_reads_the_edited_messages_and_keeps_the_rest(
    http: Http, clock: Clock
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "The Lisbon export is due on Monday.")
    made = await remember(http, chat, ids)
    before = (await http.get(f"/api/memories/{made['id']}")).json()
    text = "The Lisbon export is due on Friday."
    clock.advance(timedelta(minutes=5))
    await http.put(f"/api/messages/{ids[0]}", json={"content": text})

    answer = await http.put(f"/api/memories/{made['id']}", json={"action": "regenerate"})

    after = answer.json()
    assert answer.status_code == 200
    assert after["summary"] == f"User says: {text}"
    assert after["embedding"] != before["embedding"]
    assert {name: after[name] for name in ("id", "chatId", "reason", "createdAt")} == {
        name: before[name] for name in ("id", "chatId", "reason", "createdAt")
    }
    assert [each["id"] for each in after["messages"]] == ids
    assert after["updatedAt"] > before["updatedAt"]
    assert (await http.get(f"/api/memories/{made['id']}")).json() == after


async def test_R158_regenerating_embeds_with_the_model_of_now(
    http: Http, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    made = await remember(http, chat, await say(http, chat, "The export is due on Monday."))
    other = StubEmbedder(model="better", dimension=12)
    moved = replace(engine, embedders=Embedders(other, {"old": embedder}))
    key = await key_for(engine, caller.workspace_id)

    async with visit(serve(moved), Authorization=f"Bearer {key}") as client:
        after = await client.put(f"/api/memories/{made['id']}", json={"action": "regenerate"})
        read = await client.get(f"/api/memories/{made['id']}")

    assert (len(made["embedding"]), len(after.json()["embedding"])) == (8, 12)
    assert read.json()["embedding"] == after.json()["embedding"]


async def test_R160_R161_R162_R163_N28_a_deleted_memory_is_gone_and_its_messages_stay(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "The export is due on Monday.")
    made = await remember(http, chat, ids, summary="Export talk")
    linked = (await http.get(f"/api/messages/{ids[0]}")).json()

    answer = await http.delete(f"/api/memories/{made['id']}")

    assert (answer.status_code, answer.content) == (204, b"")
    assert linked["memoryId"] == made["id"]
    assert (await http.get(f"/api/messages/{ids[0]}")).json() == {**linked, "memoryId": None}
    assert (await http.get(f"/api/memories/{made['id']}")).status_code == 404
    assert (await listed(http, chat))["total"] == 0
    assert await found(http, chat, "Export talk") == []
    for table in ("memory", "memory_vector", "memory_message", "segment"):
        query = f"SELECT count(*) FROM {table} WHERE workspace_id = %s"
        assert await rows(engine, query, caller.workspace_id) == [(0,)]


# Searching.


async def test_R164_R167_R168_only_this_chats_memories_are_found_and_the_question_is_echoed(
    http: Http,
) -> None:
    chat, other = await new_chat(http), await new_chat(http)
    made = await remember(http, chat, await say(http, chat, "a"), summary="Revenue growth")
    await remember(http, other, await say(http, other, "b"), summary="Revenue growth")

    answer = await http.post(f"/api/chats/{chat}/memories/search", json={"query": "Revenue growth"})

    assert answer.json() == {
        "results": [
            {
                "memory": {"id": made["id"], "summary": "Revenue growth", "messageCount": 1},
                "score": pytest.approx(1.0, abs=0.005),
                "rank": 1,
            }
        ],
        "query": "Revenue growth",
        "limit": 5,
    }


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"query": ""}, 400),
        ({"query": "x" * 501}, 400),
        ({"query": "x"}, 200),
        ({"query": "x" * 500}, 200),
        ({"query": "x", "limit": 0}, 400),
        ({"query": "x", "limit": 21}, 400),
        ({"query": "x", "limit": 2.5}, 400),
        ({"query": "x", "limit": "x"}, 400),
        ({"query": "x", "limit": "5"}, 400),
        ({"query": "x", "limit": True}, 400),
        ({"query": "x", "limit": 20}, 200),
        ({"query": 7}, 400),
    ],
)
async def test_R165_R166_bounds_of_a_search_are_refused_not_clamped(
    http: Http, body: Object, status: int
) -> None:
    chat = await new_chat(http)

    answer = await http.post(f"/api/chats/{chat}/memories/search", json=body)

    assert answer.status_code == status
    if status == 400:
        assert complaint(answer) == (400, "Bad Request")


async def test_R166_R169_R170_R171_results_are_the_nearest_by_cosine_best_first(
    http: Http, embedder: StubEmbedder
) -> None:
    cosines = [0.87, 0.95, 0.3, 0.5, 0.7, 0.1, 0.6, -0.9]
    embedder.table["the question"] = at_cosine(1.0)
    chat = await new_chat(http)
    ids = await say(http, chat, "hello")
    for number, cosine in enumerate(cosines):
        embedder.table[f"summary {number}"] = at_cosine(cosine, turn=number)
        await remember(http, chat, ids, summary=f"summary {number}")

    five = await found(http, chat, "the question")
    three = await found(http, chat, "the question", limit=3)
    all_eight = await found(http, chat, "the question", limit=20)

    expected = sorted((max(each, 0.0) for each in cosines), reverse=True)
    assert [each["score"] for each in all_eight] == pytest.approx(expected, abs=0.005)
    assert [each["rank"] for each in all_eight] == list(range(1, 9))
    assert (len(five), len(three)) == (5, 3)
    assert five == all_eight[:5]


async def test_R172_the_question_is_embedded_by_the_model_of_the_memories(
    http: Http, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    await remember(http, chat, await say(http, chat, "hello"), summary="Export talk")
    other = StubEmbedder(model="better", dimension=12)
    moved = replace(engine, embedders=Embedders(other, {"old": embedder}))
    key = await key_for(engine, caller.workspace_id)

    async with visit(serve(moved), Authorization=f"Bearer {key}") as client:
        assert len(await found(client, chat, "a question of now")) == 1

    assert "a question of now" in embedder.asked
    assert "a question of now" not in other.asked


async def test_R175_a_search_reads_each_vector_of_the_chat_once_and_keeps_only_the_best(
    http: Http, engine: Engine, caller: Caller
) -> None:
    """What makes 10,000 memories fast; how fast they are, `python -m bench.chat_search` shows."""
    chat = await new_chat(http)
    ids = await say(http, chat, "hello")
    for number in range(60):
        await remember(http, chat, ids, summary=f"Point {number} was settled")
    other = await new_chat(http)
    await remember(http, other, await say(http, other, "elsewhere"), summary="Another chat")
    [[thread_id]] = await rows(
        engine,
        "SELECT thread_id FROM memory WHERE workspace_id = %s GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
        caller.workspace_id,
    )
    inside = replace(caller, thread_id=thread_id)
    wanted = Filter(thread_id=thread_id)
    asked = await embed_query(engine, caller.workspace_id, "what was settled?")
    assert asked
    async with engine.reading(inside) as db:
        query = await vectors._prepared(db, inside, asked.point, wanted, 5, CURRENT, vectors._WHOLE)
        values = vectors._values(inside, asked.point, wanted, 5, engine.now(), CURRENT)
        explain = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) ") + query
        row = await (await db.execute(explain, values)).fetchone()
    assert row

    scans = [
        node
        for node in nodes(row[0][0]["Plan"])
        if node.get("Alias", "").startswith("m")
        and "memory_vector" in node.get("Relation Name", "")
    ]

    assert [(node["Actual Loops"], node["Actual Rows"]) for node in scans] == [(1, 60)]
    cuts = [node for node in nodes(row[0][0]["Plan"]) if node["Node Type"] == "Limit"]
    assert max(node["Actual Rows"] for node in cuts) == 5


def nodes(plan: Object) -> Iterator[Object]:
    """Every step of a plan."""
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


async def test_R176_a_long_list_is_walked_in_parts(http: Http, clock: Clock) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "hello")
    made: list[str] = []
    for number in range(7):
        made.append((await remember(http, chat, ids, summary=f"summary {number}"))["id"])
        clock.advance(timedelta(seconds=1))

    pages = [await listed(http, chat, start=start, limit=3) for start in (0, 3, 6, 9)]

    walked = [each["id"] for page in pages for each in page["_embedded"]["inf:memory"]]
    assert walked == made
    assert [(page["start"], page["count"], page["total"]) for page in pages] == [
        (0, 3, 7),
        (3, 3, 7),
        (6, 1, 7),
        (9, 0, 7),
    ]
    assert (await http.get(f"/api/chats/{chat}/memories?limit=0")).status_code == 400


# By itself.


async def test_R135_conversations_are_cut_by_the_worker_with_nobody_asking(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, *(f"{number} thank-you notes, please" for number in range(20)))
    same = replace(engine, embedders=Embedders(_OneTopic()))

    await Worker(same, slots=1).run_until_empty()

    [made] = (await listed(http, chat))["_embedded"]["inf:memory"]
    assert (made["reason"], made["messageCount"]) == ("length_threshold", 20)
    said = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"]["inf:message"]
    assert {each["memoryId"] for each in said} == {made["id"]}
    assert [each["id"] for each in said] == ids


class _OneTopic(StubEmbedder):
    def _vector(self, text: str) -> Any:
        return np.eye(1, 8, dtype=np.float32)[0]


# Chats and messages.


async def test_N27_chats_are_paged_pinned_ones_first_then_by_last_change(
    http: Http, clock: Clock
) -> None:
    names: list[str] = []
    for number in range(4):
        clock.advance(timedelta(seconds=1))
        names.append(await new_chat(http, name=f"chat {number}"))
    clock.advance(timedelta(seconds=1))
    await http.put(f"/api/chats/{names[0]}", json={"pinned": True})
    clock.advance(timedelta(seconds=1))
    await say(http, names[2], "hello")

    page = (await http.get("/api/chats?limit=3&offset=0")).json()

    assert (page["total"], page["limit"], page["offset"]) == (4, 3, 0)
    assert [each["id"] for each in page["results"]] == [names[0], names[2], names[3]]
    rest = (await http.get("/api/chats?limit=3&offset=3")).json()
    assert [each["id"] for each in rest["results"]] == [names[1]]
    assert (await http.get("/api/chats")).json()["limit"] == 20


async def test_a_chat_is_created_renamed_and_deleted_with_all_it_has(http: Http) -> None:
    said = [{"role": "user", "content": "hello"}]
    answer = await http.post(
        "/api/chats",
        json={"name": "One", "modelId": "gpt", "instructions": "Be brief.", "messages": said},
    )
    chat = answer.json()
    assert (chat["modelId"], chat["instructions"], chat["messageCount"]) == ("gpt", "Be brief.", 1)
    ids = (await http.get(f"/api/chats/{chat['id']}/messages")).json()
    [message] = [each["id"] for each in ids["_embedded"]["inf:message"]]
    made = await remember(http, chat["id"], [message], summary="Hello")

    renamed = (await http.put(f"/api/chats/{chat['id']}", json={"name": "Two"})).json()
    deleted = await http.delete(f"/api/chats/{chat['id']}")

    assert (renamed["name"], renamed["modelId"]) == ("Two", "gpt")
    assert deleted.status_code == 204
    for path in (
        f"/api/chats/{chat['id']}",
        f"/api/messages/{message}",
        f"/api/memories/{made['id']}",
    ):
        assert complaint(await http.get(path)) == (404, "Not Found")


async def test_N28_messages_are_hal_with_what_a_message_has(http: Http) -> None:
    chat = await new_chat(http)
    new: Object = {
        "role": "assistant",
        "content": "Sure",
        "liked": True,
        "cost": 0.5,
        "toolUses": [{}],
    }
    kept = (await http.post(f"/api/chats/{chat}/messages", json=new)).json()

    body = (await http.get(f"/api/chats/{chat}/messages")).json()

    assert body["_links"]["self"]["href"] == f"/api/chats/{chat}/messages"
    assert (body["start"], body["count"], body["total"]) == (0, 1, 1)
    assert body["_embedded"]["inf:message"] == [kept]
    assert kept["chatId"] == chat
    assert {name: kept[name] for name in new} == new
    assert kept["memoryId"] is None


async def test_N28_messages_are_walked_by_cursor(http: Http) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, *(f"{number}" for number in range(5)))

    page = (await http.get(f"/api/chats/{chat}/messages?limit=2&after={ids[1]}")).json()

    assert [each["id"] for each in page["_embedded"]["inf:message"]] == ids[2:4]


async def test_N29_clearing_messages_leaves_memories_without_references(http: Http) -> None:
    chat = await new_chat(http)
    made = await remember(http, chat, await say(http, chat, "a", "b"), summary="Two letters")

    answer = await http.delete(f"/api/chats/{chat}/messages")

    assert answer.status_code == 204
    body = (await http.get(f"/api/memories/{made['id']}")).json()
    assert (body["summary"], body["messages"]) == ("Two letters", [])
    [item] = (await listed(http, chat))["_embedded"]["inf:memory"]
    assert item["messageCount"] == 0


async def test_a_message_sent_twice_under_one_id_is_kept_once(http: Http) -> None:
    chat = await new_chat(http)
    new = {"content": "hello", "clientId": "m1"}

    first = await http.post(f"/api/chats/{chat}/messages", json=new)
    again = await http.post(f"/api/chats/{chat}/messages", json=new)

    assert first.json() == again.json()
    assert (await http.get(f"/api/chats/{chat}")).json()["messageCount"] == 1


# Files.


async def test_S63_a_file_comes_back_as_it_was_sent_and_never_runs_here(http: Http) -> None:
    chat = await new_chat(http)
    [message] = await say(http, chat, "see attached")
    content = b"<script>alert(1)</script>" * 40_000
    name = '../../etc/pass"wd\r\n.html'
    upload = {
        "filename": name,
        "mediaType": "text/html",
        "data": base64.b64encode(content).decode(),
    }
    file = (await http.post(f"/api/messages/{message}/files", json=upload)).json()

    answer = await http.get(f"/api/messages/{message}/files/{file['id']}")

    assert answer.content == content
    assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert "\r" not in answer.headers["content-disposition"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (await http.get(f"/api/messages/{message}/files")).json()["files"] == [file]
    assert (await http.delete(f"/api/messages/{message}/files/{file['id']}")).status_code == 204
    assert (await http.get(f"/api/messages/{message}/files")).json()["files"] == []


async def test_a_file_of_another_message_is_not_there(http: Http) -> None:
    chat = await new_chat(http)
    one, two = await say(http, chat, "one", "two")
    upload = {"filename": "a.txt", "data": "aGk="}
    file = (await http.post(f"/api/messages/{one}/files", json=upload)).json()

    answer = await http.get(f"/api/messages/{two}/files/{file['id']}")

    assert complaint(answer) == (404, "Not Found")


@pytest.mark.parametrize(
    ("data", "status"),
    [("not base64!", 400), (base64.b64encode(b"x" * (5 * 1024 * 1024 + 1)).decode(), 413)],
)
async def test_a_file_that_cannot_be_kept_is_refused(http: Http, data: str, status: int) -> None:
    chat = await new_chat(http)
    [message] = await say(http, chat, "one")

    answer = await http.post(f"/api/messages/{message}/files", json={"filename": "a", "data": data})

    assert complaint(answer)[0] == status


async def test_a_file_may_come_in_a_form(http: Http) -> None:
    chat = await new_chat(http)
    [message] = await say(http, chat, "see attached")
    content = bytes(range(256)) * 40_000  # more than JSON may bring

    sent = await http.post(
        f"/api/messages/{message}/files", files={"file": ("../photo.raw", content, "image/x-raw")}
    )

    assert sent.status_code == 201, sent.text
    file = sent.json()
    assert (file["filename"], file["size"]) == ("photo.raw", len(content))
    answer = await http.get(f"/api/messages/{message}/files/{file['id']}")
    assert answer.content == content
    assert answer.headers["content-type"] == "image/x-raw"
    assert answer.headers["content-disposition"].startswith("attachment; ")


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("multipart/form-data", b"", 400),
        ("multipart/form-data; boundary=x", b"no form at all", 400),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\ncontent-disposition: form-data; name="file"\r\n\r\nv\r\n--x--',
            400,
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
            + b"x" * (21 * 1024 * 1024),
            413,
        ),
        ("application/json", b"", 400),
        ("application/json", b'{"filename": 5}', 400),
        ("text/plain", b"x", 415),
    ],
)
async def test_S60_what_brings_no_file_that_can_be_kept_is_refused(
    http: Http, content_type: str, body: bytes, status: int
) -> None:
    chat = await new_chat(http)
    [message] = await say(http, chat, "one")

    answer = await http.post(
        f"/api/messages/{message}/files", content=body, headers={"content-type": content_type}
    )

    assert complaint(answer)[0] == status
    assert (await http.get(f"/api/messages/{message}/files")).json()["files"] == []


# A turn.


@asynccontextmanager
async def with_model(engine: Engine, caller: Caller, model: ScriptedChat) -> AsyncGenerator[Http]:
    key = await key_for(engine, caller.workspace_id)
    asking = replace(engine, chats=Chats(ModelRoute(model, "writer")))
    async with visit(serve(asking), Authorization=f"Bearer {key}") as client:
        yield client


async def test_R173_R174_N30_a_turn_shows_the_model_what_is_relevant_and_streams_its_answer(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table |= {
        "When do we open in Lisbon?": at_cosine(1.0),
        "The Lisbon office opens in May": at_cosine(0.61),
        "Cats are grey": at_cosine(0.59, turn=1),
    }
    model = ScriptedChat("In May.")
    async with with_model(engine, caller, model) as http:
        chat = await new_chat(http, instructions="Be brief.")
        ids = await say(http, chat, "hello")
        await remember(http, chat, ids, summary="The Lisbon office opens in May")
        await remember(http, chat, ids, summary="Cats are grey")

        answer = await http.post(
            f"/api/chats/{chat}", json={"content": "When do we open in Lisbon?"}
        )

        assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert answer.headers["content-type"].startswith("text/event-stream")
        frames = list(events(answer.text))
        assert [each["type"] for each in frames] == [
            "start",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "finish",
        ]
        assert frames[2]["id"] == frames[3]["id"] == frames[4]["id"]
        assert frames[3]["delta"] == "In May."
        assert answer.text.endswith("data: [DONE]\n\n")
        asked = json.loads(model.asked[-1])["messages"]
        assert asked[0]["role"] == "system"
        assert "Be brief." in asked[0]["content"]
        assert "The Lisbon office opens in May" in asked[0]["content"]
        assert "Cats are grey" not in asked[0]["content"]
        said = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"]["inf:message"]
        assert [each["content"] for each in said][-2:] == ["When do we open in Lisbon?", "In May."]


async def test_N30_a_model_that_fails_loses_no_message(engine: Engine, caller: Caller) -> None:
    async with with_model(engine, caller, ScriptedChat("", status=500)) as http:
        chat = await new_chat(http)

        answer = await http.post(f"/api/chats/{chat}", json={"content": "hello"})

        assert complaint(answer) == (503, "Service Unavailable")
        assert (await http.get(f"/api/chats/{chat}")).json()["messageCount"] == 1


@pytest.fixture(scope="module")
def endpoint() -> Generator[Endpoint]:
    found = Endpoint()
    with on_a_port(found) as url:
        found.url = url
        yield found


@pytest.fixture
async def asking(engine: Engine, endpoint: Endpoint) -> AsyncGenerator[Engine]:
    """A house whose model says what the test tells the endpoint."""
    endpoint.reset()
    chats = chats_of(endpoint.url, model="m1")
    yield replace(engine, chats=chats)
    await chats.aclose()


async def test_N30_the_answer_comes_word_by_word_and_is_kept_though_the_reader_goes(
    asking: Engine, caller: Caller, endpoint: Endpoint
) -> None:
    endpoint.otherwise = Say("one two three four five six", pause=0.02)
    key = await key_for(asking, caller.workspace_id)
    async with visit(serve(asking), Authorization=f"Bearer {key}") as http:
        chat = await new_chat(http)
        whole = await http.post(f"/api/chats/{chat}", json={"content": "count"})
        under_way = UnderWay()
        again = NewMessage("user", "count again")
        stream = await take_turn(under_way, asking, caller, refs.chat(chat), again)
        heard = await anext(stream)
        await stream.aclose()
        kept = await eventually(http, chat, 4)

    frames = list(events(whole.text))
    deltas = [each["delta"] for each in frames if each["type"] == "text-delta"]
    assert deltas == ["one", " two", " three", " four", " five", " six"]
    assert b'"start"' in heard
    assert [each["content"] for each in kept[1::2]] == ["one two three four five six"] * 2
    assert kept[1]["id"] == frames[0]["messageId"]
    calls = await rows(
        asking,
        "SELECT purpose, state, output_tokens FROM model_call WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert [tuple(each) for each in calls] == [("turn", "done", 5)] * 2


async def eventually(http: Http, chat: str, count: int) -> list[Object]:
    """The messages of a chat as soon as there are so many."""
    page: Object = {}

    async def are_there() -> bool:
        nonlocal page
        page = (await http.get(f"/api/chats/{chat}/messages")).json()
        return page["total"] >= count

    await until(are_there)
    return page["_embedded"]["inf:message"]


async def test_N30_an_answer_that_breaks_off_is_told_and_kept_as_far_as_it_went(
    asking: Engine, caller: Caller, endpoint: Endpoint
) -> None:
    chunk = {"choices": [{"delta": {"content": "The office opens"}}]}
    endpoint.otherwise = Raw([f"data: {json.dumps(chunk)}\n\n".encode()])
    key = await key_for(asking, caller.workspace_id)
    async with visit(serve(asking), Authorization=f"Bearer {key}") as http:
        chat = await new_chat(http)
        answer = await http.post(f"/api/chats/{chat}", json={"content": "When?"})
        kept = await eventually(http, chat, 2)

    assert [each["type"] for each in events(answer.text)][-2:] == ["text-delta", "error"]
    assert answer.text.endswith("data: [DONE]\n\n")
    assert kept[1]["content"] == "The office opens"


# Signing in.


async def test_N26_a_session_by_name_and_password_or_a_token_both_open_the_door(
    engine: Engine, caller: Caller
) -> None:
    _, login = await new_user(engine, caller, password=PASSWORD)
    front = serve(engine)
    async with visit_from(front) as http:
        wrong = await http.post(
            "/api/auth/login", json={"username": login, "password": "not this one"}
        )
        signed_in = await http.post(
            "/api/auth/login", json={"username": login, "password": PASSWORD}
        )
        http.headers["cookie"] = signed_in.headers["set-cookie"].split(";")[0]
        chat = await new_chat(http)
        elsewhere = await http.post(
            "/api/chats", json={}, headers={"origin": "https://evil.example"}
        )
        key = await key_for(engine, caller.workspace_id)
        async with visit(front, Authorization=f"Bearer {key}") as program:
            same = await program.get(f"/api/chats/{chat}")
        signed_out = await http.post("/api/auth/logout")
        after = await http.get("/api/chats")

    assert complaint(wrong) == (401, "Unauthorized")
    assert (signed_in.status_code, signed_in.json()) == (200, {"username": login})
    assert "HttpOnly" in signed_in.headers["set-cookie"]
    assert complaint(elsewhere) == (403, "Forbidden")
    assert same.status_code == 200
    assert signed_out.status_code == 204
    assert complaint(after) == (401, "Unauthorized")


def events(text: str) -> Iterator[Object]:
    for line in text.splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


# Nobody else.

BODIES: dict[str, Object] = {
    "POST /api/chats": {"name": "mine"},
    "PUT /api/chats/{chat_id}": {"name": "changed by a stranger"},
    "POST /api/chats/{chat_id}": {"content": "by a stranger"},
    "POST /api/chats/{chat_id}/messages": {"content": "by a stranger"},
    "PUT /api/messages/{message_id}": {"content": "by a stranger"},
    "POST /api/messages/{message_id}/files": {"filename": "a", "data": "aGk="},
    "POST /api/chats/{chat_id}/memories": {"messageIds": ["{message_id}"], "summary": "x"},
    "POST /api/chats/{chat_id}/memories/search": {"query": "a secret of theirs"},
    "PUT /api/memories/{memory_id}": {"action": "regenerate"},
}
WITHOUT_IDS = {"GET /api/chats", "POST /api/chats"}
NEEDS: dict[str, set[Right]] = {
    "GET": {Right.READ},
    "POST": {Right.WRITE},
    "PUT": {Right.READ, Right.WRITE},
    "DELETE": {Right.DELETE},
}
SIGN_IN = {"POST /api/auth/login", "POST /api/auth/logout"}
SEARCH = "POST /api/chats/{chat_id}/memories/search"
TURN = "POST /api/chats/{chat_id}"


async def furnished(http: Http) -> dict[str, str]:
    chat = await new_chat(http)
    [message] = await say(http, chat, "a secret of theirs")
    upload = {"filename": "secret.txt", "data": "aGk="}
    file = (await http.post(f"/api/messages/{message}/files", json=upload)).json()
    made = await remember(http, chat, [message], summary="a secret of theirs")
    return {
        "chat_id": chat,
        "message_id": message,
        "file_id": file["id"],
        "memory_id": made["id"],
    }


async def send(http: Http, route: Route, ids: dict[str, str], **more: Any) -> httpx2.Response:
    body = BODIES.get(str(route))
    if body:
        body = json.loads(json.dumps(body).replace("{message_id}", ids["message_id"]))
    return await http.request(route.method, route.path.format(**ids), json=body, **more)


def guarded(front: Server) -> list[Route]:
    """Every route but those where one signs in and out."""
    return [each for each in routes_of(door_named(front, "informer")) if str(each) not in SIGN_IN]


@pytest.mark.parametrize("whose", ["a workspace of the same org", "another org"])
async def test_S41_another_workspaces_ids_do_not_exist_on_any_route(
    http: Http, engine: Engine, caller: Caller, front: Server, whose: str
) -> None:
    foreigner = (
        await new_caller(engine) if whose == "another org" else await neighbour(engine, caller)
    )
    key = await key_for(engine, foreigner.workspace_id)
    async with visit(front, Authorization=f"Bearer {key}") as theirs:
        foreign = await furnished(theirs)
        before = await _all(theirs, foreign)
        own = await furnished(http)
        routes = guarded(front)

        for route in routes:
            if operation(door_named(front, "informer"), route).get("requestBody"):
                assert str(route) in BODIES, f"{route}: which body does it take?"
            if str(route) in WITHOUT_IDS:
                continue
            answer = await send(http, route, foreign)
            absent = await send(http, route, dict.fromkeys(foreign, NOBODY))
            assert (answer.status_code, answer.json()) == (absent.status_code, absent.json())
            assert complaint(answer) == (404, "Not Found"), route

        mixed = {"messageIds": [foreign["message_id"]], "summary": "x"}
        crossed = await http.post(f"/api/chats/{own['chat_id']}/memories", json=mixed)
        assert crossed.status_code == 400
        chats = (await http.get("/api/chats")).json()["results"]
        assert [each["id"] for each in chats] == [own["chat_id"]]
        assert await _all(theirs, foreign) == before


async def _all(http: Http, ids: dict[str, str]) -> list[str]:
    paths = ["/api/chats/{chat_id}", "/api/chats/{chat_id}/messages", "/api/memories/{memory_id}"]
    return [(await http.get(path.format(**ids))).text for path in paths]


async def test_S23_each_route_needs_its_rights(
    http: Http, engine: Engine, caller: Caller, front: Server
) -> None:
    keys = {
        right: await key_for(
            engine, caller.workspace_id, rights=[each for each in Right if each is not right]
        )
        for right in Right
    }
    for route in guarded(front):
        ids = await furnished(http)
        needed = NEEDS[route.method]
        if str(route) == SEARCH:
            needed = {Right.READ}
        for right in needed:
            async with visit(front, Authorization=f"Bearer {keys[right]}") as lacking:
                answer = await send(lacking, route, ids)
            if str(route) != TURN:  # without a model it fails before it can write
                assert complaint(answer) == (403, "Forbidden"), (route, right)


async def test_S07_N25_no_route_answers_without_a_good_credential(front: Server) -> None:
    names: list[str] = ["chat_id", "message_id", "file_id", "memory_id"]
    ids = dict.fromkeys(names, NOBODY)
    for headers in ({}, {"Authorization": "Bearer rk_00000000_wrong"}, {"Cookie": "session=x"}):
        async with visit(front, **headers) as stranger:
            for route in guarded(front):
                answer = await send(stranger, route, ids)
                assert complaint(answer) == (401, "Unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/api/chats", b"{", 400),
        ("POST", "/api/chats", b'{"name": "a\\u0000b"}', 400),
        ("POST", "/api/chats", b"[]", 400),
        ("POST", "/api/chats/{chat}/messages", b'{"content": 5}', 400),
        ("POST", "/api/chats/{chat}/messages", b'{"messages": []}', 400),
        ("POST", "/api/chats/{chat}/messages", b'{"content": "a", "createdAt": "soon"}', 400),
        ("GET", "/api/chats?limit=0", b"", 400),
        ("GET", "/api/chats?offset=-1", b"", 400),
        ("GET", "/api/chats?offset=99999999999999999999", b"", 400),
        ("GET", "/api/chats/{chat}/messages?after=x", b"", 400),
        ("PATCH", "/api/chats/{chat}", b"{}", 405),
        ("GET", "/api/chats/{chat}/nothing", b"", 404),
    ],
)
async def test_N25_bad_input_is_answered_in_the_doors_own_words(
    http: Http, method: str, path: str, content: bytes, status: int
) -> None:
    chat = await new_chat(http)

    answer = await http.request(
        method,
        path.format(chat=chat),
        content=content,
        headers={"content-type": "application/json"},
    )

    assert complaint(answer)[0] == status
