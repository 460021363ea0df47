"""The SQL of exports: one statement per kind of record, each row as it is stored.

Everything is read in one snapshot, row by row. An `ExportScope` selects the rows. An operator sees
every row; a caller sees only rows that they could also read through the API.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import dict_row

from recollect.core.domain import Caller, OrgId, Ref, ThreadId, UserId, WorkspaceId
from recollect.db.pool import Db
from recollect.db.visibility import DOCUMENT_VISIBLE, OWN_PROJECTS, THREAD_VISIBLE
from recollect.memories.queries.memories import MEMORY_COLUMNS

# Rows fetched per round trip.
_BATCH_SIZE = 500

USER = "id, login, learning_on, created_at"
WORKSPACE_MEMBER = "user_id, created_at"
PROJECT = "id, name, created_at, archived_at"
PROJECT_MEMBER = "project_id, user_id, created_at"
AGENT = "id, project_id, name, created_at, archived_at"
THREAD = """
    id, code, label, name, pinned, agent, subject, metadata, state, state_version, turn_count,
    message_count, last_position, segmented_at, segmented_position, heard_at, segment_due_at,
    user_id, project_id, agent_id, created_at, updated_at, expires_at
"""
STATE = "thread_id, version, state, reasoning, created_at"
TURN = "id, code, thread_id, number, input, output, reasoning, metadata, created_at, user_id"
MESSAGE = """
    id, code, thread_id, position, client_id, role, author, content, parts, metadata, created_at,
    edited_at, user_id
"""
FILE = "id, code, message_id, filename, media_type, size, digest, created_at"
MEMORY = f"{', '.join(MEMORY_COLUMNS)}, delete_reason, version, content_version"
LINK = "id, source_id, target_id, relation, weight, is_authored, created_at"
SOURCE = "id, memory_id, kind, target_id, created_at"
MADE_OF = "memory_id, message_id"
PAST = "memory_id, version, content, replaced_at"
SEGMENT = "memory_id, thread_id, is_cut, is_stale, summarised_by, fallback_reason"
ASSET = "id, memory_id, filename, media_type, size, digest, created_at"
# Without the progress of its text extraction: an import extracts the text again.
DOCUMENT = """
    id, code, user_id, project_id, thread_id, kind, name, media_type, size, digest, created_at,
    updated_at
"""
INSIGHT = "id, user_id, category, insight, source, confidence, metadata, created_at"

# Memories that the caller could read through the API: those of agents and threads they may use,
# and of projects they are still a member of.
_VISIBLE_MEMORY = f"""
    (%(sees_all)s OR CASE m.scope
        WHEN 'workspace' THEN %(is_member)s
        WHEN 'global' THEN m.user_id = %(user_id)s
        WHEN 'project' THEN m.project_id IN ({OWN_PROJECTS})
        WHEN 'agent' THEN m.agent_id IN (
            SELECT named.id FROM agent named
            WHERE named.workspace_id = %(workspace_id)s AND named.archived_at IS NULL
                AND (named.project_id IS NULL OR named.project_id IN ({OWN_PROJECTS})))
        WHEN 'thread' THEN m.thread_id IN (
            SELECT t.id FROM thread t
            WHERE t.workspace_id = %(workspace_id)s AND {THREAD_VISIBLE})
    END)
"""
_SELECTED_MEMORY = f"""
    m.workspace_id = %(workspace_id)s
    AND (%(of_user)s::uuid IS NULL OR m.user_id = %(of_user)s)
    AND (%(of_subject)s::text IS NULL OR m.subject = %(of_subject)s)
    AND (%(of_thread)s::uuid IS NULL OR m.thread_id = %(of_thread)s)
    AND (%(of_key)s::text IS NULL OR m.key = %(of_key)s)
    AND (%(with_ended)s OR (
        m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > %(now)s)))
    AND {_VISIBLE_MEMORY}
