"""Helpers for tests of the alumia interface."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import httpx2

from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy.keys import create_key
from recollect.tenancy.queries import orgs, projects, users
from tests.support.instance import connect

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
    async with connect(server, Authorization=f"Bearer {new.text}") as http:
        yield http


async def add_colleague(engine: Engine, caller: Caller) -> Caller:
    """Create another user in the same org and workspace."""
    async with engine.pool.everywhere() as db:
        user_id = await users.add_user(
            db, caller.org_id, uuid4().hex, password_hash=None, is_admin=False
        )
    return replace(caller, user_id=user_id)


async def new_project(engine: Engine, *members: Caller) -> str:
    """Create a project with these members in their workspace."""
    workspace_id = members[0].workspace_id
    async with engine.writing(members[0]) as db:
        project_id = await projects.add_project(db, workspace_id, uuid4().hex, engine.now())
        assert project_id
        for member in members:
            await projects.add_member(db, workspace_id, project_id, member.user_id, engine.now())
    return str(project_id)


async def new_agent(engine: Engine, caller: Caller) -> str:
    """Create an agent in the caller's workspace."""
    async with engine.writing(caller) as db:
        agent_id = await projects.add_agent(
            db, caller.workspace_id, uuid4().hex, project_id=None, now=engine.now()
        )
    return str(agent_id)


async def enable_workspaces(engine: Engine, caller: Caller, *, is_on: bool) -> None:
    """Switch separate workspaces on or off for the caller's org."""
    async with engine.pool.everywhere() as db:
        await orgs.set_workspaces(db, caller.org_id, is_on=is_on)


async def save_memory(http: httpx2.AsyncClient, value: str, **fields: Any) -> Object:
    """Save a memory; return it as in the response."""
    response = await http.post("/api/v1/memories", json={"value": value, **fields})
    assert response.status_code in {200, 201}, response.text
    assert response.json()["success"] is True
    return response.json()["data"]


async def list_values(http: httpx2.AsyncClient, **parameters: Any) -> list[str]:
    """The values of a list, newest first."""
    response = await http.get("/api/v1/memories", params=parameters)
    assert response.status_code == 200, response.text
    return [each["value"] for each in response.json()["data"]["items"]]


async def recall_values(http: httpx2.AsyncClient, query: str, **fields: Any) -> list[str]:
    """The values that a query recalls, best first."""
    response = await http.post("/api/v1/memories/recall", json={"query": query, **fields})
    assert response.status_code == 200, response.text
    return [each["value"] for each in response.json()["data"]["items"]]


async def create_session(http: httpx2.AsyncClient, **fields: Any) -> str:
    """Create a session; return its id."""
    response = await http.post("/api/v1/sessions", json=fields)
    assert response.status_code == 201, response.text
    assert UUID(response.json()["data"]["id"])
    return response.json()["data"]["id"]


def error_of(response: httpx2.Response) -> tuple[int, str]:
    """Check the format of an error; return its status and code."""
    body = response.json()
    assert set(body) == {"success", "error"}
    assert body["success"] is False
    assert set(body["error"]) == {"code", "message"}
    return response.status_code, body["error"]["code"]
