"""Erasure deletes every byte of its target, changes nothing else, and gives a receipt."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from hashlib import sha256
from uuid import UUID

import pytest
from psycopg.conninfo import conninfo_to_dict

from recollect.core.domain import Caller, Scope, parse_ref
from recollect.core.errors import Conflict, Invalid, NotFound, Unauthenticated
from recollect.engine import Engine
from recollect.keywords.queries import totals
from recollect.learning.distil_job import distil_inbox, save_ready
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.learning.queries import inbox
from recollect.learning.queries.inbox import StoredCandidate
from recollect.memories.save import Save, Saved, save
from recollect.portability.erasure import erase
from recollect.portability.erasure_receipts import (
    find_restored_targets,
    get_receipt,
    read_receipt,
    verify,
)
from recollect.portability.erasure_targets import (
    ErasureKind,
    ErasureTarget,
    target_project_or_agent,
    target_thread,
    target_user,
)
from recollect.portability.queries import erasure
from recollect.server import Server
from recollect.tenancy import orgs, projects
from recollect.tenancy.keys import create_key, hash_password
from recollect.tenancy.projects import InWorkspace
from recollect.tenancy.queries import sign_ins
from tests.support.alumia import add_colleague, client_of, new_project, save_memory
from tests.support.clock import Clock
from tests.support.dashboard import PASSWORD, is_login_page
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import (
    connect,
    make_server,
    new_caller,
    open_engine,
    single_embedder,
    wait_until_blocked,
)
from tests.support.personal_data import dump_database, leave_traces, lines_with, rows_by_table
from tests.support.statebase import create_memory, open_session
from tests.support.tools import fetch_rows

pytestmark = pytest.mark.anyio

# Marker words that occur in no language and no id.
MARK = "qzxmarkab"
OTHER = "wvyotherb"
# Number and length of the memories of each scope owner, as counted and as indexed.
COUNTED = """
    SELECT workspace_id, owner_id, sum(documents), sum(length) FROM keyword_total
    GROUP BY 1, 2 ORDER BY 1, 2
"""
INDEXED = """
    SELECT workspace_id, owner_id, count(*), sum(length) FROM memory_terms
    GROUP BY 1, 2 ORDER BY 1, 2
