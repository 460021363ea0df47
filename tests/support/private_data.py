"""Private data of every kind, and every request in which an outsider can name it.

There are two equal environments: in the first an owner has private data, in the second this data
does not exist. An outsider who sends the same requests to both must get the same responses. The
requests are generated from the route tables and the OpenAPI documents. A route, parameter or field
that holds an id and is not classified here fails.
"""

import base64
import json
import re
import secrets
import string
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from fastapi import FastAPI

from recollect.api.gateway import Interface
from recollect.chat.queries import injections, stored_responses
from recollect.chat.queries.injections import BuiltinCalls
from recollect.chat.queries.stored_responses import Response
from recollect.conversations.threads import AddTurn, OpenThread, add_turn, open_thread
from recollect.core import domain
from recollect.core.domain import AgentId, Caller, ProjectId, Ref, Right, Scope, ThreadId
from recollect.documents.documents import NewDocument, add_document
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.learning.queries import inbox
from recollect.learning.queries.inbox import StoredCandidate
from recollect.memories.save import Save, save
from recollect.portability.erasure import erase
from recollect.portability.erasure_targets import ErasureKind, ErasureTarget
from recollect.portability.records import FORMAT
from recollect.server import Server
from recollect.tenancy import projects
from recollect.tenancy.keys import create_key
from recollect.tenancy.projects import InWorkspace
from recollect.tenancy.queries import workspaces as workspaces_queries
from tests.support.alumia import add_colleague, client_of, enable_workspaces
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import (
    in_new_workspace,
    make_server,
    new_caller,
    open_engine,
    single_embedder,
)
from tests.support.routes import Route, fields_of_body, operation, routes_of
from tests.support.sample_files import in_chunks

# Part of every text, key, tag, name, category and label of the owner.
MARK = "kqjsecretzz"
# Part of the outsider's own texts, keys and names.
PLAIN = "plainwordyy"
# The outsider's query: the words of the secret, without the mark.
WORDS = "vault opens noon"
# Both the owner and the outsider save this text. The outsider must not notice.
DUPLICATE = "The cellar opens at dawn"
OUTSIDERS = ("another org", "another workspace", "another user, of another project")

Json = Any


@dataclass(frozen=True, slots=True)
class PrivateData:
    """The id of one object of each kind, by the name of the parameter that holds it."""

    by_name: Mapping[str, str]
    # The same for the administration interface.
    admin_ids: Mapping[str, str]
    # Ids and texts that no response to an outsider may contain.
    secrets: tuple[str, ...]

    def names_for(self, interface: Interface) -> dict[str, str]:
        """The ids by the parameter names of an interface."""
        return {**self.by_name, **(self.admin_ids if interface.name == "administration" else {})}


class SeededIds:
    """Generates the same memory ids in both environments, so that ties are broken equally."""

    def __init__(self) -> None:
        self._random = Random()

    def seed(self, at: str) -> None:
        self._random.seed(at)

    def __call__(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


@dataclass(slots=True)
class Environment:
    """An outsider with their own data, and the ids of an owner's data or of no data at all."""

    engine: Engine
    server: Server
    clock: Clock
    owner: Caller
    outsider: Caller
    own: PrivateData
    foreign: PrivateData
    ids: SeededIds
    start: Any = field(init=False)
    sent_before: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.start = self.clock.at + timedelta(hours=1)

    def at(self, number: int) -> None:
        """Set the clock and the seed of a request, equally in both environments."""
        self.ids.seed(str(number))
        self.clock.at = self.start + number * timedelta(seconds=1)

    def plain(self, text: str) -> str:
        """A response without the parts that always differ: ids, keys and cursors."""
        known = {value: f"<{name}>" for name, value in self.own.by_name.items()}
        known |= {value: f"<own {name}>" for name, value in self.own.admin_ids.items()}
        known |= {value: f"<their {name}>" for name, value in self.foreign.admin_ids.items()}
        known |= {value: f"<their {name}>" for name, value in self.foreign.by_name.items()}
        for value in sorted(known, key=len, reverse=True):
            text = text.replace(value, known[value])
        for pattern, name in _RANDOM:
            text = pattern.sub(name, text)
        return text

    def leak(self, sent: str, received: str) -> list[str]:
        """The owner's secrets in a response that the outsider has never sent."""
        self.sent_before |= {each for each in self.foreign.secrets if each in sent}
        return [
            each
            for each in self.foreign.secrets
            if each in received and each not in self.sent_before
        ]


_RANDOM = (
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"(rk_[0-9a-f]{8}|alm_\w+)…[\w-]{4}"), "<shown>"),
    (re.compile(r"[\w-]{32,}"), "<long>"),
    (re.compile(r"\b[a-z]{2,8}[-_][0-9A-Za-z]{12,}"), "<code>"),
    (re.compile(r"rk_[0-9a-f]{8}"), "<key>"),
    (re.compile(r"(code\W+)[0-9A-Za-z]{24}\b"), r"\1<code>"),
    (re.compile(r'"password":"[^"]+"'), '"password":"<password>"'),
    # The creation time of an account or a workspace, by the database's own clock.
    (re.compile(r"(?!2026-03-0)\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)"), "<now>"),
    # Receipts form one chain for the whole server, so their number is not secret.
    (re.compile(r'"number": ?\d+,"previous"'), '"number":0,"previous"'),
)


