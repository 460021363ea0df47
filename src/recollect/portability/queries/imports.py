"""The SQL of imports: insert batches of rows into a workspace, each row once.

A batch is one statement. Rows that already exist, that conflict with others or that refer to a
missing row are skipped and not returned; the rest of the batch is inserted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from recollect.core.domain import OrgId, UserId, WorkspaceId
from recollect.db.pool import Db
from recollect.db.visibility import OWN_PROJECTS
from recollect.portability.queries.exports import (
    AGENT,
    ASSET,
    DOCUMENT,
    FILE,
    INSIGHT,
    LINK,
    MADE_OF,
    MEMORY,
    MESSAGE,
    PAST,
    PROJECT,
    PROJECT_MEMBER,
    SEGMENT,
    SOURCE,
    STATE,
    THREAD,
    TURN,
    WORKSPACE_MEMBER,
)

Row = dict[str, Any]

_WORKSPACE_MEMBERS = f"""
    INSERT INTO workspace_member (workspace_id, {WORKSPACE_MEMBER})
    SELECT %(workspace_id)s, {WORKSPACE_MEMBER}
    FROM jsonb_populate_recordset(NULL::workspace_member, %(rows)s)
    ON CONFLICT DO NOTHING
    RETURNING user_id::text
"""
_PROJECTS = f"""
    INSERT INTO project (workspace_id, {PROJECT})
    SELECT %(workspace_id)s, {PROJECT} FROM jsonb_populate_recordset(NULL::project, %(rows)s)
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_PROJECT_MEMBERS = f"""
    INSERT INTO project_member (workspace_id, {PROJECT_MEMBER})
    SELECT %(workspace_id)s, {PROJECT_MEMBER}
    FROM jsonb_populate_recordset(NULL::project_member, %(rows)s)
    WHERE project_id IN (SELECT p.id FROM project p WHERE p.workspace_id = %(workspace_id)s)
    ON CONFLICT DO NOTHING
    RETURNING project_id || ' ' || user_id
"""
_AGENTS = f"""
    INSERT INTO agent (workspace_id, {AGENT})
    SELECT %(workspace_id)s, {AGENT} FROM jsonb_populate_recordset(NULL::agent, %(rows)s)
    WHERE project_id IS NULL
        OR project_id IN (SELECT p.id FROM project p WHERE p.workspace_id = %(workspace_id)s)
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_THREADS = f"""
    INSERT INTO thread (workspace_id, {THREAD})
    SELECT %(workspace_id)s, {THREAD} FROM jsonb_populate_recordset(NULL::thread, %(rows)s)
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_OF_THREAD = """
    thread_id IN (SELECT t.id FROM thread t WHERE t.workspace_id = %(workspace_id)s)
"""
_OF_MEMORY = """
    memory_id IN (SELECT m.id FROM memory m WHERE m.workspace_id = %(workspace_id)s)
"""
_STATES = f"""
    INSERT INTO thread_state (workspace_id, {STATE})
    SELECT %(workspace_id)s, {STATE} FROM jsonb_populate_recordset(NULL::thread_state, %(rows)s)
    WHERE {_OF_THREAD}
    ON CONFLICT DO NOTHING
    RETURNING thread_id || ' ' || version
"""
_TURNS = f"""
    INSERT INTO turn (workspace_id, {TURN})
    SELECT %(workspace_id)s, {TURN} FROM jsonb_populate_recordset(NULL::turn, %(rows)s)
    WHERE {_OF_THREAD}
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_MESSAGES = f"""
    INSERT INTO message (workspace_id, {MESSAGE})
    SELECT %(workspace_id)s, {MESSAGE} FROM jsonb_populate_recordset(NULL::message, %(rows)s)
    WHERE {_OF_THREAD}
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_FILES = f"""
    INSERT INTO message_file (workspace_id, {FILE})
    SELECT %(workspace_id)s, {FILE} FROM jsonb_populate_recordset(NULL::message_file, %(rows)s)
    WHERE message_id IN (SELECT s.id FROM message s WHERE s.workspace_id = %(workspace_id)s)
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_MEMORIES = f"""
    INSERT INTO memory (workspace_id, org_id, content_digest, {MEMORY})
    SELECT %(workspace_id)s, org_id, content_digest, {MEMORY}
    FROM jsonb_populate_recordset(NULL::memory, %(rows)s)
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_PASTS = f"""
    INSERT INTO memory_past_text (workspace_id, {PAST})
    SELECT %(workspace_id)s, {PAST} FROM jsonb_populate_recordset(NULL::memory_past_text, %(rows)s)
    WHERE {_OF_MEMORY}
    ON CONFLICT DO NOTHING
    RETURNING memory_id || ' ' || version
"""
_LINKS = f"""
    INSERT INTO memory_link (workspace_id, {LINK})
    SELECT %(workspace_id)s, {LINK} FROM jsonb_populate_recordset(NULL::memory_link, %(rows)s)
    WHERE source_id IN (SELECT m.id FROM memory m WHERE m.workspace_id = %(workspace_id)s)
        AND target_id IN (SELECT m.id FROM memory m WHERE m.workspace_id = %(workspace_id)s)
    ON CONFLICT DO NOTHING
    RETURNING source_id || ' ' || target_id || ' ' || relation
"""
_SOURCES = f"""
    INSERT INTO memory_source (workspace_id, {SOURCE})
    SELECT %(workspace_id)s, {SOURCE} FROM jsonb_populate_recordset(NULL::memory_source, %(rows)s)
    WHERE {_OF_MEMORY}
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_MADE_OF = f"""
    INSERT INTO memory_message (workspace_id, {MADE_OF})
    SELECT %(workspace_id)s, {MADE_OF}
    FROM jsonb_populate_recordset(NULL::memory_message, %(rows)s)
    WHERE {_OF_MEMORY}
        AND message_id IN (SELECT s.id FROM message s WHERE s.workspace_id = %(workspace_id)s)
    ON CONFLICT DO NOTHING
    RETURNING memory_id || ' ' || message_id
