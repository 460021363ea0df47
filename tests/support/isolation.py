"""Helpers for isolation tests: requests with foreign ids, and all rows of a workspace."""

from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from recollect.core.domain import WorkspaceId
from recollect.engine import Engine
from tests.support.routes import Route


@dataclass(frozen=True, slots=True)
class IsolationRequest:
    """A request in which one field holds an id of another workspace."""

    route: Route
    foreign_field: str
    path: str
    query: dict[str, Any] = field(default_factory=dict[str, Any])
    body: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.route} ({self.foreign_field})"


_ROWS = sql.SQL("SELECT each::text FROM {table} each WHERE workspace_id = {id} ORDER BY 1")


async def dump(engine: Engine, workspace_id: WorkspaceId) -> dict[str, list[str]]:
    """Every row of a workspace, as text."""
    found: dict[str, list[str]] = {}
    async with engine.pool.everywhere() as db:
        for table in await data_tables(engine):
            query = _ROWS.format(table=sql.Identifier(table), id=sql.Literal(workspace_id))
            found[table] = [row[0] for row in await (await db.execute(query)).fetchall()]
    return found


async def rows_with(engine: Engine, workspace_id: WorkspaceId, mark: str) -> dict[str, list[str]]:
    """The rows of a workspace that contain a mark."""
    found = await dump(engine, workspace_id)
    return {table: [row for row in rows if mark in row] for table, rows in found.items()}


async def data_tables(engine: Engine) -> list[str]:
    """Every table whose rows belong to a workspace."""
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            """
            SELECT c.relname
            FROM pg_class c
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id'
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'api_key'
                AND c.relnamespace = 'public'::regnamespace
            ORDER BY c.relname
            """
        )
        return [row[0] for row in await cursor.fetchall()]
