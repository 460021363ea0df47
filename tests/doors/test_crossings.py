"""What is private stays so on every route of every door, whichever there are.

Somebody has private things of every kind: of their own, of a project, in a workspace. A stranger,
who is of another org, of another workspace, another user of the same one or not in the project,
asks every route and every tool with their ids and in their words. No answer holds what is private,
none tells a thing of theirs from one that does not exist, and nothing of theirs changes. Routes
come from the route tables: a new one is asked by itself.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from fastapi import FastAPI

from recollect.domain import Caller, ProjectId, Ref, Right, Scope, ThreadId
from recollect.doors.front import Door
from recollect.doors.tools import tools
from recollect.engine.core import Engine
from recollect.engine.documents import NewDocument, add_document
from recollect.engine.learning import Said, learn_from, lesson_of
from recollect.engine.save import Save, save
from recollect.engine.threads import AddTurn, OpenThread, add_turn, open_thread
from recollect.errors import Failure
from recollect.server import Server
from recollect.store import injections, lessons, responses
from recollect.store.injections import Hidden
from recollect.store.lessons import Candidate
from recollect.store.responses import Response
from tests.support.alumia import client_of, colleague, new_project
from tests.support.dashboard import browse
from tests.support.house import neighbour, new_caller
from tests.support.isolation import holding
from tests.support.papers import piecewise
from tests.support.routes import Route, fields_of_body, operation, routes_of

pytestmark = pytest.mark.anyio

MARK = "kqjsecretzz"
# What a stranger asks about: the words of the secret, without the mark.
WORDS = "vault opens noon"
SECRET = f"The vault opens at noon {MARK}"

# The administration has a test of its own; these show or end the stranger's own sign-in.
NOT_ASKED = ("/v1/admin", "/login", "/logout", "/ui", "/chat/api/password", "/chat/api/members")


@dataclass(frozen=True, slots=True)
class Things:
    """The ids of one of each, by the name that a route has for it."""

    by_name: Mapping[str, str]
    # What must not be in any answer.
    hidden: tuple[str, ...]


async def furnished(engine: Engine, server: Server, owner: Caller) -> Things:
    """Private things of every kind, made as their owner, who is in a project of their own."""
    project = await new_project(engine, owner)
    inside = replace(owner, project_id=ProjectId(UUID(project)))
    thread = await open_thread(
        engine, inside, OpenThread(agent="agent", subject="ada", name=SECRET, state={"s": SECRET})
    )
    await add_turn(engine, inside, Ref(id=thread.id), AddTurn({"text": SECRET}, {"text": SECRET}))
    async with client_of(engine, server, owner) as http:
        ids = await through_doors(http, project, str(thread.id), thread.code)
    memory = await save(engine, inside, Save(content=SECRET, scope=Scope.PROJECT, key="vault"))
    document = await add_document(
        engine, inside, NewDocument(f"{MARK}.md"), piecewise(SECRET.encode())
    )
    response, call, candidate = await asked(engine, owner, thread.id)
    found = {
        "memory": str(memory.memory.id),
        "project": project,
        "thread": str(thread.id),
        "document": str(document.id),
        "response": response,
        "call": call,
        "candidate": candidate,
        "workspace": str(owner.workspace_id),
        **ids,
    }
    names = {
        "memory_id": found["memory"],
        "target_id": found["memory"],
        "session_id": found["thread"],
        "chat_id": found["thread"],
        "channel_id": found["thread"],
        "sessionId": found["thread"],
        "conversation": found["thread"],
        "chat": found["thread"],
        "message_id": found["message"],
        "messageId": found["message"],
        "after": found["message"],
        "file_id": found["file"],
        "asset_id": found["asset"],
        "source_id": found["source"],
        "insight_id": found["insight"],
        "document_id": found["document"],
        "response_id": found["response"],
        "previous_response_id": found["response"],
        "tool_call_id": found["call"],
        "pending_id": found["candidate"],
        "projectId": project,
        "workspace_id": f"ws_{owner.workspace_id}",
        "workspace": f"ws_{owner.workspace_id}",
        "trace_id": found["trace"],
        "job_id": str(uuid4()),
        "key_id": str(uuid4()),
        "member_id": str(uuid4()),
        "agent_id": "agent",
        "model": "none",
    }
    hidden = [each for name, each in found.items() if name != "workspace"]
    return Things(
        names, (MARK, MARK.encode().hex(), thread.code[:12], memory.memory.code[:12], *hidden)
    )


async def through_doors(
    http: httpx2.AsyncClient, project: str, thread: str, code: str
) -> dict[str, str]:
    """Messages, files, assets, sources and insights, by the doors that make them."""
    chat = f"chat-{code[:12]}"
    said = await http.post(f"/api/chats/{chat}/messages", json={"messages": [{"content": SECRET}]})
    message = said.json()["messages"][0]["id"]
    upload = {"filename": f"{MARK}.txt", "data": base64.b64encode(SECRET.encode()).decode()}
    file = await http.post(f"/api/messages/{message}/files", json=upload)
    body = {"value": SECRET, "key": "vault", "scope": "global"}
    kept = (await http.post("/api/v1/memories", json=body)).json()["data"]["id"]
    path = f"/api/v1/memories/{kept}"
    asset = await http.post(f"{path}/assets", files={"file": (f"{MARK}.txt", SECRET.encode())})
    source = await http.post(f"{path}/sources", json={"kind": "session", "id": thread})
    insight = await http.post("/api/v1/learning", json={"category": "role", "insight": SECRET})
    http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
    traces = (await http.get("/v1/traces")).json()["data"]
    private = next(each for each in traces if each["action"] == "memory.created")
    return {
        "message": message,
        "file": file.json()["id"],
        "own": kept,
        "asset": asset.json()["data"]["id"],
        "source": source.json()["data"]["id"],
        "insight": insight.json()["data"]["id"],
        "trace": private["id"],
    }


async def asked(engine: Engine, owner: Caller, thread_id: ThreadId) -> tuple[str, str, str]:
    """A response, a hidden call and a candidate of the owner's conversation with a model."""
    now, said = engine.now(), [{"role": "user", "content": SECRET}]
    response, call = f"resp_{uuid4().hex}", f"call_{uuid4().hex}"
    async with engine.writing(owner) as db:
        answer = {"id": response, "object": "response", "output": SECRET}
        await responses.insert(
            db, owner, Response(response, None, str(thread_id), None, said, said, answer, now)
        )
        await injections.hide(db, owner, Hidden(call, said, said), now)
        lesson = lesson_of(owner, Said(SECRET, "turn", now, thread_id=thread_id))
        await learn_from(engine, db, owner, lesson)
        candidate = Candidate(
            uuid4(), lesson.id, SECRET, None, None, SECRET, None, "review", "pending", now
        )
        await lessons.insert(db, owner.workspace_id, [candidate])
    return response, call, str(candidate.id)