"""
_SELECTED_THREAD = f"""
    t.workspace_id = %(workspace_id)s AND %(of_key)s::text IS NULL
    AND (%(of_user)s::uuid IS NULL OR t.user_id = %(of_user)s)
    AND (%(of_subject)s::text IS NULL OR t.subject = %(of_subject)s)
    AND (%(of_thread)s::uuid IS NULL OR t.id = %(of_thread)s)
    AND (%(sees_all)s OR {THREAD_VISIBLE})
"""
_MEMORIES = f"SELECT m.id FROM memory m WHERE {_SELECTED_MEMORY}"
# An expired thread is exported as a bare row; readers cannot see its content any more.
_IS_EXPIRED = "(t.expires_at IS NOT NULL AND t.expires_at <= %(now)s)"
_LIVE_THREADS = f"SELECT t.id FROM thread t WHERE {_SELECTED_THREAD} AND NOT {_IS_EXPIRED}"

_THREADS = f"""
    SELECT t.id, t.code, t.label, CASE WHEN {_IS_EXPIRED} THEN NULL ELSE t.name END AS name,
        t.pinned, t.agent, t.subject,
        CASE WHEN {_IS_EXPIRED} THEN '{{}}' ELSE t.metadata END AS metadata,
        CASE WHEN {_IS_EXPIRED} THEN '{{}}' ELSE t.state END AS state,
        CASE WHEN {_IS_EXPIRED} THEN -1 ELSE t.state_version END AS state_version, t.turn_count,
        CASE WHEN {_IS_EXPIRED} THEN 0 ELSE t.message_count END AS message_count, t.last_position,
        t.segmented_at, t.segmented_position, t.heard_at,
        CASE WHEN {_IS_EXPIRED} THEN NULL ELSE t.segment_due_at END AS segment_due_at, t.user_id,
        t.project_id, t.agent_id, t.created_at, t.updated_at, t.expires_at
    FROM thread t
    WHERE {_SELECTED_THREAD}
    ORDER BY t.created_at, t.id
"""
_STATES = f"""
    SELECT {STATE} FROM thread_state
    WHERE workspace_id = %(workspace_id)s AND thread_id IN ({_LIVE_THREADS})
    ORDER BY thread_id, version
"""
# Only the operator and the author see who wrote a message.
_VISIBLE_AUTHOR = "CASE WHEN %(sees_all)s OR user_id = %(user_id)s THEN user_id END AS user_id"
_TURNS = f"""
    SELECT id, code, thread_id, number, input, output, reasoning, metadata, created_at,
        {_VISIBLE_AUTHOR}
    FROM turn
    WHERE workspace_id = %(workspace_id)s AND thread_id IN ({_LIVE_THREADS})
    ORDER BY thread_id, number
"""
_MESSAGES = f"""
    SELECT id, code, thread_id, position, client_id, role, author, content, parts, metadata,
        created_at, edited_at, {_VISIBLE_AUTHOR}
    FROM message
    WHERE workspace_id = %(workspace_id)s AND thread_id IN ({_LIVE_THREADS})
    ORDER BY thread_id, created_at, position
"""
_SELECTED_MESSAGES = f"""
    SELECT posted.id FROM message posted
    WHERE posted.workspace_id = %(workspace_id)s AND posted.thread_id IN ({_LIVE_THREADS})
"""
_FILES = f"""
    SELECT {FILE} FROM message_file
    WHERE workspace_id = %(workspace_id)s AND message_id IN ({_SELECTED_MESSAGES})
    ORDER BY created_at, id
"""
_ALL_MEMORIES = f"""
    SELECT {MEMORY} FROM memory m
    WHERE {_SELECTED_MEMORY}
    ORDER BY m.created_at, m.id
"""
_LINKS = f"""
    SELECT {LINK} FROM memory_link
    WHERE workspace_id = %(workspace_id)s
        AND source_id IN ({_MEMORIES}) AND target_id IN ({_MEMORIES})
    ORDER BY created_at, id
