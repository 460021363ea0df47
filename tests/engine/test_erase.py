"""Erasing leaves no byte of what was erased, nothing of others is touched, and a receipt proves it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from hashlib import sha256
from uuid import UUID

import pytest
from psycopg.conninfo import conninfo_to_dict

from recollect.domain import Caller, Scope, parse_ref
from recollect.engine import circles, tenants
from recollect.engine.circles import Where
from recollect.engine.core import Engine
from recollect.engine.erase import erase
from recollect.engine.erase_receipts import get_receipt, read_receipt, targets_of, verify
from recollect.engine.erase_targets import Kind, Target, target_circle, target_thread, target_user
from recollect.engine.keys import create_key, hash_password
from recollect.engine.learn import distil_lessons, keep_ready
from recollect.engine.learning import Said, learn_from, lesson_of
from recollect.engine.save import Save, Saved, save
from recollect.errors import Conflict, Invalid, NotFound, Unauthenticated
from recollect.server import Server
from recollect.store import erasure, lessons, sign_ins, words
from recollect.store.lessons import Candidate
from tests.support.alumia import client_of, colleague, kept, new_project
from tests.support.clock import Clock
from tests.support.dashboard import PASSWORD, is_login_page
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.house import new_caller, only, open_house, serve, until_blocked, visit
from tests.support.statebase import open_session, remember
from tests.support.tools import rows
from tests.support.traces import dump, leave_traces, rows_by_table, shows

pytestmark = pytest.mark.anyio

# A word that no language and no id has.
MARK = "qzxmarkab"
OTHER = "wvyotherb"
# How many memories each place has and how long they are: as tallied, and as it is.
TALLIED = """
    SELECT workspace_id, place, sum(documents), sum(length) FROM word_tally
    GROUP BY 1, 2 ORDER BY 1, 2
"""
INDEXED = """
    SELECT workspace_id, place, count(*), sum(length) FROM memory_terms
    GROUP BY 1, 2 ORDER BY 1, 2
"""


@pytest.fixture
async def house(
    databases: TestDatabases, embedder: StubEmbedder, clock: Clock
) -> AsyncGenerator[Engine]:
    """A house of its own: the whole of it is looked through."""
    async with open_house(databases.clone(), only(embedder), clock) as engine:
        yield engine


def dumped(databases: TestDatabases, engine: Engine) -> str:
    return dump(databases.admin_url, str(conninfo_to_dict(engine.pool.url)["dbname"]))


async def heartbeat() -> None:
    pass


async def test_S85_every_table_is_classified_by_the_erasure(engine: Engine) -> None:
    """A new table fails here: give it a step in `store.erasure`, or say why it is left alone."""
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

    assert set(tables) == {*erasure.STEPPED, *erasure.UNTOUCHED, *erasure.ACCOUNTS}
    assert set(erasure.WHOLE) == {table for table, is_data in tables.items() if is_data}


async def test_S85_no_byte_of_an_erased_user_is_left_and_nothing_of_others_is_touched(
    house: Engine, databases: TestDatabases
) -> None:
    server = serve(house)
    ada = await new_caller(house)
    grace = await colleague(house, ada)
    await leave_traces(house, server, ada, OTHER)
    await leave_traces(house, server, grace, MARK)
    chat, session = await a_talk(house, server, ada, grace)
    token = await a_sign_in(house, server, grace)
    before = await rows_by_table(house, ada.workspace_id, MARK)
    others = await rows_by_table(house, ada.workspace_id, OTHER)
    told = {
        "injection",
        "memory_message",
        "memory_source",
        "association",
        "segment",
        "memory_vector",
    }

    target = await target_user(house, str(grace.user_id))
    counted = await erase(house, target, by="test", is_dry=True)
    assert await rows_by_table(house, ada.workspace_id, MARK) == before
    erased = await erase(house, target, by="test")

    # Rows of which only ids are words had some of hers too: the walk counts them.
    unmarked = {table for table in erasure.STEPPED if not before.get(table)}
    assert {table for table in unmarked if not erased.counts.get(table)} <= {
        "project",
        "agent",
        "project_member",
        "workspace_member",
    }
    assert told <= set(erased.counts)
    assert counted.counts == erased.counts
    left = dumped(databases, house)
    hers = [MARK, str(grace.user_id), token]
    hashes = [sha256(each.encode()).hexdigest() for each in (token, f"account {MARK} grace")]
    assert [line for each in hers for line in shows(left, each)] == []
    assert [each for each in hashes if each in left] == []
    assert (erased.counts["sign_in"], erased.counts["sign_in_try"]) == (1, 1)
    async with visit(server, cookie=f"session={token}") as browser:
        assert is_login_page(await browser.get("/chat/api/me"))
    after = await rows_by_table(house, ada.workspace_id, OTHER)
    assert after | {"idempotency": 0} == others | {"idempotency": 0}
    assert await rows(house, TALLIED) == await rows(house, INDEXED) != []
    assert erased.receipt
    assert (await verify(house, erased.receipt)).is_good
    assert MARK not in json.dumps(erased.receipt)
    assert str(grace.user_id) not in json.dumps(erased.receipt)
    with pytest.raises(NotFound):
        await target_user(house, str(grace.user_id))
    async with client_of(house, server, ada) as http:
        http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
        said = (await http.get(f"/api/chats/{chat}/messages")).json()["_embedded"]["inf:message"]
        turns = (await http.get(f"/v1/sessions/{session}/turns")).json()["data"]
    assert [each["content"] for each in said] == [f"{OTHER} begins"]
    assert len(turns) == 1


async def a_sign_in(engine: Engine, server: Server, grace: Caller) -> str:
    """A browser of hers, and a wrong password under her login after that; the browser's token."""
    login = f"{MARK} grace"
    await tenants.rename_user(engine, str(grace.user_id), login)
    async with engine.pool.everywhere() as db:
        await sign_ins.set_password(db, grace.user_id, hash_password(PASSWORD))
    async with visit(server) as browser:
        body = {"username": login, "password": PASSWORD}
        entered = await browser.post("/login", json=body)
        assert entered.status_code == 204, entered.text
        refused = await browser.post("/login", json=body | {"password": "wrong"})
        assert refused.status_code == 401, refused.text
        return browser.cookies["session"]


