"""Saving says nothing about what others hold, not even by what it costs.

Two houses are alike, but that in the first somebody privately holds what the caller is about to
save, word for word and key for key, and in the second they hold as many other things. The caller
sends the same to both, to every route that writes. The same statements must be sent to the
database, and must touch the same number of rows of the same tables by the same indexes.
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

from recollect.domain import AgentId, Caller, ProjectId, Ref, Scope
from recollect.engine.core import Engine
from recollect.engine.documents import NewDocument, add_document
from recollect.engine.learn import distil_lessons
from recollect.engine.learning import Said, learn_from, lesson_of
from recollect.engine.save import Save, save
from recollect.engine.threads import OpenThread, open_thread
from recollect.server import Server
from tests.support.alumia import client_of, colleague, new_agent, new_project
from tests.support.clock import Clock
from tests.support.dashboard import browse
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.house import neighbour, new_caller, only, serve
from tests.support.papers import piecewise
from tests.support.watched import WatchedPool
from tests.support.worlds import PLAIN, TWIN, WORDS, Case, Things, furnished, written

pytestmark = pytest.mark.anyio

# Rows of a workspace that are nobody's in particular: so many that no plan reads them all for one.
OTHERS = 3_000
# Where the caller's texts, keys and names come from, and what stands there in the other world.
SAID = (TWIN, WORDS, "I live in Lisbon and I prefer tea.")
UNSAID = ("The garret shuts at dusk", "chest shuts dusk", "I live in Madrid and I prefer rum.")


# These take a body and write nothing. How rare a word is they do tell: docs/architecture.md.
QUESTIONS = ("/search", "/recall", "/memory_recall", "/context")


@dataclass(frozen=True, slots=True)
class House:
    """A caller in a workspace where others hold things of their own."""

    engine: Engine
    pool: WatchedPool
    server: Server
    clock: Clock
    caller: Caller
    own: Things


@asynccontextmanager
async def house(url: str, texts: tuple[str, ...], key: str) -> AsyncGenerator[House]:
    pool, clock = WatchedPool(url), Clock()
    await pool.open()
    try:
        engine = Engine(pool=pool, embedders=only(StubEmbedder()), now=clock)
        server = serve(engine)
        caller = await new_caller(engine)
        await crowd(engine, caller)
        for stranger in (await colleague(engine, caller), await neighbour(engine, caller)):
            await hoard(engine, stranger, texts, key)
        own = await furnished(engine, server, caller, PLAIN)
        async with pool.everywhere() as db:
            await db.execute("ANALYZE")
        yield House(engine, pool, server, clock, caller, own)
    finally:
        await pool.close()


async def crowd(engine: Engine, caller: Caller) -> None:
    """Everybody's memories, each with a text and a key of its own."""
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


async def hoard(engine: Engine, owner: Caller, texts: tuple[str, ...], key: str) -> None:
    """Somebody's private copies of these texts in every scope, as memory, document and lesson."""
    project = await new_project(engine, owner)
    agent = await new_agent(engine, owner)
    inside = replace(owner, project_id=ProjectId(UUID(project)), agent_id=AgentId(UUID(agent)))
    thread = await open_thread(engine, inside, OpenThread(agent="theirs", subject=None))
    scopes = (Scope.GLOBAL, Scope.PROJECT, Scope.AGENT, Scope.THREAD)
    for text in texts:
        for scope in scopes:
            ask = Save(content=text, scope=scope, key=key, thread=Ref(id=thread.id))
            await save(engine, inside, ask)
        await add_document(engine, inside, NewDocument("note.txt"), piecewise(text.encode()))
        async with engine.writing(inside) as db:
            said = Said(text, "turn", engine.now(), thread_id=thread.id)
            await learn_from(engine, db, inside, lesson_of(inside, said))
    await distil_lessons(engine, owner.workspace_id, no_beat)


async def no_beat() -> None:
    pass


def requests(house: House) -> Iterator[tuple[str, Case]]:
    """Every route that writes, in every scope; who administers may see what there is."""
    # The page first: other doors let anybody call threads of their own by any name.
    for door in sorted(house.server.doors, key=lambda each: each.name != "dashboard"):
        if isinstance(door.app, FastAPI) and door.name != "administration":
            for case in written(door, house.own):
                if not case.route.path.endswith(QUESTIONS):
                    yield door.name, case


async def cost(house: House, http: httpx2.AsyncClient, number: int, case: Case) -> list[str]:
    """The answer's status, then every statement it took and every row it touched."""
    house.clock.at = Clock().at + timedelta(hours=1, seconds=number)
    house.pool.heard.clear()
    answer = await http.request(
        case.route.method, case.path, params=case.query, json=case.body, files=case.files
    )
    return [str(answer.status_code), *house.pool.heard]


@asynccontextmanager
async def clients(house: House) -> AsyncGenerator[dict[bool, httpx2.AsyncClient]]:
    async with (
        client_of(house.engine, house.server, house.caller) as keyed,
        await browse(house.server, house.engine, house.caller) as browser,
    ):
        keyed.headers["X-API-Key"] = keyed.headers["Authorization"].split()[1]
        yield {True: browser, False: keyed}


async def test_S48_a_save_costs_the_same_whether_or_not_a_stranger_holds_the_same(
    databases: TestDatabases,
) -> None:
    async with (
        # PgBouncer would not let planning be set for a connection.
        house(databases.beside(databases.clone()), SAID, "vault") as first,
        house(databases.beside(databases.clone()), UNSAID, "drawer") as second,
        clients(first) as theirs,
        clients(second) as others,
    ):
        differing: list[str] = []
        saved = 0
        pairs = zip(requests(first), requests(second), strict=True)
        for number, ((door, case), (_, other)) in enumerate(pairs):
            is_page = door == "dashboard"
            with_twin = await cost(first, theirs[is_page], number, case)
            without = await cost(second, others[is_page], number, other)
            saved += with_twin[0] in {"200", "201"}
            if with_twin != without:
                differing.append(f"{case}\n{difference(with_twin, without)}")

        assert differing == [], "\n\n".join(differing)
        assert saved > 40


def difference(one: list[str], other: list[str]) -> Any:
    return "\n".join(
        f"  with:    {mine}\n  without: {theirs}"
        for mine, theirs in zip(one, other, strict=False)
        if mine != theirs
    )