"""


@pytest.fixture
async def instance(
    databases: TestDatabases, embedder: StubEmbedder, clock: Clock
) -> AsyncGenerator[Engine]:
    """A separate instance, because the tests search the dump of its whole database."""
    async with open_engine(databases.clone(), single_embedder(embedder), clock) as engine:
        yield engine


def dumped(databases: TestDatabases, engine: Engine) -> str:
    return dump_database(databases.admin_url, str(conninfo_to_dict(engine.pool.url)["dbname"]))


async def heartbeat() -> None:
    pass


async def test_S85_erasure_knows_every_table(engine: Engine) -> None:
    """For a new table, add a step in `portability.queries.erasure` or list it in `UNTOUCHED`."""
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            """
            SELECT c.relname, EXISTS (
                SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'workspace_id')
            FROM pg_class c
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND c.relnamespace = 'public'::regnamespace
            """
        )
        tables = dict(await cursor.fetchall())

    assert set(tables) == {*erasure.STEP_TABLES, *erasure.UNTOUCHED, *erasure.ACCOUNT_TABLES}
    assert set(erasure.WORKSPACE_TABLES) == {table for table, is_data in tables.items() if is_data}


async def test_S85_erasing_a_user_leaves_no_byte_and_changes_nothing_else(
    instance: Engine, databases: TestDatabases
) -> None:
    server = make_server(instance)
    ada = await new_caller(instance)
    grace = await add_colleague(instance, ada)
    await leave_traces(instance, server, ada, OTHER)
    await leave_traces(instance, server, grace, MARK)
    chat, session = await start_chats(instance, server, ada, grace)
    token = await sign_in(instance, server, grace)
    before = await rows_by_table(instance, ada.workspace_id, MARK)
    others = await rows_by_table(instance, ada.workspace_id, OTHER)
    without_text = {
        "injection",
        "memory_message",
        "memory_source",
        "memory_link",
        "segment",
        "memory_vector",
    }

    target = await target_user(instance, str(grace.user_id))
    counted = await erase(instance, target, by="test", is_dry=True)
    assert await rows_by_table(instance, ada.workspace_id, MARK) == before
    erased = await erase(instance, target, by="test")

    # Some tables hold only ids, so the marker is not in them; the erasure still counts their rows.
    unmarked = {table for table in erasure.STEP_TABLES if not before.get(table)}
    assert {table for table in unmarked if not erased.counts.get(table)} <= {
        "project",
        "agent",
        "project_member",
        "workspace_member",
    }
    assert without_text <= set(erased.counts)
    assert counted.counts == erased.counts
    left = dumped(databases, instance)
    hers = [MARK, str(grace.user_id), token]
    hashes = [sha256(each.encode()).hexdigest() for each in (token, f"account {MARK} grace")]
    assert [line for each in hers for line in lines_with(left, each)] == []
    assert [each for each in hashes if each in left] == []
    assert (erased.counts["sign_in"], erased.counts["sign_in_try"]) == (1, 1)
    async with connect(server, cookie=f"session={token}") as browser:
        assert is_login_page(await browser.get("/chat/api/me"))
    after = await rows_by_table(instance, ada.workspace_id, OTHER)
    assert after | {"idempotency": 0} == others | {"idempotency": 0}
    assert await fetch_rows(instance, COUNTED) == await fetch_rows(instance, INDEXED) != []
    assert erased.receipt
    assert (await verify(instance, erased.receipt)).is_good
    assert MARK not in json.dumps(erased.receipt)
    assert str(grace.user_id) not in json.dumps(erased.receipt)
    with pytest.raises(NotFound):
        await target_user(instance, str(grace.user_id))
    async with client_of(instance, server, ada) as http:
        http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
        messages = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"][
            "inf:message"
        ]
        turns = (await http.get(f"/v1/sessions/{session}/turns")).json()["data"]
    assert [each["content"] for each in messages] == [f"{OTHER} begins"]
    assert len(turns) == 1


async def sign_in(engine: Engine, server: Server, grace: Caller) -> str:
    """Sign Grace in, then fail once with a wrong password; return the session token."""
    login = f"{MARK} grace"
    await orgs.rename_user(engine, str(grace.user_id), login)
    async with engine.pool.everywhere() as db:
        await sign_ins.set_password(db, grace.user_id, hash_password(PASSWORD))
    async with connect(server) as browser:
        body = {"username": login, "password": PASSWORD}
        entered = await browser.post("/login", json=body)
        assert entered.status_code == 204, entered.text
        refused = await browser.post("/login", json=body | {"password": "wrong"})
        assert refused.status_code == 401, refused.text
        return browser.cookies["session"]


async def start_chats(
    engine: Engine, server: Server, ada: Caller, grace: Caller
) -> tuple[str, str]:
    """Create a chat and a session of Ada's in which both write something."""
    async with (
        client_of(engine, server, ada) as hers,
        client_of(engine, server, grace) as others,
    ):
        for http in (hers, others):
            http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
        begun = {"name": OTHER, "messages": [{"content": f"{OTHER} begins"}]}
        chat = (await hers.post("/api/chats", json=begun)).json()["id"]
        session = (await open_session(hers))["id"]
        turn = {"input": OTHER, "output": OTHER}
        assert (await hers.post(f"/v1/sessions/{session}/turns", json=turn)).is_success
        answer = await others.post(
            f"/api/chats/{chat}/messages", json={"messages": [{"content": f"{MARK} answers"}]}
        )
        message = answer.json()["messages"][0]["id"]
        file = {"filename": f"{MARK}.txt", "data": ""}
        assert (await others.post(f"/api/messages/{message}/files", json=file)).is_success
        turn = {"input": MARK, "output": MARK}
        assert (await others.post(f"/v1/sessions/{session}/turns", json=turn)).is_success
    return chat, session


