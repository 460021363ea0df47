"""A user with data in every table, and a search of the whole database for it."""

import base64
import subprocess
from uuid import uuid4

import httpx2
from psycopg import sql
from psycopg.conninfo import make_conninfo

from recollect.chat.queries import injections, stored_responses
from recollect.chat.queries.injections import BuiltinCalls, Injection
from recollect.chat.queries.stored_responses import Response
from recollect.core.domain import Caller, ThreadId, WorkspaceId
from recollect.documents.documents import save_artifact
from recollect.documents.read_job import read_documents
from recollect.embedded import find_binaries
from recollect.embeddings.generations import embed_missing, no_heartbeat
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.learning.queries import inbox
from recollect.learning.queries.inbox import StoredCandidate
from recollect.server import Server
from recollect.tenancy.keys import create_key
from tests.support.instance import connect
from tests.support.statebase import create_memory, open_session


async def leave_traces(engine: Engine, server: Server, caller: Caller, mark: str) -> str:
    """Use every interface as this user, with the mark in every text; return the session's id."""
    key = await create_key(
        engine, workspace=str(caller.workspace_id), user=str(caller.user_id), name=f"{mark} laptop"
    )
    async with connect(
        server, **{"X-API-Key": key.text, "Authorization": f"Bearer {key.text}"}
    ) as http:
        session = await _add_session_data(http, mark)
        await _add_keyed_data(http, mark)
        await _add_chat_data(http, mark)
    await save_artifact(engine, caller, f"{mark}.md", f"a document of {mark}")
    await read_documents(engine, caller.workspace_id, no_heartbeat)
    await embed_missing(engine, caller.workspace_id, no_heartbeat)
    await _add_model_data(engine, caller, mark, session)
    return session


async def _add_session_data(http: httpx2.AsyncClient, mark: str) -> str:
    session = await open_session(
        http, user_id=f"{mark} ada", initial_state={"said": mark}, metadata={"note": mark}
    )
    path = f"/v1/sessions/{session['id']}"
    once = {"Idempotency-Key": uuid4().hex}
    body = {"content": f"{mark} lives in Lisbon", "session_id": session["id"], "tags": [mark]}
    first = await http.post("/v1/memory", json=body, headers=once)
    second = await create_memory(http, f"{mark} moved to Porto", session, user_id=f"{mark} ada")
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


async def _add_keyed_data(http: httpx2.AsyncClient, mark: str) -> None:
    kept = await http.post(
        "/api/v1/memories", json={"value": f"{mark} likes tea", "key": f"{mark}.drink"}
    )
    path = f"/api/v1/memories/{kept.json()['data']['id']}"
    changed = await http.patch(path, json={"value": f"{mark} likes green tea"})
    assert changed.is_success, changed.text
    file = {"file": (f"{mark}.txt", f"a file of {mark}".encode() * 10, "text/plain")}
    assert (await http.post(f"{path}/assets", files=file)).status_code == 201
    session = (await http.post("/api/v1/sessions", json={})).json()["data"]["id"]
    source = await http.post(f"{path}/sources", json={"kind": "session", "id": session})
    assert source.status_code == 201, source.text
    learnt = {"category": "role", "insight": f"{mark} reads at night", "source": "test"}
    insight = await http.post("/api/v1/learning", json=learnt)
    assert insight.status_code == 201, insight.text


async def _add_chat_data(http: httpx2.AsyncClient, mark: str) -> None:
    new = [{"content": f"{mark} asks {number}", "author": mark} for number in range(2)]
    chat = (await http.post("/api/chats", json={"name": mark, "messages": new})).json()
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


async def _add_model_data(engine: Engine, caller: Caller, mark: str, session: str) -> None:
    now = engine.now()
    messages = [{"role": "user", "content": mark}]
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
            f"resp_{uuid4().hex}", None, session, mark, messages, messages, {"output": mark}, now
        )
        await stored_responses.insert(db, caller, response)
        await injections.store_injection(
            db, caller, Injection(uuid4().bytes, [row[0]], "suffix"), now
        )
        await injections.store_builtin_calls(
            db, caller, BuiltinCalls(uuid4().hex, messages, messages), now
        )
        item = inbox_item_of(
            caller,
            LearningInput(f"I am {mark}", "turn", now, subject=mark, thread_id=ThreadId(row[1])),
        )
        await learn_from(engine, db, caller, item)
        made = StoredCandidate(
            uuid4(), item.id, f"{mark} is here", mark, "fact", mark, mark, None, "ready", now
        )
        await inbox.insert(db, caller.workspace_id, [made])
        await db.execute(
            "INSERT INTO common_word (workspace_id, term, owner_id, memories) VALUES (%s, %s, %s, 1)",
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
    """The number of rows of a workspace that contain the mark, by table."""
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


def dump_database(admin_url: str, name: str) -> str:
    """All data of a database, as written by `pg_dump`."""
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


def lines_with(dumped: str, mark: str) -> list[str]:
    """The lines of a dump that contain the mark, as text or encoded."""
    wanted = (mark, mark.encode().hex(), base64.b64encode(mark.encode()).decode())
    return [
        line for line in dumped.lower().splitlines() if any(each.lower() in line for each in wanted)
    ]
