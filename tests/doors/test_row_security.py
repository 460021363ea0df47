"""The second lock: row-level security alone keeps workspaces apart, whatever a statement forgot."""

from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from recollect.domain import Caller, WorkspaceId
from recollect.engine.core import Engine
from recollect.store.pool import Db
from tests.support.database import TestDatabases
from tests.support.house import Visitor, key_for, new_caller, open_pool, serve, visit
from tests.support.statebase import open_session, remember

pytestmark = pytest.mark.anyio

_TABLES = """
    SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, c.relispartition,
        (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid)
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id'
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
        AND c.relname <> 'api_key'
    ORDER BY c.relname
"""


async def tables(engine: Engine, *, with_partitions: bool = True) -> list[str]:
    """Every data table."""
    async with engine.pool.everywhere() as db:
        found = await (await db.execute(_TABLES)).fetchall()
    return [row[0] for row in found if with_partitions or not row[3]]


async def count(db: Db, query: LiteralString, table: str, **values: Any) -> int:
    cursor = await db.execute(sql.SQL(query).format(table=sql.Identifier(table)), values)
    row = await cursor.fetchone()
    assert row
    return row[0]


async def touch(db: Db, query: LiteralString, table: str, **values: Any) -> int:
    # What is computed from other columns cannot be given.
    found = await db.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = ''",
        [table],
    )
    columns = sql.SQL(", ").join(sql.Identifier(row[0]) for row in await found.fetchall())
    statement = sql.SQL(query).format(table=sql.Identifier(table), columns=columns)
    return (await db.execute(statement, values)).rowcount


@pytest.fixture
async def other(engine: Engine) -> Caller:
    """A workspace with a row in every table that the door writes."""
    caller = await new_caller(engine)
    key = await key_for(engine, caller.workspace_id)
    async with visit(serve(engine), **{"X-API-Key": key}) as http:
        await furnish(http)
    return caller


@pytest.fixture
async def ours(visitor: Visitor) -> WorkspaceId:
    await furnish(visitor.http)
    return visitor.caller.workspace_id


async def furnish(http: Any) -> None:
    session = await open_session(http)
    await remember(http, "Ada lives in London", session)
    said = {"input": "hi", "output": "hello"}
    headers = {"Idempotency-Key": uuid4().hex}
    await http.post(f"/v1/sessions/{session['id']}/turns", json=said, headers=headers)


async def test_S43_every_data_table_is_locked_for_its_owner_too(engine: Engine) -> None:
    async with engine.pool.everywhere() as db:
        found = await (await db.execute(_TABLES)).fetchall()

    unlocked = [
        name
        for name, enabled, forced, _, policies in found
        if (enabled, forced, policies) != (True, True, 1)
    ]
    assert unlocked == []
    assert {"memory", "memory_vector", "memory_word", "thread", "turn", "job", "event"} <= {
        row[0] for row in found
    }


async def test_S43_the_runtime_role_cannot_pass_by_the_lock(engine: Engine) -> None:
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        )
        assert await cursor.fetchone() == (False, False)


async def test_S43_a_bare_select_sees_the_workspaces_rows_alone(
    engine: Engine, ours: WorkspaceId, other: Caller
) -> None:
    seen: dict[str, int] = {}
    for table in await tables(engine):
        async with engine.pool.writing(ours) as db:
            seen[table] = await count(db, "SELECT count(*) FROM {table}", table)
            foreign = await count(
                db,
                "SELECT count(*) FROM {table} WHERE workspace_id <> %(ours)s",
                table,
                ours=ours,
            )
        assert foreign == 0, table

    assert seen["memory"] == 1
    assert {table for table, rows in seen.items() if rows} >= {
        "memory",
        "memory_vector",
        "memory_word",
        "memory_terms",
        "thread",
        "turn",
        "event",
    }


async def test_S43_a_bare_update_or_delete_leaves_other_workspaces_alone(
    engine: Engine, ours: WorkspaceId, other: Caller
) -> None:
    async def rows_of(workspace_id: WorkspaceId) -> dict[str, int]:
        async with engine.pool.everywhere() as db:
            query = "SELECT count(*) FROM {table} WHERE workspace_id = %(id)s"
            return {
                table: await count(db, query, table, id=workspace_id)
                for table in await tables(engine)
            }

    theirs = await rows_of(other.workspace_id)

    for table in await tables(engine):
        if table == "event":  # append-only: refused outright
            continue
        async with engine.pool.writing(ours) as db:
            own = await count(db, "SELECT count(*) FROM {table}", table)
            updated = await touch(db, "UPDATE {table} SET workspace_id = workspace_id", table)
            assert updated == own, table
            deleted = await touch(db, "DELETE FROM {table}", table)
            assert deleted == own, table

    assert await rows_of(other.workspace_id) == theirs
    assert sum(rows for table, rows in (await rows_of(ours)).items() if table != "event") == 0