async def a_talk(engine: Engine, server: Server, ada: Caller, grace: Caller) -> tuple[str, str]:
    """A chat and a session of Ada's, in which both say something."""
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
        told = await others.post(
            f"/api/chats/{chat}/messages", json={"messages": [{"content": f"{MARK} answers"}]}
        )
        message = told.json()["messages"][0]["id"]
        file = {"filename": f"{MARK}.txt", "data": ""}
        assert (await others.post(f"/api/messages/{message}/files", json=file)).is_success
        turn = {"input": MARK, "output": MARK}
        assert (await others.post(f"/v1/sessions/{session}/turns", json=turn)).is_success
    return chat, session


async def test_S85_no_byte_of_an_erased_thread_is_left(
    house: Engine, databases: TestDatabases
) -> None:
    server = serve(house)
    ada = await new_caller(house)
    async with client_of(house, server, ada) as http:
        http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
        stays = await remember(http, f"{OTHER} stays")
        gone = await remember(http, f"{MARK} is in this session alone", user_id="ada")
        session = gone["session_id"]
        path = f"/v1/sessions/{session}"
        await http.put(f"{path}/state", json={"state": {"said": MARK}})
        await http.post(
            f"{path}/turns",
            json={"input": MARK, "output": MARK},
            headers={"Idempotency-Key": "a turn"},
        )
        target = await target_thread(
            house, ada.workspace_id, ada.org_id, parse_ref(session, "sess_"), session
        )

        erased = await erase(house, target, by="test")

        assert (await http.get(path)).status_code == 404
        assert (await http.get(f"/v1/memory/{stays['id']}")).json() == stays
    assert shows(dumped(databases, house), MARK) == []
    assert erased.receipt
    assert (await verify(house, erased.receipt)).is_good


async def test_S85_a_key_is_erased_in_one_workspace_or_for_one_user(
    engine: Engine, caller: Caller
) -> None:
    server = serve(engine)
    grace = await colleague(engine, caller)
    async with client_of(engine, server, caller) as ours, client_of(engine, server, grace) as hers:
        own = await kept(ours, "tea", key="drink")
        forgotten = await kept(ours, "coffee", key="drink", dedupe="create")
        await ours.delete(f"/api/v1/memories/{forgotten['id']}")
        other = await kept(ours, "bread", key="food")
        of_grace = await kept(hers, "water", key="drink")
        target = Target(
            Kind.KEY, caller.org_id, [caller.workspace_id], text="drink", owner_id=caller.user_id
        )

        erased = await erase(engine, target, by="test")

        assert erased.counts["memory"] == 2
        assert (await ours.get(f"/api/v1/memories/{own['id']}")).status_code == 404
        assert (await ours.get(f"/api/v1/memories/{other['id']}")).status_code == 200
        assert (await hers.get(f"/api/v1/memories/{of_grace['id']}")).status_code == 200
        assert erased.receipt
        assert (await verify(engine, erased.receipt)).is_good
        everybodys = await erase(engine, replace(target, owner_id=None), by="test")
        assert everybodys.counts["memory"] == 1