async def test_S85_erasing_a_thread_leaves_no_byte(
    instance: Engine, databases: TestDatabases
) -> None:
    server = make_server(instance)
    ada = await new_caller(instance)
    async with client_of(instance, server, ada) as http:
        http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
        stays = await create_memory(http, f"{OTHER} stays")
        gone = await create_memory(http, f"{MARK} is in this session alone", user_id="ada")
        session = gone["session_id"]
        path = f"/v1/sessions/{session}"
        await http.put(f"{path}/state", json={"state": {"said": MARK}})
        await http.post(
            f"{path}/turns",
            json={"input": MARK, "output": MARK},
            headers={"Idempotency-Key": "a turn"},
        )
        target = await target_thread(
            instance, ada.workspace_id, ada.org_id, parse_ref(session, "sess_"), session
        )

        erased = await erase(instance, target, by="test")

        assert (await http.get(path)).status_code == 404
        assert (await http.get(f"/v1/memory/{stays['id']}")).json() == stays
    assert lines_with(dumped(databases, instance), MARK) == []
    assert erased.receipt
    assert (await verify(instance, erased.receipt)).is_good


async def test_S85_a_key_is_erased_in_one_workspace_or_for_one_user(
    engine: Engine, caller: Caller
) -> None:
    server = make_server(engine)
    grace = await add_colleague(engine, caller)
    async with client_of(engine, server, caller) as ours, client_of(engine, server, grace) as hers:
        own = await save_memory(ours, "tea", key="drink")
        forgotten = await save_memory(ours, "coffee", key="drink", dedupe="create")
        await ours.delete(f"/api/v1/memories/{forgotten['id']}")
        other = await save_memory(ours, "bread", key="food")
        of_grace = await save_memory(hers, "water", key="drink")
        target = ErasureTarget(
            ErasureKind.KEY,
            caller.org_id,
            [caller.workspace_id],
            text="drink",
            owner_id=caller.user_id,
        )

        erased = await erase(engine, target, by="test")

        assert erased.counts["memory"] == 2
        assert (await ours.get(f"/api/v1/memories/{own['id']}")).status_code == 404
        assert (await ours.get(f"/api/v1/memories/{other['id']}")).status_code == 200
        assert (await hers.get(f"/api/v1/memories/{of_grace['id']}")).status_code == 200
        assert erased.receipt
        assert (await verify(engine, erased.receipt)).is_good
        rest = await erase(engine, replace(target, owner_id=None), by="test")
        assert rest.counts["memory"] == 1


async def test_S85_a_subject_is_erased_in_one_workspace(
    instance: Engine, databases: TestDatabases
) -> None:
    server = make_server(instance)
    ada = await new_caller(instance)
    async with client_of(instance, server, ada) as http:
        http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
        await create_memory(http, "a text of one person", user_id=MARK)
        stays = await create_memory(http, "a text of another person", user_id=OTHER)
        await http.post("/v1/sessions", json={"agent_id": "agent", "user_id": MARK})
        target = ErasureTarget(ErasureKind.SUBJECT, ada.org_id, [ada.workspace_id], text=MARK)

        erased = await erase(instance, target, by="test")

        assert (await http.get(f"/v1/memory/{stays['id']}")).status_code == 200
    assert lines_with(dumped(databases, instance), MARK) == []
    assert erased.receipt
    assert (await verify(instance, erased.receipt)).is_good


async def test_a_concurrent_save_does_not_survive_the_erasure_of_its_user(
    engine: Engine, caller: Caller
) -> None:
    """A save committed before the erasure is erased too; a later save fails."""
    grace = await add_colleague(engine, caller)
    target = await target_user(engine, str(grace.user_id))

    async with engine.writing(grace) as db:
        erasing = asyncio.create_task(erase(engine, target, by="test"))
        await wait_until_blocked(engine)
        await db.execute(
            "INSERT INTO thread (workspace_id, id, code, user_id, created_at, updated_at)"
            " VALUES (%s, gen_random_uuid(), %s, %s, now(), now())",
            [grace.workspace_id, "k" * 24, grace.user_id],
        )
        assert not erasing.done()
    saves = [save(engine, grace, Save(content=f"text {number}")) for number in range(8)]
    outcomes = await asyncio.gather(*saves, return_exceptions=True)
    erased = await erasing

    assert {type(each) for each in outcomes} <= {Saved, Unauthenticated}
    with pytest.raises(Unauthenticated):
        await save(engine, grace, Save(content="too late"))
    assert erased.counts["thread"] == 1
    assert erased.receipt
    assert (await verify(engine, erased.receipt)).is_good
    async with engine.pool.reading(grace.workspace_id) as db:
        rows = await db.execute("SELECT FROM memory WHERE workspace_id = %s", [grace.workspace_id])
        assert rows.rowcount == 0


