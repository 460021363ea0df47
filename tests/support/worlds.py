"""Somebody's private things of every kind, and every request in which a stranger can name them.

Two worlds are alike but for one thing: in the first somebody has private things, in the second
they do not exist. A stranger who asks the same of both must hear the same. What the requests are
is read from the route tables and the doors' own documents: a route, a parameter or a field that
names something and is not classified here fails.
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

from recollect import domain
from recollect.domain import AgentId, Caller, ProjectId, Ref, Right, Scope, ThreadId
from recollect.doors.front import Door
from recollect.engine import circles
from recollect.engine.circles import Where
from recollect.engine.core import Engine
from recollect.engine.documents import NewDocument, add_document
from recollect.engine.erase import erase
from recollect.engine.erase_targets import Kind, Target
from recollect.engine.keys import create_key
from recollect.engine.learning import Said, learn_from, lesson_of
from recollect.engine.records import FORMAT
from recollect.engine.save import Save, save
from recollect.engine.threads import AddTurn, OpenThread, add_turn, open_thread
from recollect.server import Server
from recollect.store import identity, injections, lessons, responses
from recollect.store.injections import Hidden
from recollect.store.lessons import Candidate
from recollect.store.responses import Response
from tests.support.alumia import client_of, colleague, switch_workspaces
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import neighbour, new_caller, only, open_house, serve
from tests.support.papers import piecewise
from tests.support.routes import Route, fields_of_body, operation, routes_of

# Stands in every text, key, tag, name, category and label of the victim's.
MARK = "kqjsecretzz"
# Stands where the stranger keeps things of their own.
PLAIN = "plainwordyy"
# What a stranger asks about: the words of the secret, without the mark.
WORDS = "vault opens noon"
# Somebody else says the same; whether they do must not be seen.
TWIN = "The cellar opens at dawn"
PERSONS = ("another org", "another workspace", "another user, of another project")

Json = Any


@dataclass(frozen=True, slots=True)
class Things:
    """The ids of one of each, by the name that a route has for it."""

    by_name: Mapping[str, str]
    # As the administration names them.
    arranged: Mapping[str, str]
    # Everything that tells of them: what must be in no answer to a stranger.
    telling: tuple[str, ...]

    def names_for(self, door: Door) -> dict[str, str]:
        """By what a door's routes call them."""
        return {**self.by_name, **(self.arranged if door.name == "administration" else {})}


class Dice:
    """Ids of memories, thrown alike in both worlds: where ids decide, as between two answers that
    are equally good, they decide alike."""

    def __init__(self) -> None:
        self._random = Random()

    def begin(self, at: str) -> None:
        self._random.seed(at)

    def __call__(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


@dataclass(slots=True)
class World:
    """A stranger, what is their own, and the names of what is another's or nobody's."""

    engine: Engine
    server: Server
    clock: Clock
    owner: Caller
    stranger: Caller
    own: Things
    foreign: Things
    dice: Dice
    began: Any = field(init=False)
    said: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.began = self.clock.at + timedelta(hours=1)

    def at(self, number: int) -> None:
        """The time of a request, and what chance has in store: the same in every world."""
        self.dice.begin(str(number))
        self.clock.at = self.began + number * timedelta(seconds=1)

    def plain(self, text: str) -> str:
        """An answer without what differs between any two worlds: ids, keys and cursors."""
        known = {value: f"<{name}>" for name, value in self.own.by_name.items()}
        known |= {value: f"<own {name}>" for name, value in self.own.arranged.items()}
        known |= {value: f"<their {name}>" for name, value in self.foreign.arranged.items()}
        known |= {value: f"<their {name}>" for name, value in self.foreign.by_name.items()}
        for value in sorted(known, key=len, reverse=True):
            text = text.replace(value, known[value])
        for pattern, name in _RANDOM:
            text = pattern.sub(name, text)
        return text

    def leak(self, sent: str, said: str) -> list[str]:
        """What an answer tells of somebody else that the stranger has never said themselves."""
        self.said |= {each for each in self.foreign.telling if each in sent}
        return [each for each in self.foreign.telling if each in said and each not in self.said]


_RANDOM = (
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"(rk_[0-9a-f]{8}|alm_\w+)…[\w-]{4}"), "<shown>"),
    (re.compile(r"[\w-]{32,}"), "<long>"),
    (re.compile(r"\b[a-z]{2,8}[-_][0-9A-Za-z]{12,}"), "<code>"),
    (re.compile(r"rk_[0-9a-f]{8}"), "<key>"),
    (re.compile(r"(code\W+)[0-9A-Za-z]{24}\b"), r"\1<code>"),
    (re.compile(r'"password":"[^"]+"'), '"password":"<password>"'),
    # When an account or a workspace was made, by the database's own clock.
    (re.compile(r"(?!2026-03-0)\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)"), "<now>"),
    # Receipts are one chain for the whole house: how many there are is no secret in it.
    (re.compile(r'"number": ?\d+,"previous"'), '"number":0,"previous"'),
)


