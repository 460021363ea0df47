"""Only the owner sees rows that other interfaces saved for the workspace or a thread.

This interface shows such rows as `global`, and only its user sees a `global` row (R290). The chats
of the workspace still recall them (R001, R079).
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import httpx2
import pytest

from recollect.conversations.threads import OpenThread, open_thread
from recollect.core.domain import Caller, Ref, Scope
from recollect.engine import Engine
from recollect.memories.save import Save, save
from recollect.models.chat_registry import ChatModels
from recollect.models.librarian import NAME, Librarian
from recollect.server import Server
from recollect.worker import Worker
from tests.support.alumia import (
    add_colleague,
    client_of,
    enable_workspaces,
    error_of,
    list_values,
    recall_values,
    save_memory,
)
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import make_server
from tests.support.statebase import create_memory, list_texts, search_texts

pytestmark = pytest.mark.anyio

ABSENT = (404, "NOT_FOUND")
SAID = "I live in Oslo."
TEXT = "The user lives in Oslo."
# Shares no word with the text.
NEAR = "hometown"
QUESTION = "Where is my hometown?"
FILE = {"file": ("a.txt", b"bytes", "text/plain")}


@dataclass(frozen=True)
class TwoUsers:
    """Two users of one workspace, each with a key."""

    engine: Engine
    owner: Caller
    other: Caller
    owners: httpx2.AsyncClient
    others: httpx2.AsyncClient

    async def drain(self) -> None:
        """Run all queued jobs."""
        await Worker(self.engine, slots=1).run_until_empty()


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder({TEXT: at_cosine(0.95), NEAR: at_cosine(1.0), QUESTION: at_cosine(1.0)})


@pytest.fixture
def server(engine: Engine) -> Server:
    return make_server(replace(engine, chat_models=ChatModels(builtin={NAME: Librarian()})))


@pytest.fixture
async def users(engine: Engine, server: Server, caller: Caller) -> AsyncGenerator[TwoUsers]:
    other = await add_colleague(engine, caller)
    async with (
        client_of(engine, server, caller) as owners,
        client_of(engine, server, other) as others,
    ):
        yield TwoUsers(engine, caller, other, owners, others)


async def chat(http: httpx2.AsyncClient, text: str) -> str:
    """Return the model's answer in a new chat."""
    body = {"model": NAME, "messages": [{"role": "user", "content": text}]}
    headers = {"X-Recollect-Thread": uuid4().hex}
    answer = await http.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


async def by_router(users: TwoUsers) -> None:
    await chat(users.owners, SAID)
    await users.drain()


async def by_router_tool(users: TwoUsers) -> None:
    await chat(users.owners, f"Remember: {TEXT}")


async def by_statebase(users: TwoUsers) -> None:
    await create_memory(users.owners, TEXT)


async def by_tools(users: TwoUsers) -> None:
    answer = await users.owners.post("/v1/tools/memory_save", json={"content": TEXT})
    assert answer.status_code == 200, answer.text


async def by_import(users: TwoUsers) -> None:
    line = {"memory": TEXT, "created_at": "2026-01-01T00:00:00Z", "id": "1"}
    files = {"file": ("mem0.json", json.dumps([line]).encode())}
    asked = {"from": "mem0", "scope": "workspace"}
    answer = await users.owners.post("/api/v1/import", params=asked, files=files)
    assert answer.status_code == 200, answer.text
    await users.drain()


Way = Callable[[TwoUsers], Awaitable[None]]
WAYS: list[Way] = [by_router, by_router_tool, by_statebase, by_tools, by_import]


async def only(http: httpx2.AsyncClient, **parameters: Any) -> dict[str, Any]:
    """Return the only memory in the list."""
    answer = await http.get("/api/v1/memories", params=parameters)
    [memory] = answer.json()["data"]["items"]
    return memory


async def check_all_routes_hide(http: httpx2.AsyncClient, memory_id: str, **names: str) -> None:
    """Check that every route responds as if the memory did not exist."""
    path = f"/api/v1/memories/{memory_id}"
    session = (await http.post("/api/v1/sessions", json={})).json()["data"]["id"]
    source = {"kind": "session", "id": session}
    unknown = "00000000-0000-4000-8000-000000000000"
    answers = [
        await http.get(path, params=names),
        await http.patch(path, params=names, json={"value": "changed"}),
        await http.delete(path, params=names),
        await http.get(f"{path}/assets", params=names),
        await http.post(f"{path}/assets", params=names, files=FILE),
        await http.get(f"{path}/assets/{unknown}", params=names),
        await http.delete(f"{path}/assets/{unknown}", params=names),
        await http.get(f"{path}/sources", params=names),
        await http.post(f"{path}/sources", params=names, json=source),
        await http.delete(f"{path}/sources/{unknown}", params=names),
    ]
    for answer in answers:
        assert error_of(answer) == ABSENT, answer.request
        assert answer.json()["error"]["message"] == "There is no such memory."


@pytest.mark.parametrize("way", WAYS)
async def test_R290_only_the_owner_sees_rows_of_other_interfaces(users: TwoUsers, way: Way) -> None:
    await way(users)

    mine = await only(users.owners)
    assert mine["value"] == TEXT
    assert mine["scope"] == "global"
    assert mine["userId"] == str(users.owner.user_id)
    assert await list_values(users.owners, scope="global") == [TEXT]
    for query in ("lives in Oslo", "slo", NEAR):
        assert await recall_values(users.owners, query) == [TEXT]
        assert await recall_values(users.others, query) == []
    assert await list_values(users.others) == []
    assert await list_values(users.others, scope="global") == []
    await check_all_routes_hide(users.others, mine["id"])
    assert await only(users.owners) == mine