"""
_SEGMENTS = f"""
    INSERT INTO segment (workspace_id, {SEGMENT})
    SELECT %(workspace_id)s, {SEGMENT} FROM jsonb_populate_recordset(NULL::segment, %(rows)s)
    WHERE {_OF_MEMORY}
    ON CONFLICT DO NOTHING
    RETURNING memory_id::text
"""
_ASSETS = f"""
    INSERT INTO asset (workspace_id, {ASSET})
    SELECT %(workspace_id)s, {ASSET} FROM jsonb_populate_recordset(NULL::asset, %(rows)s)
    WHERE {_OF_MEMORY}
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_DOCUMENTS = f"""
    INSERT INTO document (workspace_id, status, {DOCUMENT})
    SELECT %(workspace_id)s, 'waiting', {DOCUMENT}
    FROM jsonb_populate_recordset(NULL::document, %(rows)s)
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""
_INSIGHTS = f"""
    INSERT INTO insight (workspace_id, {INSIGHT})
    SELECT %(workspace_id)s, {INSIGHT} FROM jsonb_populate_recordset(NULL::insight, %(rows)s)
    ON CONFLICT DO NOTHING
    RETURNING id::text
"""

# These return the rows of a batch that already exist, by their keys.
_KNOWN_WORKSPACE_MEMBERS = """
    SELECT user_id::text FROM workspace_member
    WHERE workspace_id = %(workspace_id)s AND user_id::text = ANY(%(keys)s)
"""
_KNOWN_PROJECTS = """
    SELECT id::text FROM project
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_PROJECT_MEMBERS = """
    SELECT project_id || ' ' || user_id FROM project_member
    WHERE workspace_id = %(workspace_id)s AND project_id || ' ' || user_id = ANY(%(keys)s)
"""
_KNOWN_AGENTS = """
    SELECT id::text FROM agent
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_THREADS = """
    SELECT id::text FROM thread
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_STATES = """
    SELECT thread_id || ' ' || version FROM thread_state
    WHERE workspace_id = %(workspace_id)s
        AND thread_id = ANY(ARRAY(SELECT split_part(unnest(%(keys)s::text[]), ' ', 1)::uuid))
        AND thread_id || ' ' || version = ANY(%(keys)s)
"""
_KNOWN_TURNS = """
    SELECT id::text FROM turn
    WHERE workspace_id = %(workspace_id)s AND thread_id = ANY(%(parents)s::uuid[])
        AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_MESSAGES = """
    SELECT id::text FROM message
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_FILES = """
    SELECT id::text FROM message_file
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_MEMORIES = """
    SELECT id::text FROM memory
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_PASTS = """
    SELECT memory_id || ' ' || version FROM memory_past_text
    WHERE workspace_id = %(workspace_id)s
        AND memory_id = ANY(ARRAY(SELECT split_part(unnest(%(keys)s::text[]), ' ', 1)::uuid))
        AND memory_id || ' ' || version = ANY(%(keys)s)
"""
_KNOWN_LINKS = """
    SELECT source_id || ' ' || target_id || ' ' || relation FROM memory_link
    WHERE workspace_id = %(workspace_id)s
        AND source_id = ANY(ARRAY(SELECT split_part(unnest(%(keys)s::text[]), ' ', 1)::uuid))
        AND source_id || ' ' || target_id || ' ' || relation = ANY(%(keys)s)
"""
_KNOWN_SOURCES = """
    SELECT id::text FROM memory_source
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_MADE_OF = """
    SELECT memory_id || ' ' || message_id FROM memory_message
    WHERE workspace_id = %(workspace_id)s
        AND memory_id = ANY(ARRAY(SELECT split_part(unnest(%(keys)s::text[]), ' ', 1)::uuid))
        AND memory_id || ' ' || message_id = ANY(%(keys)s)