"""
_SOURCES = f"""
    SELECT {SOURCE} FROM memory_source
    WHERE workspace_id = %(workspace_id)s AND memory_id IN ({_MEMORIES})
    ORDER BY created_at, id
"""
_MADE_OF = f"""
    SELECT {MADE_OF} FROM memory_message
    WHERE workspace_id = %(workspace_id)s
        AND memory_id IN ({_MEMORIES}) AND message_id IN ({_SELECTED_MESSAGES})
    ORDER BY memory_id, message_id
"""
_PASTS = f"""
    SELECT {PAST} FROM memory_past_text
    WHERE workspace_id = %(workspace_id)s AND memory_id IN ({_MEMORIES})
    ORDER BY memory_id, version
"""
_SEGMENTS = f"""
    SELECT {SEGMENT} FROM segment
    WHERE workspace_id = %(workspace_id)s AND memory_id IN ({_MEMORIES})
    ORDER BY memory_id
"""
_ASSETS = f"""
    SELECT {ASSET} FROM asset
    WHERE workspace_id = %(workspace_id)s AND memory_id IN ({_MEMORIES}) AND digest IS NOT NULL
    ORDER BY created_at, id
"""
_SELECTED_DOCUMENT = f"""
    d.workspace_id = %(workspace_id)s AND d.status <> 'uploading'
    AND %(of_subject)s::text IS NULL AND %(of_key)s::text IS NULL
    AND (%(of_user)s::uuid IS NULL OR d.user_id = %(of_user)s)
    AND (%(of_thread)s::uuid IS NULL OR d.thread_id = %(of_thread)s)
    AND (%(sees_all)s OR ({DOCUMENT_VISIBLE}))
"""
_DOCUMENTS = f"""
    SELECT {DOCUMENT} FROM document d
    WHERE {_SELECTED_DOCUMENT}
    ORDER BY d.created_at, d.id
"""
_INSIGHTS = f"""
    SELECT {INSIGHT} FROM insight
    WHERE workspace_id = %(workspace_id)s AND (%(is_whole)s OR user_id = %(of_user)s)
        AND (%(sees_all)s OR user_id = %(user_id)s) AND %(of_key)s::text IS NULL
    ORDER BY created_at, id
"""

# All agents and projects of a whole workspace; otherwise those that selected rows refer to.
_USED_AGENTS = f"""
    SELECT m.agent_id FROM memory m WHERE {_SELECTED_MEMORY}
    UNION
    SELECT t.agent_id FROM thread t WHERE {_SELECTED_THREAD}
"""
_AGENTS = f"""
    SELECT {AGENT} FROM agent
    WHERE workspace_id = %(workspace_id)s AND (%(is_whole)s OR id IN ({_USED_AGENTS}))
    ORDER BY created_at, id
"""
_USED_PROJECTS = f"""
    SELECT m.project_id FROM memory m WHERE {_SELECTED_MEMORY}
    UNION
    SELECT t.project_id FROM thread t WHERE {_SELECTED_THREAD}
    UNION
    SELECT d.project_id FROM document d WHERE {_SELECTED_DOCUMENT}
    UNION
    SELECT a.project_id FROM agent a
    WHERE a.workspace_id = %(workspace_id)s AND a.id IN ({_USED_AGENTS})
"""
_PROJECTS = f"""
    SELECT {PROJECT} FROM project
    WHERE workspace_id = %(workspace_id)s AND (%(is_whole)s OR id IN ({_USED_PROJECTS}))
    ORDER BY created_at, id
"""
_PROJECT_MEMBERS = f"""
    SELECT {PROJECT_MEMBER} FROM project_member
    WHERE workspace_id = %(workspace_id)s
        AND (%(is_whole)s OR (user_id = %(of_user)s AND project_id IN ({_USED_PROJECTS})))
    ORDER BY created_at, project_id, user_id
