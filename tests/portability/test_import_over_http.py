"""`POST /api/v1/import`: imported records become the caller's, and nothing else changes."""

import io
import json
import zipfile
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx2
import pytest

from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy.keys import create_key
from recollect.worker import Worker
from tests.support.alumia import (
    add_colleague,
    client_of,
    create_session,
    error_of,
    list_values,
    new_project,
    save_memory,
)
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import (
    connect,
    in_new_workspace,
    make_server,
    new_caller,
    open_engine,
    single_embedder,
)
from tests.support.tools import fetch_rows

pytestmark = pytest.mark.anyio

Http = httpx2.AsyncClient
AT = "2026-01-01T00:00:00+00:00"


@pytest.fixture
async def elsewhere(
    databases: TestDatabases, embedder: StubEmbedder, clock: Clock
) -> AsyncGenerator[Engine]:
    """Another, empty instance."""
    async with open_engine(databases.clone(), single_embedder(embedder), clock) as other:
        yield other


async def upload(
    http: Http, data: bytes, name: str = "export.zip", **parameters: Any
) -> httpx2.Response:
    return await http.post(
        "/api/v1/import", params=parameters, files={"file": (name, data, "application/zip")}
    )


def lines_of(*lines: dict[str, Any]) -> bytes:
    counts: dict[str, int] = {}
    for line in lines:
        counts[line["type"]] = counts.get(line["type"], 0) + 1
    complete = [{"type": "recollect", "format": 1}, *lines, {"type": "end", "lines": counts}]
    return "\n".join(map(json.dumps, complete)).encode()


def a_memory(number: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "memory",
        "id": f"00000000-0000-4000-8000-{number:012}",
        "code": f"{number:024}",
        "user_id": "00000000-0000-4000-8000-000000000000",
        "content": f"memory {number}",
        "importance": 0.5,
        "importance_base": 0.5,
        "lifecycle": "permanent",
        "scope": "global",
        "origin": "user",
        "created_at": AT,
        "updated_at": AT,
        **more,
    }


async def test_an_export_is_imported_once_into_another_instance(
    engine: Engine, caller: Caller, server: Server, elsewhere: Engine
) -> None:
    async with client_of(engine, server, caller) as http:
        memory = await save_memory(http, "Coffee at nine", key="coffee", tags=["drink"])
        path = f"/api/v1/memories/{memory['id']}"
        await http.post(f"{path}/assets", files={"file": ("a.txt", b"beans" * 9_000)})
        await http.post(
            f"{path}/sources", json={"kind": "session", "id": await create_session(http)}
        )
        await http.post("/api/v1/learning", json={"category": "role", "insight": "likes short"})
        export = (await http.get("/api/v1/export")).content
    there = await new_caller(elsewhere)
    async with client_of(elsewhere, make_server(elsewhere), there) as http:
        dry = (await upload(http, export, dryRun=True)).json()["data"]
        assert await list_values(http) == []
        first = (await upload(http, export)).json()["data"]
        again = (await upload(http, export)).json()["data"]

        assert {**dry, "dryRun": False} == first
        assert first["refused"] == {}
        assert first["kept"]["memory"] == first["kept"]["asset"] == first["kept"]["insight"] == 1
        assert (again["kept"], again["known"]) == ({}, {**first["known"], **first["kept"]})
        assert await list_values(http) == ["Coffee at nine"]
        [found] = (await http.get("/api/v1/memories")).json()["data"]["items"]
        assert (found["key"], found["tags"], found["userId"]) == (
            "coffee",
            ["drink"],
            str(there.user_id),
        )
        path = f"/api/v1/memories/{found['id']}"
        [asset] = (await http.get(f"{path}/assets")).json()["data"]["items"]
        bytes_of = await http.get(f"{path}/assets/{asset['id']}")
        assert bytes_of.content == b"beans" * 9_000
        assert len((await http.get("/api/v1/learning")).json()["data"]["items"]) == 1
        await Worker(elsewhere, slots=2).run_until_empty()
        recalled = await http.post("/api/v1/memories/recall", json={"query": "Coffee at nine"})
        assert [each["key"] for each in recalled.json()["data"]["items"]] == ["coffee"]