"""
_KNOWN_SEGMENTS = """
    SELECT memory_id::text FROM segment
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(keys)s::uuid[])
"""
_KNOWN_ASSETS = """
    SELECT id::text FROM asset
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_DOCUMENTS = """
    SELECT id::text FROM document
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""
_KNOWN_INSIGHTS = """
    SELECT id::text FROM insight
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(keys)s::uuid[])
"""

# For each kind: the statement that inserts rows, the one that finds existing rows, and the key.
_KINDS: dict[str, tuple[LiteralString, LiteralString, tuple[str, ...]]] = {
    "workspace_member": (_WORKSPACE_MEMBERS, _KNOWN_WORKSPACE_MEMBERS, ("user_id",)),
    "project": (_PROJECTS, _KNOWN_PROJECTS, ("id",)),
    "project_member": (_PROJECT_MEMBERS, _KNOWN_PROJECT_MEMBERS, ("project_id", "user_id")),
    "agent": (_AGENTS, _KNOWN_AGENTS, ("id",)),
    "thread": (_THREADS, _KNOWN_THREADS, ("id",)),
    "state": (_STATES, _KNOWN_STATES, ("thread_id", "version")),
    "turn": (_TURNS, _KNOWN_TURNS, ("id",)),
    "message": (_MESSAGES, _KNOWN_MESSAGES, ("id",)),
    "file": (_FILES, _KNOWN_FILES, ("id",)),
    "memory": (_MEMORIES, _KNOWN_MEMORIES, ("id",)),
    "past": (_PASTS, _KNOWN_PASTS, ("memory_id", "version")),
    "link": (_LINKS, _KNOWN_LINKS, ("source_id", "target_id", "relation")),
    "source": (_SOURCES, _KNOWN_SOURCES, ("id",)),
    "made_of": (_MADE_OF, _KNOWN_MADE_OF, ("memory_id", "message_id")),
    "segment": (_SEGMENTS, _KNOWN_SEGMENTS, ("memory_id",)),
    "asset": (_ASSETS, _KNOWN_ASSETS, ("id",)),
    "document": (_DOCUMENTS, _KNOWN_DOCUMENTS, ("id",)),
    "insight": (_INSIGHTS, _KNOWN_INSIGHTS, ("id",)),
}


def row_key(kind: str, row: Row) -> str:
    """Return the key of a row, as text; it is unique among rows of its kind."""
    return " ".join(str(row[name]) for name in _KINDS[kind][2])


@dataclass(slots=True)
class InsertedRows:
    """The result of a batch, by key; rows in neither set were skipped."""

    new: set[str] = field(default_factory=set[str])
    # Rows with a value that the database rejects.
    rejected: set[str] = field(default_factory=set[str])


async def insert(
    db: Db, workspace_id: WorkspaceId, kind: str, batch: Sequence[Row]
) -> InsertedRows:
    """Insert the rows that can be inserted; a row that the database rejects affects no other."""
    values = {"workspace_id": workspace_id, "rows": Jsonb(list(batch))}
    try:
        async with db.transaction():
            rows = await (await db.execute(_KINDS[kind][0], values)).fetchall()
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded):
        if len(batch) == 1:
            return InsertedRows(rejected={row_key(kind, batch[0])})
        middle = len(batch) // 2
        first = await insert(db, workspace_id, kind, batch[:middle])
        second = await insert(db, workspace_id, kind, batch[middle:])
        return InsertedRows(first.new | second.new, first.rejected | second.rejected)
    return InsertedRows({row[0] for row in rows})


async def find_known(
    db: Db, workspace_id: WorkspaceId, kind: str, batch: Iterable[Row]
) -> set[str]:
    """Return the keys of the rows that already exist."""
    rows = list(batch)
    values = {
        "workspace_id": workspace_id,
        "keys": [row_key(kind, row) for row in rows],
        "parents": [row.get("thread_id") for row in rows],
    }
    found = await (await db.execute(_KINDS[kind][1], values)).fetchall()
    return {row[0] for row in found}


# Counts the rows that exist, because a thread may have grown since it was first imported.
_RECOUNT = """
    UPDATE thread t
    SET message_count = (
            SELECT count(*) FROM message s
            WHERE s.workspace_id = %(workspace_id)s AND s.thread_id = t.id),
        last_position = greatest(t.last_position, (
            SELECT max(s.position) FROM message s
            WHERE s.workspace_id = %(workspace_id)s AND s.thread_id = t.id)),
        turn_count = greatest(t.turn_count, (
            SELECT max(n.number) FROM turn n
            WHERE n.workspace_id = %(workspace_id)s AND n.thread_id = t.id)),
        segment_due_at = CASE WHEN %(is_due)s THEN coalesce(t.segment_due_at, %(now)s)
            ELSE t.segment_due_at END
    WHERE t.workspace_id = %(workspace_id)s AND t.id = ANY(%(ids)s::uuid[])