async def test_erasure_removes_keyword_counts_that_are_being_folded(
    engine: Engine, caller: Caller
) -> None:
    grace = await add_colleague(engine, caller)
    for number in range(3):
        await save(engine, grace, Save(content=f"text {number}", scope=Scope.GLOBAL))
    target = await target_user(engine, str(grace.user_id))

    async with engine.pool.writing(grace.workspace_id) as db:
        await totals.fold_totals(db, grace.workspace_id)
        erasing = asyncio.create_task(erase(engine, target, by="test"))
        await wait_until_blocked(engine)
    erased = await erasing

    assert erased.receipt
    assert (await verify(engine, erased.receipt)).is_good


async def test_S86_a_running_distillation_does_not_restore_erased_data(
    engine: Engine, caller: Caller
) -> None:
    grace = await add_colleague(engine, caller)
    started, may_continue = asyncio.Event(), asyncio.Event()

    class Slow:
        async def distil(self, *_: object) -> list[object]:
            started.set()
            await may_continue.wait()
            return []

    slow = replace(engine, distiller=Slow())
    async with engine.writing(grace) as db:
        item = inbox_item_of(grace, LearningInput(f"I am {MARK}", "turn", engine.now()))
        await learn_from(engine, db, grace, item)
        ready = StoredCandidate(
            item.id, item.id, f"{MARK} is", None, None, MARK, None, None, "ready", engine.now()
        )
        await inbox.insert(db, grace.workspace_id, [ready])
    learning = asyncio.create_task(distil_inbox(slow, grace.workspace_id, heartbeat))
    await started.wait()

    erased = await erase(engine, await target_user(engine, str(grace.user_id)), by="test")
    may_continue.set()
    await learning
    await save_ready(engine, grace.workspace_id)

    assert (erased.counts["inbox_item"], erased.counts["candidate"]) == (1, 1)
    assert sum((await rows_by_table(engine, grace.workspace_id, MARK)).values()) == 0


async def test_erasing_an_admin_keeps_segment_summaries_of_other_peoples_chats(
    engine: Engine, caller: Caller
) -> None:
    """Segments of all chats are saved in the name of the org's first admin."""
    grace = await add_colleague(engine, caller)
    thread = await save(engine, grace, Save(content="hers"))
    summary = await save(engine, caller, Save(content="a summary of her chat"))
    async with engine.pool.writing(caller.workspace_id) as db:
        await db.execute(
            "INSERT INTO segment (workspace_id, memory_id, thread_id, is_cut, summarised_by)"
            " VALUES (%s, %s, %s, true, 'local')",
            [caller.workspace_id, summary.memory.id, thread.memory.id],
        )

    await erase(engine, await target_user(engine, str(caller.user_id)), by="test")

    async with engine.pool.reading(caller.workspace_id) as db:
        rows = await (
            await db.execute(
                "SELECT id, user_id FROM memory WHERE workspace_id = %s", [caller.workspace_id]
            )
        ).fetchall()
    assert sorted(rows) == sorted(
        [(summary.memory.id, grace.user_id), (thread.memory.id, grace.user_id)]
    )


async def test_the_last_user_of_an_org_cannot_be_erased(engine: Engine, caller: Caller) -> None:
    with pytest.raises(Conflict):
        await erase(engine, await target_user(engine, str(caller.user_id)), by="test")