@pytest.mark.parametrize("exists", [True, False])
async def test_S41_S47_a_file_that_names_another_users_rows_cannot_reach_them(
    engine: Engine, server: Server, caller: Caller, *, exists: bool
) -> None:
    """The result does not depend on whether the named rows exist."""
    victim = await add_colleague(engine, caller)
    project = await new_project(engine, victim)
    async with client_of(engine, server, victim) as theirs:
        memory = (await save_memory(theirs, "A secret"))["id"]
        thread = await create_session(theirs)
        inside = await save_memory(theirs, "Inside", scope="project", projectId=project)
    [(name,)] = await fetch_rows(engine, "SELECT name FROM project WHERE id = %s", project)
    before = await victim_rows(engine, victim)
    unknown = "00000000-0000-4000-8000-00000000000f"
    memory, thread, name = (memory, thread, name) if exists else (unknown, unknown, "nothing")
    own = a_memory(1)
    lines = lines_of(
        {"type": "workspace_member", "user_id": str(victim.user_id), "created_at": AT},
        {"type": "project", "id": project, "name": name, "created_at": AT},
        {"type": "project_member", "project_id": project}
        | {"user_id": str(caller.user_id), "created_at": AT},
        {"type": "state", "thread_id": thread, "version": 7, "state": {}, "created_at": AT},
        {"type": "turn", "id": own["id"], "code": "t" * 24, "thread_id": thread, "number": 7}
        | {"input": {}, "output": {}, "created_at": AT},
        {"type": "message", "id": own["id"], "code": "m" * 24, "thread_id": thread}
        | {"position": 7, "role": "user", "content": "slipped in", "created_at": AT},
        own,
        a_memory(2, id=memory),
        a_memory(3, scope="project", project_id=project),
        {"type": "link", "id": own["id"], "source_id": own["id"], "target_id": memory}
        | {"relation": "updates", "weight": 1.0, "is_authored": True, "created_at": AT},
        {"type": "source", "id": own["id"], "memory_id": own["id"]}
        | {"kind": "session", "target_id": thread, "created_at": AT},
    )

    async with client_of(engine, server, caller) as http:
        report = (await upload(http, lines, "lines.jsonl")).json()["data"]
        seen = await list_values(http)
        sources = await http.get(f"/api/v1/memories/{memory}/sources")

    assert await victim_rows(engine, victim) == before
    assert inside["value"] not in seen
    assert sorted(seen) == ["memory 1", "memory 2"]
    assert sources.status_code == 404
    # Its own two memories, linked. Rows whose parent is not in an earlier line are refused.
    assert report["kept"] == {"memory": 2, "link": 1, "source": 1}
    assert report["leftOut"] == {"memberships": 2}
    assert report["refused"] == {"project": 1, "state": 1, "turn": 1, "message": 1, "memory": 1}
    assert {each["why"] for each in report["refusals"]} == {
        "you have no project with this name here",
        "its thread (`thread_id`) does not exist and is not in an earlier line",
        "it belongs to a project or agent that you cannot use here",
    }


async def victim_rows(engine: Engine, victim: Caller) -> list[Any]:
    """The victim's rows, and the memberships of projects and workspaces."""
    where = victim.workspace_id
    return [
        await fetch_rows(engine, query, where)
        for query in (
            "SELECT m::text FROM memory m WHERE workspace_id = %s AND content LIKE '%%secret'",
            "SELECT t::text FROM thread t WHERE workspace_id = %s",
            "SELECT s::text FROM message s WHERE workspace_id = %s",
            "SELECT u::text FROM turn u WHERE workspace_id = %s",
            "SELECT s::text FROM thread_state s WHERE workspace_id = %s",
            "SELECT p::text FROM project_member p WHERE workspace_id = %s",
            "SELECT w::text FROM workspace_member w WHERE workspace_id = %s",
        )
    ]


