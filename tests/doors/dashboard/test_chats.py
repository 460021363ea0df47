"""Chats of the dashboard, what was said in them, and turns as they come (R001-R003, R029-R043)."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from recollect.domain import Caller, Ref
from recollect.engine.core import Engine
from recollect.engine.messages import ListMessages, list_messages
from recollect.engine.save import Save, save
from recollect.engine.segments import MakeMemory, make_memory
from recollect.engine.talk import AGENT
from recollect.models.chats import Chats
from recollect.store.threads import Place, chats_holding
from recollect.worker import Worker
from tests.doors.dashboard.conftest import DEADLINE, Desk, Object
from tests.support.chats import new_chat, say
from tests.support.clock import Clock
from tests.support.dashboard import browse, new_user, wrong
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import neighbour, new_caller, serve
from tests.support.upstream import Call, Endpoint, Raw, Say
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LONG = (
    "The launch must wait for the audit, because the auditors arrive on 12 May 2026. "
    "The payment service should stay on PostgreSQL, which already holds every invoice. "
    "The team in Bonn owns the mobile client and ships it every second Tuesday of the month."
)


@dataclass(frozen=True)
class Event:
    name: str
    data: Any


def events_of(text: str) -> list[Event]:
    """What a page hears, in order; comments are for nobody."""
    found: list[Event] = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines.get("data") == "[DONE]":
            found.append(Event("done", None))
        elif lines:
            found.append(Event(lines["event"], json.loads(lines["data"])))
    return found


def chat_path(desk: Desk) -> str:
    return f"/chat/api/chats/chat_{desk.thread.code}"


async def turn(desk: Desk, content: str, **more: Any) -> list[Event]:
    answer = await desk.http.post(f"{chat_path(desk)}/turns", json={"content": content, **more})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return events_of(answer.text)


async def said(desk: Desk, **query: Any) -> list[Object]:
    return (await desk.http.get(f"{chat_path(desk)}/messages", params=query)).json()["items"]


def one(events: list[Event], name: str) -> Any:
    [found] = [each.data for each in events if each.name == name]
    return found


async def test_a_chat_is_begun_named_found_and_ended(desk: Desk, clock: Clock) -> None:
    made = await desk.http.post("/chat/api/chats", json={"title": "Plans for spring"})
    chat = made.json()
    clock.advance(timedelta(minutes=1))
    path = f"/chat/api/chats/{chat['id']}"

    listed = (await desk.http.get("/chat/api/chats")).json()
    by_title = (await desk.http.get("/chat/api/chats", params={"q": "SPRING"})).json()
    by_words = (await desk.http.get("/chat/api/chats", params={"q": "deadline"})).json()
    renamed = await desk.http.patch(path, json={"title": "Plans for summer"})
    read = await desk.http.get(path)
    gone = await desk.http.delete(path)
    after = await desk.http.get(path)

    assert made.status_code == 201
    assert chat == {
        "id": chat["id"],
        "title": "Plans for spring",
        "workspace_id": f"ws_{desk.caller.workspace_id}",
        "created_at": "2026-03-01T12:00:00.000000Z",
        "updated_at": "2026-03-01T12:00:00.000000Z",
        "message_count": 0,
    }
    assert {each["id"] for each in listed["items"]} == {chat["id"], f"chat_{desk.thread.code}"}
    assert [each["id"] for each in by_title["items"]] == [chat["id"]]
    assert [each["id"] for each in by_words["items"]] == [f"chat_{desk.thread.code}"]
    assert renamed.json()["title"] == "Plans for summer"
    assert read.json() == renamed.json() | {"is_answering": False}
    assert gone.status_code == 204
    assert wrong(after) == (404, "chat_not_found")


async def test_chats_come_by_pages_the_latest_first(desk: Desk, clock: Clock) -> None:
    for number in range(5):
        clock.advance(timedelta(seconds=number % 2))
        await desk.http.post("/chat/api/chats", json={"title": f"chat {number}"})
    seen: list[str] = []
    cursor = None

    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await desk.http.get("/chat/api/chats", params=query)).json()
        seen += [each["title"] for each in page["items"]]
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break

    assert len(seen) == 6
    assert set(seen) == {*(f"chat {number}" for number in range(5)), None}


async def test_what_was_learnt_in_a_chat_outlives_it(desk: Desk) -> None:
    made = await desk.remember_here(messageId=f"msg_{desk.message.code}")
    ask = MakeMemory([Ref(id=desk.message.id)], summary="They spoke of tea")
    own = await make_memory(desk.engine, desk.caller, Ref(id=desk.thread.id), ask)

    await desk.http.delete(chat_path(desk))

    [kept] = await desk.listed()
    assert (kept["id"], kept["source_chat_id"]) == (made["id"], None)
    async with desk.engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT (SELECT count(*) FROM memory WHERE id = %(memory)s),"
            " (SELECT count(*) FROM message WHERE thread_id = %(thread)s)",
            {"memory": own.memory.id, "thread": desk.thread.id},
        )
        assert await cursor.fetchone() == (0, 0)  # the chat's own goes with it


async def test_messages_are_read_backwards_page_by_page(desk: Desk) -> None:
    await say(desk.engine, desk.caller, desk.thread, *(f"number {n}" for n in range(5)))
    seen: list[list[str]] = []
    cursor = None

    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await desk.http.get(f"{chat_path(desk)}/messages", params=query)).json()
        seen.append([each["content"] for each in page["items"]])
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break

    assert seen == [["number 3", "number 4"], ["number 1", "number 2"], [DEADLINE, "number 0"]]
    for bad in ("x", "msg_" + "a" * 24):
        answer = await desk.http.get(f"{chat_path(desk)}/messages", params={"cursor": bad})
        assert wrong(answer) == (400, "invalid_request")


async def test_a_turn_is_told_as_it_happens_and_kept(modelled: Desk, endpoint: Endpoint) -> None:
    endpoint.script = [Say("You said **March 15**.")]

    events = await turn(modelled, "When is the deadline?")

    names = [each.name for each in events]
    assert names[:2] == ["message.created", "injected"]
    assert names[-2:] == ["message.completed", "done"]
    assert set(names[2:-2]) == {"delta"}
    asked, answered = one(events, "message.created"), one(events, "message.completed")
    text = "".join(each.data["text"] for each in events if each.name == "delta")
    assert text == answered["content"] == "You said **March 15**."
    assert answered["html"] == "<p>You said <strong>March 15</strong>.</p>\n"
    assert (asked["role"], asked["content"]) == ("user", "When is the deadline?")
    assert (await said(modelled))[-2:] == [asked, answered]
    assert next(each["content"] for each in endpoint.asked[0].json["messages"]) == DEADLINE
    assert (await modelled.http.get(chat_path(modelled))).json()["title"] == "When is the deadline?"


async def test_R001_R003_R091_what_one_chat_learnt_is_shown_in_the_next_and_why(
    modelled: Desk, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    embedder.table |= {"Ada drinks green tea": at_cosine(0.9), "What to drink?": at_cosine(1.0)}
    memory = await modelled.remember_here(content="Ada drinks green tea", category="preference")
    pinned = await modelled.remember("Answer in French")
    await modelled.http.post(
        f"{modelled.workspace}/memories/{pinned['id']}/pin", json={"pinned": True}
    )
    other = replace(modelled, thread=await new_chat(modelled.engine, modelled.caller))

    events = await turn(other, "What to drink?")

    items = one(events, "injected")["items"]
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
    assert "Ada drinks green tea" in endpoint.asked[0].prompt
    assert one(events, "message.completed")["injected"] == items
    assert (await said(other))[-1]["injected"] == items

    await modelled.http.delete(f"{modelled.workspace}/memories/{memory['id']}")
    assert [each["memory_id"] for each in (await said(other))[-1]["injected"]] == [pinned["id"]]


@pytest.mark.parametrize(("length", "is_told"), [(2, False), (45, True)])
async def test_what_is_remembered_of_a_chat_alone_is_told_once_it_is_too_long_to_be(
    modelled: Desk, embedder: StubEmbedder, *, length: int, is_told: bool
) -> None:
    await say(
        modelled.engine, modelled.caller, modelled.thread, *(f"line {n}" for n in range(length))
    )
    embedder.table |= {"They spoke of tea": at_cosine(0.9), "What of tea?": at_cosine(1.0)}
    ask = MakeMemory([Ref(id=modelled.message.id)], summary="They spoke of tea")
    await make_memory(modelled.engine, modelled.caller, Ref(id=modelled.thread.id), ask)

    events = await turn(modelled, "What of tea?")

    told = [each["content"] for each in one(events, "injected")["items"]]
    assert told == (["They spoke of tea"] if is_told else [])
    assert len(one(events, "message.completed")["injected"]) == len(told)


async def test_a_chat_recalls_nothing_it_has_made_of_messages_that_the_model_has_before_it(
    modelled: Desk, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    lines = await say(
        modelled.engine, modelled.caller, modelled.thread, *(f"line {n}" for n in range(45))
    )
    texts = ("What of tea?", "Long ago, tea", "Just now, tea", "Tea is to be remembered")
    embedder.table |= {text: at_cosine(1.0 - number / 100) for number, text in enumerate(texts)}
    for message, summary in ((modelled.message, texts[1]), (lines[-1], texts[2])):
        ask = MakeMemory([Ref(id=message.id)], summary=summary)
        await make_memory(modelled.engine, modelled.caller, Ref(id=modelled.thread.id), ask)
    await modelled.remember_here(messageId=f"msg_{lines[-2].code}", content=texts[3])
    endpoint.script = [Say(None, [Call("x_recall_memory", {"query": texts[0]})]), Say("Tea.")]

    events = await turn(modelled, texts[0])

    found = endpoint.asked[-1].json["messages"][-1]["content"]
    told = [each["content"] for each in one(events, "injected")["items"]]
    assert [text in found for text in texts[1:]] == [True, False, True]
    assert sorted(told) == sorted([texts[1], texts[3]])


async def test_R002_a_chat_of_another_workspace_is_shown_nothing_of_it(
    modelled: Desk, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    embedder.table |= {"Ada drinks green tea": at_cosine(0.9), "What to drink?": at_cosine(1.0)}
    await modelled.remember("Ada drinks green tea")
    there = await neighbour(modelled.engine, modelled.caller)
    other = replace(modelled, thread=await new_chat(modelled.engine, there), caller=there)

    events = await turn(other, "What to drink?")

    assert one(events, "injected") == {"items": []}
    assert "green tea" not in endpoint.asked[0].prompt


async def test_R010_tools_run_in_the_turn_and_are_told(modelled: Desk, endpoint: Endpoint) -> None:
    saving = Call("x_save_memory", {"content": "Ada plays the cello", "category": "fact"})
    endpoint.script = [Say(None, calls=[saving]), Say("Noted.")]

    events = await turn(modelled, "Remember that Ada plays the cello.")

    assert one(events, "tool") == {"name": "x_save_memory", "status": "done"}
    assert one(events, "message.completed")["content"] == "Noted."
    [memory] = await modelled.listed(category="fact")
    assert (memory["content"], memory["source_type"]) == ("Ada plays the cello", "model")
    assert memory["source_chat_id"] == f"chat_{modelled.thread.code}"


@pytest.mark.parametrize("kind", ["deep_think", "research", "compaction"])
async def test_R035_R036_R040_what_long_work_came_to_is_saved_and_told(
    modelled: Desk, endpoint: Endpoint, kind: str
) -> None:
    found = [
        {
            "content": "The launch waits for the audit of 12 May 2026.",
            "category": "decision",
            "quote": "The launch must wait for the audit",
            "summary": "Launch after audit",
        }
    ]
    endpoint.script = [Say(LONG), Say(json.dumps(found))]

    events = await turn(modelled, "Think about the launch.", kind=kind)

    told = one(events, "x_memory.auto_saved")
    assert told["memory"]["content"] == found[0]["content"]
    assert told["memory"]["source_type"] == f"auto_{kind}"
    assert told["memory"]["summary"] == "Launch after audit"
    assert told["chat_id"] == f"chat_{modelled.thread.code}"
    assert told["memory"]["id"] in [each["id"] for each in await modelled.listed()]
    assert one(events, "message.completed")["kind"] == kind
    assert endpoint.asked[0].json["messages"][0]["role"] == "system"


async def test_R035_short_work_and_plain_talk_come_to_nothing(
    modelled: Desk, endpoint: Endpoint
) -> None:
    endpoint.script = [Say("x" * 199), Say(LONG)]

    short = await turn(modelled, "Think.", kind="deep_think")
    plain = await turn(modelled, "Talk.")

    names = {each.name for each in [*short, *plain]}
    assert "x_memory.auto_saved" not in names
    assert len(endpoint.asked) == 2


async def test_a_search_looks_through_so_many_messages_at_a_time_and_goes_on(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    for number in range(7):
        thread = await new_chat(engine, caller)
        await say(engine, caller, thread, *(f"word {each} of {number}" for each in range(3)))
        clock.advance(timedelta(minutes=1))
    pages: list[list[str]] = []
    place: Place | None = None
    async with engine.reading(caller) as db:
        while place or not pages:
            found, place = await chats_holding(
                db,
                caller,
                "OF 1",
                agent=AGENT,
                after=place,
                limit=5,
                now=engine.now(),
                most_messages=5,
            )
            pages.append([each.code for each in found])

    # Two chats at a time, the latest first: the one that holds it is the last but one.
    assert [len(each) for each in pages] == [0, 0, 1, 0]


async def test_a_compaction_needs_no_words(modelled: Desk, endpoint: Endpoint) -> None:
    events = await turn(modelled, "", kind="compaction")
    refused = await modelled.http.post(f"{chat_path(modelled)}/turns", json={"content": "  "})

    assert one(events, "message.completed")["content"] == "Hello."
    assert wrong(refused) == (400, "invalid_request")


async def test_a_temporary_turn_leaves_no_trace(
    modelled: Desk, endpoint: Endpoint, embedder: StubEmbedder
) -> None:
    embedder.table |= {"Ada drinks green tea": at_cosine(0.9), "I love rum": at_cosine(1.0)}
    await modelled.remember("Ada drinks green tea")
    before = await said(modelled)

    events = await turn(modelled, "I love rum", temporary=True)
    await Worker(modelled.engine, slots=1).run_until_empty()

    assert next(each.name for each in events) == "message.created"
    assert one(events, "message.created")["id"] is None
    assert one(events, "message.completed")["content"] == "Hello."
    assert "green tea" not in endpoint.asked[0].prompt
    assert endpoint.asked[0].tools == []
    assert await said(modelled) == before
    assert [each["content"] for each in await modelled.listed()] == ["Ada drinks green tea"]


async def test_the_answer_is_kept_though_the_reader_went_away(
    modelled: Desk, endpoint: Endpoint
) -> None:
    endpoint.script = [Say("one two three four five", pause=0.05)]
    body = {"content": "Count to five."}

    async with asyncio.timeout(20):
        await _listen(modelled, body, asyncio.Event(), leaves=True)
    await until(lambda: _is_said(modelled, 3))

    last = (await said(modelled))[-1]
    assert last["content"] == "one two three four five"
    assert last["is_complete"] is True


async def _is_said(desk: Desk, count: int) -> bool:
    return len(await said(desk)) >= count


def _request(desk: Desk) -> Object:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": f"{chat_path(desk)}/turns",
        "raw_path": b"",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [
            (b"cookie", desk.http.headers["cookie"].encode()),
            (b"content-type", b"application/json"),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("recollect.test", 80),
    }


async def _listen(
    desk: Desk, body: Object, heard: asyncio.Event, *, leaves: bool = False
) -> list[Event]:
    """Ask over a connection that tells when the first words are heard, and may break there."""
    sent = False
    text = b""

    async def receive() -> Object:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}
        await (heard if leaves else asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal text
        text += message.get("body", b"")
        if b"event: delta" in text:
            heard.set()
            if leaves:
                raise OSError("gone")

    with contextlib.suppress(OSError):
        await desk.server.app(_request(desk), receive, send)
    return events_of(text.decode())


async def test_a_server_that_stops_in_mid_sentence_leaves_a_chat_that_goes_on(
    modelled: Desk, endpoint: Endpoint
) -> None:
    asking = await begun(modelled, endpoint, "Tell me all.")
    async with asyncio.timeout(20):
        await modelled.server.under_way.close()
        events = await asking

    cut = (await said(modelled))[-1]
    again = await turn(modelled, "Tell me all.")

    assert events[-1].name == "done"
    assert (cut["content"], cut["is_complete"]) == ("Half a", False)
    assert one(again, "message.completed")["content"] == "Hello."


async def begun(
    desk: Desk, endpoint: Endpoint, content: str, **more: Any
) -> asyncio.Task[list[Event]]:
    """A turn whose model has said half a sentence and falls silent."""
    first = b'data: {"choices":[{"index":0,"delta":{"content":"Half a"}}]}\n\n'
    endpoint.script = [Raw([first], hangs=True)]
    heard = asyncio.Event()
    asking = asyncio.create_task(_listen(desk, {"content": content, **more}, heard))
    async with asyncio.timeout(20):
        await heard.wait()
    return asking


async def test_an_answer_is_stopped_by_who_asked_and_kept_as_far_as_it_came(
    modelled: Desk, endpoint: Endpoint
) -> None:
    path = chat_path(modelled)
    idle = await modelled.http.post(f"{path}/stop")
    asking = await begun(modelled, endpoint, "Tell me all.")
    is_answering = (await modelled.http.get(path)).json()["is_answering"]
    colleague, _ = await new_user(modelled.engine, modelled.caller, is_admin=True)
    other = replace(modelled.caller, user_id=colleague)
    async with await browse(modelled.server, modelled.engine, other) as http:
        by_another = await http.post(f"{path}/stop")

    stopped = await modelled.http.post(f"{path}/stop")
    async with asyncio.timeout(20):
        events = await asking

    assert idle.json() == by_another.json() == {"stopped": False}
    assert stopped.json() == {"stopped": True}
    assert is_answering is True
    assert (await modelled.http.get(path)).json()["is_answering"] is False
    assert [each.name for each in events[-3:]] == ["message.completed", "stopped", "done"]
    kept = (await said(modelled))[-1]
    assert (kept["content"], kept["is_complete"], kept["is_stopped"]) == ("Half a", False, True)
    assert one(events, "message.completed") == kept
    assert one(await turn(modelled, "Go on."), "message.completed")["content"] == "Hello."


async def test_an_answer_is_stopped_from_another_server_too_and_a_temporary_one_leaves_no_trace(
    modelled: Desk, endpoint: Endpoint
) -> None:
    async with modelled.server.running():
        asking = await begun(modelled, endpoint, "Between us", temporary=True)
        elsewhere = serve(modelled.engine)
        async with await browse(elsewhere, modelled.engine, modelled.caller) as http:
            answer = await http.post(f"{chat_path(modelled)}/stop")
        async with asyncio.timeout(20):
            events = await asking

    assert answer.json() == {"stopped": False}
    told = one(events, "message.completed")
    assert (told["content"], told["is_complete"], told["is_stopped"]) == ("Half a", False, True)
    assert events[-2].name == "stopped"
    assert len(await said(modelled)) == 1


async def test_a_model_that_fails_is_told_and_the_question_kept_once(
    modelled: Desk, endpoint: Endpoint
) -> None:
    broken = Raw([b'{"error": "internal address 10.0.0.1"}'], status=500, content_type="text/plain")
    endpoint.script = [broken, Raw([b"data: nonsense\n\n"], breaks=True), Say("At last.")]

    refused = await turn(modelled, "Are you there?")
    broke = await turn(modelled, "Are you there?")
    answered = await turn(modelled, "Are you there?")

    assert one(refused, "error")["code"] == "model_refused"
    assert "10.0.0.1" not in json.dumps([each.data for each in refused])
    assert one(broke, "error")["code"] in {"unavailable", "internal_error"}
    assert one(answered, "message.completed")["content"] == "At last."
    texts = [each["content"] for each in await said(modelled)]
    assert texts == [DEADLINE, "Are you there?", "At last."]


@pytest.mark.parametrize(
    ("body", "said_why"),
    [
        ({}, (400, "invalid_request")),
        ({"content": ""}, (400, "invalid_request")),
        ({"content": "x", "kind": "dance"}, (400, "invalid_request")),
        ({"content": 5}, (400, "invalid_request")),
        ({"content": "x" * 100_001}, (400, "invalid_request")),
        ({"content": "x", "temporary": "yes"}, (400, "invalid_request")),
    ],
)
async def test_a_turn_that_cannot_be_is_explained(
    modelled: Desk, body: Object, said_why: tuple[int, str]
) -> None:
    answer = await modelled.http.post(f"{chat_path(modelled)}/turns", json=body)

    assert wrong(answer) == said_why
    assert len(await said(modelled)) == 1


async def test_without_any_model_a_turn_says_so(desk: Desk) -> None:
    engine = replace(desk.engine, chats=Chats())
    async with await browse(serve(engine), engine, desk.caller) as http:
        answer = await http.post(f"{chat_path(desk)}/turns", json={"content": "Hello?"})

    assert wrong(answer) == (409, "conflict")


async def test_S52_nobody_has_too_many_turns_under_way(modelled: Desk, endpoint: Endpoint) -> None:
    endpoint.otherwise = Raw([], hangs=True)
    path = f"{chat_path(modelled)}/turns"

    async def ask(number: int) -> httpx2.Response:
        return await modelled.http.post(path, json={"content": f"question {number}"})

    async with asyncio.timeout(20):
        asking = [asyncio.create_task(ask(number)) for number in range(8)]
        await until(lambda: len(modelled.server.under_way._tasks) == 8)
        refused = await ask(9)
        await modelled.server.under_way.close()
        answers = await asyncio.gather(*asking)

    assert wrong(refused) == (429, "rate_limited")
    assert {each.status_code for each in answers} == {200}
    assert not modelled.server.under_way._tasks


async def test_S41_a_chat_of_strangers_does_not_exist(modelled: Desk) -> None:
    stranger = await new_caller(modelled.engine)
    path = chat_path(modelled)
    async with await browse(modelled.server, modelled.engine, stranger) as http:
        answers = [
            await http.get(path),
            await http.patch(path, json={"title": "theirs"}),
            await http.delete(path),
            await http.get(f"{path}/messages"),
            await http.post(f"{path}/turns", json={"content": "hello"}),
        ]
        in_workspace = f"ws_{modelled.caller.workspace_id}"
        elsewhere = [
            await http.get("/chat/api/chats", params={"workspace": in_workspace}),
            await http.post("/chat/api/chats", json={"workspace_id": in_workspace}),
        ]
        own = (await http.get("/chat/api/chats")).json()

    assert [wrong(each) for each in answers] == [(404, "chat_not_found")] * 5
    assert [wrong(each) for each in elsewhere] == [(404, "workspace_not_found")] * 2
    assert own["items"] == []
    page = await list_messages(
        modelled.engine, modelled.caller, Ref(id=modelled.thread.id), ListMessages(limit=5)
    )
    assert len(page.messages) == 1


async def test_R009_what_people_and_models_save_is_one_list(
    modelled: Desk, endpoint: Endpoint
) -> None:
    endpoint.script = [
        Say(None, calls=[Call("x_save_memory", {"content": "Bob keeps bees"})]),
        Say("Noted."),
    ]
    await turn(modelled, "Bob keeps bees.")
    await modelled.remember("The office is in Bonn")
    await save(modelled.engine, modelled.caller, Save("Cy rides a bicycle"))

    found = await modelled.listed()

    kinds = {each["content"]: each["source_type"] for each in found}
    assert kinds["Bob keeps bees"] == "model"
    assert kinds["The office is in Bonn"] == kinds["Cy rides a bicycle"] == "user"


async def test_R109_R110_R113_each_way_of_saving_keeps_where_it_came_from(
    modelled: Desk, endpoint: Endpoint
) -> None:
    endpoint.script = [
        Say(None, calls=[Call("x_save_memory", {"content": "Bob keeps bees"})]),
        Say("Noted."),
    ]
    await turn(modelled, "Bob keeps bees.")
    await modelled.remember("The office is in Bonn")
    await modelled.remember_here(messageId=f"msg_{modelled.message.code}")
    await modelled.remember_here(content="Cy rides a bicycle")

    found = {each["content"]: each for each in await modelled.listed()}

    chat, message = f"chat_{modelled.thread.code}", f"msg_{modelled.message.code}"
    came_from = {
        content: (each["source_chat_id"], each["source_message_id"])
        for content, each in found.items()
    }
    assert came_from == {
        "Bob keeps bees": (chat, None),
        "The office is in Bonn": (None, None),
        DEADLINE: (chat, message),
        "Cy rides a bicycle": (chat, None),
    }
    assert {each["source_type"] for each in found.values()} == {"model", "user"}