@asynccontextmanager
async def two_environments(
    database_url: str, kind: str
) -> AsyncGenerator[tuple[Environment, Environment]]:
    """One environment with private data, and an equal one without it."""
    ids = SeededIds()
    async with (
        open_engine(database_url, single_embedder(StubEmbedder()), Clock()) as first_engine,
        open_engine(database_url, single_embedder(StubEmbedder()), Clock()) as second_engine,
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(domain, "uuid4", ids)
            first = await _environment(first_engine, kind, None, ids)
            yield first, await _environment(second_engine, kind, first.foreign, ids)


async def _environment(
    engine: Engine, kind: str, template: PrivateData | None, ids: SeededIds
) -> Environment:
    """Without a template, add private data. With one, make unknown ids of the same form."""
    server, clock = make_server(engine), engine.now
    assert isinstance(clock, Clock)
    owner = await new_caller(engine)
    outsider = await _new_outsider(engine, owner, kind)
    start = clock.at
    foreign = (
        await add_private_data(engine, server, owner, MARK)
        if template is None
        else unknown_ids(template)
    )
    if outsider.org_id == owner.org_id:
        # Members of an org may know its other members and its default workspace.
        shared = {
            "workspace_id": f"ws_{owner.workspace_id}",
            "workspace": f"ws_{owner.workspace_id}",
        }
        known = {
            "org": str(owner.org_id),
            "user": str(owner.user_id),
            "workspace": str(owner.workspace_id),
        }
        foreign = PrivateData(
            {**foreign.by_name, **shared}, {**foreign.admin_ids, **known}, foreign.secrets
        )
    clock.at = start + timedelta(minutes=30)
    ids.seed("own")
    own = await add_private_data(engine, server, outsider, PLAIN)
    return Environment(engine, server, clock, owner, outsider, own, foreign, ids)


async def _new_outsider(engine: Engine, owner: Caller, kind: str) -> Caller:
    if kind == "another org":
        return await new_caller(engine)
    home = owner
    if kind == "another workspace":
        home = await in_new_workspace(engine, owner)
        await enable_workspaces(engine, owner, is_on=True)
    outsider = replace(await add_colleague(engine, home), rights=frozenset(Right) - {Right.ADMIN})
    async with engine.pool.everywhere() as db:
        await workspaces_queries.add_workspace_member(db, outsider.workspace_id, outsider.user_id)
    return outsider


def unknown_ids(template: PrivateData) -> PrivateData:
    """Ids of the same form that do not exist."""
    others: dict[str, str] = {}

    def similar(value: str) -> str:
        return others.setdefault(value, _similar_id(value))

    return PrivateData(
        {name: similar(value) for name, value in template.by_name.items()},
        {name: similar(value) for name, value in template.admin_ids.items()},
        (),
    )


def _similar_id(value: str) -> str:
    """A random id of the same form."""
    if found := re.search(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", value):
        return value.replace(found[0], str(uuid4()))
    head, code = re.fullmatch(r"(.*?[-_]|)(\w+)", value).groups()  # pyright: ignore[reportOptionalMemberAccess]
    if re.fullmatch("[0-9a-f]{24,}", code):
        return head + secrets.token_hex(len(code) // 2)
    return head + "".join(secrets.choice(string.ascii_letters) for _ in code)


async def add_private_data(engine: Engine, server: Server, owner: Caller, mark: str) -> PrivateData:
    """Add private data of every kind as its owner, who is in their own project."""
    # An outsider may use the same label without knowing the owner's.
    label = mark[::-1]
    secret, clock = f"The vault opens at noon {mark}", engine.now
    assert isinstance(clock, Clock)
    step = timedelta(seconds=1)
    project, agent = await _project_of(engine, owner)
    inside = replace(owner, project_id=ProjectId(UUID(project)), agent_id=AgentId(UUID(agent)))
    thread = await open_thread(
        engine,
        inside,
        OpenThread(agent=f"agent-{label}", subject=mark, name=secret, state={"s": secret}),
    )
    await add_turn(engine, inside, Ref(id=thread.id), AddTurn({"text": secret}, {"text": secret}))
    async with client_of(engine, server, owner) as http:
        ids = await _add_through_interfaces(http, clock, str(thread.id), thread.code, mark)
    clock.advance(step)
    memory = await save(
        engine,
        inside,
        Save(content=f"{secret} sharp", scope=Scope.PROJECT, key=f"vault-{label}", tags=(mark,)),
    )
    clock.advance(step)
    await save(engine, inside, Save(content=DUPLICATE, scope=Scope.GLOBAL))
    clock.advance(step)
    await save(engine, inside, Save(content=f"{DUPLICATE} too", scope=Scope.PROJECT))
    clock.advance(step)
    document = await add_document(
        engine, inside, NewDocument(f"{mark}.md"), in_chunks(secret.encode())
    )
    clock.advance(step)
    response, call, candidate = await _add_model_data(engine, owner, thread.id, secret)
    clock.advance(step)
    key = await create_key(
        engine, workspace=str(owner.workspace_id), user=str(owner.user_id), name=f"key-{mark}"
    )
    clock.advance(step)
    erased = await erase(
        engine,
        ErasureTarget(ErasureKind.KEY, owner.org_id, [owner.workspace_id], text="nothing"),
        by="test",
    )
    assert erased.receipt
    names = {
        "memory_id": str(memory.memory.id),
        "session_id": str(thread.id),
        "message_id": ids["message"],
        "file_id": ids["file"],
        "own_memory_id": ids["own"],
        "asset_id": ids["asset"],
        "source_id": ids["source"],
        "insight_id": ids["insight"],
        "trace_id": ids["trace"],
        "turn_id": ids["turn"],
        "document_id": str(document.id),
        "response_id": response,
        "tool_call_id": call,
        "pending_id": candidate,
        "projectId": project,
        "agentId": agent,
        "agent_id": f"agent-{label}",
        "key": f"vault-{label}",
        "workspace_id": f"ws_{owner.workspace_id}",
        "job_id": str(uuid4()),
        "key_id": f"key_{key.record.id}",
        "member_id": str(uuid4()),
        "model": "no-such-model",
    }
    admin_ids = {
        "org": str(owner.org_id),
        "user": str(owner.user_id),
        "workspace": str(owner.workspace_id),
        "project": project,
        "agent": agent,
        "key": str(key.record.id),
        "receipt": erased.receipt["receipt"],
    }
    not_secret = {"workspace_id", "model", "job_id", "member_id"}
    secret_ids = [value for name, value in names.items() if name not in not_secret]
    codes = (thread.code[:12], memory.memory.code[:12])
    return PrivateData(
        _with_aliases(names), admin_ids, (mark, mark.encode().hex(), *codes, *secret_ids)
    )


async def _project_of(engine: Engine, owner: Caller) -> tuple[str, str]:
    """A project of the owner and its agent. Agents of the whole workspace are not private."""
    where = InWorkspace(str(owner.workspace_id), by=owner)
    project = str(await projects.create_project(engine, where, uuid4().hex))
    await projects.invite_to_project(engine, where, project, str(owner.user_id))
    agent = await projects.create_agent(engine, where, uuid4().hex, project=project)
    return project, str(agent)


def _with_aliases(names: Mapping[str, str]) -> dict[str, str]:
    """The same ids under all names that parameters and fields have for them."""
    aliases = {
        "memory_id": ("target_id", "memoryId", "id", "node_id", "around"),
        "session_id": ("chat_id", "channel_id", "sessionId", "conversation", "chat", "session"),
        "message_id": ("messageId", "after", "parent"),
        "response_id": ("previous_response_id",),
        "workspace_id": ("workspace",),
    }
    others = {other: names[name] for name, many in aliases.items() for other in many}
    return {**names, **others}


async def _add_through_interfaces(
    http: httpx2.AsyncClient, clock: Clock, thread: str, code: str, mark: str
) -> dict[str, str]:
    """Add messages, files, assets, sources and insights through the interfaces."""
    secret = f"The vault opens at noon {mark}"

    async def made(path: str, **sent: Any) -> Json:
        clock.advance(timedelta(seconds=1))
        response = await http.post(path, **sent)
        assert response.status_code in {200, 201}, response.text
        return response.json()

    added = await made(
        f"/api/chats/chat-{code[:12]}/messages",
        json={"messages": [{"content": secret, "author": mark}]},
    )
    message = added["messages"][0]["id"]
    upload = {"filename": f"{mark}.txt", "data": base64.b64encode(secret.encode()).decode()}
    file = await made(f"/api/messages/{message}/files", json=upload)
    body = {
        "value": secret,
        "key": f"vault-{mark[::-1]}",
        "scope": "global",
        "tags": [mark],
        "category": mark,
        "summary": mark,
    }
    memory = (await made("/api/v1/memories", json=body))["data"]["id"]
    path = f"/api/v1/memories/{memory}"
    asset = await made(f"{path}/assets", files={"file": (f"{mark}.txt", secret.encode())})
    source = await made(f"{path}/sources", json={"kind": "session", "id": thread})
    insight = await made("/api/v1/learning", json={"category": "role", "insight": secret})
    http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
    turn = await made(f"/v1/sessions/{thread}/turns", json={"input": secret, "output": secret})
    traces = (await http.get("/v1/traces")).json()["data"]
    private = next(each for each in traces if each["action"] == "memory.created")
    return {
        "message": message,
        "file": file["id"],
        "own": memory,
        "asset": asset["data"]["id"],
        "source": source["data"]["id"],
        "insight": insight["data"]["id"],
        "turn": turn["id"],
        "trace": private["id"],
    }


async def _add_model_data(
    engine: Engine, owner: Caller, thread_id: ThreadId, secret: str
) -> tuple[str, str, str]:
    """Add a response, a hidden call and a candidate of the owner's conversation with a model."""
    now, messages = engine.now(), [{"role": "user", "content": secret}]
    response, call = f"resp_{uuid4().hex}", f"call_{uuid4().hex}"
    async with engine.writing(owner) as db:
        answer = {"id": response, "object": "response", "output": secret}
        await stored_responses.insert(
            db,
            owner,
            Response(response, None, str(thread_id), None, messages, messages, answer, now),
        )
        await injections.store_builtin_calls(db, owner, BuiltinCalls(call, messages, messages), now)
        item = inbox_item_of(owner, LearningInput(secret, "turn", now, thread_id=thread_id))
        await learn_from(engine, db, owner, item)
        candidate = StoredCandidate(
            uuid4(), item.id, secret, None, None, secret, None, "review", "pending", now
        )
        await inbox.insert(db, owner.workspace_id, [candidate])
    return response, call, str(candidate.id)


@dataclass(frozen=True, slots=True)
class PrivateDataRequest:
    """A request in which at most one field, `foreign_field`, holds a foreign id."""

    route: Route
    foreign_field: str
    path: str
    query: dict[str, Any] = field(default_factory=dict[str, Any])
    body: Json = None
    files: dict[str, tuple[str, bytes]] | None = None

    def __str__(self) -> str:
        return f"{self.route} ({self.foreign_field})"

    @property
    def sent(self) -> str:
        """Everything that the caller sends, as text."""
        return f"{self.path} {json.dumps([self.query, self.body])} {self.files}"


# Sign-in and sign-out have no data, and the page's own files are public.
_SKIPPED = ("/login", "/logout", "/ui", "/chat/api/password", "/api/auth", "/mcp")
# Labels that the client chooses, models and counters. They are not ids.
_CLIENT_LABELS = {
    "user_id",
    "client_id",
    "clientId",
    "modelId",
    "model_id",
    "model",
    "starting_version",
}
_IS_ID = re.compile(
    r"(^|_)ids?$|[a-z]Ids?$|^(after|before|starting_after|cursor|conversation|session|workspace)$"
)
# The kind of id after which a page of each list starts.
_CURSOR_ID_BY_PATH = {
    "/v1/memory": "memory_id",
    "/v1/memories": "memory_id",
    "/v1/sessions": "session_id",
    "/v1/sessions/{session_id}/turns": "turn_id",
    "/v1/traces": "trace_id",
    "/v1/responses/{response_id}/input_items": "message_id",
}
_NUMBERED_LISTS = {"/v1/sessions/{session_id}/history", "/v1/sessions/{session_id}/state/history"}


# Routes whose interface returns the existing duplicate instead of saving again.
_RETURN_DUPLICATES = ("/v1/workspaces/{workspace_id}/memories", "/chat/api/")


def cases(
    interface: Interface, own: PrivateData, foreign: PrivateData
) -> Iterator[PrivateDataRequest]:
    """Each route as it is, and once for each position of an id, with the owner's id in it."""
    for number, case in enumerate(_cases(interface, own, foreign)):
        if case.route.path.startswith(_RETURN_DUPLICATES):
            yield case
        else:  # made unique, so that no two memories have the same score
            text = json.dumps(case.body).replace(
                DUPLICATE, f"{DUPLICATE} {interface.name} {number}"
            )
            yield replace(case, body=json.loads(text))


# The fields that name the owner of each scope. Other fields would name another scope owner.
_SCOPE_FIELDS = {"global": (), "project": ("projectId",), "agent": ("agentId",)}


def reading_cases(interface: Interface, own: PrivateData) -> Iterator[PrivateDataRequest]:
    """Each reading route as it is."""
    found = (case for case in _cases(interface, own, own) if case.foreign_field == "as it is")
    return (case for case in found if case.route.method in {"GET", "HEAD"})


def writing_cases(interface: Interface, own: PrivateData) -> Iterator[PrivateDataRequest]:
    """Each writing route as it is; if it takes a scope, once for each scope."""
    found = (case for case in _cases(interface, own, own) if case.foreign_field == "as it is")
    for case in found:
        if case.route.method not in {"POST", "PUT", "PATCH"}:
            continue
        yield case
        if case.body and "scope" in case.body:
            for scope, named in _SCOPE_FIELDS.items():
                others = {"projectId", "agentId", "sessionId"} - {*named}
                body = {name: case.body[name] for name in case.body.keys() - others}
                yield replace(case, foreign_field=scope, body={**body, "scope": scope})


def _cases(
    interface: Interface, own: PrivateData, foreign: PrivateData
) -> Iterator[PrivateDataRequest]:
    assert isinstance(interface.app, FastAPI)
    mine, theirs = own.names_for(interface), foreign.names_for(interface)
    for route in routes_of(interface):
        if route.path.startswith(_SKIPPED) or route.path == "/":
            continue
        document = {} if ":path" in route.path else operation(interface, route)
        query = {
            each["name"]: mine.get(each["name"], WORDS)
            for each in document.get("parameters", [])
            if each["in"] == "query" and (each["name"] in {"q", "query"} or each.get("required"))
        }
        yield from _path_cases(interface, route, query, mine, theirs)
        yield from _query_cases(route, document, query, mine, theirs)
        yield from _body_cases(interface, route, document, query, mine, theirs)


def _path_cases(
    interface: Interface,
    route: Route,
    query: dict[str, Any],
    mine: Mapping[str, str],
    theirs: Mapping[str, str],
) -> Iterator[PrivateDataRequest]:
    template = route.path.replace(":path", "")
    names = [part[1:-1] for part in template.split("/") if part.startswith("{")]
    assert set(names) <= set(mine), f"{route}: unknown parameter in its path"
    if route.method != "DELETE" or not names:
        plain, files = _body_for(interface, route, mine)
        yield PrivateDataRequest(route, "as it is", template.format(**mine), query, plain, files)
    for name in names:
        filled = {**mine, name: theirs[name]}
        body, files = _body_for(interface, route, mine)
        yield PrivateDataRequest(
            route, f"{{{name}}}", template.format(**filled), query, body, files
        )
    body, files = _body_for(interface, route, theirs)
    if len(names) > 1 or (body and str(route) not in _FIXED_BODIES):
        yield PrivateDataRequest(route, "all", template.format(**theirs), query, body, files)


def _query_cases(
    route: Route,
    document: Mapping[str, Any],
    query: dict[str, Any],
    mine: Mapping[str, str],
    theirs: Mapping[str, str],
) -> Iterator[PrivateDataRequest]:
    path = route.path.format(**mine) if document else ""
    for each in document.get("parameters", []):
        name = each["name"]
        if each["in"] != "query" or not _IS_ID.search(name) or name in _CLIENT_LABELS:
            continue
        if name == "cursor" or (name == "starting_after" and route.path in _NUMBERED_LISTS):
            continue  # cursors have their own test
        thing = _CURSOR_ID_BY_PATH[route.path] if name == "starting_after" else name
        assert thing in theirs, f"{route}: unknown parameter `{name}`"
        yield PrivateDataRequest(route, f"?{name}", path, {**query, name: theirs[thing]})


def _body_cases(
    interface: Interface,
    route: Route,
    document: Mapping[str, Any],
    query: dict[str, Any],
    mine: Mapping[str, str],
    theirs: Mapping[str, str],
) -> Iterator[PrivateDataRequest]:
    path = route.path.replace(":path", "").format(**mine)
    for body in _FIXED_BODIES.get(str(route), ()):
        yield PrivateDataRequest(route, json.dumps(body), path, query, _formatted(body, theirs))
    if str(route) in _FIXED_BODIES or "requestBody" not in document:
        return
    base, files = _body_for(interface, route, mine)
    if files:
        _, lines = _body_for(interface, route, theirs)
        yield PrivateDataRequest(route, "in the file", path, query, None, lines)
    for name, _ in fields_of_body(interface, route):
        if name in _CLIENT_LABELS or not (_IS_ID.search(name) or name in _LIST_FIELDS):
            continue
        value = _value_of(name, theirs)
        assert value is not None, f"{route}: unknown field `{name}`"
        yield PrivateDataRequest(route, f"body.{name}", path, query, {**base, name: value})


def _body_for(
    interface: Interface, route: Route, names: Mapping[str, str]
) -> tuple[Json, dict[str, tuple[str, bytes]] | None]:
    """A body with a value in every field (ids or words), or a file."""
    if route.method not in {"POST", "PUT", "PATCH"}:
        return None, None
    if str(route) in _FIXED_BODIES:
        return _formatted(_FIXED_BODIES[str(route)][0], names), None
    if ":path" in route.path:
        return {}, None
    content = operation(interface, route).get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        return None, _file_for(route, names)
    found = {name: _value_of(name, names) for name, _ in fields_of_body(interface, route)}
    return {name: value for name, value in found.items() if value is not None}, None


def _file_for(route: Route, names: Mapping[str, str]) -> dict[str, tuple[str, bytes]]:
    if route.path == "/api/v1/import":
        return {"file": ("import.jsonl", _import_file(names))}
    return {"file": ("note.txt", WORDS.encode())}


def _import_file(names: Mapping[str, str]) -> bytes:
    """An export file with these ids in every field that can hold one."""
    at = "2026-01-01T00:00:00+00:00"
    thread, memory, user = names["session_id"], names["memory_id"], str(uuid4())
    row_fields = {"created_at": at, "updated_at": at, "user_id": user}
    code = "a" * 24
    fields = row_fields | {
        "importance": 0.5,
        "importance_base": 0.5,
        "lifecycle": "permanent",
        "origin": "user",
    }
    lines: list[dict[str, Any]] = [
        {"type": "recollect", "format": FORMAT},
        {"type": "user", "id": user, "login": "ada"},
        {"type": "workspace_member", "user_id": user, "created_at": at},
        {"type": "project", "id": names["projectId"], "name": "theirs", "created_at": at},
        {
            "type": "project_member",
            "project_id": names["projectId"],
            "user_id": user,
            "created_at": at,
        },
        {"type": "turn", "id": str(uuid4()), "code": code, "thread_id": thread, "number": 9}
        | {"input": {}, "output": {}, "created_at": at},
        {"type": "message", "id": str(uuid4()), "code": code, "thread_id": thread, "position": 9}
        | {"role": "user", "content": "slipped in", "created_at": at},
        {"type": "memory", "id": memory, "code": code, "scope": "global", **fields}
        | {"content": "brought along"},
        {"type": "memory", "id": str(uuid4()), "code": code, "scope": "project", **fields}
        | {"project_id": names["projectId"], "content": "for the project"},
        {"type": "memory", "id": str(uuid4()), "code": code, "scope": "thread", **fields}
        | {"thread_id": thread, "content": "said there", "created_at": "2026-01-02T00:00:00Z"},
        {"type": "link", "id": str(uuid4()), "source_id": memory, "target_id": names["id"]}
        | {"relation": "updates", "weight": 1.0, "is_authored": True, "created_at": at},
        {"type": "source", "id": str(uuid4()), "memory_id": names["own_memory_id"]}
        | {"kind": "session", "target_id": thread, "created_at": at},
    ]
    counts: dict[str, int] = {}
    for line in lines[1:]:
        counts[line["type"]] = counts.get(line["type"], 0) + 1
    lines.append({"type": "end", "lines": counts})
    return "\n".join(map(json.dumps, lines)).encode()


# Bodies that the document does not describe, or that have several forms.
_FIXED_BODIES: dict[str, tuple[Json, ...]] = {
    "POST /v1/chat/completions": (
        {
            "model": "none",
            "messages": [
                {"role": "user", "content": WORDS},
                {"role": "tool", "content": "x", "tool_call_id": "{tool_call_id}"},
            ],
        },
    ),
    "POST /v1/responses": (
        {"model": "none", "input": WORDS, "previous_response_id": "{response_id}"},
        {"model": "none", "input": WORDS, "conversation": "{session_id}"},
        {"model": "none", "input": [{"type": "item_reference", "id": "{message_id}"}]},
    ),
    "POST /v1/embeddings": ({"model": "none", "input": WORDS},),
    "POST /v1/admin/erasures": (
        {"session": "{session_id}", "dry_run": True},
        {"user": "{user}", "dry_run": True},
        {"key": "{key}", "workspace": "{workspace}", "dry_run": True},
        {"user": "{user}", "key": "{key}", "dry_run": True},
        {"subject": "{agent_id}", "dry_run": True},
    ),
    # Logins are unique for the whole server.
    "POST /chat/api/members": ({"name": "member-{nonce}"},),
    "POST /v1/admin/users": ({"login": "member-{nonce}"},),
    "POST /v1/admin/keys": ({"workspace": "{workspace}"}, {"user": "{user}"}),
    "POST /v1/admin/agents": ({"name": WORDS, "project": "{project}"},),
}


def _formatted(body: Json, names: Mapping[str, str]) -> Json:
    text = json.dumps(body)
    for name in re.findall(r"\{(\w+)\}", text):
        text = text.replace(f"{{{name}}}", uuid4().hex if name == "nonce" else names[name])
    return json.loads(text)


_LIST_FIELDS = {"messageIds", "associations", "sources"}
_TEXT_FIELDS = {"query", "insight", "name", "title", "summary", "input", "output", "filename"}
_VALUES: dict[str, Any] = {
    "content": DUPLICATE,
    "value": DUPLICATE,
    "messages": [{"content": WORDS}],
    "category": "role",
    "scope": "project",
    "kind": "session",
    "action": "regenerate",
    "key": "vault",
    "version": 0,
    "threshold": 0.0,
    "state": {},
    "data": "",
    "pinned": True,
    "enabled": True,
    "rights": ["read"],
    "keep_hours": 1,
}


def _value_of(name: str, names: Mapping[str, str]) -> Any:
    lists: dict[str, Any] = {
        "messageIds": [names["message_id"]],
        "associations": [{"target_id": names["memory_id"]}],
        "sources": [{"kind": "session", "id": names["session_id"]}],
        "id": names["session_id"],
    }
    if name in lists:
        return lists[name]
    if name in _VALUES:
        return _VALUES[name]
    if name in names and _IS_ID.search(name) and name not in _CLIENT_LABELS:
        return names[name]
    return WORDS if name in _TEXT_FIELDS else None