"""
_WORKSPACE_MEMBERS = f"""
    SELECT {WORKSPACE_MEMBER} FROM workspace_member
    WHERE workspace_id = %(workspace_id)s AND (%(is_whole)s OR user_id = %(of_user)s)
    ORDER BY created_at, user_id
"""
_USERS = f"""
    SELECT {USER} FROM app_user
    WHERE org_id = %(org_id)s AND id IN (
        SELECT m.user_id FROM memory m WHERE {_SELECTED_MEMORY}
        UNION
        SELECT t.user_id FROM thread t WHERE {_SELECTED_THREAD}
        UNION
        SELECT d.user_id FROM document d WHERE {_SELECTED_DOCUMENT}
        UNION
        SELECT posted.user_id FROM message posted
        WHERE posted.workspace_id = %(workspace_id)s AND %(sees_all)s
            AND posted.thread_id IN ({_LIVE_THREADS})
        UNION
        SELECT turn.user_id FROM turn
        WHERE turn.workspace_id = %(workspace_id)s AND %(sees_all)s
            AND turn.thread_id IN ({_LIVE_THREADS})
        UNION
        SELECT i.user_id FROM insight i
        WHERE i.workspace_id = %(workspace_id)s AND (%(is_whole)s OR i.user_id = %(of_user)s)
        UNION
        SELECT p.user_id FROM project_member p
        WHERE p.workspace_id = %(workspace_id)s AND (%(is_whole)s OR p.user_id = %(of_user)s)
        UNION
        SELECT w.user_id FROM workspace_member w
        WHERE w.workspace_id = %(workspace_id)s AND (%(is_whole)s OR w.user_id = %(of_user)s)
    )
    ORDER BY created_at, id
"""

# Each kind comes after the kinds it refers to, so that an import can read line by line.
KINDS: dict[str, LiteralString] = {
    "user": _USERS,
    "workspace_member": _WORKSPACE_MEMBERS,
    "project": _PROJECTS,
    "project_member": _PROJECT_MEMBERS,
    "agent": _AGENTS,
    "thread": _THREADS,
    "state": _STATES,
    "turn": _TURNS,
    "message": _MESSAGES,
    "file": _FILES,
    "memory": _ALL_MEMORIES,
    "past": _PASTS,
    "link": _LINKS,
    "source": _SOURCES,
    "made_of": _MADE_OF,
    "segment": _SEGMENTS,
    "asset": _ASSETS,
    "document": _DOCUMENTS,
    "insight": _INSIGHTS,
}


@dataclass(frozen=True, slots=True)
class ExportScope:
    """The rows of one workspace to export; all of them when nothing is named."""

    workspace_id: WorkspaceId
    org_id: OrgId
    user_id: UserId | None = None
    # The client's own name for the person whom the data is about.
    subject: str | None = None
    thread_id: ThreadId | None = None
    # The key of a memory.
    key: str | None = None
    # Include forgotten and expired memories.
    with_ended: bool = False
    # Only what this caller can see; None for the operator.
    viewer: Caller | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the whole workspace is exported."""
        return (self.user_id, self.subject, self.thread_id, self.key) == (None,) * 4


async def stream_rows(
    db: Db, kind: str, scope: ExportScope, now: datetime
) -> AsyncGenerator[dict[str, Any]]:
    """Yield the selected rows of a kind, a few hundred in memory at a time."""
    async with db.cursor(name=f"export_{kind}", row_factory=dict_row) as cursor:
        cursor.itersize = _BATCH_SIZE
        await cursor.execute(KINDS[kind], _values(scope, now))
        async for row in cursor:
            yield row


_COUNT_MEMORIES = f"SELECT count(*) FROM memory m WHERE {_SELECTED_MEMORY}"
_COUNT_MESSAGES = f"""
    SELECT count(*) FROM message
    WHERE workspace_id = %(workspace_id)s AND thread_id IN ({_LIVE_THREADS})
"""