@pytest.mark.parametrize(
    ("source", "name", "text", "found"),
    [
        ("markdown", "notes.md", "# Likes\n- Ada drinks tea", ["Ada drinks tea"]),
        ("csv", "notes.csv", "content,key\nAda drinks tea,drink\n", ["Ada drinks tea"]),
        ("mem0", "mem0.json", '[{"id": "1", "memory": "Ada drinks tea"}]', ["Ada drinks tea"]),
        (
            "langgraph",
            "store.json",
            '[{"namespace": ["a"], "key": "k", "value": {"text": "Ada drinks tea"}}]',
            ["Ada drinks tea"],
        ),
    ],
)
async def test_files_of_other_systems_are_imported_over_http(
    engine: Engine, server: Server, caller: Caller, source: str, name: str, text: str, found: Any
) -> None:
    other = await add_colleague(engine, caller)
    async with (
        client_of(engine, server, caller) as http,
        client_of(engine, server, other) as outsider,
    ):
        answer = await upload(http, text.encode(), name, **{"from": source})
        again = await upload(http, text.encode(), name, **{"from": source})

        assert answer.json()["data"]["kept"] == {"memory": 1}, answer.text
        assert again.json()["data"]["known"] == {"memory": 1}
        assert await list_values(http) == found
        assert await list_values(outsider) == []


def chatgpt_export() -> bytes:
    """A ChatGPT download: a conversation, and the memories it lists."""

    def a_message(role: str, content: dict[str, Any], at: float | None) -> dict[str, Any]:
        return {"author": {"role": role}, "content": content, "create_time": at}

    def text(words: str) -> dict[str, Any]:
        return {"content_type": "text", "parts": [words]}

    known = {"content_type": "model_editable_context", "model_set_context": "1. Ada drinks tea"}
    nodes = [
        ("root", None, None),
        ("known", "root", a_message("user", known, None)),
        ("one", "known", a_message("user", text("Where is the ferry?"), 1735725601.0)),
        ("two", "one", a_message("assistant", text("At the quay."), 1735725602.0)),
    ]
    mapping = {
        name: {
            "id": name,
            "parent": parent,
            "children": [each for each, of, _ in nodes if of == name],
            "message": message and {"id": name, "recipient": "all", "metadata": {}, **message},
        }
        for name, parent, message in nodes
    }
    conversation = {"id": "c", "title": "Ferries", "current_node": "two", "mapping": mapping}
    return zipped(**{"conversations.json": [conversation | {"create_time": 1735725600.0}]})


def claude_export() -> bytes:
    """A Claude download: a conversation, and a memory of the user."""
    messages = [
        {"uuid": "1", "sender": "human", "text": "Where is the ferry?", "created_at": AT},
        {"uuid": "2", "sender": "assistant", "text": "At the quay.", "created_at": AT},
    ]
    conversation = {"uuid": "c", "name": "Ferries", "created_at": AT, "chat_messages": messages}
    memories = [{"conversations_memory": "Ada drinks tea", "account_uuid": "me"}]
    return zipped(**{"conversations.json": [conversation], "memories.json": memories})


def zipped(**files: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, json.dumps(content))
    return file.getvalue()


