"""Export to and import from files in tests, as the command line does."""

import json
from pathlib import Path
from typing import Any

from psycopg import sql

from recollect.core.domain import Caller, WorkspaceId
from recollect.engine import Engine
from recollect.portability.archive import reading, write, writing
from recollect.portability.exporting import find_export_scopes, open_export
from recollect.portability.importing import ImportReport, ImportTarget, import_lines
from recollect.portability.json_lines import decode_lines
from recollect.portability.queries.exports import KINDS
from recollect.worker import Worker

Object = dict[str, Any]

# The table of each kind of line.
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
    "past": "memory_past_text",
    "link": "memory_link",
    "source": "memory_source",
    "made_of": "memory_message",
    "segment": "segment",
    "asset": "asset",
    "document": "document",
    "insight": "insight",
}
# Columns that an export leaves out: the row's workspace, and values derived from other columns.
DERIVED = {"workspace_id", "org_id", "content_digest", "short_code", "vector_refused"} | {
    # Set again when the document is read.
    *("status", "error", "chunk_count", "reading_until", "tries"),
}
BYTES = ("asset_piece", "message_file_piece", "document_piece")
assert set(TABLES) == set(KINDS)


async def export(engine: Engine, path: Path, caller: Caller, **named: Any) -> Path:
    """Export the caller's workspace, or the named parts of it, to a file."""
    choices = await find_export_scopes(engine, workspace=str(caller.workspace_id), **named)
    with writing(path, replace=True) as sink:
        async with open_export(engine, choices) as leaves:
            await write(leaves, sink)
    return path


async def import_file(engine: Engine, path: Path, caller: Caller, **options: Any) -> ImportReport:
    """Import a file into the caller's workspace and run the resulting jobs."""
    is_dry_run = options.pop("is_dry_run", False)
    target = ImportTarget(caller.workspace_id, caller.org_id, **options)
    with reading(path) as opened:
        report = await import_lines(
            engine,
            target,
            decode_lines(opened.lines),
            attachments=opened,
            is_dry_run=is_dry_run,
        )
    await Worker(engine, slots=2).run_until_empty()
    return report


def lines_of(path: Path) -> list[Object]:
    """All lines of an export, the header first."""
    with reading(path) as opened:
        return [json.loads(line) for line in opened.lines]


_ROWS = sql.SQL(
    "SELECT to_jsonb(each) FROM {table} each WHERE workspace_id = {id} ORDER BY each::text"
)


async def rows_of(engine: Engine, workspace_id: WorkspaceId) -> dict[str, list[Object]]:
    """The exported rows of a workspace by table, without derived columns."""
    found: dict[str, list[Object]] = {}
    async with engine.pool.everywhere() as db:
        for table in [*TABLES.values(), *BYTES]:
            if table == "app_user":
                continue
            query = _ROWS.format(table=sql.Identifier(table), id=sql.Literal(workspace_id))
            found[table] = sorted(
                (
                    {name: value for name, value in row[0].items() if name not in DERIVED}
                    for row in await (await db.execute(query)).fetchall()
                ),
                key=str,
            )
    return found