async def test_a_person_as_clients_name_them_is_erased_in_one_workspace(
    house: Engine, databases: TestDatabases
) -> None:
    server = serve(house)
    ada = await new_caller(house)
    async with client_of(house, server, ada) as http:
        http.headers["X-API-Key"] = http.headers["Authorization"].split()[1]
        await remember(http, "a text of somebody", user_id=MARK)
        stays = await remember(http, "a text of somebody else", user_id=OTHER)
        await http.post("/v1/sessions", json={"agent_id": "agent", "user_id": MARK})
        target = Target(Kind.SUBJECT, ada.org_id, [ada.workspace_id], text=MARK)

        erased = await erase(house, target, by="test")

        assert (await http.get(f"/v1/memory/{stays['id']}")).status_code == 200
    assert shows(dumped(databases, house), MARK) == []
    assert erased.receipt
    assert (await verify(house, erased.receipt)).is_good


async def test_a_save_under_way_while_its_user_is_erased_does_not_survive(
    engine: Engine, caller: Caller
) -> None:
    """What is committed before the erasure has its turn goes with it; what comes later fails."""
    grace = await colleague(engine, caller)
    target = await target_user(engine, str(grace.user_id))

    async with engine.writing(grace) as db:
        erasing = asyncio.create_task(erase(engine, target, by="test"))
        await until_blocked(engine)
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


async def test_what_is_counted_of_an_erased_user_is_gone_though_it_is_just_being_added_up(
    engine: Engine, caller: Caller
) -> None:
    grace = await colleague(engine, caller)
    for number in range(3):
        await save(engine, grace, Save(content=f"text {number}", scope=Scope.GLOBAL))
    target = await target_user(engine, str(grace.user_id))

    async with engine.pool.writing(grace.workspace_id) as db:
        await words.fold_tally(db, grace.workspace_id)
        erasing = asyncio.create_task(erase(engine, target, by="test"))
        await until_blocked(engine)
    erased = await erasing

    assert erased.receipt
    assert (await verify(engine, erased.receipt)).is_good


async def test_S86_a_lesson_being_learnt_does_not_bring_back_what_was_erased(
    engine: Engine, caller: Caller
) -> None:
    grace = await colleague(engine, caller)
    started, goes_on = asyncio.Event(), asyncio.Event()

    class Slow:
        async def distil(self, *_: object) -> list[object]:
            started.set()
            await goes_on.wait()
            return []

    slow = replace(engine, distiller=Slow())
    async with engine.writing(grace) as db:
        lesson = lesson_of(grace, Said(f"I am {MARK}", "turn", engine.now()))
        await learn_from(engine, db, grace, lesson)
        ready = Candidate(
            lesson.id, lesson.id, f"{MARK} is", None, None, MARK, None, None, "ready", engine.now()
        )
        await lessons.insert(db, grace.workspace_id, [ready])
    learning = asyncio.create_task(distil_lessons(slow, grace.workspace_id, heartbeat))
    await started.wait()

    erased = await erase(engine, await target_user(engine, str(grace.user_id)), by="test")
    goes_on.set()
    await learning
    await keep_ready(engine, grace.workspace_id)

    assert (erased.counts["lesson"], erased.counts["candidate"]) == (1, 1)
    assert sum((await rows_by_table(engine, grace.workspace_id, MARK)).values()) == 0


async def test_what_the_house_wrote_in_an_admins_name_of_others_stays(
    engine: Engine, caller: Caller
) -> None:
    """Segments of everybody's chats are made in the name of the org's first admin."""
    grace = await colleague(engine, caller)
    thread = await save(engine, grace, Save(content="hers"))
    made = await save(engine, caller, Save(content="a summary of her chat"))
    async with engine.pool.writing(caller.workspace_id) as db:
        await db.execute(
            "INSERT INTO segment (workspace_id, memory_id, thread_id, is_cut, summarised_by)"
            " VALUES (%s, %s, %s, true, 'local')",
            [caller.workspace_id, made.memory.id, thread.memory.id],
        )

    await erase(engine, await target_user(engine, str(caller.user_id)), by="test")

    async with engine.pool.reading(caller.workspace_id) as db:
        rows = await (
            await db.execute(
                "SELECT id, user_id FROM memory WHERE workspace_id = %s", [caller.workspace_id]
            )
        ).fetchall()
    assert sorted(rows) == sorted(
        [(made.memory.id, grace.user_id), (thread.memory.id, grace.user_id)]
    )