@asynccontextmanager
async def two_worlds(database_url: str, who: str) -> AsyncGenerator[tuple[World, World]]:
    """One where somebody has private things, and an equal one where they do not exist."""
    dice = Dice()
    async with (
        open_house(database_url, only(StubEmbedder()), Clock()) as here,
        open_house(database_url, only(StubEmbedder()), Clock()) as there,
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(domain, "uuid4", dice)
            first = await _world(here, who, None, dice)
            yield first, await _world(there, who, first.foreign, dice)


async def _world(engine: Engine, who: str, shape: Things | None, dice: Dice) -> World:
    """A world; without a shape somebody has things in it, else their ids are nobody's."""
    server, clock = serve(engine), engine.now
    assert isinstance(clock, Clock)
    owner = await new_caller(engine)
    stranger = await _stranger_to(engine, owner, who)
    began = clock.at
    foreign = await furnished(engine, server, owner, MARK) if shape is None else nobodys(shape)
    if stranger.org_id == owner.org_id:
        # Who is in the org is no secret in it, nor which its default workspace is.
        place = {
            "workspace_id": f"ws_{owner.workspace_id}",
            "workspace": f"ws_{owner.workspace_id}",
        }
        known = {
            "org": str(owner.org_id),
            "user": str(owner.user_id),
            "workspace": str(owner.workspace_id),
        }
        foreign = Things(
            {**foreign.by_name, **place}, {**foreign.arranged, **known}, foreign.telling
        )
    clock.at = began + timedelta(minutes=30)
    dice.begin("own")
    own = await furnished(engine, server, stranger, PLAIN)
    return World(engine, server, clock, owner, stranger, own, foreign, dice)


async def _stranger_to(engine: Engine, owner: Caller, who: str) -> Caller:
    if who == "another org":
        return await new_caller(engine)
    home = owner
    if who == "another workspace":
        home = await neighbour(engine, owner)
        await switch_workspaces(engine, owner, is_on=True)
    stranger = replace(await colleague(engine, home), rights=frozenset(Right) - {Right.ADMIN})
    async with engine.pool.everywhere() as db:
        await identity.add_workspace_member(db, stranger.workspace_id, stranger.user_id)
    return stranger


def nobodys(shape: Things) -> Things:
    """Ids like these that nobody has."""
    others: dict[str, str] = {}

    def like(value: str) -> str:
        return others.setdefault(value, _like(value))

    return Things(
        {name: like(value) for name, value in shape.by_name.items()},
        {name: like(value) for name, value in shape.arranged.items()},
        (),
    )


def _like(value: str) -> str:
    """Another of the same form."""
    if found := re.search(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", value):
        return value.replace(found[0], str(uuid4()))
    head, code = re.fullmatch(r"(.*?[-_]|)(\w+)", value).groups()  # pyright: ignore[reportOptionalMemberAccess]
    if re.fullmatch("[0-9a-f]{24,}", code):
        return head + secrets.token_hex(len(code) // 2)
    return head + "".join(secrets.choice(string.ascii_letters) for _ in code)


async def furnished(engine: Engine, server: Server, owner: Caller, mark: str) -> Things:
    """Private things of every kind, made as their owner, who is in a project of their own."""
    # A label that somebody may say without knowing what is behind it.
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
        ids = await _through_doors(http, clock, str(thread.id), thread.code, mark)
    clock.advance(step)
    memory = await save(
        engine,
        inside,
        Save(content=f"{secret} sharp", scope=Scope.PROJECT, key=f"vault-{label}", tags=(mark,)),
    )
    clock.advance(step)
    await save(engine, inside, Save(content=TWIN, scope=Scope.GLOBAL))
    clock.advance(step)
    await save(engine, inside, Save(content=f"{TWIN} too", scope=Scope.PROJECT))
    clock.advance(step)
    document = await add_document(
        engine, inside, NewDocument(f"{mark}.md"), piecewise(secret.encode())
    )
    clock.advance(step)
    response, call, candidate = await _asked(engine, owner, thread.id, secret)
    clock.advance(step)
    key = await create_key(
        engine, workspace=str(owner.workspace_id), user=str(owner.user_id), name=f"key-{mark}"
    )
    clock.advance(step)
    erased = await erase(
        engine, Target(Kind.KEY, owner.org_id, [owner.workspace_id], text="nothing"), by="test"
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
    arranged = {
        "org": str(owner.org_id),
        "user": str(owner.user_id),
        "workspace": str(owner.workspace_id),
        "project": project,
        "agent": agent,
        "key": str(key.record.id),
        "receipt": erased.receipt["receipt"],
    }
    unsaid = {"workspace_id", "model", "job_id", "member_id"}
    telling = [value for name, value in names.items() if name not in unsaid]
    codes = (thread.code[:12], memory.memory.code[:12])
    return Things(_also_called(names), arranged, (mark, mark.encode().hex(), *codes, *telling))


async def _project_of(engine: Engine, owner: Caller) -> tuple[str, str]:
    """A project of theirs and its agent: what is of the whole workspace is no secret in it."""
    where = Where(str(owner.workspace_id), by=owner)
    project = str(await circles.create_project(engine, where, uuid4().hex))
    await circles.invite_to_project(engine, where, project, str(owner.user_id))
    agent = await circles.create_agent(engine, where, uuid4().hex, project=project)
    return project, str(agent)


def _also_called(names: Mapping[str, str]) -> dict[str, str]:
    """The same under every name that a parameter or a field has for it."""
    called = {
        "memory_id": ("target_id", "memoryId", "id", "node_id", "around"),
        "session_id": ("chat_id", "channel_id", "sessionId", "conversation", "chat", "session"),
        "message_id": ("messageId", "after", "parent"),
        "response_id": ("previous_response_id",),
        "workspace_id": ("workspace",),
    }
    others = {other: names[name] for name, many in called.items() for other in many}
    return {**names, **others}


async def _through_doors(
    http: httpx2.AsyncClient, clock: Clock, thread: str, code: str, mark: str
) -> dict[str, str]:
    """Messages, files, assets, sources and insights, by the doors that make them."""
    secret = f"The vault opens at noon {mark}"

    async def made(path: str, **sent: Any) -> Json:
        clock.advance(timedelta(seconds=1))
        answer = await http.post(path, **sent)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    said = await made(
        f"/api/chats/chat-{code[:12]}/messages",
        json={"messages": [{"content": secret, "author": mark}]},
    )
    message = said["messages"][0]["id"]
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
    kept = (await made("/api/v1/memories", json=body))["data"]["id"]
    path = f"/api/v1/memories/{kept}"
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
        "own": kept,
        "asset": asset["data"]["id"],
        "source": source["data"]["id"],
        "insight": insight["data"]["id"],
        "turn": turn["id"],
        "trace": private["id"],
    }


async def _asked(
    engine: Engine, owner: Caller, thread_id: ThreadId, secret: str
) -> tuple[str, str, str]:
    """A response, a hidden call and a candidate of the owner's conversation with a model."""
    now, said = engine.now(), [{"role": "user", "content": secret}]
    response, call = f"resp_{uuid4().hex}", f"call_{uuid4().hex}"
    async with engine.writing(owner) as db:
        answer = {"id": response, "object": "response", "output": secret}
        await responses.insert(
            db, owner, Response(response, None, str(thread_id), None, said, said, answer, now)
        )
        await injections.hide(db, owner, Hidden(call, said, said), now)
        lesson = lesson_of(owner, Said(secret, "turn", now, thread_id=thread_id))
        await learn_from(engine, db, owner, lesson)
        candidate = Candidate(
            uuid4(), lesson.id, secret, None, None, secret, None, "review", "pending", now
        )
        await lessons.insert(db, owner.workspace_id, [candidate])
    return response, call, str(candidate.id)


@dataclass(frozen=True, slots=True)
class Case:
    """A request; in one place, or in none, stands what is not the caller's."""

    route: Route
    place: str
    path: str
    query: dict[str, Any] = field(default_factory=dict[str, Any])
    body: Json = None
    files: dict[str, tuple[str, bytes]] | None = None

    def __str__(self) -> str:
        return f"{self.route} ({self.place})"

    @property
    def sent(self) -> str:
        """All that the caller says in it."""
        return f"{self.path} {json.dumps([self.query, self.body])} {self.files}"


# Sign-ins and sign-outs are nobody's data; the page's own files are everybody's.
_NOT_ASKED = ("/login", "/logout", "/ui", "/chat/api/password", "/api/auth", "/mcp")
# Labels of the caller's own choice, models, and counters: they name nothing of anybody.
_CHOSEN = {"user_id", "client_id", "clientId", "modelId", "model_id", "model", "starting_version"}
_NAMES_SOMETHING = re.compile(
    r"(^|_)ids?$|[a-z]Ids?$|^(after|before|starting_after|cursor|conversation|session|workspace)$"
)
# What a page of each list begins after.
_PLACES = {
    "/v1/memory": "memory_id",
    "/v1/memories": "memory_id",
    "/v1/sessions": "session_id",
    "/v1/sessions/{session_id}/turns": "turn_id",
    "/v1/traces": "trace_id",
    "/v1/responses/{response_id}/input_items": "message_id",
}
_COUNTED = {"/v1/sessions/{session_id}/history", "/v1/sessions/{session_id}/state/history"}


# Routes whose door takes a second save of the same for the first one.
_TAKE_TWINS = ("/v1/workspaces/{workspace_id}/memories", "/chat/api/")


def cases(door: Door, own: Things, foreign: Things) -> Iterator[Case]:
    """Each route as it is, and once for each place where an id can stand, with theirs in it."""
    for number, case in enumerate(_cases(door, own, foreign)):
        if case.route.path.startswith(_TAKE_TWINS):
            yield case
        else:  # told apart, so that no two are equally good an answer
            text = json.dumps(case.body).replace(TWIN, f"{TWIN} {door.name} {number}")
            yield replace(case, body=json.loads(text))


# What names the place of each scope; more than that would name another place.
_PLACE_OF = {"global": (), "project": ("projectId",), "agent": ("agentId",)}


def read(door: Door, own: Things) -> Iterator[Case]:
    """Each route that reads, as it is."""
    found = (case for case in _cases(door, own, own) if case.place == "as it is")
    return (case for case in found if case.route.method in {"GET", "HEAD"})


def written(door: Door, own: Things) -> Iterator[Case]:
    """Each route that writes, as it is; where there are scopes, in each."""
    found = (case for case in _cases(door, own, own) if case.place == "as it is")
    for case in found:
        if case.route.method not in {"POST", "PUT", "PATCH"}:
            continue
        yield case
        if case.body and "scope" in case.body:
            for scope, named in _PLACE_OF.items():
                others = {"projectId", "agentId", "sessionId"} - {*named}
                body = {name: case.body[name] for name in case.body.keys() - others}
                yield replace(case, place=scope, body={**body, "scope": scope})


def _cases(door: Door, own: Things, foreign: Things) -> Iterator[Case]:
    assert isinstance(door.app, FastAPI)
    mine, theirs = own.names_for(door), foreign.names_for(door)
    for route in routes_of(door):
        if route.path.startswith(_NOT_ASKED) or route.path == "/":
            continue
        says = {} if ":path" in route.path else operation(door, route)
        query = {
            each["name"]: mine.get(each["name"], WORDS)
            for each in says.get("parameters", [])
            if each["in"] == "query" and (each["name"] in {"q", "query"} or each.get("required"))
        }
        yield from _in_path(door, route, query, mine, theirs)
        yield from _in_query(route, says, query, mine, theirs)
        yield from _in_body(door, route, says, query, mine, theirs)


def _in_path(
    door: Door,
    route: Route,
    query: dict[str, Any],
    mine: Mapping[str, str],
    theirs: Mapping[str, str],
) -> Iterator[Case]:
    template = route.path.replace(":path", "")
    names = [part[1:-1] for part in template.split("/") if part.startswith("{")]
    assert set(names) <= set(mine), f"{route}: what stands in its path?"
    if route.method != "DELETE" or not names:
        plain, files = _sent(door, route, mine)
        yield Case(route, "as it is", template.format(**mine), query, plain, files)
    for name in names:
        filled = {**mine, name: theirs[name]}
        body, files = _sent(door, route, mine)
        yield Case(route, f"{{{name}}}", template.format(**filled), query, body, files)
    body, files = _sent(door, route, theirs)
    if len(names) > 1 or (body and str(route) not in _BODIES):
        yield Case(route, "all", template.format(**theirs), query, body, files)


def _in_query(
    route: Route,
    says: Mapping[str, Any],
    query: dict[str, Any],
    mine: Mapping[str, str],
    theirs: Mapping[str, str],
) -> Iterator[Case]:
    path = route.path.format(**mine) if says else ""
    for each in says.get("parameters", []):
        name = each["name"]
        if each["in"] != "query" or not _NAMES_SOMETHING.search(name) or name in _CHOSEN:
            continue
        if name == "cursor" or (name == "starting_after" and route.path in _COUNTED):
            continue  # cursors have a test of their own
        thing = _PLACES[route.path] if name == "starting_after" else name
        assert thing in theirs, f"{route}: what is `{name}`?"
        yield Case(route, f"?{name}", path, {**query, name: theirs[thing]})


def _in_body(
    door: Door,
    route: Route,
    says: Mapping[str, Any],
    query: dict[str, Any],
    mine: Mapping[str, str],
    theirs: Mapping[str, str],
) -> Iterator[Case]:
    path = route.path.replace(":path", "").format(**mine)
    for body in _BODIES.get(str(route), ()):
        yield Case(route, json.dumps(body), path, query, _formatted(body, theirs))
    if str(route) in _BODIES or "requestBody" not in says:
        return
    base, files = _sent(door, route, mine)
    if files:
        _, lines = _sent(door, route, theirs)
        yield Case(route, "in the file", path, query, None, lines)
    for name, _ in fields_of_body(door, route):
        if name in _CHOSEN or not (_NAMES_SOMETHING.search(name) or name in _LISTS):
            continue
        value = _value_of(name, theirs)
        assert value is not None, f"{route}: what is `{name}`?"
        yield Case(route, f"body.{name}", path, query, {**base, name: value})


def _sent(
    door: Door, route: Route, names: Mapping[str, str]
) -> tuple[Json, dict[str, tuple[str, bytes]] | None]:
    """Something in every field of a body: the ids where ids go, words elsewhere; or a file."""
    if route.method not in {"POST", "PUT", "PATCH"}:
        return None, None
    if str(route) in _BODIES:
        return _formatted(_BODIES[str(route)][0], names), None
    if ":path" in route.path:
        return {}, None
    content = operation(door, route).get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        return None, _file_for(route, names)
    found = {name: _value_of(name, names) for name, _ in fields_of_body(door, route)}
    return {name: value for name, value in found.items() if value is not None}, None


def _file_for(route: Route, names: Mapping[str, str]) -> dict[str, tuple[str, bytes]]:
    if route.path == "/api/v1/import":
        return {"file": ("brought.jsonl", _brought(names))}
    return {"file": ("note.txt", WORDS.encode())}


def _brought(names: Mapping[str, str]) -> bytes:
    """An export that names these ids wherever a line can name one."""
    at = "2026-01-01T00:00:00+00:00"
    thread, memory, user = names["session_id"], names["memory_id"], str(uuid4())
    said = {"created_at": at, "updated_at": at, "user_id": user}
    code = "a" * 24
    kept = {
        "importance": 0.5,
        "importance_base": 0.5,
        "lifecycle": "permanent",
        "origin": "user",
    }
    lines: list[dict[str, Any]] = [
        {"type": "recollect", "format": FORMAT},
        {"type": "user", "id": user, "login": "somebody"},
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
        {"type": "memory", "id": memory, "code": code, "scope": "global", **kept, **said}
        | {"content": "brought along"},
        {"type": "memory", "id": str(uuid4()), "code": code, "scope": "project", **kept, **said}
        | {"project_id": names["projectId"], "content": "for the project"},
        {"type": "memory", "id": str(uuid4()), "code": code, "scope": "thread", **kept, **said}
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


# Where the document cannot say what a body is, or it takes one of several things.
_BODIES: dict[str, tuple[Json, ...]] = {
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
    # Logins are one namespace for the whole house.
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


_LISTS = {"messageIds", "associations", "sources"}
_TEXTS = {"query", "insight", "name", "title", "summary", "input", "output", "filename"}
_OTHERS: dict[str, Any] = {
    "content": TWIN,
    "value": TWIN,
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
    if name in _OTHERS:
        return _OTHERS[name]
    if name in names and _NAMES_SOMETHING.search(name) and name not in _CHOSEN:
        return names[name]
    return WORDS if name in _TEXTS else None
