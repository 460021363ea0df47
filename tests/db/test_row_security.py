"""Row-level security isolates workspaces even if a statement forgets its workspace."""

from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from recollect.core.domain import Caller, WorkspaceId
from recollect.db.pool import Db
from recollect.engine import Engine
from tests.support.database import TestDatabases
from tests.support.instance import ApiClient, connect, key_for, make_server, new_caller, open_pool
from tests.support.statebase import create_memory, open_session

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


async def execute(db: Db, query: LiteralString, table: str, **values: Any) -> int:
    # Generated columns cannot be written.
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
    """Another workspace, with a row in every table that the interface writes."""
    caller = await new_caller(engine)
    key = await key_for(engine, caller.workspace_id)
    async with connect(make_server(engine), **{"X-API-Key": key}) as http:
        await add_data(http)
    return caller


@pytest.fixture
async def our_workspace(client: ApiClient) -> WorkspaceId:
    await add_data(client.http)
    return client.caller.workspace_id


async def add_data(http: Any) -> None:
    session = await open_session(http)
    await create_memory(http, "Ada lives in London", session)
    turn = {"input": "hi", "output": "hello"}
    headers = {"Idempotency-Key": uuid4().hex}
    await http.post(f"/v1/sessions/{session['id']}/turns", json=turn, headers=headers)


async def test_S43_every_data_table_forces_row_level_security(engine: Engine) -> None:
    async with engine.pool.everywhere() as db:
        found = await (await db.execute(_TABLES)).fetchall()

    unprotected = [
        name
        for name, enabled, forced, _, policies in found
        if (enabled, forced, policies) != (True, True, 1)
    ]
    assert unprotected == []
    assert {"memory", "memory_vector", "memory_word", "thread", "turn", "job", "event"} <= {
        row[0] for row in found
    }


async def test_S43_the_runtime_role_cannot_bypass_row_level_security(engine: Engine) -> None:
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        )
        assert await cursor.fetchone() == (False, False)


async def test_S43_a_select_without_a_filter_sees_only_its_workspace(
    engine: Engine, our_workspace: WorkspaceId, other: Caller
) -> None:
    seen: dict[str, int] = {}
    for table in await tables(engine):
        async with engine.pool.writing(our_workspace) as db:
            seen[table] = await count(db, "SELECT count(*) FROM {table}", table)
            foreign = await count(
                db,
                "SELECT count(*) FROM {table} WHERE workspace_id <> %(our_workspace)s",
                table,
                our_workspace=our_workspace,
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


async def test_S43_an_update_or_delete_without_a_filter_spares_other_workspaces(
    engine: Engine, our_workspace: WorkspaceId, other: Caller
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
        async with engine.pool.writing(our_workspace) as db:
            own = await count(db, "SELECT count(*) FROM {table}", table)
            updated = await execute(db, "UPDATE {table} SET workspace_id = workspace_id", table)
            assert updated == own, table
            deleted = await execute(db, "DELETE FROM {table}", table)
            assert deleted == own, table

    assert await rows_of(other.workspace_id) == theirs
    assert (
        sum(rows for table, rows in (await rows_of(our_workspace)).items() if table != "event") == 0
    )


async def test_S43_settings_left_on_a_shared_connection_grant_no_access(
    databases: TestDatabases, database_url: str, our_workspace: WorkspaceId, other: Caller
) -> None:
    """PgBouncer shares connections, with all settings that another client such as psql made."""
    theirs = "SELECT count(*) FROM {table} WHERE workspace_id = %(theirs)s"
    async with open_pool(databases.without_pgbouncer(database_url), size=1) as pool:
        connection = await pool._pool.getconn()
        await connection.execute("SET recollect.reach = 'everywhere'")
        left = await count(connection, theirs, "memory", theirs=other.workspace_id)
        await pool._pool.putconn(connection)

        seen: list[int] = []
        for transaction in (
            pool.writing(our_workspace),
            pool.reading(our_workspace),
            pool.snapshot(our_workspace),
        ):
            async with transaction as db:
                seen.append(await count(db, theirs, "memory", theirs=other.workspace_id))
        count_theirs = sql.SQL("UPDATE memory SET access_count = 1 WHERE workspace_id = {}")
        await pool.update_counters(
            our_workspace, count_theirs.format(sql.Literal(other.workspace_id))
        )
        async with pool.everywhere() as db:
            cursor = await db.execute(
                "SELECT sum(access_count) FROM memory WHERE workspace_id = %s", [other.workspace_id]
            )
            counted = await cursor.fetchone()

    assert (left, seen, counted) == (1, [0, 0, 0], (0,))


@pytest.mark.parametrize("change", ["UPDATE event SET reason = 'none'", "DELETE FROM event"])
async def test_S83_the_audit_log_is_append_only_in_its_own_workspace(
    engine: Engine, our_workspace: WorkspaceId, change: LiteralString
) -> None:
    with pytest.raises(InsufficientPrivilege, match="append-only"):
        async with engine.pool.writing(our_workspace) as db:
            await db.execute(change)


async def test_S43_writing_a_row_of_another_workspace_is_refused(
    engine: Engine, our_workspace: WorkspaceId, other: Caller
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
        async with engine.pool.writing(our_workspace) as db:
            if not await count(db, "SELECT count(*) FROM {table}", table):
                continue
        for attempt in (copy, move) if table != "event" else (copy,):
            with pytest.raises(InsufficientPrivilege, match="row-level security"):
                async with engine.pool.writing(our_workspace) as db:
                    await execute(db, attempt, table, theirs=other.workspace_id)
        refused.add(table)

    assert refused >= {"memory", "memory_vector", "memory_word", "thread", "turn", "idempotency"}


async def test_S44_without_a_workspace_no_rows_are_visible(
    engine: Engine, database_url: str, our_workspace: WorkspaceId
) -> None:
    async with open_pool(database_url, size=1) as pool:
        for state in ("fresh", "used by a workspace", "used for all workspaces"):
            connection = await pool._pool.getconn()
            try:
                for table in await tables(engine):
                    seen = await count(connection, "SELECT count(*) FROM {table}", table)
                    assert seen == 0, (state, table)
            finally:
                await pool._pool.putconn(connection)
            if state == "fresh":
                async with pool.writing(our_workspace) as db:
                    assert await count(db, "SELECT count(*) FROM {table}", "memory") == 1
            else:
                async with pool.everywhere() as db:
                    assert await count(db, "SELECT count(*) FROM {table}", "memory") >= 1


async def test_S44_without_a_workspace_nothing_can_be_written(
    engine: Engine, database_url: str, our_workspace: WorkspaceId
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as db:
        with pytest.raises(InsufficientPrivilege, match="row-level security"):
            await db.execute(
                "INSERT INTO keyword_total (workspace_id, owner_id, documents, length) VALUES (%s, %s, 1, 1)",
                [our_workspace, our_workspace],
            )


async def test_a_reading_transaction_cannot_write(
    engine: Engine, our_workspace: WorkspaceId
) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        async with engine.pool.reading(our_workspace) as db:
            await db.execute("DELETE FROM memory")


async def test_S46_no_database_function_is_security_definer(engine: Engine) -> None:
    """Such a function could bypass row-level security, so there must be none."""
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
