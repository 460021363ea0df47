"""Chats of the Informer interface, their messages and their files."""

import base64
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from recollect.api import ids as refs
from recollect.chat.informer_chats import list_chats
from recollect.conversations.files import get_file, list_files, read_file
from recollect.conversations.threads import get_thread
from recollect.core.domain import Caller, Scope
from recollect.core.file_pieces import PIECE_BYTES
from recollect.engine import Engine
from recollect.memories.save import Save, save
from recollect.models.embedder_registry import Embedders
from recollect.worker import Worker
from tests.support.alumia import add_colleague
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.informer import (
    Http,
    Object,
    add_messages,
    create_memory,
    error_of,
    list_memories,
    new_chat,
)
from tests.support.instance import in_new_workspace, open_pool

pytestmark = pytest.mark.anyio

OCTETS = "application/octet-stream"


# Segmentation.


async def test_R135_the_worker_segments_conversations_by_itself(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    ids = await add_messages(
        http, chat, *(f"{number} thank-you notes, please" for number in range(20))
    )
    one_topic = replace(engine, embedders=Embedders(_OneTopic()))

    await Worker(one_topic, slots=1).run_until_empty()

    [created] = (await list_memories(http, chat))["_embedded"]["inf:memory"]
    assert (created["reason"], created["messageCount"]) == ("length_threshold", 20)
    messages = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"]["inf:message"]
    assert {each["memoryId"] for each in messages} == {created["id"]}
    assert [each["id"] for each in messages] == ids


class _OneTopic(StubEmbedder):
    def _vector(self, text: str) -> Any:
        return np.eye(1, 8, dtype=np.float32)[0]


# Chats and messages.


async def test_N27_chats_are_paged_pinned_ones_first_then_by_last_change(
    http: Http, clock: Clock
) -> None:
    chats: list[str] = []
    for number in range(4):
        clock.advance(timedelta(seconds=1))
        chats.append(await new_chat(http, name=f"chat {number}"))
    clock.advance(timedelta(seconds=1))
    await http.put(f"/api/chats/{chats[0]}", json={"pinned": True})
    clock.advance(timedelta(seconds=1))
    await add_messages(http, chats[2], "hello")

    page = (await http.get("/api/chats?limit=3&offset=0")).json()

    assert (page["total"], page["limit"], page["offset"]) == (4, 3, 0)
    assert [each["id"] for each in page["results"]] == [chats[0], chats[2], chats[3]]
    rest = (await http.get("/api/chats?limit=3&offset=3")).json()
    assert [each["id"] for each in rest["results"]] == [chats[1]]


async def test_N27_twenty_chats_are_a_page_unless_the_request_says_otherwise(http: Http) -> None:
    chats = {await new_chat(http) for _ in range(21)}

    first = (await http.get("/api/chats")).json()
    second = (await http.get("/api/chats", params={"offset": first["limit"]})).json()

    assert [(each["total"], each["limit"], each["offset"]) for each in (first, second)] == [
        (21, 20, 0),
        (21, 20, 20),
    ]
    assert [len(each["results"]) for each in (first, second)] == [20, 1]
    assert {each["id"] for page in (first, second) for each in page["results"]} == chats


async def test_a_chat_is_created_renamed_and_deleted_with_its_content(http: Http) -> None:
    messages = [{"role": "user", "content": "hello"}]
    answer = await http.post(
        "/api/chats",
        json={"name": "One", "modelId": "gpt", "instructions": "Be brief.", "messages": messages},
    )
    chat = answer.json()
    assert (chat["modelId"], chat["instructions"], chat["messageCount"]) == ("gpt", "Be brief.", 1)
    ids = (await http.get(f"/api/chats/{chat['id']}/messages")).json()
    [message] = [each["id"] for each in ids["_embedded"]["inf:message"]]
    created = await create_memory(http, chat["id"], [message], summary="Hello")

    renamed = (await http.put(f"/api/chats/{chat['id']}", json={"name": "Two"})).json()
    deleted = await http.delete(f"/api/chats/{chat['id']}")

    assert (renamed["name"], renamed["modelId"]) == ("Two", "gpt")
    assert deleted.status_code == 204
    for path in (
        f"/api/chats/{chat['id']}",
        f"/api/messages/{message}",
        f"/api/memories/{created['id']}",
    ):
        assert error_of(await http.get(path)) == (404, "Not Found")


async def test_an_unknown_chat_is_called_a_chat_on_every_route(http: Http) -> None:
    for method, path in (
        ("GET", "/api/chats/chat-000000000000"),
        ("DELETE", "/api/chats/chat-000000000000"),
        ("GET", "/api/chats/chat-000000000000/messages"),
        ("GET", "/api/chats/chat-000000000000/memories"),
    ):
        answer = await http.request(method, path)

        assert (answer.status_code, answer.json()["message"]) == (404, "There is no such chat.")


async def test_the_memory_count_is_the_same_in_lists_and_single_chats(http: Http) -> None:
    """The memories have the scope of the chat, and the caller is in no chat."""
    chat, other = await new_chat(http), await new_chat(http)
    ids = await add_messages(http, chat, "hello", "Hello!")
    deleted = await create_memory(http, chat, ids, summary="A greeting")
    await create_memory(http, chat, ids, summary="Hello")
    await create_memory(http, chat, ids, summary="Hello again")
    await http.delete(f"/api/memories/{deleted['id']}")

    one = (await http.get(f"/api/chats/{chat}")).json()
    page = (await http.get("/api/chats")).json()["results"]

    assert one["memoryCount"] == (await list_memories(http, chat))["total"] == 2
    assert {each["id"]: each["memoryCount"] for each in page} == {chat: 2, other: 0}


async def test_the_memory_count_includes_only_visible_memories(
    http: Http, engine: Engine, caller: Caller
) -> None:
    chat = await new_chat(http)
    grace = await add_colleague(engine, caller)
    thread = refs.chat(chat)
    for person in (caller, grace):
        await save(engine, person, Save("tea", thread=thread, scope=Scope.GLOBAL))
    await save(engine, grace, Save("coffee", thread=thread, scope=Scope.THREAD))

    seen = await get_thread(engine, grace, thread)

    assert seen.memory_count == 2
    other = await in_new_workspace(engine, caller)
    assert await list_chats(engine, other, offset=0, limit=10) == ([], 0)


async def test_a_chat_with_invalid_first_messages_is_not_created(http: Http) -> None:
    messages = [{"content": "hello"}, {"content": "x" * (1024 * 1024 + 1)}]

    answer = await http.post("/api/chats", json={"name": "One", "messages": messages})

    assert answer.status_code == 413
    assert (await http.get("/api/chats")).json()["total"] == 0


async def test_N28_messages_are_listed_as_hal_with_all_fields(http: Http) -> None:
    chat = await new_chat(http)
    new: Object = {
        "role": "assistant",
        "content": "Sure",
        "liked": True,
        "cost": 0.5,
        "toolUses": [{}],
    }
    stored = (await http.post(f"/api/chats/{chat}/messages", json=new)).json()

    body = (await http.get(f"/api/chats/{chat}/messages")).json()

    assert body["_links"]["self"]["href"] == f"/api/chats/{chat}/messages"
    assert (body["start"], body["count"], body["total"]) == (0, 1, 1)
    assert body["_embedded"]["inf:message"] == [stored]
    assert stored["chatId"] == chat
    assert {name: stored[name] for name in new} == new
    assert stored["memoryId"] is None


async def test_N28_messages_are_paged_by_cursor(http: Http) -> None:
    chat = await new_chat(http)
    ids = await add_messages(http, chat, *(f"{number}" for number in range(5)))

    page = (await http.get(f"/api/chats/{chat}/messages?limit=2&after={ids[1]}")).json()

    assert [each["id"] for each in page["_embedded"]["inf:message"]] == ids[2:4]


async def test_N29_clearing_messages_leaves_memories_without_references(http: Http) -> None:
    chat = await new_chat(http)
    created = await create_memory(
        http, chat, await add_messages(http, chat, "a", "b"), summary="Two letters"
    )

    answer = await http.delete(f"/api/chats/{chat}/messages")

    assert answer.status_code == 204
    body = (await http.get(f"/api/memories/{created['id']}")).json()
    assert (body["summary"], body["messages"]) == ("Two letters", [])
    [item] = (await list_memories(http, chat))["_embedded"]["inf:memory"]
    assert item["messageCount"] == 0


async def test_a_message_with_a_repeated_client_id_is_stored_once(http: Http) -> None:
    chat = await new_chat(http)
    new = {"content": "hello", "clientId": "m1"}

    first = await http.post(f"/api/chats/{chat}/messages", json=new)
    again = await http.post(f"/api/chats/{chat}/messages", json=new)

    assert first.json() == again.json()
    assert (await http.get(f"/api/chats/{chat}")).json()["messageCount"] == 1


async def test_deleting_a_chat_deletes_its_stored_responses(http: Http) -> None:
    chat = await new_chat(http)
    headers = {"Idempotency-Key": "first-word"}
    path = f"/api/chats/{chat}/messages"
    first = await http.post(path, json={"content": "a secret"}, headers=headers)
    assert (
        await http.post(path, json={"content": "a secret"}, headers=headers)
    ).json() == first.json()

    await http.delete(f"/api/chats/{chat}")

    again = await http.post(path, json={"content": "a secret"}, headers=headers)
    assert error_of(again) == (404, "Not Found")


# Files.


async def test_S63_a_file_is_downloaded_unchanged_and_never_displayed(http: Http) -> None:
    chat = await new_chat(http)
    [message] = await add_messages(http, chat, "see attached")
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


async def test_a_file_of_another_message_is_not_found(http: Http) -> None:
    chat = await new_chat(http)
    one, two = await add_messages(http, chat, "one", "two")
    upload = {"filename": "a.txt", "data": "aGk="}
    file = (await http.post(f"/api/messages/{one}/files", json=upload)).json()

    answer = await http.get(f"/api/messages/{two}/files/{file['id']}")

    assert error_of(answer) == (404, "Not Found")


@pytest.mark.parametrize(
    ("data", "status"),
    [("not base64!", 400), (base64.b64encode(b"x" * (5 * 1024 * 1024 + 1)).decode(), 413)],
)
async def test_an_invalid_or_too_large_file_is_rejected(http: Http, data: str, status: int) -> None:
    chat = await new_chat(http)
    [message] = await add_messages(http, chat, "one")

    answer = await http.post(f"/api/messages/{message}/files", json={"filename": "a", "data": data})

    assert error_of(answer)[0] == status


async def test_a_file_can_be_uploaded_in_a_form(http: Http) -> None:
    chat = await new_chat(http)
    [message] = await add_messages(http, chat, "see attached")
    content = bytes(range(256)) * 40_000  # more than the limit for JSON

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
async def test_S60_an_upload_without_a_valid_file_is_rejected(
    http: Http, content_type: str, body: bytes, status: int
) -> None:
    chat = await new_chat(http)
    [message] = await add_messages(http, chat, "one")

    answer = await http.post(
        f"/api/messages/{message}/files", content=body, headers={"content-type": content_type}
    )

    assert error_of(answer)[0] == status
    assert (await http.get(f"/api/messages/{message}/files")).json()["files"] == []


@pytest.mark.parametrize("media_type", ["日/本", "ê/ê", "text", "a/b/c", "", "/"])
async def test_an_invalid_media_type_is_rejected_in_json_and_ignored_in_forms(
    http: Http, media_type: str
) -> None:
    chat = await new_chat(http)
    [message] = await add_messages(http, chat, "see attached")
    path = f"/api/messages/{message}/files"
    upload = {"filename": "a.txt", "mediaType": media_type, "data": "aGk="}

    refused = await http.post(path, json=upload)
    sent = await http.post(path, files={"file": ("a.txt", b"hi", media_type)})

    assert error_of(refused) == (400, "Bad Request")
    assert "mediaType" in refused.json()["message"]
    assert sent.json()["mediaType"] == OCTETS


async def test_a_stored_invalid_media_type_is_sent_as_octet_stream(
    http: Http, engine: Engine, caller: Caller
) -> None:
    """An older release accepted such types, and imports may contain them."""
    chat = await new_chat(http)
    [message] = await add_messages(http, chat, "see attached")
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


async def test_a_repeated_upload_attaches_once_even_after_an_edit(http: Http) -> None:
    chat = await new_chat(http)
    [message] = await add_messages(http, chat, "see attached")
    path, headers = f"/api/messages/{message}/files", {"Idempotency-Key": "a-file"}
    upload = {"filename": "a.txt", "data": "aGk="}
    file = (await http.post(path, json=upload, headers=headers)).json()
    await http.put(f"/api/messages/{message}", json={"content": "see below"})

    again = await http.post(path, json=upload, headers=headers)

    assert again.json() == file
    assert (await http.get(path)).json()["files"] == [file]


async def test_slow_downloads_hold_no_database_connection(
    http: Http, engine: Engine, caller: Caller, database_url: str
) -> None:
    chat = await new_chat(http)
    [message] = [refs.message(each) for each in await add_messages(http, chat, "see attached")]
    content = bytes(range(256)) * (PIECE_BYTES // 256) + b"the last piece"
    upload = {"filename": "a.bin", "data": base64.b64encode(content).decode()}
    sent = (await http.post(f"/api/messages/{message.code}/files", json=upload)).json()
    async with open_pool(database_url, size=2) as pool:
        narrow = replace(engine, pool=pool)
        file = await get_file(narrow, caller, message, refs.file(sent["id"]))
        readers = [read_file(narrow, caller, file) for _ in range(3)]

        first_pieces = [await anext(reader) for reader in readers]

        assert await list_files(narrow, caller, message) == [file]
        rest = [b"".join([piece async for piece in reader]) for reader in readers]
        assert [first + others for first, others in zip(first_pieces, rest, strict=True)] == [
            content
        ] * 3