async def count(db: Db, scope: ExportScope, now: datetime) -> tuple[int, int]:
    """Count the selected memories and messages, which are most of an export."""
    values = _values(scope, now)
    memories = await (await db.execute(_COUNT_MEMORIES, values)).fetchone()
    messages = await (await db.execute(_COUNT_MESSAGES, values)).fetchone()
    return (memories[0] if memories else 0, messages[0] if messages else 0)


_ASSET_BYTES = f"""
    SELECT DISTINCT ON (digest) id, digest FROM asset
    WHERE workspace_id = %(workspace_id)s AND memory_id IN ({_MEMORIES}) AND digest IS NOT NULL
    ORDER BY digest, id
"""
_FILE_BYTES = f"""
    SELECT DISTINCT ON (digest) id, digest FROM message_file
    WHERE workspace_id = %(workspace_id)s AND message_id IN ({_SELECTED_MESSAGES})
    ORDER BY digest, id
"""


_DOCUMENT_BYTES = f"""
    SELECT DISTINCT ON (d.digest) d.id, d.digest FROM document d
    WHERE {_SELECTED_DOCUMENT}
    ORDER BY d.digest, d.id
"""


_WITH_BYTES: dict[str, LiteralString] = {
    "asset": _ASSET_BYTES,
    "file": _FILE_BYTES,
    "document": _DOCUMENT_BYTES,
}


async def stream_attachments(
    db: Db, scope: ExportScope, now: datetime
) -> AsyncGenerator[tuple[str, UUID, bytes]]:
    """Yield the kind, id and digest of everything with bytes; equal ones of a kind only once."""
    values = _values(scope, now)
    for kind, query in _WITH_BYTES.items():
        async with db.cursor(name=f"export_bytes_of_{kind}") as cursor:
            await cursor.execute(query, values)
            async for item_id, digest in cursor:
                yield kind, item_id, bytes(digest)


_FIND_THREAD = """
    SELECT t.id FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
        AND (t.id = %(id)s
             OR (t.short_code = left(%(code)s, 12) AND starts_with(t.code, %(code)s)))
"""


async def find_thread(db: Db, workspace_id: WorkspaceId, ref: Ref) -> ThreadId | None:
    """Return the thread with any form of its id, whoever owns it."""
    values = {"workspace_id": workspace_id, "id": ref.id, "code": ref.code}
    row = await (await db.execute(_FIND_THREAD, values)).fetchone()
    return ThreadId(row[0]) if row else None


_TRY_LOCK_USER = "SELECT pg_try_advisory_xact_lock(hashtextextended(%(user)s, 7245018846215))"


# Each export or import holds a connection while it runs, so only two run at a time.
_TRY_LOCK_SLOT = """
    SELECT CASE WHEN pg_try_advisory_xact_lock(7245018846217) THEN true
        ELSE pg_try_advisory_xact_lock(7245018846218) END
"""


async def try_lock_user(db: Db, user_id: UserId) -> bool:
    """Return whether this user has no other export or import; locks until the transaction ends."""
    row = await (await db.execute(_TRY_LOCK_USER, {"user": str(user_id)})).fetchone()
    return bool(row and row[0])


async def try_lock_slot(db: Db) -> bool:
    """Return whether fewer than two exports and imports run; takes the slot for the transaction."""
    row = await (await db.execute(_TRY_LOCK_SLOT)).fetchone()
    return bool(row and row[0])


def _values(scope: ExportScope, now: datetime) -> dict[str, Any]:
    viewer = scope.viewer
    return {
        "workspace_id": scope.workspace_id,
        "org_id": scope.org_id,
        "of_user": scope.user_id,
        "of_subject": scope.subject,
        "of_thread": scope.thread_id,
        "of_key": scope.key,
        "with_ended": scope.with_ended,
        "is_whole": scope.is_whole,
        "now": now,
        "sees_all": viewer is None,
        "user_id": viewer and viewer.user_id,
        "is_member": viewer is None or not viewer.is_guest,
    }
