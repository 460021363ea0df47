"""The six memory routes of the document."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from recollect.domain import Caller, Filter, Ref, Scope
from recollect.engine.core import Engine
from recollect.engine.save import Save, save
from recollect.engine.spaces import embed_query
from recollect.models.registry import Embedders
from recollect.server import Server
from recollect.store import vectors
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import key_for, serve, visit
from tests.support.informer import Http, Object, complaint, found, listed, new_chat, remember, say
from tests.support.plans import explained
from tests.support.tools import rows

pytestmark = pytest.mark.anyio

NOBODY = "aaaaaaaaaaaa"


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


async def test_R156_regenerating_a_summary_that_somebody_gave_keeps_it_in_its_history(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    ids = await say(http, chat, "The Lisbon export is due on Monday.")
    made = await remember(http, chat, ids, summary="Export talk")

    answer = await http.put(f"/api/memories/{made['id']}", json={"action": "regenerate"})

    assert answer.json()["summary"] == "User says: The Lisbon export is due on Monday."
    kept = "SELECT content FROM memory_text WHERE workspace_id = %s"
    assert await rows(engine, kept, caller.workspace_id) == [("Export talk",)]


async def test_R158_a_memory_of_another_door_keeps_its_text_when_it_is_regenerated(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    thread = Ref(code=chat.removeprefix("chat-"))
    told = Save("The whole story of the harbour", thread, summary="The harbour")
    saved = await save(engine, caller, replace(told, scope=Scope.THREAD))
    address = f"/api/memories/{saved.memory.code}"
    before = (await http.get(address)).json()

    answer = await http.put(address, json={"action": "regenerate"})

    assert (answer.status_code, answer.json()) == (200, before)
    [[content, summary]] = await rows(
        engine,
        "SELECT content, summary FROM memory WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert (content, summary) == (told.content, told.summary)


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
        with explained("ANALYZE, FORMAT JSON") as plans:
            await vectors.nearest(db, inside, asked.point, wanted, limit=5, now=engine.now())
    [[plan]] = plans[0].lines

    scans = [
        node
        for node in nodes(plan["Plan"])
        if node.get("Alias", "").startswith("m")
        and "memory_vector" in node.get("Relation Name", "")
    ]

    assert [(node["Actual Loops"], node["Actual Rows"]) for node in scans] == [(1, 60)]
    cuts = [node for node in nodes(plan["Plan"]) if node["Node Type"] == "Limit"]
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
