"""Somebody who has left a trace in every table, and a look at the whole database for it."""

import base64
import subprocess
from uuid import uuid4

import httpx2
from psycopg import sql
from psycopg.conninfo import make_conninfo

from recollect.domain import Caller, ThreadId, WorkspaceId
from recollect.embedded import find_binaries
from recollect.engine.core import Engine
from recollect.engine.documents import keep_artifact
from recollect.engine.keys import create_key
from recollect.engine.learning import Said, learn_from, lesson_of
from recollect.engine.reader import read_documents
from recollect.engine.spaces import no_beat, tend_vectors
from recollect.server import Server
from recollect.store import injections, lessons, responses
from recollect.store.injections import Hidden, Injection
from recollect.store.lessons import Candidate
from recollect.store.responses import Response
from tests.support.house import visit
from tests.support.statebase import open_session, remember


async def leave_traces(engine: Engine, server: Server, caller: Caller, mark: str) -> str:
    """Use every door as this user, saying the mark everywhere; the session it was said in."""
    key = await create_key(
        engine, workspace=str(caller.workspace_id), user=str(caller.user_id), name=f"{mark} laptop"
    )
    async with visit(
        server, **{"X-API-Key": key.text, "Authorization": f"Bearer {key.text}"}
    ) as http:
        session = await _talk(http, mark)
        await _keep_keyed(http, mark)
        await _chat(http, mark)
    await keep_artifact(engine, caller, f"{mark}.md", f"a document of {mark}")
    await read_documents(engine, caller.workspace_id, no_beat)
    await tend_vectors(engine, caller.workspace_id, no_beat)
    await _ask_models(engine, caller, mark, session)
    return session


async def _talk(http: httpx2.AsyncClient, mark: str) -> str:
    session = await open_session(
        http, user_id=f"{mark} ada", initial_state={"said": mark}, metadata={"note": mark}
    )
    path = f"/v1/sessions/{session['id']}"
    once = {"Idempotency-Key": uuid4().hex}
    body = {"content": f"{mark} lives in Lisbon", "session_id": session["id"], "tags": [mark]}
    first = await http.post("/v1/memory", json=body, headers=once)
    second = await remember(http, f"{mark} moved to Porto", session, user_id=f"{mark} ada")
    await http.put(f"{path}/state", json={"state": {"said": f"{mark} again"}, "reasoning": mark})
    await http.post(f"{path}/turns", json={"input": mark, "output": f"hello {mark}"})
    tool = {"memory_id": f"mem_{second['id'].removeprefix('mem_')}", "reason": f"{mark} said so"}
    linked = await http.post(
        "/v1/tools/memory_save",
        json={
            "content": f"{mark} has moved",
            "associations": [
                {"target_id": first.json()["id"], "relation_type": "updates", "weight": 1.0}
            ],
        },
    )
    assert linked.is_success, linked.text
    forgotten = await http.post("/v1/tools/memory_delete", json=tool)
    assert forgotten.is_success, forgotten.text
    return session["id"]


async def _keep_keyed(http: httpx2.AsyncClient, mark: str) -> None:
    kept = await http.post(
        "/api/v1/memories", json={"value": f"{mark} likes tea", "key": f"{mark}.drink"}
    )
    path = f"/api/v1/memories/{kept.json()['data']['id']}"
    changed = await http.patch(path, json={"value": f"{mark} likes green tea"})
    assert changed.is_success, changed.text
    file = {"file": (f"{mark}.txt", f"a file of {mark}".encode() * 10, "text/plain")}
    assert (await http.post(f"{path}/assets", files=file)).status_code == 201
    told = (await http.post("/api/v1/sessions", json={})).json()["data"]["id"]
    source = await http.post(f"{path}/sources", json={"kind": "session", "id": told})
    assert source.status_code == 201, source.text
    learnt = {"category": "role", "insight": f"{mark} reads at night", "source": "test"}
    insight = await http.post("/api/v1/learning", json=learnt)
    assert insight.status_code == 201, insight.text