"""


async def recount(
    db: Db, workspace_id: WorkspaceId, ids: Iterable[str], *, is_due: bool, now: datetime
) -> None:
    """Update the counters of threads; if `is_due`, mark the threads for segmentation."""
    values = {
        "workspace_id": workspace_id,
        "ids": sorted(set(ids)),
        "is_due": is_due,
        "now": now,
    }
    await db.execute(_RECOUNT, values)


_ADD_FILE_PIECE = """
    INSERT INTO message_file_piece (workspace_id, file_id, number, bytes)
    VALUES (%(workspace_id)s, %(id)s, %(number)s, %(bytes)s)
"""
_ADD_ASSET_PIECE = """
    INSERT INTO asset_piece (workspace_id, asset_id, number, bytes)
    VALUES (%(workspace_id)s, %(id)s, %(number)s, %(bytes)s)
"""
_ADD_DOCUMENT_PIECE = """
    INSERT INTO document_piece (workspace_id, document_id, number, bytes)
    VALUES (%(workspace_id)s, %(id)s, %(number)s, %(bytes)s)
"""
_ADD_PIECE: dict[str, LiteralString] = {
    "file": _ADD_FILE_PIECE,
    "asset": _ADD_ASSET_PIECE,
    "document": _ADD_DOCUMENT_PIECE,
}


async def add_piece(
    db: Db, workspace_id: WorkspaceId, kind: str, item_id: str, number: int, data: bytes
) -> None:
    """Store the next piece of a file, asset or document."""
    values = {"workspace_id": workspace_id, "id": item_id, "number": number, "bytes": data}
    await db.execute(_ADD_PIECE[kind], values)


_FIND_USER = "SELECT id, org_id FROM app_user WHERE login = %(login)s"
_ADD_USER = """
    INSERT INTO app_user (id, org_id, login, is_admin, learning_on)
    VALUES (%(id)s, %(org_id)s, %(login)s, false, %(learning_on)s)
    ON CONFLICT DO NOTHING
"""


async def find_login(db: Db, login: str) -> tuple[UserId, OrgId] | None:
    """Return the user with this login, and their org."""
    row = await (await db.execute(_FIND_USER, {"login": login})).fetchone()
    return (UserId(row[0]), OrgId(row[1])) if row else None


async def add_user(db: Db, org_id: OrgId, user_id: UUID, login: str, *, learning_on: bool) -> bool:
    """Add a user without a password to an org; False when the id or login is taken."""
    values = {"id": user_id, "org_id": org_id, "login": login, "learning_on": learning_on}
    return (await db.execute(_ADD_USER, values)).rowcount > 0


_PROJECT_BY_NAME = f"""
    SELECT id FROM project
    WHERE workspace_id = %(workspace_id)s AND name = %(name)s
        AND (%(user_id)s::uuid IS NULL OR id IN ({OWN_PROJECTS}))
"""
_AGENT_BY_NAME = f"""
    SELECT id FROM agent
    WHERE workspace_id = %(workspace_id)s AND name = %(name)s
        AND (%(user_id)s::uuid IS NULL OR project_id IS NULL OR project_id IN ({OWN_PROJECTS}))
"""


async def find_named(
    db: Db, workspace_id: WorkspaceId, kind: str, name: str, *, member: UserId | None = None
) -> UUID | None:
    """Return the project or agent with this name; if `member` is given, only one they can use."""
    query = _PROJECT_BY_NAME if kind == "project" else _AGENT_BY_NAME
    values = {"workspace_id": workspace_id, "name": name, "user_id": member}
    row = await (await db.execute(query, values)).fetchone()
    return row[0] if row else None