async def test_R290_a_global_memory_is_used_in_turns_of_its_user_only(users: TwoUsers) -> None:
    await save_memory(users.owners, TEXT, scope="global")

    assert "Oslo" in await chat(users.owners, QUESTION)
    assert "Oslo" not in await chat(users.others, QUESTION)


async def test_R290_only_the_owner_sees_them_with_workspaces_on(users: TwoUsers) -> None:
    await by_router(users)
    await enable_workspaces(users.engine, users.owner, is_on=True)
    active = {"X-Alumia-Workspace": str(users.owner.workspace_id)}
    users.others.headers.update(active)

    assert await list_values(users.owners) == [TEXT]
    assert await list_values(users.others) == []
    await check_all_routes_hide(users.others, (await only(users.owners))["id"])


@pytest.mark.parametrize("way", WAYS)
async def test_R290_the_owner_can_change_and_delete_rows_of_other_interfaces(
    users: TwoUsers, way: Way
) -> None:
    await way(users)
    path = f"/api/v1/memories/{(await only(users.owners))['id']}"

    asset = await users.owners.post(f"{path}/assets", files=FILE)
    changed = await users.owners.patch(path, json={"value": "The user lives in Bergen."})
    gone = await users.owners.delete(path)

    assert [asset.status_code, changed.status_code, gone.status_code] == [201, 200, 200]
    assert await list_values(users.owners) == []


async def test_R290_other_users_cannot_reach_the_assets_and_sources(users: TwoUsers) -> None:
    await by_router(users)
    path = f"/api/v1/memories/{(await only(users.owners))['id']}"
    asset = (await users.owners.post(f"{path}/assets", files=FILE)).json()["data"]["id"]
    [source] = (await users.owners.get(f"{path}/sources")).json()["data"]["items"]

    answers = [
        await users.others.get(f"{path}/assets/{asset}"),
        await users.others.delete(f"{path}/assets/{asset}"),
        await users.others.delete(f"{path}/sources/{source['id']}"),
    ]

    assert [error_of(each) for each in answers] == [ABSENT] * 3
    assert (await users.owners.get(f"{path}/assets/{asset}")).content == b"bytes"


async def test_R290_an_export_contains_only_its_users_rows(users: TwoUsers) -> None:
    await by_router(users)

    archives = [await each.get("/api/v1/export") for each in (users.owners, users.others)]

    shown: list[str] = []
    for answer in archives:
        with ZipFile(BytesIO(answer.content)) as archive:
            shown.append(archive.read("recollect.jsonl").decode())
    assert TEXT in shown[0]
    assert "Oslo" not in shown[1]


async def test_R290_only_the_owner_sees_a_memory_of_a_session(users: TwoUsers) -> None:
    thread = await open_thread(users.engine, users.owner, OpenThread(agent="chat"))
    ask = Save(TEXT, thread=Ref(id=thread.id), scope=Scope.THREAD)
    memory = (await save(users.engine, users.owner, ask)).memory
    inside = {"sessionId": str(thread.id)}

    assert await list_values(users.owners, **inside) == [TEXT]
    assert await list_values(users.others, **inside) == []
    for query in ("lives in Oslo", "slo", NEAR):
        assert await recall_values(users.owners, query, **inside) == [TEXT]
        assert await recall_values(users.others, query, **inside) == []
    await check_all_routes_hide(users.others, str(memory.id), **inside)


@pytest.mark.parametrize("way", WAYS)
async def test_R001_R079_other_users_chats_in_the_workspace_recall_it(
    users: TwoUsers, way: Way
) -> None:
    await way(users)

    assert "Oslo" in await chat(users.others, QUESTION)
    assert await list_texts(users.others) == [TEXT]
    assert await search_texts(users.others, NEAR) == [TEXT]
    answer = await users.others.post("/v1/tools/memory_recall", json={"query": "lives in Oslo"})
    assert TEXT in answer.text


async def test_S42_other_users_rows_do_not_affect_the_ranking(
    users: TwoUsers, clock: Clock, embedder: StubEmbedder
) -> None:
    """Without those rows both words are equally rare, so the newer row comes first."""
    queries, fillers = ["apple pear", "red jade"], [f"something else {each}" for each in "abcdefgh"]
    texts = [*fillers, "a green pear", "a red apple"]
    embedder.table |= {each: at_cosine(0.0) for each in queries}
    embedder.table |= {each: at_cosine(1.0) for each in texts}
    for each in fillers:
        await save_memory(users.others, each)
    await save_memory(users.others, "a green pear")
    clock.advance(timedelta(seconds=1))
    await create_memory(users.others, "a red apple")
    before = [await recall_values(users.others, each) for each in queries]
    assert before == [["a red apple", "a green pear"], ["a red apple"]]

    for number in range(20):
        await create_memory(users.owners, f"a red apple, number {number}")

    assert [await recall_values(users.others, each) for each in queries] == before
    assert len(await recall_values(users.owners, "red apple", limit=50)) == 20