async def test_S43_what_a_stranger_left_set_on_a_connection_opens_nothing(
    databases: TestDatabases, database_url: str, ours: WorkspaceId, other: Caller
) -> None:
    """PgBouncer hands a connection on with whatever somebody at psql has set on it."""
    theirs = "SELECT count(*) FROM {table} WHERE workspace_id = %(theirs)s"
    async with open_pool(databases.beside(database_url), size=1) as pool:
        connection = await pool._pool.getconn()
        await connection.execute("SET recollect.reach = 'everywhere'")
        left = await count(connection, theirs, "memory", theirs=other.workspace_id)
        await pool._pool.putconn(connection)

        seen: list[int] = []
        for transaction in (pool.writing(ours), pool.reading(ours), pool.snapshot(ours)):
            async with transaction as db:
                seen.append(await count(db, theirs, "memory", theirs=other.workspace_id))
        count_theirs = sql.SQL("UPDATE memory SET access_count = 1 WHERE workspace_id = {}")
        await pool.count(ours, count_theirs.format(sql.Literal(other.workspace_id)))
        async with pool.everywhere() as db:
            cursor = await db.execute(
                "SELECT sum(access_count) FROM memory WHERE workspace_id = %s", [other.workspace_id]
            )
            counted = await cursor.fetchone()

    assert (left, seen, counted) == (1, [0, 0, 0], (0,))


@pytest.mark.parametrize("change", ["UPDATE event SET reason = 'none'", "DELETE FROM event"])
async def test_S83_the_audit_is_append_only_even_in_its_own_workspace(
    engine: Engine, ours: WorkspaceId, change: LiteralString
) -> None:
    with pytest.raises(InsufficientPrivilege, match="append-only"):
        async with engine.pool.writing(ours) as db:
            await db.execute(change)


async def test_S43_a_row_for_another_workspace_is_refused(
    engine: Engine, ours: WorkspaceId, other: Caller
) -> None:
    copy = """
        INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE
        SELECT {columns} FROM (
            SELECT (jsonb_populate_record(
                each, jsonb_build_object('workspace_id', %(theirs)s::text))).*
            FROM {table} each
            LIMIT 1
        ) AS copied
    """
    move = "UPDATE {table} SET workspace_id = %(theirs)s"
    refused: set[str] = set()
    for table in await tables(engine, with_partitions=False):
        async with engine.pool.writing(ours) as db:
            if not await count(db, "SELECT count(*) FROM {table}", table):
                continue
        for attempt in (copy, move) if table != "event" else (copy,):
            with pytest.raises(InsufficientPrivilege, match="row-level security"):
                async with engine.pool.writing(ours) as db:
                    await touch(db, attempt, table, theirs=other.workspace_id)
        refused.add(table)

    assert refused >= {"memory", "memory_vector", "memory_word", "thread", "turn", "idempotency"}


async def test_S44_without_a_workspace_there_are_no_rows_and_no_error(
    engine: Engine, database_url: str, ours: WorkspaceId
) -> None:
    async with open_pool(database_url, size=1) as pool:
        for state in ("fresh", "used by a workspace", "used by everybody"):
            connection = await pool._pool.getconn()
            try:
                for table in await tables(engine):
                    seen = await count(connection, "SELECT count(*) FROM {table}", table)
                    assert seen == 0, (state, table)
            finally:
                await pool._pool.putconn(connection)
            if state == "fresh":
                async with pool.writing(ours) as db:
                    assert await count(db, "SELECT count(*) FROM {table}", "memory") == 1
            else:
                async with pool.everywhere() as db:
                    assert await count(db, "SELECT count(*) FROM {table}", "memory") >= 1


async def test_S44_without_a_workspace_nothing_can_be_written(
    engine: Engine, database_url: str, ours: WorkspaceId
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as db:
        with pytest.raises(InsufficientPrivilege, match="row-level security"):
            await db.execute(
                "INSERT INTO word_tally (workspace_id, place, documents, length) VALUES (%s, %s, 1, 1)",
                [ours, ours],
            )


async def test_a_reading_transaction_can_change_nothing(engine: Engine, ours: WorkspaceId) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        async with engine.pool.reading(ours) as db:
            await db.execute("DELETE FROM memory")


async def test_S46_no_function_of_ours_runs_with_anothers_rights(engine: Engine) -> None:
    """What passes by the lock would have to be a function: there is none, and none may come."""
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            """
            SELECT p.proname FROM pg_proc p
            WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef
                AND NOT EXISTS (
                    SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
            """
        )
        assert await cursor.fetchall() == []
