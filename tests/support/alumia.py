"""Short ways to say what nearly every test of the alumia door does first."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import httpx2

from recollect.domain import Caller
from recollect.engine.core import Engine
from recollect.engine.keys import create_key
from recollect.server import Server
from recollect.store import identity, projects
from tests.support.house import visit

Object = dict[str, Any]


@asynccontextmanager
async def client_of(
    engine: Engine, server: Server, caller: Caller
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client with a key of this user in this workspace."""
    new = await create_key(
        engine,
        workspace=str(caller.workspace_id),
        user=str(caller.user_id),
        rights=tuple(caller.rights),
    )
    async with visit(server, Authorization=f"Bearer {new.text}") as http:
        yield http


async def colleague(engine: Engine, caller: Caller) -> Caller:
    """Another user of the same org and workspace."""
    async with engine.pool.everywhere() as db:
        user_id = await identity.add_user(
            db, caller.org_id, uuid4().hex, password_hash=None, is_admin=False
        )
    return replace(caller, user_id=user_id)


async def new_project(engine: Engine, *members: Caller) -> str:
    """A project of the members' workspace."""
    workspace_id = members[0].workspace_id
    async with engine.writing(members[0]) as db:
        project_id = await projects.add_project(db, workspace_id, uuid4().hex, engine.now())
        assert project_id
        for member in members:
            await projects.add_member(db, workspace_id, project_id, member.user_id, engine.now())
    return str(project_id)


async def new_agent(engine: Engine, caller: Caller) -> str:
    """An agent of the caller's workspace."""
    async with engine.writing(caller) as db:
        agent_id = await projects.add_agent(
            db, caller.workspace_id, uuid4().hex, project_id=None, now=engine.now()
        )
    return str(agent_id)


async def switch_workspaces(engine: Engine, caller: Caller, *, is_on: bool) -> None:
    """Tell the workspaces of the caller's org apart, or not."""
    async with engine.pool.everywhere() as db:
        await identity.set_workspaces(db, caller.org_id, is_on=is_on)


async def kept(http: httpx2.AsyncClient, value: str, **fields: Any) -> Object:
    """A memory, as the door answered."""
    answer = await http.post("/api/v1/memories", json={"value": value, **fields})
    assert answer.status_code in {200, 201}, answer.text
    assert answer.json()["success"] is True
    return answer.json()["data"]


async def values(http: httpx2.AsyncClient, **parameters: Any) -> list[str]:
    """What a list shows, newest first."""
    answer = await http.get("/api/v1/memories", params=parameters)
    assert answer.status_code == 200, answer.text
    return [each["value"] for each in answer.json()["data"]["items"]]


async def recalled(http: httpx2.AsyncClient, query: str, **fields: Any) -> list[str]:
    """What a question finds, best first."""
    answer = await http.post("/api/v1/memories/recall", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    return [each["value"] for each in answer.json()["data"]["items"]]


async def session(http: httpx2.AsyncClient, **fields: Any) -> str:
    """A new session's id."""
    answer = await http.post("/api/v1/sessions", json=fields)
    assert answer.status_code == 201, answer.text
    assert UUID(answer.json()["data"]["id"])
    return answer.json()["data"]["id"]


def complaint(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of an error, once its envelope was checked."""
    body = answer.json()
    assert set(body) == {"success", "error"}
    assert body["success"] is False
    assert set(body["error"]) == {"code", "message"}
    return answer.status_code, body["error"]["code"]