def nobodys(things: Things) -> Things:
    """Ids that nobody has, in the place of theirs; in the same workspace."""
    shared = {"workspace_id", "workspace", "agent_id", "model"}
    others = {value: str(uuid4()) for value in things.by_name.values()}
    unknown = {
        name: value if name in shared else others[value] for name, value in things.by_name.items()
    }
    return Things(unknown, things.hidden)


def requests_for(door: Door, things: Things) -> Iterator[tuple[Route, str, dict[str, Any], Any]]:
    """Each route of a door: with their ids in its path, in its query, and in its body."""
    for route in routes_of(door):
        if route.path.startswith(NOT_ASKED) or route.path == "/" or door.name == "mcp":
            continue
        names = [part[1:-1].split(":")[0] for part in route.path.split("/") if part.startswith("{")]
        assert set(names) <= set(things.by_name), f"{route}: what stands in its path?"
        path = route.path.replace(":path", "").format(**things.by_name)
        says = operation(door, route) if ":path" not in route.path else {}
        query = {
            each["name"]: things.by_name.get(each["name"], WORDS)
            for each in says.get("parameters", [])
            if each["in"] == "query" and (each["name"] in things.by_name or each["name"] == "q")
        }
        body = body_of(door, route, things) if route.method in {"POST", "PUT", "PATCH"} else None
        yield route, path, {}, body
        if query:
            yield route, path, query, body


# Where the document cannot say what a body is.
BODIES: dict[str, Any] = {
    "POST /v1/chat/completions": {
        "model": "none",
        "messages": [
            {"role": "user", "content": WORDS},
            {"role": "tool", "content": "x", "tool_call_id": "{tool_call_id}"},
        ],
    },
    "POST /v1/responses": {
        "model": "none",
        "input": WORDS,
        "previous_response_id": "{response_id}",
    },
}


