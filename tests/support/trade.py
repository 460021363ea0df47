"""Exports and imports as tests make them: through files, as the command line does."""

import json
from pathlib import Path
from typing import Any

from psycopg import sql

from recollect.domain import Caller, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.exports import choices_of, leaving
from recollect.engine.imports import Report, Target, take_in
from recollect.store.exports import KINDS
from recollect.trade.archive import reading, write, writing
from recollect.trade.lines import decoded
from recollect.worker import Worker

Object = dict[str, Any]

# Which table each kind of line is kept in.
TABLES = {
    "user": "app_user",
    "workspace_member": "workspace_member",
    "project": "project",
    "project_member": "project_member",
    "agent": "agent",
    "thread": "thread",
    "state": "thread_state",
    "turn": "turn",
    "message": "message",
    "file": "message_file",
    "memory": "memory",
    "past": "memory_text",
    "link": "association",
    "source": "memory_source",
    "made_of": "memory_message",
    "segment": "segment",
    "asset": "asset",
    "document": "document",
    "insight": "insight",
}
# What a row has that no line says: where it is, and what is made of the rest.
MADE = {"workspace_id", "org_id", "content_digest", "short_code", "vector_refused"} | {
    # Told anew by whoever reads a document.
    *("status", "error", "chunk_count", "reading_until", "tries"),
}
BYTES = ("asset_piece", "message_file_piece", "document_piece")
assert set(TABLES) == set(KINDS)


async def export(engine: Engine, path: Path, caller: Caller, **named: Any) -> Path:
    """An export of the caller's workspace, or of what is named in it."""
    choices = await choices_of(engine, workspace=str(caller.workspace_id), **named)
    with writing(path, replace=True) as sink:
        async with leaving(engine, choices) as leaves:
            await write(leaves, sink)
    return path


async def bring_in(engine: Engine, path: Path, caller: Caller, **options: Any) -> Report:
    """Import a file into the caller's workspace, and do the work that follows."""
    is_dry_run = options.pop("is_dry_run", False)
    target = Target(caller.workspace_id, caller.org_id, **options)
    with reading(path) as opened:
        report = await take_in(
            engine,
            target,
            decoded(opened.lines),
            attachments=opened,
            is_dry_run=is_dry_run,
        )
    await Worker(engine, slots=2).run_until_empty()
    return report


def lines_of(path: Path) -> list[Object]:
    """Every line of an export, the header first."""
    with reading(path) as opened:
        return [json.loads(line) for line in opened.lines]


_ROWS = sql.SQL(
    "SELECT to_jsonb(each) FROM {table} each WHERE workspace_id = {id} ORDER BY each::text"
)


async def rows_of(engine: Engine, workspace_id: WorkspaceId) -> dict[str, list[Object]]:
    """What is kept in a workspace of all that an export holds, without what is made of it."""
    found: dict[str, list[Object]] = {}
    async with engine.pool.everywhere() as db:
        for table in [*TABLES.values(), *BYTES]:
            if table == "app_user":
                continue
            query = _ROWS.format(table=sql.Identifier(table), id=sql.Literal(workspace_id))
            found[table] = sorted(
                (
                    {name: value for name, value in row[0].items() if name not in MADE}
                    for row in await (await db.execute(query)).fetchall()
                ),
                key=str,
            )
    return found