@pytest.mark.parametrize(
    ("source", "export"), [("chatgpt", chatgpt_export), ("claude", claude_export)]
)
async def test_conversations_of_another_assistant_are_imported_over_http(
    engine: Engine, server: Server, caller: Caller, source: str, export: Callable[[], bytes]
) -> None:
    other = await add_colleague(engine, caller)
    async with (
        client_of(engine, server, caller) as http,
        client_of(engine, server, other) as outsider,
        client_of(engine, server, await in_new_workspace(engine, caller)) as elsewhere,
    ):
        dry = await upload(http, export(), dryRun=True, **{"from": source})
        assert (await http.get("/api/chats")).json()["results"] == []
        answer = await upload(http, export(), **{"from": source})
        again = await upload(http, export(), **{"from": source})

        kept = answer.json()["data"]["kept"]
        assert kept == {"thread": 1, "message": 2, "memory": 1}, answer.text
        assert dry.json()["data"]["kept"] == again.json()["data"]["known"] == kept
        assert again.json()["data"]["kept"] == {}
        [chat] = (await http.get("/api/chats")).json()["results"]
        assert chat["name"] == "Ferries"
        page = (await http.get(f"/api/chats/{chat['id']}/messages")).json()
        assert [each["content"] for each in page["_embedded"]["inf:message"]] == [
            "Where is the ferry?",
            "At the quay.",
        ]
        assert (await list_values(http), await list_values(outsider)) == (["Ada drinks tea"], [])
        assert (await elsewhere.get("/api/chats")).json()["results"] == []


async def test_progress_is_streamed_as_json_lines_on_request(
    engine: Engine, server: Server, caller: Caller
) -> None:
    export = lines_of(*(a_memory(number) for number in range(450)), a_memory(1, scope="nowhere"))

    async with client_of(engine, server, caller) as http:
        http.headers["Accept"] = "application/x-ndjson"
        answer = await upload(http, export, "lines.jsonl")

    events = [json.loads(line) for line in answer.text.splitlines()]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert events[0] == {"progress": {"kept": 200, "known": 0, "refused": 0}}
    assert events[-2] == {"progress": {"kept": 450, "known": 0, "refused": 1}}
    assert events[-1]["success"] is True
    assert events[-1]["data"]["refusals"] == [
        {
            "where": "line 452",
            "type": "memory",
            "why": "`scope` is not one of workspace, global, project, agent, thread",
        }
    ]


async def test_an_unreadable_file_gets_an_error_in_the_alumia_format(
    engine: Engine, server: Server, caller: Caller
) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("recollect.jsonl", b"0" * (70 * 1024 * 1024))
    reader = await create_key(
        engine, workspace=str(caller.workspace_id), rights=[Right.READ, Right.DELETE]
    )
    async with client_of(engine, server, caller) as http:
        for data, name in (
            (b"no export", "notes.txt"),
            (b"", "empty.zip"),
            (b"PK\x03\x04 damaged", "../../etc/passwd.zip"),
            (bomb.getvalue(), "bomb.zip"),
        ):
            answer = await upload(http, data, name)
            assert error_of(answer) == (422, "VALIDATION_ERROR"), name
            assert "/tmp" not in answer.text
        wrong = await upload(http, b"", **{"from": "elsewhere"})
        absent = await http.post("/api/v1/import", files={"other": ("a", b"")})
        form = {"content-type": "multipart/form-data"}
        unbound = await http.post("/api/v1/import", content=b"x", headers=form)
        assert error_of(unbound) == (422, "VALIDATION_ERROR")
        assert "with its boundary" in unbound.json()["error"]["message"]
        as_json = await http.post("/api/v1/import", json={})
        assert error_of(wrong) == error_of(absent) == (422, "VALIDATION_ERROR")
        assert error_of(as_json)[0] in {415, 422}
        assert await list_values(http) == []
    async with connect(server, Authorization=f"Bearer {reader.text}") as http:
        assert error_of(await upload(http, lines_of(a_memory(1)))) == (403, "FORBIDDEN")
    async with connect(server) as http:
        assert error_of(await upload(http, lines_of(a_memory(1)))) == (401, "UNAUTHORIZED")


async def test_a_user_runs_one_import_at_a_time(
    engine: Engine, server: Server, caller: Caller
) -> None:
    async with engine.pool.everywhere() as db, client_of(engine, server, caller) as http:
        await db.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 7245018846215))",
            [str(caller.user_id)],
        )
        answer = await upload(http, lines_of(a_memory(1)), "lines.jsonl")

    assert error_of(answer) == (409, "CONFLICT")