async def _chat(http: httpx2.AsyncClient, mark: str) -> None:
    said = [{"content": f"{mark} asks {number}", "author": mark} for number in range(2)]
    chat = (await http.post("/api/chats", json={"name": mark, "messages": said})).json()
    messages = (await http.get(f"/api/chats/{chat['id']}/messages")).json()
    ids = [each["id"] for each in messages["_embedded"]["inf:message"]]
    upload = {"filename": f"{mark}.pdf", "data": base64.b64encode(mark.encode()).decode()}
    file = await http.post(f"/api/messages/{ids[0]}/files", json=upload)
    assert file.status_code == 201, file.text
    made = await http.post(
        f"/api/chats/{chat['id']}/memories",
        json={"messageIds": ids, "summary": f"what {mark} asked"},
    )
    assert made.status_code == 201, made.text


async def _ask_models(engine: Engine, caller: Caller, mark: str, session: str) -> None:
    now = engine.now()
    said = [{"role": "user", "content": mark}]
    async with engine.writing(caller) as db:
        row = await (
            await db.execute(
                "SELECT id, thread_id FROM memory WHERE workspace_id = %s AND user_id = %s"
                " AND thread_id IS NOT NULL LIMIT 1",
                [caller.workspace_id, caller.user_id],
            )
        ).fetchone()
        assert row
        response = Response(
            f"resp_{uuid4().hex}", None, session, mark, said, said, {"output": mark}, now
        )
        await responses.insert(db, caller, response)
        await injections.put(db, caller, Injection(uuid4().bytes, [row[0]], "suffix"), now)
        await injections.hide(db, caller, Hidden(uuid4().hex, said, said), now)
        lesson = lesson_of(
            caller, Said(f"I am {mark}", "turn", now, subject=mark, thread_id=ThreadId(row[1]))
        )
        await learn_from(engine, db, caller, lesson)
        made = Candidate(
            uuid4(), lesson.id, f"{mark} is here", mark, "fact", mark, mark, None, "ready", now
        )
        await lessons.insert(db, caller.workspace_id, [made])
        await db.execute(
            "INSERT INTO common_word (workspace_id, term, place, memories) VALUES (%s, %s, %s, 1)",
            [caller.workspace_id, mark, caller.workspace_id],
        )
        await db.execute(
            "INSERT INTO vector_index (workspace_id, generation, thread_id, name)"
            " VALUES (%s, 1, %s, %s)",
            [caller.workspace_id, row[1], f"near {mark}"],
        )


_MARKED = sql.SQL(
    "SELECT count(*) FROM {} each WHERE workspace_id = %s"
    " AND (each::text ILIKE %s OR each::text LIKE %s)"
)


async def rows_by_table(engine: Engine, workspace_id: WorkspaceId, mark: str) -> dict[str, int]:
    """How many rows of each table of a workspace show the mark."""
    found: dict[str, int] = {}
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            """
            SELECT c.oid::regclass::text FROM pg_class c
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id'
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND c.relnamespace = 'public'::regnamespace
            """
        )
        for (table,) in await cursor.fetchall():
            count = await db.execute(
                _MARKED.format(sql.Identifier(table)),
                [workspace_id, f"%{mark}%", f"%{mark.encode().hex()}%"],
            )
            row = await count.fetchone()
            found[table] = row[0] if row else 0
    return found


def dump(admin_url: str, name: str) -> str:
    """Everything in a database, as PostgreSQL's own program writes it."""
    done = subprocess.run(
        [
            find_binaries(None) / "pg_dump",
            "--data-only",
            "--dbname",
            make_conninfo(admin_url, dbname=name),
        ],
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8", "replace")


def shows(dumped: str, mark: str) -> list[str]:
    """The lines of a dump in which the mark stands, as text or as bytes."""
    wanted = (mark, mark.encode().hex(), base64.b64encode(mark.encode()).decode())
    return [
        line for line in dumped.lower().splitlines() if any(each.lower() in line for each in wanted)
    ]
