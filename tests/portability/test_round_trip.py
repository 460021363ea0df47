"""Exporting and importing into an empty instance gives the same responses and the same rows."""

import base64
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.core.domain import Caller
from recollect.documents.documents import ListDocuments, NewDocument, add_document, list_documents
from recollect.engine import Engine
from recollect.portability.queries.exports import KINDS
from recollect.portability.records import KINDS as FIELDS
from recollect.tenancy.queries import workspaces
from recollect.worker import Worker
from tests.rules.test_sql_names_its_workspace import data_tables
from tests.support.alumia import (
    add_colleague,
    client_of,
    create_session,
    new_agent,
    new_project,
    save_memory,
)
from tests.support.clock import Clock
from tests.support.dashboard import connect_signed_in
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.export_files import (
    DERIVED,
    TABLES,
    Object,
    export,
    import_file,
    lines_of,
    rows_of,
)
from tests.support.instance import make_server, new_caller, open_engine, single_embedder
from tests.support.routes import interface_named, routes_of
from tests.support.statebase import create_memory, open_session
from tests.support.tools import OverHttp, fetch_rows

pytestmark = pytest.mark.anyio

QUERIES = ("What does Ada drink?", "Oslo", "coffee", "the plan", "日本")


@pytest.fixture
async def elsewhere(
    databases: TestDatabases, embedder: StubEmbedder, clock: Clock
) -> AsyncGenerator[Engine]:
    """Another, empty instance."""
    async with open_engine(databases.clone(), single_embedder(embedder), clock) as other:
        yield other


@pytest.fixture
async def there(elsewhere: Engine) -> Caller:
    """The first user of the other instance."""
    return await new_caller(elsewhere)


async def fill_workspace(engine: Engine, caller: Caller, clock: Clock) -> Caller:
    """Save some of everything through every interface, as two users; return the second."""
    server = make_server(engine)
    other = await add_colleague(engine, caller)
    async with engine.pool.everywhere() as db:
        await workspaces.add_workspace_member(db, caller.workspace_id, other.user_id)
    project = await new_project(engine, caller, other)
    agent = await new_agent(engine, caller)
    async with client_of(engine, server, caller) as http:
        talk = await open_session(http, user_id="ada", initial_state={"step": 1})
        await http.patch(f"/v1/sessions/{talk['id']}/state", json={"state": {"step": 2}})
        await http.post(
            f"/v1/sessions/{talk['id']}/turns", json={"input": "hello", "output": "good day"}
        )
        await create_memory(http, "Ada drinks tea", talk, user_id="ada", tags=["drink"])
        clock.advance(timedelta(minutes=1))
        tools = OverHttp(http)
        first = await tools.call("memory_save", content="Ada lives in Bergen", type="fact")
        clock.advance(timedelta(minutes=1))
        await tools.call(
            "memory_save",
            content="Ada lives in Oslo",
            type="fact",
            associations=[{"target_id": first["memory_id"], "relation": "updates"}],
        )
        gone = await tools.call("memory_save", content="A secret to forget")
        await tools.call("memory_delete", memory_id=gone["memory_id"], reason="asked to")
        clock.advance(timedelta(minutes=1))
        chat = (await http.post("/api/chats", json={"name": "Planning"})).json()["id"]
        sent = await http.post(
            f"/api/chats/{chat}/messages",
            json={
                "messages": [
                    {"role": "user", "content": "What is the plan?"},
                    {"role": "assistant", "content": "To ship on Friday, with 日本語."},
                ]
            },
        )
        ids = [each["id"] for each in sent.json()["messages"]]
        await http.post(f"/api/chats/{chat}/memories", json={"messageIds": ids})
        await http.post(
            f"/api/messages/{ids[0]}/files",
            json={
                "filename": "plan.bin",
                "mediaType": "application/x-plan",
                "data": base64.b64encode(bytes(range(256)) * 2_000).decode(),
            },
        )
    async with client_of(engine, server, other) as http:
        memory = await save_memory(
            http, "Coffee at eight", key="coffee", pinned=True, importance=9, tags=["drink"]
        )
        path = f"/api/v1/memories/{memory['id']}"
        await http.patch(path, json={"value": "Coffee at nine"})
        await http.post(
            f"{path}/assets", files={"file": ("a.txt", b"beans" * 90_000, "text/plain")}
        )
        await http.post(
            f"{path}/sources", json={"kind": "session", "id": await create_session(http)}
        )
        await save_memory(http, "The project ships", scope="project", projectId=project)
        await save_memory(http, "The agent is terse", scope="agent", agentId=agent)
        await http.post("/api/v1/learning", json={"category": "role", "insight": "likes short"})

    async def content() -> AsyncIterator[bytes]:
        yield b"# Harbour\n\nThe boats go out at five."

    await add_document(engine, other, NewDocument("harbour.md"), content())
    await Worker(engine, slots=2).run_until_empty()
    return other


