"""The six memory routes of the Informer contract."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from recollect.core.domain import Caller, Filter, Ref, Scope
from recollect.embeddings.generations import embed_query
from recollect.embeddings.queries import vectors
from recollect.engine import Engine
from recollect.memories.save import Save, save
from recollect.models.chat_model import ChatRoute
from recollect.models.chat_registry import ChatModels
from recollect.models.embedder_registry import Embedders
from recollect.server import Server
from tests.support.clock import Clock
from tests.support.conversations import ScriptedChat
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.informer import (
    Http,
    Object,
    add_messages,
    create_memory,
    error_of,
    list_memories,
    new_chat,
    search_memories,
)
from tests.support.instance import connect, in_new_workspace, key_for, make_server
from tests.support.plans import record_plans
from tests.support.tools import fetch_rows

pytestmark = pytest.mark.anyio

UNKNOWN = "aaaaaaaaaaaa"


# Listing.


async def test_R123_R126_R127_R128_R129_R130_R131_memories_are_listed_as_hal_with_message_counts(
    http: Http, clock: Clock
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, *(f"Line {number}" for number in range(20)))
    first = await create_memory(http, chat, ids[:12], summary="Q4 targets", reason="topic_change")
    clock.advance(timedelta(minutes=1))
    second = await create_memory(http, chat, ids[12:], summary="Retention")

    body = await list_memories(http, chat)

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
    body = await list_memories(http, await new_chat(http))

    assert body["_embedded"] == {"inf:memory": []}
    assert (body["start"], body["count"], body["total"]) == (0, 0, 0)


async def test_R126_the_self_link_uses_the_canonical_chat_id(http: Http) -> None:
    chat = await new_chat(http)

    body = await list_memories(http, chat.replace("chat-", "sess_"))

    assert body["_links"]["self"]["href"] == f"/api/chats/{chat}/memories"


MEMORY_ROUTES = [
    ("GET", "/api/chats/{chat}/memories", None),
    ("POST", "/api/chats/{chat}/memories", {"messageIds": [f"msg-{UNKNOWN}"]}),
    ("POST", "/api/chats/{chat}/memories/search", {"query": "x"}),
    ("GET", "/api/memories/{memory}", None),
    ("PUT", "/api/memories/{memory}", {"action": "regenerate"}),
    ("DELETE", "/api/memories/{memory}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), MEMORY_ROUTES)
async def test_R124_N25_every_memory_route_needs_a_credential(
    server: Server, method: str, path: str, body: Object | None
) -> None:
    async with connect(server) as outsider:
        answer = await outsider.request(
            method, path.format(chat=f"chat-{UNKNOWN}", memory=f"mem-{UNKNOWN}"), json=body
        )

    assert error_of(answer) == (401, "Unauthorized")


@pytest.mark.parametrize(("method", "path", "body"), MEMORY_ROUTES)
async def test_R125_R151_N25_unknown_ids_are_not_found(
    http: Http, method: str, path: str, body: Object | None
) -> None:
    for wrong in (UNKNOWN, "nonsense!"):
        answer = await http.request(
            method, path.format(chat=f"chat-{wrong}", memory=f"mem-{wrong}"), json=body
        )
        assert error_of(answer) == (404, "Not Found")


# Creating.


async def test_R132_R137_R140_R143_R144_R145_the_example_creates_a_memory(
    http: Http, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "We need an export", "As PDF?", "Yes, and by Friday")
    summary = "Initial project requirements discussion"

    body = await create_memory(http, chat, ids, summary=summary)

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
    first, second = await add_messages(http, chat, "We need an export", "As PDF?")

    body = await create_memory(http, chat, [first, second, first, first.replace("msg-", "msg_")])

    read = (await http.get(f"/api/memories/{body['id']}")).json()
    [listed] = (await list_memories(http, chat))["_embedded"]["inf:memory"]
    assert body["messageCount"] == listed["messageCount"] == 2
    assert [each["id"] for each in read["messages"]] == [first, second]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messageIds": "msg-1"},
        {"messageIds": []},
        {"messageIds": [7]},
        {"messageIds": None},
        {"messageIds": [f"msg-{UNKNOWN}"]},
        {"messageIds": ["nonsense!"]},
        {"messageIds": ["{own}", f"msg-{UNKNOWN}"]},
        {"messageIds": ["{own}"], "reason": "because"},
        {"messageIds": ["{own}"], "summary": ""},
        {"messageIds": ["{own}"], "summary": 7},
    ],
)
async def test_R138_R139_R142_an_invalid_memory_is_rejected_and_not_stored(
    http: Http, body: Object
) -> None:
    chat = await new_chat(http)
    [own] = await add_messages(http, chat, "We need an export")
    if isinstance(body.get("messageIds"), list):
        body = {
            **body,
            "messageIds": [own if each == "{own}" else each for each in body["messageIds"]],
        }

    answer = await http.post(f"/api/chats/{chat}/memories", json=body)

    assert error_of(answer) == (400, "Bad Request")
    assert (await list_memories(http, chat))["total"] == 0


async def test_R139_a_message_of_another_chat_is_rejected(
    http: Http, engine: Engine, server: Server, caller: Caller
) -> None:
    chat, other = await new_chat(http), await new_chat(http)
    [own] = await add_messages(http, chat, "We need an export")
    [foreign] = await add_messages(http, other, "We need an import")
    key = await key_for(engine, (await in_new_workspace(engine, caller)).workspace_id)
    async with connect(server, Authorization=f"Bearer {key}") as elsewhere:
        [far] = await add_messages(elsewhere, await new_chat(elsewhere), "We need a holiday")

    answers = [
        await http.post(f"/api/chats/{chat}/memories", json={"messageIds": ids, "summary": "x"})
        for ids in ([foreign], [own, foreign], [far], [own, far])
    ]

    assert [error_of(each) for each in answers] == [(400, "Bad Request")] * 4
    assert [(await list_memories(http, each))["total"] for each in (chat, other)] == [0, 0]
    messages = (await http.get(f"/api/messages/{own}")).json()
    assert messages["memoryId"] is None


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
    ids = await add_messages(http, chat, "We need an export")

    created = await create_memory(http, chat, ids, summary="Export", reason=reason)

    assert created["reason"] == reason
    assert (await http.get(f"/api/memories/{created['id']}")).json()["reason"] == reason


async def test_R140_a_summary_is_stored_unchanged(http: Http) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "We need an export")
    summary = "  Exports:\n\tPDF – ok 👍  "

    created = await create_memory(http, chat, ids, summary=summary)

    assert created["summary"] == summary
    assert (await http.get(f"/api/memories/{created['id']}")).json()["summary"] == summary


async def test_R141_R148_a_missing_summary_is_generated_and_embedded(
    http: Http, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(
        http, chat, "When is the Lisbon export due?", "It is due on 12 September 2026."
    )

    created = await create_memory(http, chat, ids)

    assert created["summary"] == (
        "User asks: When is the Lisbon export due? Assistant says: It is due on 12 September 2026."
    )
    assert created["summary"] in embedder.seen_texts


async def test_R148_a_given_summary_is_embedded_instead_of_the_messages(
    http: Http, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "We need an export")

    await create_memory(http, chat, ids, summary="Export talk")

    assert "Export talk" in embedder.seen_texts
    assert "We need an export" not in embedder.seen_texts


@pytest.mark.parametrize("summary", ["Export talk", None], ids=["given", "generated"])
async def test_R149_a_new_memory_is_found_by_meaning_immediately(
    http: Http, embedder: StubEmbedder, summary: str | None
) -> None:
    """Without a worker, and although a search just found nothing."""
    text = "The report is due on Monday."
    embedder.table = {
        "when is it ready": at_cosine(1.0),
        summary or f"User says: {text}": at_cosine(0.87),
        "Lunch": at_cosine(0.5, axis=1),
    }
    chat = await new_chat(http)
    ids = await add_messages(http, chat, text)
    before = await search_memories(http, chat, "when is it ready")
    lunch = await create_memory(http, chat, ids, summary="Lunch")
    between = await search_memories(http, chat, "when is it ready")

    created = await create_memory(http, chat, ids, **({"summary": summary} if summary else {}))

    found = await search_memories(http, chat, "when is it ready")
    assert before == []
    assert [each["memory"]["id"] for each in between] == [lunch["id"]]
    assert [(each["memory"]["id"], each["score"]) for each in found] == [
        (created["id"], pytest.approx(0.87, abs=0.005)),
        (lunch["id"], pytest.approx(0.5, abs=0.005)),
    ]


# One memory.


async def test_R150_R152_R153_R154_a_memory_shows_its_messages_and_files(
    http: Http, clock: Clock
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(
        http, chat, "What were our Q4 targets?", "The Q4 targets were $2.5M..."
    )
    content = bytes(range(256)) * 800
    upload = {"filename": "Q4_report.pdf", "data": base64.b64encode(content).decode()}
    file = (await http.post(f"/api/messages/{ids[0]}/files", json=upload)).json()
    created = await create_memory(http, chat, list(reversed(ids)), summary="Targets")

    body = (await http.get(f"/api/memories/{created['id']}")).json()

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
async def test_R155_the_only_action_is_regenerate(http: Http, body: Object) -> None:
    chat = await new_chat(http)
    created = await create_memory(
        http, chat, await add_messages(http, chat, "hello"), summary="Export talk"
    )

    answer = await http.put(f"/api/memories/{created['id']}", json=body)

    assert error_of(answer) == (400, "Bad Request")


async def test_R156_regenerating_replaces_the_summary_and_the_embedding_only(
    engine: Engine, caller: Caller, clock: Clock, embedder: StubEmbedder
) -> None:
    first, second = "They plan the export.", "The Lisbon export is due on Monday."
    embedder.table = {
        first: at_cosine(0.2),
        second: at_cosine(0.9, axis=1),
        "planning": at_cosine(0.2),
        "due": at_cosine(0.9, axis=1),
    }
    model = ScriptedChat(json.dumps({"summary": first}))
    chats = ChatModels(ChatRoute(model, "m1"))
    key = await key_for(engine, caller.workspace_id)
    server = make_server(replace(engine, chat_models=chats))
    async with connect(server, Authorization=f"Bearer {key}") as http:
        chat = await new_chat(http)
        ids = await add_messages(http, chat, "When is the Lisbon export due?", "On Monday.")
        created = await create_memory(http, chat, ids, reason="topic_change")
        path = f"/api/memories/{created['id']}"
        before = (await http.get(path)).json()
        found_before = await search_memories(http, chat, "planning")
        clock.advance(timedelta(minutes=5))
        model.text = json.dumps({"summary": second})

        after = (await http.put(path, json={"action": "regenerate"})).json()

        assert (before["summary"], before["embedding"]) == (
            first,
            pytest.approx(at_cosine(0.2), abs=0.001),
        )
        assert after == before | {
            "summary": second,
            "embedding": pytest.approx(at_cosine(0.9, axis=1), abs=0.001),
            "updatedAt": after["updatedAt"],
        }
        assert after["updatedAt"] > before["updatedAt"]
        assert (await http.get(path)).json() == after
        assert len(model.requests) == 2
        searched = {
            query: await search_memories(http, chat, query) for query in ("planning", "due")
        }
    assert [each["score"] for each in found_before] == [pytest.approx(1.0, abs=0.005)]
    assert [each["score"] for each in searched["due"]] == [pytest.approx(1.0, abs=0.005)]
    assert [each["score"] for each in searched["planning"]] == [pytest.approx(0.18, abs=0.005)]


async def test_R156_R157_R159_regenerating_uses_the_edited_messages(
    http: Http, clock: Clock
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "The Lisbon export is due on Monday.")
    created = await create_memory(http, chat, ids)
    before = (await http.get(f"/api/memories/{created['id']}")).json()
    text = "The Lisbon export is due on Friday."
    clock.advance(timedelta(minutes=5))
    await http.put(f"/api/messages/{ids[0]}", json={"content": text})

    answer = await http.put(f"/api/memories/{created['id']}", json={"action": "regenerate"})

    after = answer.json()
    assert answer.status_code == 200
    assert after["summary"] == f"User says: {text}"
    assert after["embedding"] != before["embedding"]
    assert {name: after[name] for name in ("id", "chatId", "reason", "createdAt")} == {
        name: before[name] for name in ("id", "chatId", "reason", "createdAt")
    }
    assert [each["id"] for each in after["messages"]] == ids
    assert after["updatedAt"] > before["updatedAt"]
    assert (await http.get(f"/api/memories/{created['id']}")).json() == after


async def test_R158_regenerating_embeds_with_the_current_model(
    http: Http, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    created = await create_memory(
        http, chat, await add_messages(http, chat, "The export is due on Monday.")
    )
    other = StubEmbedder(model="better", dimension=12)
    with_new_model = replace(engine, embedders=Embedders(other, {"old": embedder}))
    key = await key_for(engine, caller.workspace_id)

    async with connect(make_server(with_new_model), Authorization=f"Bearer {key}") as client:
        after = await client.put(f"/api/memories/{created['id']}", json={"action": "regenerate"})
        read = await client.get(f"/api/memories/{created['id']}")

    assert (len(created["embedding"]), len(after.json()["embedding"])) == (8, 12)
    assert read.json()["embedding"] == after.json()["embedding"]


async def test_R156_regenerating_keeps_a_given_summary_in_the_history(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "The Lisbon export is due on Monday.")
    created = await create_memory(http, chat, ids, summary="Export talk")

    answer = await http.put(f"/api/memories/{created['id']}", json={"action": "regenerate"})

    assert answer.json()["summary"] == "User says: The Lisbon export is due on Monday."
    history = "SELECT content FROM memory_past_text WHERE workspace_id = %s"
    assert await fetch_rows(engine, history, caller.workspace_id) == [("Export talk",)]


async def test_R158_regenerating_does_not_change_a_memory_of_another_interface(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    thread = Ref(code=chat.removeprefix("chat-"))
    new = Save("The whole story of the harbour", thread, summary="The harbour")
    saved = await save(engine, caller, replace(new, scope=Scope.THREAD))
    path = f"/api/memories/{saved.memory.code}"
    before = (await http.get(path)).json()

    answer = await http.put(path, json={"action": "regenerate"})

    assert (answer.status_code, answer.json()) == (200, before)
    [[content, summary]] = await fetch_rows(
        engine,
        "SELECT content, summary FROM memory WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert (content, summary) == (new.content, new.summary)


async def test_R160_R161_R162_R163_N28_deleting_a_memory_keeps_its_messages(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "The export is due on Monday.")
    created = await create_memory(http, chat, ids, summary="Export talk")
    linked = (await http.get(f"/api/messages/{ids[0]}")).json()

    answer = await http.delete(f"/api/memories/{created['id']}")

    assert (answer.status_code, answer.content) == (204, b"")
    assert linked["memoryId"] == created["id"]
    assert (await http.get(f"/api/messages/{ids[0]}")).json() == {**linked, "memoryId": None}
    assert (await http.get(f"/api/memories/{created['id']}")).status_code == 404
    assert (await list_memories(http, chat))["total"] == 0
    assert await search_memories(http, chat, "Export talk") == []
    for table in ("memory", "memory_vector", "memory_message", "segment"):
        query = f"SELECT count(*) FROM {table} WHERE workspace_id = %s"
        assert await fetch_rows(engine, query, caller.workspace_id) == [(0,)]


# Searching.


async def test_R164_R167_R168_search_covers_one_chat_and_echoes_the_query(
    http: Http,
) -> None:
    chat, other = await new_chat(http), await new_chat(http)
    created = await create_memory(
        http, chat, await add_messages(http, chat, "a"), summary="Revenue growth"
    )
    await create_memory(http, other, await add_messages(http, other, "b"), summary="Revenue growth")

    answer = await http.post(f"/api/chats/{chat}/memories/search", json={"query": "Revenue growth"})

    assert answer.json() == {
        "results": [
            {
                "memory": {"id": created["id"], "summary": "Revenue growth", "messageCount": 1},
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
async def test_R165_R166_invalid_search_limits_are_rejected_not_clamped(
    http: Http, body: Object, status: int
) -> None:
    chat = await new_chat(http)

    answer = await http.post(f"/api/chats/{chat}/memories/search", json=body)

    assert answer.status_code == status
    if status == 400:
        assert error_of(answer) == (400, "Bad Request")


async def test_R166_R169_R170_R171_results_are_ordered_by_cosine_best_first(
    http: Http, embedder: StubEmbedder
) -> None:
    cosines = [0.87, 0.95, 0.3, 0.5, 0.7, 0.1, 0.6, -0.9]
    embedder.table["the question"] = at_cosine(1.0)
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "hello")
    for number, cosine in enumerate(cosines):
        embedder.table[f"summary {number}"] = at_cosine(cosine, axis=number)
        await create_memory(http, chat, ids, summary=f"summary {number}")

    five = await search_memories(http, chat, "the question")
    three = await search_memories(http, chat, "the question", limit=3)
    all_eight = await search_memories(http, chat, "the question", limit=20)

    expected = sorted((max(each, 0.0) for each in cosines), reverse=True)
    assert [each["score"] for each in all_eight] == pytest.approx(expected, abs=0.005)
    assert [each["rank"] for each in all_eight] == list(range(1, 9))
    assert (len(five), len(three)) == (5, 3)
    assert five == all_eight[:5]


async def test_R172_the_query_is_embedded_with_the_model_of_the_memories(
    http: Http, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    chat = await new_chat(http)
    await create_memory(http, chat, await add_messages(http, chat, "hello"), summary="Export talk")
    other = StubEmbedder(model="better", dimension=12)
    with_new_model = replace(engine, embedders=Embedders(other, {"old": embedder}))
    key = await key_for(engine, caller.workspace_id)

    async with connect(make_server(with_new_model), Authorization=f"Bearer {key}") as client:
        assert len(await search_memories(client, chat, "a new question")) == 1

    assert "a new question" in embedder.seen_texts
    assert "a new question" not in other.seen_texts


async def test_R175_a_search_reads_each_vector_of_the_chat_only_once(
    http: Http, engine: Engine, caller: Caller
) -> None:
    """This makes search in 10,000 memories fast; `python -m bench.chat_search` measures it."""
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "hello")
    for number in range(60):
        await create_memory(http, chat, ids, summary=f"Point {number} was settled")
    other = await new_chat(http)
    await create_memory(
        http, other, await add_messages(http, other, "elsewhere"), summary="Another chat"
    )
    [[thread_id]] = await fetch_rows(
        engine,
        "SELECT thread_id FROM memory WHERE workspace_id = %s GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
        caller.workspace_id,
    )
    inside = replace(caller, thread_id=thread_id)
    wanted = Filter(thread_id=thread_id)
    query = await embed_query(engine, caller.workspace_id, "what was settled?")
    assert query
    async with engine.reading(inside) as db:
        with record_plans("ANALYZE, FORMAT JSON") as plans:
            await vectors.nearest(db, inside, query.point, wanted, limit=5, now=engine.now())
    [[plan]] = plans[0].lines

    scans = [
        node
        for node in nodes(plan["Plan"])
        if node.get("Alias", "").startswith("m")
        and "memory_vector" in node.get("Relation Name", "")
    ]

    assert [(node["Actual Loops"], node["Actual Rows"]) for node in scans] == [(1, 60)]
    limits = [node for node in nodes(plan["Plan"]) if node["Node Type"] == "Limit"]
    assert max(node["Actual Rows"] for node in limits) == 5


def nodes(plan: Object) -> Iterator[Object]:
    """Yield every node of a plan."""
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


async def test_R176_a_long_list_is_paged(http: Http, clock: Clock) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, "hello")
    created: list[str] = []
    for number in range(7):
        created.append((await create_memory(http, chat, ids, summary=f"summary {number}"))["id"])
        clock.advance(timedelta(seconds=1))

    pages = [await list_memories(http, chat, start=start, limit=3) for start in (0, 3, 6, 9)]

    paged = [each["id"] for page in pages for each in page["_embedded"]["inf:memory"]]
    assert paged == created
    assert [(page["start"], page["count"], page["total"]) for page in pages] == [
        (0, 3, 7),
        (3, 3, 7),
        (6, 1, 7),
        (9, 0, 7),
    ]
    assert (await http.get(f"/api/chats/{chat}/memories?limit=0")).status_code == 400