async def test_erasing_a_project_erases_only_its_own_memories(
    engine: Engine, caller: Caller
) -> None:
    project = await new_project(engine, caller)
    server = make_server(engine)
    async with client_of(engine, server, caller) as http:
        inside = await save_memory(http, "inside", scope="project", projectId=project)
        outside = await save_memory(http, "outside")
        target, is_archived = await target_project_or_agent(
            engine, ErasureKind.PROJECT, caller.workspace_id, caller.org_id, project
        )
        assert not is_archived
        where = InWorkspace(str(caller.workspace_id))
        await projects.archive_project(engine, where, project, is_archived=True)

        erased = await erase(engine, target, by="test")

        assert (erased.counts["memory"], erased.counts["project"]) == (1, 1)
        assert (await http.get(f"/api/v1/memories/{inside['id']}")).status_code == 404
        assert (await http.get(f"/api/v1/memories/{outside['id']}")).status_code == 200
    assert erased.receipt
    assert (await verify(engine, erased.receipt)).is_good


async def test_erasing_an_org_erases_everything_in_it(
    instance: Engine, databases: TestDatabases
) -> None:
    server = make_server(instance)
    stays = await new_caller(instance)
    goes = await new_caller(instance)
    await leave_traces(instance, server, stays, OTHER)
    await leave_traces(instance, server, goes, MARK)
    await create_key(instance, workspace=str(goes.workspace_id), is_unbound=True)
    others = await rows_by_table(instance, stays.workspace_id, OTHER)
    target = ErasureTarget(ErasureKind.ORG, goes.org_id, [goes.workspace_id], id=goes.org_id)

    erased = await erase(instance, target, by="test")

    assert lines_with(dumped(databases, instance), MARK) == []
    assert str(goes.user_id) not in dumped(databases, instance)
    assert await rows_by_table(instance, stays.workspace_id, OTHER) == others
    assert erased.receipt
    assert (await verify(instance, erased.receipt)).is_good


async def test_S85_a_changed_or_foreign_receipt_does_not_verify(
    instance: Engine, caller: Caller
) -> None:
    first = await new_caller(instance)
    for key in ("one", "two", "three"):
        await save(instance, first, Save(content=key, key=key))
    receipts = [
        await erase(
            instance,
            ErasureTarget(ErasureKind.KEY, first.org_id, [first.workspace_id], text=key),
            by="t",
        )
        for key in ("one", "two")
    ]
    receipt = receipts[0].receipt
    assert receipt
    forged = {**receipt, "counts": {"memory": 100}}

    assert (
        await verify(instance, await get_receipt(instance, first.org_id, UUID(receipt["receipt"])))
    ).is_good
    assert (await verify(instance, read_receipt(json.dumps(receipt)))).is_good
    assert (await verify(instance, forged)).problems
    with pytest.raises(NotFound):
        await get_receipt(instance, caller.org_id, UUID(receipt["receipt"]))
    with pytest.raises(Invalid):
        read_receipt('{"receipt": 1}')
    async with instance.pool.everywhere() as db:
        await db.execute("ALTER TABLE erasure DISABLE TRIGGER erasure_is_append_only")
        await db.execute("DELETE FROM erasure WHERE number = 1")
    assert len((await verify(instance, receipts[1].receipt or {})).problems) == 1


async def test_S86_a_receipt_repeats_its_erasure_after_a_restore(
    engine: Engine, caller: Caller
) -> None:
    saved = await save(engine, caller, Save(content="restored", key="secret"))
    copy = (
        "INSERT INTO memory (workspace_id, id, code, org_id, user_id, content, importance,"
        " importance_base, lifecycle, scope, origin, content_digest, created_at, updated_at)"
        " VALUES (%s, %s, %s, %s, %s, 'restored', 0.5, 0.5, 'permanent', 'workspace', 'user',"
        " '', now(), now())"
    )
    memory = saved.memory
    target = ErasureTarget(ErasureKind.KEY, caller.org_id, [caller.workspace_id], text="secret")
    erased = await erase(engine, target, by="test")
    assert erased.receipt
    async with engine.pool.writing(caller.workspace_id) as db:
        values = [caller.workspace_id, memory.id, memory.code, caller.org_id, caller.user_id]
        await db.execute(copy, values)

    found = await verify(engine, erased.receipt)
    [again] = await find_restored_targets(engine, erased.receipt)
    await erase(engine, again, by="test")

    assert (found.problems, found.left) == ([], {"memory.id": 1})
    assert (await verify(engine, erased.receipt)).is_good
