"""Assets, sources, learning and keys of the alumia interface."""

import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from psycopg import sql

from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.learning.insights import SaveInsight, save_insight_if_on
from recollect.memories.assets import MAX_BYTES
from recollect.server import Server
from recollect.tenancy.keys import create_key, list_keys
from tests.support import informer
from tests.support.alumia import (
    add_colleague,
    client_of,
    create_session,
    error_of,
    list_values,
    recall_values,
    save_memory,
)
from tests.support.clock import Clock
from tests.support.conversations import add_messages, new_chat
from tests.support.dashboard import connect_signed_in
from tests.support.instance import connect, new_caller
from tests.support.statebase import open_session

pytestmark = pytest.mark.anyio

ABSENT = (404, "NOT_FOUND")
OCTETS = "application/octet-stream"
BYTES = bytes(range(256)) * 4_000  # a little under 1 MiB: four pieces


@pytest.fixture
async def http(engine: Engine, server: Server, caller: Caller) -> Any:
    async with client_of(engine, server, caller) as client:
        yield client


async def attach(
    http: httpx2.AsyncClient, memory: dict[str, Any], data: bytes = BYTES, name: str = "a.png"
) -> dict[str, Any]:
    answer = await http.post(
        f"/api/v1/memories/{memory['id']}/assets", files={"file": (name, data, "image/png")}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def count(engine: Engine, caller: Caller, table: str) -> int:
    query = sql.SQL("SELECT count(*) FROM {} WHERE workspace_id = %s").format(sql.Identifier(table))
    async with engine.reading(caller) as db:
        row = await (await db.execute(query, [caller.workspace_id])).fetchone()
    assert row
    return row[0]


@pytest.mark.parametrize("media_type", ["ê/ê", "日/本", "text", "a/b/c"])
async def test_an_invalid_media_type_is_stored_as_octet_stream(
    http: httpx2.AsyncClient, media_type: str
) -> None:
    memory = await save_memory(http, "a picture of London")
    path = f"/api/v1/memories/{memory['id']}/assets"

    sent = await http.post(path, files={"file": ("a.png", b"hi", media_type)})

    assert sent.json()["data"]["mediaType"] == OCTETS


async def test_a_stored_invalid_media_type_is_sent_as_octet_stream(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    """Such a row is older than the validation, or was imported."""
    memory = await save_memory(http, "a picture of London")
    asset = await attach(http, memory, b"hi")
    async with engine.writing(caller) as db:
        await db.execute(
            "UPDATE asset SET media_type = '日/本' WHERE workspace_id = %s", [caller.workspace_id]
        )

    answer = await http.get(f"/api/v1/memories/{memory['id']}/assets/{asset['id']}")

    assert (answer.status_code, answer.content) == (200, b"hi")
    assert answer.headers["content-type"] == OCTETS


async def test_R287_an_asset_is_stored_separately_and_returned_unchanged(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    memory = await save_memory(http, "a picture of London")
    path = f"/api/v1/memories/{memory['id']}"

    asset = await attach(http, memory)

    assert asset["size"] == len(BYTES)
    assert asset["sha256"] == hashlib.sha256(BYTES).hexdigest()
    assert (await http.get(f"{path}/assets")).json()["data"]["items"] == [asset]
    whole = await http.get(f"{path}/assets/{asset['id']}")
    assert (whole.status_code, whole.content) == (200, BYTES)
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''a.png"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert (await http.get(path)).json()["data"] == memory
    assert await count(engine, caller, "asset_piece") == 4

    await http.delete(path)

    assert await count(engine, caller, "asset") == await count(engine, caller, "asset_piece") == 0
    assert error_of(await http.get(f"{path}/assets/{asset['id']}")) == ABSENT


@pytest.mark.parametrize(
    ("asked", "span"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=262143-262145", (262_143, 262_146)),
        ("bytes=1023999-", (1_023_999, 1_024_000)),
        ("bytes=-5", (1_023_995, 1_024_000)),
        ("bytes=1000000-99999999", (1_000_000, 1_024_000)),
    ],
)
async def test_R287_a_range_returns_only_those_bytes(
    http: httpx2.AsyncClient, asked: str, span: tuple[int, int]
) -> None:
    memory = await save_memory(http, "a picture of London")
    asset = await attach(http, memory)
    path = f"/api/v1/memories/{memory['id']}/assets/{asset['id']}"

    part = await http.get(path, headers={"Range": asked})

    assert (part.status_code, part.content) == (206, BYTES[span[0] : span[1]])
    assert part.headers["content-range"] == f"bytes {span[0]}-{span[1] - 1}/{len(BYTES)}"
    beyond = await http.get(path, headers={"Range": "bytes=1024000-"})
    assert error_of(beyond) == (416, "RANGE_NOT_SATISFIABLE")
    for unknown in ("bytes=a-b", "lines=1-2", "bytes=5-1", "bytes=-"):
        assert (await http.get(path, headers={"Range": unknown})).content == BYTES


async def test_S60_S63_an_upload_is_limited_and_its_name_is_only_a_label(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    memory = await save_memory(http, "a picture of London")
    path = f"/api/v1/memories/{memory['id']}/assets"
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        head = b'--b\r\ncontent-disposition: form-data; name="file"; filename="x"\r\n\r\n'
        yield head
        while sent < 4 * MAX_BYTES:
            sent += 1024 * 1024
            yield b"x" * 1024 * 1024

    form = {"content-type": "multipart/form-data; boundary=b"}
    refused = await http.post(path, content=endless(), headers=form)

    assert error_of(refused) == (413, "PAYLOAD_TOO_LARGE")
    assert sent < MAX_BYTES + 4 * 1024 * 1024
    assert await count(engine, caller, "asset") == 0
    strange = await attach(http, memory, b"", "../../<b>\u202e.png")
    assert strange["filename"] == "../../<b>.png"
    empty = await http.get(f"{path}/{strange['id']}")
    assert (empty.status_code, empty.content) == (200, b"")
    for body, headers in (
        (b"{}", {"content-type": "application/json"}),
        (b"junk", form),
        (b"", form),
    ):
        bad = await http.post(path, content=body, headers=headers)
        assert error_of(bad)[0] in {415, 422}


async def test_attaching_the_same_file_again_returns_the_same_asset(
    http: httpx2.AsyncClient,
) -> None:
    memory = await save_memory(http, "a picture of London")
    first = await attach(http, memory)

    assert await attach(http, memory) == first
    assert (await attach(http, memory, name="b.png"))["id"] != first["id"]


async def test_another_users_asset_is_not_found(
    http: httpx2.AsyncClient, engine: Engine, server: Server, caller: Caller
) -> None:
    memory = await save_memory(http, "a picture of London")
    asset = await attach(http, memory)
    path = f"/api/v1/memories/{memory['id']}/assets"
    async with client_of(engine, server, await add_colleague(engine, caller)) as theirs:
        own = await save_memory(theirs, "theirs")
        crossed = f"/api/v1/memories/{own['id']}/assets/{asset['id']}"

        assert error_of(await theirs.get(path)) == ABSENT
        assert error_of(await theirs.get(f"{path}/{asset['id']}")) == ABSENT
        assert error_of(await theirs.delete(f"{path}/{asset['id']}")) == ABSENT
        assert error_of(await theirs.get(crossed)) == ABSENT
        assert error_of(await theirs.delete(crossed)) == ABSENT
        posted = await theirs.post(path, files={"file": ("x", b"x", "text/plain")})
        assert error_of(posted) == ABSENT


@dataclass(frozen=True)
class SourceIds:
    """Ids of sources as the interfaces show them, by the text of the message or turn."""

    sessions: list[str]
    messages: dict[str, str]


async def ids_of_every_interface(engine: Engine, server: Server, caller: Caller) -> SourceIds:
    """Talk through each interface of this workspace."""
    async with client_of(engine, server, caller) as http:
        opened = await open_session(http)
        turn = await http.post(
            f"/v1/sessions/{opened['id']}/turns", json={"input": "in a turn", "output": "Noted."}
        )
        assert turn.status_code == 201
        chat = await informer.new_chat(http)
        [said] = await informer.add_messages(http, chat, "in an informer chat")
        session = await create_session(http)
    thread = await new_chat(engine, caller)
    await add_messages(engine, caller, thread, "in a dashboard chat")
    async with await connect_signed_in(server, engine, caller) as browser:
        path = f"/chat/api/chats/chat_{thread.code}"
        shown = (await browser.get(path)).json()
        [message] = (await browser.get(f"{path}/messages")).json()["items"]
    return SourceIds(
        [opened["id"], chat, session, shown["id"]],
        {
            "in a turn": turn.json()["id"],
            "in an informer chat": said,
            "in a dashboard chat": message["id"],
        },
    )


async def test_R288_a_source_is_named_by_the_id_that_any_interface_shows(
    http: httpx2.AsyncClient, engine: Engine, server: Server, caller: Caller
) -> None:
    own = await ids_of_every_interface(engine, server, caller)
    foreign = await ids_of_every_interface(engine, server, await new_caller(engine))
    assert [each[:5] for each in own.sessions[:2]] == ["sess_", "chat-"]
    assert own.sessions[3].startswith("chat_")
    assert [each[:4] for each in own.messages.values()] == ["turn", "msg-", "msg_"]
    sessions = [{"kind": "session", "id": each} for each in own.sessions]
    memory = await save_memory(http, "Ada lives in London", sources=sessions)
    path = f"/api/v1/memories/{memory['id']}/sources"

    for text, name in own.messages.items():
        added = await http.post(path, json={"kind": "message", "id": name})
        assert (added.status_code, text in added.json()["data"]["text"]) == (201, True)

    found = (await http.get(path)).json()["data"]["items"]
    assert sorted(each["kind"] for each in found) == ["message"] * 3 + ["session"] * 4
    assert [each["resolved"] for each in found] == [True] * 7
    assert len({each["targetId"] for each in found}) == 7
    for each in found:  # the id shown here names the same source
        again = await http.post(path, json={"kind": each["kind"], "id": each["targetId"]})
        assert again.json()["data"] == each
    for kind, names in (
        ("session", [*foreign.sessions, *own.messages.values(), "sess_aaaaaaaaaaaa", "x"]),
        ("message", [*foreign.messages.values(), *own.sessions, str(uuid4())]),
    ):
        for name in names:
            refused = await http.post(path, json={"kind": kind, "id": name})
            assert error_of(refused) == ABSENT
    assert (await http.get(path)).json()["data"]["items"] == found


async def test_R288_a_source_stays_without_its_target_and_can_be_removed(
    http: httpx2.AsyncClient, clock: Clock
) -> None:
    opened = await open_session(http)
    turns = f"/v1/sessions/{opened['id']}/turns"
    turn = await http.post(turns, json={"input": "I live in London", "output": "Noted"})
    memory = await save_memory(
        http, "Ada lives in London", sources=[{"kind": "session", "id": opened["id"]}]
    )
    path = f"/api/v1/memories/{memory['id']}/sources"
    clock.advance(timedelta(seconds=1))
    await http.post(path, json={"kind": "message", "id": turn.json()["id"]})
    session, message = (await http.get(path)).json()["data"]["items"]
    assert session["sessionId"] == session["targetId"] == message["sessionId"]

    assert (await http.delete(f"{path}/{session['id']}")).status_code == 200
    left = (await http.get(path)).json()["data"]["items"]
    await http.delete(f"/v1/sessions/{opened['id']}")

    assert left == [message]
    assert (await http.get(path)).json()["data"]["items"] == [
        message | {"resolved": False, "sessionId": None, "text": None}
    ]


async def test_R308_insights_and_memories_are_separate(http: httpx2.AsyncClient) -> None:
    await http.post("/api/v1/learning", json={"category": "role", "insight": "a teal engineer"})
    await save_memory(http, "a teal memory")

    assert await list_values(http) == await recall_values(http, "teal") == ["a teal memory"]
    page = (await http.get("/api/v1/learning", params={"q": "teal"})).json()["data"]
    assert [each["insight"] for each in page["items"]] == ["a teal engineer"]


async def test_N34_insights_are_paged_counted_and_filtered(
    http: httpx2.AsyncClient, engine: Engine, server: Server, caller: Caller
) -> None:
    for number in range(3):
        body = {"category": "pain_points", "insight": f"pain {number}"}
        assert (await http.post("/api/v1/learning", json=body)).status_code == 201
    body = {"category": "Communication-Style", "insight": "terse", "confidence": 0.5}
    made = (await http.post("/api/v1/learning", json=body)).json()["data"]

    assert (made["category"], made["source"], made["confidence"]) == (
        "communication style",
        "conversation",
        0.5,
    )
    first = (await http.get("/api/v1/learning", params={"pageSize": 3})).json()["data"]
    assert (first["total"], first["hasMore"]) == (4, True)
    assert first["categoryCounts"]["pain points"] == 3
    assert len(first["categoryCounts"]) == 9
    rest = (
        await http.get("/api/v1/learning", params={"pageSize": 3, "cursor": first["nextCursor"]})
    ).json()["data"]
    assert len(rest["items"]) == 1
    assert "total" not in rest
    assert "categoryCounts" not in rest
    bad = {"category": "secrets", "insight": "x"}
    assert error_of(await http.post("/api/v1/learning", json=bad)) == (400, "BAD_REQUEST")
    odd = {"category": "role", "insight": "x", "confidence": 1.5}
    assert error_of(await http.post("/api/v1/learning", json=odd)) == (422, "VALIDATION_ERROR")
    async with client_of(engine, server, await add_colleague(engine, caller)) as theirs:
        assert (await theirs.get("/api/v1/learning")).json()["data"]["total"] == 0
        assert error_of(await theirs.delete(f"/api/v1/learning/{made['id']}")) == ABSENT
    assert (await http.delete(f"/api/v1/learning/{made['id']}")).status_code == 200
    assert (await http.get("/api/v1/learning")).json()["data"]["total"] == 3


async def test_N35_learning_can_be_switched_off_and_all_insights_deleted(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    noticed = SaveInsight("role", "an engineer", "conversation", 0.9)
    assert await save_insight_if_on(engine, caller, noticed) is not None

    answer = await http.patch("/api/v1/learning/settings", json={"enabled": False})

    assert answer.json()["data"] == {"enabled": False}
    assert await save_insight_if_on(engine, caller, noticed) is None
    assert (await http.get("/api/v1/learning")).json()["data"]["total"] == 1
    assert (await http.delete("/api/v1/learning")).json()["data"] == {"deleted": 1}
    assert (await http.get("/api/v1/learning")).json()["data"]["total"] == 0


async def test_N33_an_alumia_key_is_stored_only_as_a_digest(
    engine: Engine, server: Server, caller: Caller
) -> None:
    for prefix in ("alm_live_", "alm_test_"):
        new = await create_key(engine, workspace=str(caller.workspace_id), prefix=prefix)

        assert re.fullmatch(prefix + "[0-9a-f]{48}", new.text)
        [record] = [each for each in await list_keys(engine) if each.id == new.record.id]
        assert record.prefix == new.text[:12]
        assert bytes(record.digest) == hashlib.sha256(new.text.encode()).digest()
        assert new.text not in str(record)
        async with connect(server, Authorization=f"Bearer {new.text}") as http:
            memory = await save_memory(http, "v", key=prefix)
            assert (memory["orgId"], memory["userId"]) == (
                str(caller.org_id),
                str(caller.user_id),
            )


async def test_N35_the_tool_saves_nothing_while_learning_is_off(http: httpx2.AsyncClient) -> None:
    noticed = {"category": "workflow", "insight": "works at night"}
    path = "/api/v1/tools/save_learning_insight"
    first = await http.post(path, json=noticed)
    await http.patch("/api/v1/learning/settings", json={"enabled": False})

    second = await http.post(path, json={**noticed, "insight": "naps at noon"})
    await http.patch("/api/v1/learning/settings", json={"enabled": True})
    third = await http.post(path, json={**noticed, "insight": "walks at dawn"})

    saved = [each.json()["data"]["saved"] for each in (first, second, third)]
    assert saved == [True, False, True]
    assert second.json()["data"]["insight"] is None
    page = (await http.get("/api/v1/learning")).json()["data"]
    assert {each["insight"] for each in page["items"]} == {"walks at dawn", "works at night"}
    assert error_of(await http.post(path, json={**noticed, "category": "taste"})) == (
        400,
        "BAD_REQUEST",
    )
