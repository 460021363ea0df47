"""Chats of the dashboard, their messages and turns (R001-R003, R029-R043)."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from recollect.chat.dashboard_chats import AGENT
from recollect.conversations.messages import ListMessages, list_messages
from recollect.conversations.queries.threads import ThreadPosition, chats_holding
from recollect.conversations.segments import MakeSegment, make_segment
from recollect.core.domain import Caller, Ref
from recollect.engine import Engine
from recollect.models.chat_registry import ChatModels
from recollect.worker import Worker
from tests.api.dashboard.conftest import DEADLINE, Dashboard, Object
from tests.support.clock import Clock
from tests.support.conversations import add_messages, new_chat
from tests.support.dashboard import connect_signed_in, error_of, new_user
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import in_new_workspace, make_server, new_caller
from tests.support.upstream import Answer, Call, Endpoint, RawAnswer
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LONG = (
    "The launch must wait for the audit, because the auditors arrive on 12 May 2026. "
    "The payment service should stay on PostgreSQL, which already holds every invoice. "
    "The team in Bonn owns the mobile client and ships it every second Tuesday of the month."
)


@dataclass(frozen=True)
class StreamEvent:
    name: str
    data: Any


def events_of(text: str) -> list[StreamEvent]:
    """Parse the server-sent events, in order, without comments."""
    found: list[StreamEvent] = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines.get("data") == "[DONE]":
            found.append(StreamEvent("done", None))
        elif lines:
            found.append(StreamEvent(lines["event"], json.loads(lines["data"])))
    return found


def chat_path(dashboard: Dashboard) -> str:
    return f"/chat/api/chats/chat_{dashboard.thread.code}"


async def turn(dashboard: Dashboard, content: str, **more: Any) -> list[StreamEvent]:
    response = await dashboard.http.post(
        f"{chat_path(dashboard)}/turns", json={"content": content, **more}
    )
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return events_of(response.text)


async def messages_of(dashboard: Dashboard, **query: Any) -> list[Object]:
    return (await dashboard.http.get(f"{chat_path(dashboard)}/messages", params=query)).json()[
        "items"
    ]


def data_of(events: list[StreamEvent], name: str) -> Any:
    [found] = [each.data for each in events if each.name == name]
    return found


async def test_a_chat_is_created_renamed_found_and_deleted(
    dashboard: Dashboard, clock: Clock
) -> None:
    created = await dashboard.http.post("/chat/api/chats", json={"title": "Plans for spring"})
    chat = created.json()
    clock.advance(timedelta(minutes=1))
    path = f"/chat/api/chats/{chat['id']}"

    listed = (await dashboard.http.get("/chat/api/chats")).json()
    by_title = (await dashboard.http.get("/chat/api/chats", params={"q": "SPRING"})).json()
    by_words = (await dashboard.http.get("/chat/api/chats", params={"q": "deadline"})).json()
    renamed = await dashboard.http.patch(path, json={"title": "Plans for summer"})
    read = await dashboard.http.get(path)
    deleted = await dashboard.http.delete(path)
    after = await dashboard.http.get(path)

    assert created.status_code == 201
    assert chat == {
        "id": chat["id"],
        "title": "Plans for spring",
        "workspace_id": f"ws_{dashboard.caller.workspace_id}",
        "created_at": "2026-03-01T12:00:00.000000Z",
        "updated_at": "2026-03-01T12:00:00.000000Z",
        "message_count": 0,
    }
    assert {each["id"] for each in listed["items"]} == {chat["id"], f"chat_{dashboard.thread.code}"}
    assert [each["id"] for each in by_title["items"]] == [chat["id"]]
    assert [each["id"] for each in by_words["items"]] == [f"chat_{dashboard.thread.code}"]
    assert renamed.json()["title"] == "Plans for summer"
    assert read.json() == renamed.json() | {"is_answering": False}
    assert deleted.status_code == 204
    assert error_of(after) == (404, "chat_not_found")


async def test_chats_are_listed_in_pages(dashboard: Dashboard, clock: Clock) -> None:
    for number in range(5):
        clock.advance(timedelta(seconds=number % 2))
        await dashboard.http.post("/chat/api/chats", json={"title": f"chat {number}"})
    seen: list[str] = []
    cursor = None

    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await dashboard.http.get("/chat/api/chats", params=query)).json()
        seen += [each["title"] for each in page["items"]]
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break

    assert len(seen) == 6
    assert set(seen) == {*(f"chat {number}" for number in range(5)), None}


async def test_memories_saved_from_a_chat_outlive_it(dashboard: Dashboard) -> None:
    created = await dashboard.remember_in_chat(messageId=f"msg_{dashboard.message.code}")
    ask = MakeSegment([Ref(id=dashboard.message.id)], summary="They spoke of tea")
    own = await make_segment(dashboard.engine, dashboard.caller, Ref(id=dashboard.thread.id), ask)

    await dashboard.http.delete(chat_path(dashboard))

    [memory] = await dashboard.listed()
    assert (memory["id"], memory["source_chat_id"]) == (created["id"], None)
    async with dashboard.engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT (SELECT count(*) FROM memory WHERE id = %(memory)s),"
            " (SELECT count(*) FROM message WHERE thread_id = %(thread)s)",
            {"memory": own.memory.id, "thread": dashboard.thread.id},
        )
        assert await cursor.fetchone() == (0, 0)  # the chat's own summary is deleted with it


async def test_messages_are_paged_backwards(dashboard: Dashboard) -> None:
    await add_messages(
        dashboard.engine, dashboard.caller, dashboard.thread, *(f"number {n}" for n in range(5))
    )
    seen: list[list[str]] = []
    cursor = None

    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await dashboard.http.get(f"{chat_path(dashboard)}/messages", params=query)).json()
        seen.append([each["content"] for each in page["items"]])
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break

    assert seen == [["number 3", "number 4"], ["number 1", "number 2"], [DEADLINE, "number 0"]]
    for bad in ("x", "msg_" + "a" * 24):
        response = await dashboard.http.get(
            f"{chat_path(dashboard)}/messages", params={"cursor": bad}
        )
        assert error_of(response) == (400, "invalid_request")


async def test_a_turn_is_streamed_and_stored(with_model: Dashboard, endpoint: Endpoint) -> None:
    endpoint.script = [Answer("You said **March 15**.")]

    events = await turn(with_model, "When is the deadline?")

    names = [each.name for each in events]
    assert names[:2] == ["message.created", "injected"]
    assert names[-2:] == ["message.completed", "done"]
    assert set(names[2:-2]) == {"delta"}
    question, answer = data_of(events, "message.created"), data_of(events, "message.completed")
    text = "".join(each.data["text"] for each in events if each.name == "delta")
    assert text == answer["content"] == "You said **March 15**."
    assert answer["html"] == "<p>You said <strong>March 15</strong>.</p>\n"
    assert (question["role"], question["content"]) == ("user", "When is the deadline?")
    assert (await messages_of(with_model))[-2:] == [question, answer]
    assert next(each["content"] for each in endpoint.requests[0].json["messages"]) == DEADLINE
    assert (await with_model.http.get(chat_path(with_model))).json()[
        "title"
    ] == "When is the deadline?"


async def test_R001_R003_R091_memories_of_one_chat_are_injected_in_another(
    with_model: Dashboard, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    embedder.table |= {"Ada drinks green tea": at_cosine(0.9), "What to drink?": at_cosine(1.0)}
    memory = await with_model.remember_in_chat(
        content="Ada drinks green tea", category="preference"
    )
    pinned = await with_model.remember("Answer in French")
    await with_model.http.post(
        f"{with_model.workspace}/memories/{pinned['id']}/pin", json={"pinned": True}
    )
    other = replace(with_model, thread=await new_chat(with_model.engine, with_model.caller))

    events = await turn(other, "What to drink?")

    items = data_of(events, "injected")["items"]
    assert items[0] == {
        "memory_id": memory["id"],
        "content": "Ada drinks green tea",
        "category": "preference",
        "score": 0.9,
        "why": {"by": "meaning", "score": 0.9},
    }
    assert [(each["memory_id"], each["why"]) for each in items[1:]] == [
        (pinned["id"], {"by": "pinned"})
    ]
    assert "Ada drinks green tea" in endpoint.requests[0].prompt
    assert data_of(events, "message.completed")["injected"] == items
    assert (await messages_of(other))[-1]["injected"] == items

    await with_model.http.delete(f"{with_model.workspace}/memories/{memory['id']}")
    assert [each["memory_id"] for each in (await messages_of(other))[-1]["injected"]] == [
        pinned["id"]
    ]


@pytest.mark.parametrize(("length", "is_injected"), [(2, False), (45, True)])
async def test_a_chats_own_summary_is_injected_only_when_history_is_truncated(
    with_model: Dashboard, embedder: StubEmbedder, *, length: int, is_injected: bool
) -> None:
    await add_messages(
        with_model.engine,
        with_model.caller,
        with_model.thread,
        *(f"line {n}" for n in range(length)),
    )
    embedder.table |= {"They spoke of tea": at_cosine(0.9), "What of tea?": at_cosine(1.0)}
    ask = MakeSegment([Ref(id=with_model.message.id)], summary="They spoke of tea")
    await make_segment(with_model.engine, with_model.caller, Ref(id=with_model.thread.id), ask)

    events = await turn(with_model, "What of tea?")

    injected = [each["content"] for each in data_of(events, "injected")["items"]]
    assert injected == (["They spoke of tea"] if is_injected else [])
    assert len(data_of(events, "message.completed")["injected"]) == len(injected)


async def test_a_chat_does_not_recall_summaries_of_messages_in_the_prompt(
    with_model: Dashboard, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    lines = await add_messages(
        with_model.engine, with_model.caller, with_model.thread, *(f"line {n}" for n in range(45))
    )
    texts = ("What of tea?", "Long ago, tea", "Just now, tea", "Tea is to be remembered")
    embedder.table |= {text: at_cosine(1.0 - number / 100) for number, text in enumerate(texts)}
    for message, summary in ((with_model.message, texts[1]), (lines[-1], texts[2])):
        ask = MakeSegment([Ref(id=message.id)], summary=summary)
        await make_segment(with_model.engine, with_model.caller, Ref(id=with_model.thread.id), ask)
    await with_model.remember_in_chat(messageId=f"msg_{lines[-2].code}", content=texts[3])
    endpoint.script = [Answer(None, [Call("x_recall_memory", {"query": texts[0]})]), Answer("Tea.")]

    events = await turn(with_model, texts[0])

    found = endpoint.requests[-1].json["messages"][-1]["content"]
    injected = [each["content"] for each in data_of(events, "injected")["items"]]
    assert [text in found for text in texts[1:]] == [True, False, True]
    assert sorted(injected) == sorted([texts[1], texts[3]])


async def test_R002_memories_are_not_injected_in_another_workspace(
    with_model: Dashboard, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    embedder.table |= {"Ada drinks green tea": at_cosine(0.9), "What to drink?": at_cosine(1.0)}
    await with_model.remember("Ada drinks green tea")
    there = await in_new_workspace(with_model.engine, with_model.caller)
    other = replace(with_model, thread=await new_chat(with_model.engine, there), caller=there)

    events = await turn(other, "What to drink?")

    assert data_of(events, "injected") == {"items": []}
    assert "green tea" not in endpoint.requests[0].prompt


async def test_R010_tools_run_in_the_turn_and_are_reported(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    saving = Call("x_save_memory", {"content": "Ada plays the cello", "category": "fact"})
    endpoint.script = [Answer(None, calls=[saving]), Answer("Noted.")]

    events = await turn(with_model, "Remember that Ada plays the cello.")

    assert data_of(events, "tool") == {"name": "x_save_memory", "status": "done"}
    assert data_of(events, "message.completed")["content"] == "Noted."
    [memory] = await with_model.listed(category="fact")
    assert (memory["content"], memory["source_type"]) == ("Ada plays the cello", "model")
    assert memory["source_chat_id"] == f"chat_{with_model.thread.code}"


@pytest.mark.parametrize("kind", ["deep_think", "research", "compaction"])
async def test_R035_R036_R040_S73_long_output_is_learnt_and_reported(
    with_model: Dashboard, endpoint: Endpoint, clock: Clock, kind: str
) -> None:
    found = [
        {
            "content": "The launch waits for the audit of 12 May 2026.",
            "category": "decision",
            "quote": "The launch must wait for the audit",
            "summary": "Launch after audit",
        },
        {
            "content": "The payment service stays on PostgreSQL.",
            "category": "decision",
            "quote": "The payment service  should stay",
            "summary": "PostgreSQL stays",
        },
        {
            "content": "The launch was cancelled.",
            "category": "decision",
            "quote": "The launch was cancelled",  # the output does not say so
            "summary": "No launch",
        },
    ]
    endpoint.script = [Answer(LONG[:200]), Answer(json.dumps(found))]

    events = await turn(with_model, "Think about the launch.", kind=kind)
    clock.advance(timedelta(seconds=1))  # the second one is said a microsecond later

    listed = {each["content"]: each for each in await with_model.listed()}
    assert sorted(listed) == [each["content"] for each in found[:2]]
    reported = [each.data for each in events if each.name == "x_memory.auto_saved"]
    assert sorted(reported, key=lambda each: each["memory"]["content"]) == [
        {
            "memory": listed[each["content"]],
            "chat_id": f"chat_{with_model.thread.code}",
            "workspace_id": f"ws_{with_model.caller.workspace_id}",
        }
        for each in found[:2]
    ]
    for each in found[:2]:
        shown = listed[each["content"]]
        assert (shown["source_type"], shown["summary"], shown["category"]) == (
            f"auto_{kind}",
            each["summary"],
            "decision",
        )
    assert data_of(events, "message.completed")["kind"] == kind
    assert endpoint.requests[0].json["messages"][0]["role"] == "system"


async def _distil_outcome(dashboard: Dashboard, endpoint: Endpoint, found: str) -> None:
    endpoint.script = [Answer(LONG), Answer(found)]
    await turn(dashboard, "Think about the launch.", kind="research")


async def _distil_tool_call(dashboard: Dashboard, endpoint: Endpoint, found: str) -> None:
    recalling = Call("x_recall_memory", {"query": LONG})
    endpoint.script = [Answer(None, [recalling]), Answer("I see.")]
    await turn(dashboard, LONG)
    endpoint.default = Answer(found)
    await Worker(dashboard.engine, slots=1).run_until_empty()


@pytest.mark.parametrize("distil", [_distil_outcome, _distil_tool_call])
async def test_R038_R039_R112_content_is_truncated_and_summaries_are_not(
    with_model: Dashboard, endpoint: Endpoint, distil: Callable[..., Awaitable[None]]
) -> None:
    found = {
        "content": "é" * 2_500,
        "category": "decision",
        "quote": "The launch must wait for the audit",
        "summary": "s" * 5_000,
    }

    await distil(with_model, endpoint, json.dumps([found]))

    [memory] = await with_model.listed()
    assert memory["content"] == "é" * 2_000
    assert memory["summary"] == "s" * 5_000


async def test_S80_a_secret_in_a_learnt_summary_is_redacted(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    found = {
        "content": "The launch waits for the audit.",
        "category": "decision",
        "quote": "The launch must wait for the audit",
        "summary": "Key sk-proj-abcdefghijklmnop1234567890 for the audit",
    }

    await _distil_outcome(with_model, endpoint, json.dumps([found]))

    [memory] = await with_model.listed()
    assert memory["summary"] == "Key [redacted] for the audit"


@pytest.mark.parametrize("kind", ["deep_think", "research", "compaction"])
async def test_R035_short_output_and_plain_chat_are_not_learnt(
    with_model: Dashboard, endpoint: Endpoint, kind: str
) -> None:
    endpoint.script = [Answer(LONG[:199]), Answer(LONG)]

    short = await turn(with_model, "Think.", kind=kind)
    plain = await turn(with_model, "Talk.")

    names = {each.name for each in [*short, *plain]}
    assert "x_memory.auto_saved" not in names
    assert len(endpoint.requests) == 2  # neither was distilled
    assert await with_model.listed() == []


async def test_a_chat_search_scans_a_limited_number_of_messages_per_page(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    for number in range(7):
        thread = await new_chat(engine, caller)
        await add_messages(
            engine, caller, thread, *(f"word {each} of {number}" for each in range(3))
        )
        clock.advance(timedelta(minutes=1))
    pages: list[list[str]] = []
    position: ThreadPosition | None = None
    async with engine.reading(caller) as db:
        while position or not pages:
            found, position = await chats_holding(
                db,
                caller,
                "OF 1",
                agent=AGENT,
                after=position,
                limit=5,
                now=engine.now(),
                most_messages=5,
            )
            pages.append([each.code for each in found])

    # Each page scans two chats, newest first; the match is in the last but one.
    assert [len(each) for each in pages] == [0, 0, 1, 0]


async def test_a_compaction_needs_no_content(with_model: Dashboard, endpoint: Endpoint) -> None:
    events = await turn(with_model, "", kind="compaction")
    refused = await with_model.http.post(f"{chat_path(with_model)}/turns", json={"content": "  "})

    assert data_of(events, "message.completed")["content"] == "Hello."
    assert error_of(refused) == (400, "invalid_request")


async def test_a_temporary_turn_is_not_stored(
    with_model: Dashboard, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    embedder.table |= {"Ada drinks green tea": at_cosine(0.9), "I love rum": at_cosine(1.0)}
    await with_model.remember("Ada drinks green tea")
    before = await messages_of(with_model)

    events = await turn(with_model, "I love rum", temporary=True)
    await Worker(with_model.engine, slots=1).run_until_empty()

    assert next(each.name for each in events) == "message.created"
    assert data_of(events, "message.created")["id"] is None
    assert data_of(events, "message.completed")["content"] == "Hello."
    assert "green tea" not in endpoint.requests[0].prompt
    assert endpoint.requests[0].tools == []
    assert await messages_of(with_model) == before
    assert [each["content"] for each in await with_model.listed()] == ["Ada drinks green tea"]


async def test_the_answer_is_stored_after_the_client_disconnects(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    endpoint.script = [Answer("one two three four five", pause=0.05)]
    body = {"content": "Count to five."}

    async with asyncio.timeout(20):
        await _listen(with_model, body, asyncio.Event(), disconnects=True)
    await until(lambda: _has_messages(with_model, 3))

    last = (await messages_of(with_model))[-1]
    assert last["content"] == "one two three four five"
    assert last["is_complete"] is True


async def _has_messages(dashboard: Dashboard, count: int) -> bool:
    return len(await messages_of(dashboard)) >= count


def _request(dashboard: Dashboard) -> Object:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": f"{chat_path(dashboard)}/turns",
        "raw_path": b"",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [
            (b"cookie", dashboard.http.headers["cookie"].encode()),
            (b"content-type", b"application/json"),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("recollect.test", 80),
    }


async def _listen(
    dashboard: Dashboard, body: Object, first_delta: asyncio.Event, *, disconnects: bool = False
) -> list[StreamEvent]:
    """Send a turn; set the event at the first delta, and disconnect there if asked to."""
    sent = False
    text = b""

    async def receive() -> Object:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}
        await (first_delta if disconnects else asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal text
        text += message.get("body", b"")
        if b"event: delta" in text:
            first_delta.set()
            if disconnects:
                raise OSError("disconnected")

    with contextlib.suppress(OSError):
        await dashboard.server.app(_request(dashboard), receive, send)
    return events_of(text.decode())


async def test_a_chat_can_continue_after_a_server_stops_mid_answer(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    running_turn = await start_turn(with_model, endpoint, "Tell me all.")
    async with asyncio.timeout(20):
        await with_model.server.running_turns.close()
        events = await running_turn

    cut = (await messages_of(with_model))[-1]
    again = await turn(with_model, "Tell me all.")

    assert events[-1].name == "done"
    assert (cut["content"], cut["is_complete"]) == ("Half a", False)
    assert data_of(again, "message.completed")["content"] == "Hello."


async def start_turn(
    dashboard: Dashboard, endpoint: Endpoint, content: str, **more: Any
) -> asyncio.Task[list[StreamEvent]]:
    """Start a turn whose model sends half a sentence and then hangs."""
    first = b'data: {"choices":[{"index":0,"delta":{"content":"Half a"}}]}\n\n'
    endpoint.script = [RawAnswer([first], hangs=True)]
    first_delta = asyncio.Event()
    running_turn = asyncio.create_task(
        _listen(dashboard, {"content": content, **more}, first_delta)
    )
    async with asyncio.timeout(20):
        await first_delta.wait()
    return running_turn


async def test_only_the_asker_can_stop_an_answer_and_its_text_is_kept(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    path = chat_path(with_model)
    idle = await with_model.http.post(f"{path}/stop")
    running_turn = await start_turn(with_model, endpoint, "Tell me all.")
    is_answering = (await with_model.http.get(path)).json()["is_answering"]
    colleague, _ = await new_user(with_model.engine, with_model.caller, is_admin=True)
    other = replace(with_model.caller, user_id=colleague)
    async with await connect_signed_in(with_model.server, with_model.engine, other) as http:
        by_other_user = await http.post(f"{path}/stop")

    stopped = await with_model.http.post(f"{path}/stop")
    async with asyncio.timeout(20):
        events = await running_turn

    assert idle.json() == by_other_user.json() == {"stopped": False}
    assert stopped.json() == {"stopped": True}
    assert is_answering is True
    assert (await with_model.http.get(path)).json()["is_answering"] is False
    assert [each.name for each in events[-3:]] == ["message.completed", "stopped", "done"]
    stored = (await messages_of(with_model))[-1]
    assert (stored["content"], stored["is_complete"], stored["is_stopped"]) == (
        "Half a",
        False,
        True,
    )
    assert data_of(events, "message.completed") == stored
    assert data_of(await turn(with_model, "Go on."), "message.completed")["content"] == "Hello."


async def test_a_temporary_answer_can_be_stopped_from_another_server(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    async with with_model.server.running():
        running_turn = await start_turn(with_model, endpoint, "Between us", temporary=True)
        elsewhere = make_server(with_model.engine)
        async with await connect_signed_in(elsewhere, with_model.engine, with_model.caller) as http:
            response = await http.post(f"{chat_path(with_model)}/stop")
        async with asyncio.timeout(20):
            events = await running_turn

    assert response.json() == {"stopped": False}
    message = data_of(events, "message.completed")
    assert (message["content"], message["is_complete"], message["is_stopped"]) == (
        "Half a",
        False,
        True,
    )
    assert events[-2].name == "stopped"
    assert len(await messages_of(with_model)) == 1


async def test_a_failing_model_is_reported_and_the_question_stored_once(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    broken = RawAnswer(
        [b'{"error": "internal address 10.0.0.1"}'], status=500, content_type="text/plain"
    )
    endpoint.script = [broken, RawAnswer([b"data: nonsense\n\n"], breaks=True), Answer("At last.")]

    refused = await turn(with_model, "Are you there?")
    broke = await turn(with_model, "Are you there?")
    answered = await turn(with_model, "Are you there?")

    assert data_of(refused, "error")["code"] == "model_refused"
    assert "10.0.0.1" not in json.dumps([each.data for each in refused])
    assert data_of(broke, "error")["code"] in {"unavailable", "internal_error"}
    assert data_of(answered, "message.completed")["content"] == "At last."
    texts = [each["content"] for each in await messages_of(with_model)]
    assert texts == [DEADLINE, "Are you there?", "At last."]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, (400, "invalid_request")),
        ({"content": ""}, (400, "invalid_request")),
        ({"content": "x", "kind": "dance"}, (400, "invalid_request")),
        ({"content": 5}, (400, "invalid_request")),
        ({"content": "x" * 100_001}, (400, "invalid_request")),
        ({"content": "x", "temporary": "yes"}, (400, "invalid_request")),
    ],
)
async def test_an_invalid_turn_request_is_rejected(
    with_model: Dashboard, body: Object, error: tuple[int, str]
) -> None:
    response = await with_model.http.post(f"{chat_path(with_model)}/turns", json=body)

    assert error_of(response) == error
    assert len(await messages_of(with_model)) == 1


async def test_a_turn_without_any_model_conflicts(dashboard: Dashboard) -> None:
    engine = replace(dashboard.engine, chat_models=ChatModels())
    async with await connect_signed_in(make_server(engine), engine, dashboard.caller) as http:
        response = await http.post(f"{chat_path(dashboard)}/turns", json={"content": "Hello?"})

    assert error_of(response) == (409, "conflict")


async def test_S52_a_user_can_run_at_most_eight_turns_at_once(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    endpoint.default = RawAnswer([], hangs=True)
    path = f"{chat_path(with_model)}/turns"

    async def ask(number: int) -> httpx2.Response:
        return await with_model.http.post(path, json={"content": f"question {number}"})

    async with asyncio.timeout(20):
        running_turn = [asyncio.create_task(ask(number)) for number in range(8)]
        await until(lambda: len(with_model.server.running_turns._tasks) == 8)
        refused = await ask(9)
        await with_model.server.running_turns.close()
        responses = await asyncio.gather(*running_turn)

    assert error_of(refused) == (429, "rate_limited")
    assert {each.status_code for each in responses} == {200}
    assert not with_model.server.running_turns._tasks


async def test_S41_a_chat_of_another_org_is_not_found(with_model: Dashboard) -> None:
    outsider = await new_caller(with_model.engine)
    path = chat_path(with_model)
    async with await connect_signed_in(with_model.server, with_model.engine, outsider) as http:
        responses = [
            await http.get(path),
            await http.patch(path, json={"title": "theirs"}),
            await http.delete(path),
            await http.get(f"{path}/messages"),
            await http.post(f"{path}/turns", json={"content": "hello"}),
        ]
        in_workspace = f"ws_{with_model.caller.workspace_id}"
        elsewhere = [
            await http.get("/chat/api/chats", params={"workspace": in_workspace}),
            await http.post("/chat/api/chats", json={"workspace_id": in_workspace}),
        ]
        own = (await http.get("/chat/api/chats")).json()

    assert [error_of(each) for each in responses] == [(404, "chat_not_found")] * 5
    assert [error_of(each) for each in elsewhere] == [(404, "workspace_not_found")] * 2
    assert own["items"] == []
    page = await list_messages(
        with_model.engine, with_model.caller, Ref(id=with_model.thread.id), ListMessages(limit=5)
    )
    assert len(page.messages) == 1


async def test_R009_memories_of_people_and_models_are_in_one_list(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    endpoint.script = [
        Answer(None, calls=[Call("x_save_memory", {"content": "Bob keeps bees"})]),
        Answer("Noted."),
    ]
    await turn(with_model, "Bob keeps bees.")
    by_person = await with_model.remember_in_chat(content="The office is in Bonn")

    listed = await with_model.listed()
    in_chat = await with_model.listed_in_chat()

    by_content = {each["content"]: each for each in listed}
    assert sorted(by_content) == ["Bob keeps bees", "The office is in Bonn"]
    by_model = by_content["Bob keeps bees"]
    assert by_content["The office is in Bonn"] == by_person
    assert by_model == by_person | {
        "id": by_model["id"],
        "content": "Bob keeps bees",
        "source_type": "model",
    }
    assert by_person["source_type"] == "user"
    assert {each["id"] for each in in_chat} == {by_model["id"], by_person["id"]}


async def test_R109_R110_R113_each_way_of_saving_stores_the_source(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    endpoint.script = [
        Answer(None, calls=[Call("x_save_memory", {"content": "Bob keeps bees"})]),
        Answer("Noted."),
    ]
    await turn(with_model, "Bob keeps bees.")
    await with_model.remember("The office is in Bonn")
    await with_model.remember_in_chat(messageId=f"msg_{with_model.message.code}")
    await with_model.remember_in_chat(content="Cy rides a bicycle")

    found = {each["content"]: each for each in await with_model.listed()}

    chat, message = f"chat_{with_model.thread.code}", f"msg_{with_model.message.code}"
    sources = {
        content: (each["source_chat_id"], each["source_message_id"])
        for content, each in found.items()
    }
    assert sources == {
        "Bob keeps bees": (chat, None),
        "The office is in Bonn": (None, None),
        DEADLINE: (chat, message),
        "Cy rides a bicycle": (chat, None),
    }
    assert {each["source_type"] for each in found.values()} == {"model", "user"}