def body_of(door: Door, route: Route, things: Things) -> Any:
    """Something in every field: their ids where ids go, the words of the secret elsewhere."""
    if str(route) in BODIES:
        text = json.dumps(BODIES[str(route)])
        for name in ("tool_call_id", "response_id"):
            text = text.replace(f"{{{name}}}", things.by_name[name])
        return json.loads(text)
    found = {name: value_of(name, things) for name, _ in fields_of_body(door, route)}
    return {name: value for name, value in found.items() if value is not None}


def value_of(name: str, things: Things) -> Any:
    if name in things.by_name:
        return things.by_name[name]
    if name == "id":
        return things.by_name["session_id"]
    special = {
        "messageIds": [things.by_name["message_id"]],
        "associations": [{"target_id": things.by_name["memory_id"]}],
        "kind": "session",
        "action": "regenerate",
        "sources": [{"kind": "session", "id": things.by_name["session_id"]}],
        "messages": [{"content": WORDS}],
        "category": "role",
        "scope": "project",
        "key": "vault",
    }
    if name in special:
        return special[name]
    texts = {
        "content",
        "query",
        "value",
        "insight",
        "name",
        "title",
        "summary",
        "input",
        "output",
        "filename",
    }
    if name in texts:
        return WORDS
    others: dict[str, Any] = {
        "version": 0,
        "threshold": 0.0,
        "state": {},
        "data": "",
        "pinned": True,
        "enabled": True,
    }
    return others.get(name)


PERSONS = ["another org", "another workspace", "another user"]


async def stranger_to(engine: Engine, owner: Caller, who: str) -> Caller:
    if who == "another org":
        return await new_caller(engine)
    home = await neighbour(engine, owner) if who == "another workspace" else owner
    return replace(await colleague(engine, home), rights=frozenset(Right) - {Right.ADMIN})


@pytest.mark.parametrize("who", PERSONS)
async def test_S41_S77_no_route_of_any_door_shows_or_changes_what_is_private(
    engine: Engine, server: Server, caller: Caller, who: str
) -> None:
    things = await furnished(engine, server, caller)
    stranger = await stranger_to(engine, caller, who)
    before = await holding(engine, caller.workspace_id, MARK)
    unknown = nobodys(things)
    statuses: dict[str, list[int]] = {}
    leaks: list[str] = []

    async with (
        client_of(engine, server, stranger) as keyed,
        await browse(server, engine, stranger) as browser,
    ):
        keyed.headers["X-API-Key"] = keyed.headers["Authorization"].split()[1]
        # The page first: other doors let a stranger call threads of their own by any name.
        for door in sorted(server.doors, key=lambda each: each.name != "dashboard"):
            if not isinstance(door.app, FastAPI):
                continue
            http = browser if door.name == "dashboard" else keyed
            for named in (unknown, things):
                for route, path, query, body in requests_for(door, named):
                    answer = await http.request(route.method, path, params=query, json=body)
                    statuses.setdefault(f"{route} {sorted(query)}", []).append(answer.status_code)
                    sent = path + json.dumps(query) + json.dumps(body)
                    shown = [
                        each for each in things.hidden if each in answer.text and each not in sent
                    ]
                    if shown or answer.status_code >= 500:
                        leaks.append(f"{route} {query}: {answer.status_code} {answer.text[:200]}")

    assert not leaks, "\n".join(leaks)
    # An id of theirs is answered like one that nobody has; what makes something may find it made.
    told_apart = {
        request: found
        for request, found in statuses.items()
        if len(set(found)) > 1 and not set(found) <= {200, 201, 409}
    }
    assert told_apart == {}
    assert len(statuses) > 150
    assert await holding(engine, caller.workspace_id, MARK) == before


@pytest.mark.parametrize("who", PERSONS)
async def test_S75_no_tool_shows_or_changes_what_is_private(
    engine: Engine, server: Server, caller: Caller, who: str
) -> None:
    things = await furnished(engine, server, caller)
    stranger = await stranger_to(engine, caller, who)
    before = await holding(engine, caller.workspace_id, MARK)
    said: list[str] = []

    for tool in tools.TOOLS.values():
        schema = tool.arguments.model_json_schema()
        arguments = {
            name: value
            for name in schema["properties"]
            if (value := value_of(name, things)) is not None
        }
        for given in (arguments, {name: arguments[name] for name in schema.get("required", [])}):
            try:
                result = tools.shown(await tools.call(engine, stranger, tool.name, given))
                said.append(json.dumps(result))
            except Failure as failure:
                said.append(failure.message)

    assert [each for each in said if MARK in each] == []
    assert await holding(engine, caller.workspace_id, MARK) == before