async def all_responses(engine: Engine, caller: Caller, project: str, agent: str) -> dict[str, Any]:
    """Every interface's responses about everything a user can find."""
    found: dict[str, Any] = {}
    async with client_of(engine, make_server(engine), caller) as http:

        async def get(path: str, **parameters: Any) -> Any:
            answer = await http.get(path, params=parameters)
            found[f"GET {path} {parameters}"] = (answer.status_code, _normalised(answer))
            return answer.json() if "json" in answer.headers.get("content-type", "") else None

        async def post(path: str, body: Object) -> None:
            answer = await http.post(path, json=body)
            found[f"POST {path} {body}"] = (answer.status_code, _normalised(answer))

        # statebase
        memories = await get("/v1/memory", limit=100)
        for each in memories["data"]:
            await get(f"/v1/memory/{each['id']}")
        for each in (await get("/v1/sessions", limit=100))["data"]:
            for part in ("", "/turns", "/state", "/state/history"):
                await get(f"/v1/sessions/{each['id']}{part}")
        # tools
        tools = OverHttp(http)
        for query in QUERIES:
            await post("/v1/memory/search", {"query": query, "threshold": 0.0})
            found[f"recall {query}"] = await tools.call("memory_recall", query=query, limit=20)
            await post("/api/v1/memories/recall", {"query": query, "limit": 20})
        found["history"] = await tools.call("memory_recall", mode="recent", limit=50)
        # alumia
        await get("/api/v1/memories", projectId=project)
        await get("/api/v1/memories", agentId=agent)
        for each in (await get("/api/v1/memories"))["data"]["items"]:
            path = f"/api/v1/memories/{each['id']}"
            await get(path)
            await get(f"{path}/sources")
            for asset in (await get(f"{path}/assets"))["data"]["items"]:
                await get(f"{path}/assets/{asset['id']}")
        await get("/api/v1/learning")
        found["documents"] = (await list_documents(engine, caller, ListDocuments()))[0]
        assert [each.status for each in found["documents"]] == ["ready"]
        # informer
        for chat in (await get("/api/chats"))["results"]:
            path = f"/api/chats/{chat['id']}"
            await get(path)
            await get(f"{path}/memories")
            await post(f"{path}/memories/search", {"query": "the plan"})
            messages = await get(f"{path}/messages")
            for message in messages["_embedded"]["inf:message"]:
                files = await get(f"/api/messages/{message['id']}/files")
                for file in files["files"]:
                    await get(f"/api/messages/{message['id']}/files/{file['id']}")
    return found


# Routes about the instance, not about its memories.
INSTANCE_ROUTES = (
    "/chat/api/me",
    "/chat/api/jobs",
    "/chat/api/settings",
    "/chat/api/keys",
    "/chat/api/members",
    "/chat/api/workspaces/{workspace_id}/usage",
    "/chat/api/workspaces/{workspace_id}/pending",
)


async def dashboard_responses(engine: Engine, caller: Caller) -> dict[str, Any]:
    """The dashboard's responses to a user, on each of its GET routes."""
    server = make_server(engine)
    found: dict[str, Any] = {}
    async with await connect_signed_in(server, engine, caller) as http:
        base = f"/chat/api/workspaces/ws_{caller.workspace_id}"

        async def ids(path: str) -> list[str]:
            return [each["id"] for each in (await http.get(path)).json()["items"]]

        item_ids = {
            "{chat_id}": await ids("/chat/api/chats"),
            "{memory_id}": await ids(f"{base}/memories"),
            "{document_id}": await ids(f"{base}/documents"),
        }
        for route in routes_of(interface_named(server, "dashboard")):
            if route.method != "GET" or not route.path.startswith("/chat/api/"):
                continue
            if route.path in INSTANCE_ROUTES:
                continue
            template = route.path.replace("{workspace_id}", f"ws_{caller.workspace_id}")
            [placeholder] = [name for name in item_ids if name in template] or [""]
            for path in [
                template.replace(placeholder, each) for each in item_ids.get(placeholder, [""])
            ]:
                answer = await http.get(path, params={"q": "coffee"})
                shown = path.replace(str(caller.workspace_id), "")
                text = answer.text.replace(str(caller.workspace_id), "")
                # A memory's history comes from the audit log, which is not exported.
                text = re.sub(r'"history":\[.*?\]', "", text)
                found[f"GET {shown}"] = (answer.status_code, text)
    return found


