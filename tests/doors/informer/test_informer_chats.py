"""Chats of the informer door, their messages and their files."""

import base64
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from recollect.domain import Caller, Scope
from recollect.doors import refs
from recollect.engine.attachments import get_file, list_files, read_file
from recollect.engine.chats import list_chats
from recollect.engine.core import Engine
from recollect.engine.pieces import PIECE_BYTES
from recollect.engine.save import Save, save
from recollect.engine.threads import get_thread
from recollect.models.registry import Embedders
from recollect.worker import Worker
from tests.support.alumia import colleague
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import neighbour, open_pool
from tests.support.informer import Http, Object, complaint, listed, new_chat, remember, say

pytestmark = pytest.mark.anyio

OCTETS = "application/octet-stream"


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


async def test_a_chat_counts_its_memories_wherever_it_is_told_of(http: Http) -> None:
    """They are the chat's own, of scope `thread`, and whoever asks is in no chat."""
    chat, other = await new_chat(http), await new_chat(http)
    ids = await say(http, chat, "hello", "Hello!")
    gone = await remember(http, chat, ids, summary="A greeting")
    await remember(http, chat, ids, summary="Hello")
    await remember(http, chat, ids, summary="Hello again")
    await http.delete(f"/api/memories/{gone['id']}")

    one = (await http.get(f"/api/chats/{chat}")).json()
    page = (await http.get("/api/chats")).json()["results"]

    assert one["memoryCount"] == (await listed(http, chat))["total"] == 2
    assert {each["id"]: each["memoryCount"] for each in page} == {chat: 2, other: 0}


async def test_a_chat_counts_only_what_whoever_asks_may_see(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    grace = await colleague(engine, caller)
    thread = refs.chat(chat)
    for person in (caller, grace):
        await save(engine, person, Save("tea", thread=thread, scope=Scope.GLOBAL))
    await save(engine, grace, Save("coffee", thread=thread, scope=Scope.THREAD))

    seen = await get_thread(engine, grace, thread)

    assert seen.memory_count == 2
    elsewhere = await neighbour(engine, caller)
    assert await list_chats(engine, elsewhere, offset=0, limit=10) == ([], 0)


async def test_a_chat_whose_first_messages_cannot_be_kept_is_not_begun(http: Http) -> None:
    said = [{"content": "hello"}, {"content": "x" * (1024 * 1024 + 1)}]

    answer = await http.post("/api/chats", json={"name": "One", "messages": said})

    assert answer.status_code == 413
    assert (await http.get("/api/chats")).json()["total"] == 0


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


async def test_a_deleted_chat_is_told_of_in_no_kept_answer(http: Http) -> None:
    chat = await new_chat(http)
    once = {"Idempotency-Key": "first-word"}
    path = f"/api/chats/{chat}/messages"
    said = await http.post(path, json={"content": "a secret"}, headers=once)
    assert (await http.post(path, json={"content": "a secret"}, headers=once)).json() == said.json()

    await http.delete(f"/api/chats/{chat}")

    again = await http.post(path, json={"content": "a secret"}, headers=once)
    assert complaint(again) == (404, "Not Found")


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


@pytest.mark.parametrize("media_type", ["日/本", "ê/ê", "text", "a/b/c", "", "/"])
async def test_what_is_no_media_type_is_refused_in_json_and_just_bytes_in_a_form(
    http: Http, media_type: str
) -> None:
    chat = await new_chat(http)
    [message] = await say(http, chat, "see attached")
    path = f"/api/messages/{message}/files"
    upload = {"filename": "a.txt", "mediaType": media_type, "data": "aGk="}

    refused = await http.post(path, json=upload)
    sent = await http.post(path, files={"file": ("a.txt", b"hi", media_type)})

    assert complaint(refused) == (400, "Bad Request")
    assert "mediaType" in refused.json()["message"]
    assert sent.json()["mediaType"] == OCTETS


async def test_a_file_whose_media_type_no_header_takes_is_sent_as_just_bytes(
    http: Http, engine: Engine, caller: Caller
) -> None:
    """It was kept before such a type was refused, or an import has brought it."""
    chat = await new_chat(http)
    [message] = await say(http, chat, "see attached")
    upload = {"filename": "a.txt", "mediaType": "image/svg+xml", "data": "aGk="}
    file = (await http.post(f"/api/messages/{message}/files", json=upload)).json()
    async with engine.writing(caller) as db:
        await db.execute(
            "UPDATE message_file SET media_type = '日/本' WHERE workspace_id = %s",
            [caller.workspace_id],
        )

    answer = await http.get(f"/api/messages/{message}/files/{file['id']}")

    assert (answer.status_code, answer.content) == (200, b"hi")
    assert answer.headers["content-type"] == OCTETS


async def test_a_file_sent_again_after_its_message_was_edited_is_attached_once(http: Http) -> None:
    chat = await new_chat(http)
    [message] = await say(http, chat, "see attached")
    path, once = f"/api/messages/{message}/files", {"Idempotency-Key": "a-file"}
    upload = {"filename": "a.txt", "data": "aGk="}
    file = (await http.post(path, json=upload, headers=once)).json()
    await http.put(f"/api/messages/{message}", json={"content": "see below"})

    again = await http.post(path, json=upload, headers=once)

    assert again.json() == file
    assert (await http.get(path)).json()["files"] == [file]


async def test_readers_who_take_their_time_hold_no_connection(
    http: Http, engine: Engine, caller: Caller, database_url: str
) -> None:
    chat = await new_chat(http)
    [message] = [refs.message(each) for each in await say(http, chat, "see attached")]
    content = bytes(range(256)) * (PIECE_BYTES // 256) + b"the last piece"
    upload = {"filename": "a.bin", "data": base64.b64encode(content).decode()}
    sent = (await http.post(f"/api/messages/{message.code}/files", json=upload)).json()
    async with open_pool(database_url, size=2) as pool:
        narrow = replace(engine, pool=pool)
        file = await get_file(narrow, caller, message, refs.file(sent["id"]))
        readers = [read_file(narrow, caller, file) for _ in range(3)]

        begun = [await anext(reader) for reader in readers]

        assert await list_files(narrow, caller, message) == [file]
        rest = [b"".join([piece async for piece in reader]) for reader in readers]
        assert [first + more for first, more in zip(begun, rest, strict=True)] == [content] * 3
