"""Saving reveals nothing about the private data of others, not even by its cost.

Two instances are equal, except that in the first another user privately holds exactly what the
caller is about to save, with the same keys, and in the second that user holds as many other texts.
The caller sends the same requests to every writing route of both. Both must run the same SQL
statements, and these must touch the same number of rows of the same tables by the same indexes.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest
from fastapi import FastAPI

from recollect.conversations.threads import OpenThread, open_thread
from recollect.core.domain import AgentId, Caller, ProjectId, Ref, Scope
from recollect.documents.documents import NewDocument, add_document
from recollect.engine import Engine
from recollect.learning.distil_job import distil_inbox
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.memories.save import Save, save
from recollect.server import Server
from tests.support.alumia import add_colleague, client_of, new_agent, new_project
from tests.support.clock import Clock
from tests.support.dashboard import connect_signed_in
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import in_new_workspace, make_server, new_caller, single_embedder
from tests.support.private_data import (
    DUPLICATE,
    PLAIN,
    WORDS,
    PrivateData,
    PrivateDataRequest,
    add_private_data,
    writing_cases,
)
from tests.support.recorded_pool import RecordingPool
from tests.support.sample_files import in_chunks

pytestmark = pytest.mark.anyio

# Shared rows of a workspace: so many that no plan scans them all to find one.
OTHERS = 3_000
# The texts that the caller saves, and the other user's texts in the second instance.
TEXTS = (DUPLICATE, WORDS, "I live in Lisbon and I prefer tea.")
OTHER_TEXTS = ("The garret shuts at dusk", "chest shuts dusk", "I live in Madrid and I prefer rum.")


# These take a body but write nothing. They do reveal how rare a word is: docs/architecture.md.
SEARCHES = ("/search", "/recall", "/memory_recall", "/context")


@dataclass(frozen=True, slots=True)
class SharedServer:
    """A caller in a workspace where other users have private data."""

    engine: Engine
    pool: RecordingPool
    server: Server
    clock: Clock
    caller: Caller
    own: PrivateData


@asynccontextmanager
async def open_instance(url: str, texts: tuple[str, ...], key: str) -> AsyncGenerator[SharedServer]:
    pool, clock = RecordingPool(url), Clock()
    await pool.open()
    try:
        engine = Engine(pool=pool, embedders=single_embedder(StubEmbedder()), now=clock)
        server = make_server(engine)
        caller = await new_caller(engine)
        await add_shared_memories(engine, caller)
        for other_user in (
            await add_colleague(engine, caller),
            await in_new_workspace(engine, caller),
        ):
            await add_private_copies(engine, other_user, texts, key)
        own = await add_private_data(engine, server, caller, PLAIN)
        async with pool.everywhere() as db:
            await db.execute("ANALYZE")
        yield SharedServer(engine, pool, server, clock, caller, own)
    finally:
        await pool.close()


async def add_shared_memories(engine: Engine, caller: Caller) -> None:
    """Add shared memories, each with its own text and key."""
    async with engine.writing(caller) as db:
        await db.execute(
            """
            INSERT INTO memory (
                workspace_id, id, code, org_id, user_id, content, key, content_digest, scope,
                importance, importance_base, lifecycle, origin, valid_from, created_at, updated_at,
                wants_vector
            )
            SELECT %(workspace_id)s::uuid, gen_random_uuid(), md5(n::text || %(workspace_id)s::uuid), %(org_id)s,
                %(user_id)s, 'statement ' || n, 'key ' || n, sha256(convert_to(n::text, 'UTF8')),
                'workspace', 0.5, 0.5, 'permanent', 'user', %(now)s, %(now)s, %(now)s, false
            FROM generate_series(1, %(count)s) AS n
            """,
            {
                "workspace_id": caller.workspace_id,
                "org_id": caller.org_id,
                "user_id": caller.user_id,
                "now": engine.now() - timedelta(days=1),
                "count": OTHERS,
            },
        )


async def add_private_copies(
    engine: Engine, owner: Caller, texts: tuple[str, ...], key: str
) -> None:
    """Add private copies of these texts in every scope, as memories, documents and inbox items."""
    project = await new_project(engine, owner)
    agent = await new_agent(engine, owner)
    inside = replace(owner, project_id=ProjectId(UUID(project)), agent_id=AgentId(UUID(agent)))
    thread = await open_thread(engine, inside, OpenThread(agent="theirs", subject=None))
    scopes = (Scope.GLOBAL, Scope.PROJECT, Scope.AGENT, Scope.THREAD)
    for text in texts:
        for scope in scopes:
            ask = Save(content=text, scope=scope, key=key, thread=Ref(id=thread.id))
            await save(engine, inside, ask)
        await add_document(engine, inside, NewDocument("note.txt"), in_chunks(text.encode()))
        async with engine.writing(inside) as db:
            learning_input = LearningInput(text, "turn", engine.now(), thread_id=thread.id)
            await learn_from(engine, db, inside, inbox_item_of(inside, learning_input))
    await distil_inbox(engine, owner.workspace_id, no_heartbeat)


async def no_heartbeat() -> None:
    pass


def requests(instance: SharedServer) -> Iterator[tuple[str, PrivateDataRequest]]:
    """Every writing route in every scope. Without administration: admins may see what exists."""
    # The dashboard first: other interfaces let users name their own threads freely.
    for interface in sorted(instance.server.interfaces, key=lambda each: each.name != "dashboard"):
        if isinstance(interface.app, FastAPI) and interface.name != "administration":
            for case in writing_cases(interface, instance.own):
                if not case.route.path.endswith(SEARCHES):
                    yield interface.name, case


async def recorded_cost(
    instance: SharedServer, http: httpx2.AsyncClient, number: int, case: PrivateDataRequest
) -> list[str]:
    """The status of the response, then every statement and the rows of each table it touched."""
    instance.clock.at = Clock().at + timedelta(hours=1, seconds=number)
    instance.pool.recorded.clear()
    response = await http.request(
        case.route.method, case.path, params=case.query, json=case.body, files=case.files
    )
    return [str(response.status_code), *instance.pool.recorded]


@asynccontextmanager
async def clients(instance: SharedServer) -> AsyncGenerator[dict[bool, httpx2.AsyncClient]]:
    async with (
        client_of(instance.engine, instance.server, instance.caller) as keyed,
        await connect_signed_in(instance.server, instance.engine, instance.caller) as browser,
    ):
        keyed.headers["X-API-Key"] = keyed.headers["Authorization"].split()[1]
        yield {True: browser, False: keyed}


async def test_S48_the_cost_of_a_save_does_not_reveal_private_duplicates(
    databases: TestDatabases,
) -> None:
    async with (
        # PgBouncer would not let planning be set for a connection.
        open_instance(databases.without_pgbouncer(databases.clone()), TEXTS, "vault") as first,
        open_instance(
            databases.without_pgbouncer(databases.clone()), OTHER_TEXTS, "drawer"
        ) as second,
        clients(first) as theirs,
        clients(second) as others,
    ):
        differing: list[str] = []
        saved = 0
        pairs = zip(requests(first), requests(second), strict=True)
        for number, ((interface, case), (_, other)) in enumerate(pairs):
            is_page = interface == "dashboard"
            with_duplicate = await recorded_cost(first, theirs[is_page], number, case)
            without = await recorded_cost(second, others[is_page], number, other)
            saved += with_duplicate[0] in {"200", "201"}
            if with_duplicate != without:
                differing.append(f"{case}\n{difference(with_duplicate, without)}")

        assert differing == [], "\n\n".join(differing)
        assert saved > 40


def difference(one: list[str], other: list[str]) -> Any:
    return "\n".join(
        f"  with:    {mine}\n  without: {theirs}"
        for mine, theirs in zip(one, other, strict=False)
        if mine != theirs
    )