def _normalised(answer: httpx2.Response) -> Any:
    """The body of a response, without the ids of its org and workspace."""
    if "json" not in answer.headers.get("content-type", ""):
        return answer.content
    return json.loads(re.sub(r'"(orgId|workspaceId)":"[^"]*"', r'"\1":""', answer.text))


async def test_an_imported_export_gives_equal_responses_through_every_interface(
    engine: Engine,
    caller: Caller,
    elsewhere: Engine,
    there: Caller,
    clock: Clock,
    tmp_path: Path,
) -> None:
    other = await fill_workspace(engine, caller, clock)
    path = await export(engine, tmp_path / "all.zip", caller, with_ended=True)

    report = await import_file(elsewhere, path, there)

    assert report.refused == {}
    assert await rows_of(elsewhere, there.workspace_id) == await rows_of(
        engine, caller.workspace_id
    )
    assert await indexed(elsewhere, there) == await indexed(engine, caller)
    lines = lines_of(path)
    assert {each["type"] for each in lines} == {"recollect", *KINDS, "end"}
    project = next(each["id"] for each in lines if each["type"] == "project")
    agent = next(each["id"] for each in lines if each["type"] == "agent")
    for user in (caller, other):
        original = await all_responses(engine, user, project, agent)
        same_user = replace(there, user_id=user.user_id)
        imported = await all_responses(elsewhere, same_user, project, agent)
        original |= await dashboard_responses(engine, user)
        imported |= await dashboard_responses(elsewhere, same_user)
        assert {name for name, (status, _) in _with_status(original) if status >= 300} == set()
        assert imported == original
        assert len(original) > 60


async def indexed(engine: Engine, caller: Caller) -> list[Any]:
    """The keyword index of a workspace, and its statistics."""
    where = caller.workspace_id
    return [
        await fetch_rows(
            engine,
            """
            SELECT term, NULLIF(owner_id, workspace_id), memory_id, frequency, length FROM memory_word
            WHERE workspace_id = %s ORDER BY 1, 3
            """,
            where,
        ),
        await fetch_rows(
            engine,
            """
            SELECT memory_id, (SELECT array_agg(term ORDER BY term) FROM unnest(terms) term), length
            FROM memory_terms WHERE workspace_id = %s ORDER BY 1
            """,
            where,
        ),
        await fetch_rows(
            engine,
            "SELECT sum(documents), sum(length) FROM keyword_total WHERE workspace_id = %s",
            where,
        ),
    ]


async def test_every_table_is_exported_or_left_out_for_a_reason(
    engine: Engine,
) -> None:
    """A new table or column must be added to the export, or listed here."""
    left_out = {
        "generation": "vectors are recomputed",
        "memory_vector": "vectors are recomputed",
        "vector_index": "vectors are recomputed",
        "memory_word": "derived from the memory",
        "memory_terms": "derived from the memory",
        "keyword_total": "derived from the memories",
        "common_word": "derived from the memories",
        "common_word_run": "derived from the memories",
        "job": "work of this instance",
        "event": "the audit log of this instance",
        "idempotency": "responses, stored for a day",
        "injection": "what one turn was shown, stored for a month",
        "builtin_call": "tool calls of a turn, stored for a month",
        "response": "answers of a model, stored for a month",
        "model_call": "the model costs of this instance",
        "inbox_item": "inbox items, stored for a month",
        "candidate": "candidates that wait for review",
        "asset_piece": "bytes, exported as files",
        "message_file_piece": "bytes, exported as files",
        "document_piece": "bytes, exported as files",
        "chunk": "derived from the document",
        "chunk_word": "derived from the document",
        "chunk_vector": "derived from the document",
    }
    columns = await fetch_rows(
        engine,
        """
        SELECT table_name, array_agg(column_name::text) FROM information_schema.columns
        WHERE table_schema = 'public' GROUP BY table_name
        """,
    )

    assert data_tables() == set(left_out) | set(TABLES.values()) - {"app_user"}
    exported = {TABLES[kind]: set(fields) | {"created_at"} for kind, fields in FIELDS.items()}
    for table, names in columns:
        if table in exported and table != "app_user":
            assert set(names) - DERIVED - exported[table] == set(), table


def _with_status(found: dict[str, Any]) -> list[tuple[str, tuple[int, Any]]]:
    return [(name, each) for name, each in found.items() if isinstance(each, tuple)]