async def test_the_last_user_of_an_org_cannot_be_erased(engine: Engine, caller: Caller) -> None:
    with pytest.raises(Conflict):
        await erase(engine, await target_user(engine, str(caller.user_id)), by="test")


async def test_a_project_goes_with_what_is_its_alone(engine: Engine, caller: Caller) -> None:
    project = await new_project(engine, caller)
    server = serve(engine)
    async with client_of(engine, server, caller) as http:
        inside = await kept(http, "inside", scope="project", projectId=project)
        outside = await kept(http, "outside")
        target, is_archived = await target_circle(
            engine, Kind.PROJECT, caller.workspace_id, caller.org_id, project
        )
        assert not is_archived
        where = Where(str(caller.workspace_id))
        await circles.archive_project(engine, where, project, is_over=True)

        erased = await erase(engine, target, by="test")

        assert (erased.counts["memory"], erased.counts["project"]) == (1, 1)
        assert (await http.get(f"/api/v1/memories/{inside['id']}")).status_code == 404
        assert (await http.get(f"/api/v1/memories/{outside['id']}")).status_code == 200
    assert erased.receipt
    assert (await verify(engine, erased.receipt)).is_good


async def test_a_workspace_and_an_org_go_with_everything_in_them(
    house: Engine, databases: TestDatabases
) -> None:
    server = serve(house)
    stays = await new_caller(house)
    goes = await new_caller(house)
    await leave_traces(house, server, stays, OTHER)
    await leave_traces(house, server, goes, MARK)
    await create_key(house, workspace=str(goes.workspace_id), is_unbound=True)
    others = await rows_by_table(house, stays.workspace_id, OTHER)
    target = Target(Kind.ORG, goes.org_id, [goes.workspace_id], id=goes.org_id)

    erased = await erase(house, target, by="test")

    assert shows(dumped(databases, house), MARK) == []
    assert str(goes.user_id) not in dumped(databases, house)
    assert await rows_by_table(house, stays.workspace_id, OTHER) == others
    assert erased.receipt
    assert (await verify(house, erased.receipt)).is_good


async def test_a_receipt_that_was_changed_or_is_not_ours_is_not_believed(
    house: Engine, caller: Caller
) -> None:
    first = await new_caller(house)
    for key in ("one", "two", "three"):
        await save(house, first, Save(content=key, key=key))
    receipts = [
        await erase(house, Target(Kind.KEY, first.org_id, [first.workspace_id], text=key), by="t")
        for key in ("one", "two")
    ]
    given = receipts[0].receipt
    assert given
    forged = {**given, "counts": {"memory": 100}}

    assert (
        await verify(house, await get_receipt(house, first.org_id, UUID(given["receipt"])))
    ).is_good
    assert (await verify(house, read_receipt(json.dumps(given)))).is_good
    assert (await verify(house, forged)).problems
    with pytest.raises(NotFound):
        await get_receipt(house, caller.org_id, UUID(given["receipt"]))
    with pytest.raises(Invalid):
        read_receipt('{"receipt": 1}')
    async with house.pool.everywhere() as db:
        await db.execute("ALTER TABLE erasure DISABLE TRIGGER erasure_is_append_only")
        await db.execute("DELETE FROM erasure WHERE number = 1")
    assert len((await verify(house, receipts[1].receipt or {})).problems) == 1


async def test_S86_a_restored_backup_is_erased_again_from_the_receipt(
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
    target = Target(Kind.KEY, caller.org_id, [caller.workspace_id], text="secret")
    erased = await erase(engine, target, by="test")
    assert erased.receipt
    async with engine.pool.writing(caller.workspace_id) as db:
        values = [caller.workspace_id, memory.id, memory.code, caller.org_id, caller.user_id]
        await db.execute(copy, values)

    found = await verify(engine, erased.receipt)
    [again] = await targets_of(engine, erased.receipt)
    await erase(engine, again, by="test")

    assert (found.problems, found.left) == ([], {"memory.id": 1})
    assert (await verify(engine, erased.receipt)).is_good
