"""What leaves a workspace in an export: one statement a kind, each row as it is kept.

Everything is read in one snapshot, row by row. `chosen` says whose rows are meant, and whether the
one who asks sees everything (whoever runs the house) or what a caller could see by naming it.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import dict_row

from recollect.domain import Caller, OrgId, Ref, ThreadId, UserId, WorkspaceId
from recollect.store.pool import Db
from recollect.store.visible import DOCUMENT_IN_SIGHT, OWN_PROJECTS, THREAD_IN_SIGHT

# Rows fetched at once.
_AT_ONCE = 500

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
MEMORY = """
    id, code, user_id, project_id, agent_id, thread_id, subject, content, summary, key, category,
    kind, tags, metadata, importance, importance_base, pinned, expires_at, valid_from, valid_until,
    superseded_by, lifecycle, scope, origin, origin_label, source_note, reason, quote,
    wants_vector, created_at, updated_at, last_accessed_at, access_count, deleted_at,
    delete_reason, version, content_version
"""
LINK = "id, source_id, target_id, relation, weight, is_authored, created_at"
SOURCE = "id, memory_id, kind, target_id, created_at"
MADE_OF = "memory_id, message_id"
PAST = "memory_id, version, content, replaced_at"
SEGMENT = "memory_id, thread_id, is_cut, is_stale, summarised_by, fallback_reason"
ASSET = "id, memory_id, filename, media_type, size, digest, created_at"
# How far it was read is told anew by whoever reads it.
DOCUMENT = """
    id, code, user_id, project_id, thread_id, kind, name, media_type, size, digest, created_at,
    updated_at
"""
INSIGHT = "id, user_id, category, insight, source, confidence, metadata, created_at"

# What a caller could see by naming it: the agents and threads they may name, and no project that
# they were put out of.
_IN_REACH = f"""
    (%(sees_all)s OR CASE m.scope
        WHEN 'workspace' THEN %(is_home)s
        WHEN 'global' THEN m.user_id = %(user_id)s
        WHEN 'project' THEN m.project_id IN ({OWN_PROJECTS})
        WHEN 'agent' THEN m.agent_id IN (
            SELECT named.id FROM agent named
            WHERE named.workspace_id = %(workspace_id)s AND named.archived_at IS NULL
                AND (named.project_id IS NULL OR named.project_id IN ({OWN_PROJECTS})))
        WHEN 'thread' THEN m.thread_id IN (
            SELECT t.id FROM thread t
            WHERE t.workspace_id = %(workspace_id)s AND {THREAD_IN_SIGHT})
    END)
"""
_CHOSEN_MEMORY = f"""
    m.workspace_id = %(workspace_id)s
    AND (%(of_user)s::uuid IS NULL OR m.user_id = %(of_user)s)
    AND (%(of_subject)s::text IS NULL OR m.subject = %(of_subject)s)
    AND (%(of_thread)s::uuid IS NULL OR m.thread_id = %(of_thread)s)
    AND (%(with_ended)s OR (
        m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > %(now)s)))
    AND {_IN_REACH}
"""
_CHOSEN_THREAD = f"""
    t.workspace_id = %(workspace_id)s
    AND (%(of_user)s::uuid IS NULL OR t.user_id = %(of_user)s)
    AND (%(of_subject)s::text IS NULL OR t.subject = %(of_subject)s)
    AND (%(of_thread)s::uuid IS NULL OR t.id = %(of_thread)s)
    AND (%(sees_all)s OR {THREAD_IN_SIGHT})
"""
_MEMORIES = f"SELECT m.id FROM memory m WHERE {_CHOSEN_MEMORY}"
# Past its time a thread is a bare row; what was said in it is gone to every reader.
_IS_OVER = "(t.expires_at IS NOT NULL AND t.expires_at <= %(now)s)"
_OPEN_THREADS = f"SELECT t.id FROM thread t WHERE {_CHOSEN_THREAD} AND NOT {_IS_OVER}"

_THREADS = f"""
    SELECT t.id, t.code, t.label, CASE WHEN {_IS_OVER} THEN NULL ELSE t.name END AS name, t.pinned,
        t.agent, t.subject, CASE WHEN {_IS_OVER} THEN '{{}}' ELSE t.metadata END AS metadata,
        CASE WHEN {_IS_OVER} THEN '{{}}' ELSE t.state END AS state,
        CASE WHEN {_IS_OVER} THEN -1 ELSE t.state_version END AS state_version, t.turn_count,
        CASE WHEN {_IS_OVER} THEN 0 ELSE t.message_count END AS message_count, t.last_position,
        t.segmented_at, t.segmented_position, t.heard_at,
        CASE WHEN {_IS_OVER} THEN NULL ELSE t.segment_due_at END AS segment_due_at, t.user_id,
        t.project_id, t.agent_id, t.created_at, t.updated_at, t.expires_at
    FROM thread t
    WHERE {_CHOSEN_THREAD}
    ORDER BY t.created_at, t.id
"""
_STATES = f"""
    SELECT {STATE} FROM thread_state
    WHERE workspace_id = %(workspace_id)s AND thread_id IN ({_OPEN_THREADS})
    ORDER BY thread_id, version
"""
# Who said it is told to the operator, and of oneself.
_SAID_BY = "CASE WHEN %(sees_all)s OR user_id = %(user_id)s THEN user_id END AS user_id"
_TURNS = f"""
    SELECT id, code, thread_id, number, input, output, reasoning, metadata, created_at, {_SAID_BY}
    FROM turn
    WHERE workspace_id = %(workspace_id)s AND thread_id IN ({_OPEN_THREADS})
    ORDER BY thread_id, number
"""
_MESSAGES = f"""
    SELECT id, code, thread_id, position, client_id, role, author, content, parts, metadata,
        created_at, edited_at, {_SAID_BY}
    FROM message
    WHERE workspace_id = %(workspace_id)s AND thread_id IN ({_OPEN_THREADS})
    ORDER BY thread_id, created_at, position
"""
_SAID = f"""
    SELECT said.id FROM message said
    WHERE said.workspace_id = %(workspace_id)s AND said.thread_id IN ({_OPEN_THREADS})
"""
_FILES = f"""
    SELECT {FILE} FROM message_file
    WHERE workspace_id = %(workspace_id)s AND message_id IN ({_SAID})
    ORDER BY created_at, id
"""
_ALL_MEMORIES = f"""
    SELECT {MEMORY} FROM memory m
    WHERE {_CHOSEN_MEMORY}
    ORDER BY m.created_at, m.id
"""
_LINKS = f"""
    SELECT {LINK} FROM association
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
        AND memory_id IN ({_MEMORIES}) AND message_id IN ({_SAID})
    ORDER BY memory_id, message_id
"""
_PASTS = f"""
    SELECT {PAST} FROM memory_text
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
_CHOSEN_DOCUMENT = f"""
    d.workspace_id = %(workspace_id)s AND d.status <> 'uploading' AND %(of_subject)s::text IS NULL
    AND (%(of_user)s::uuid IS NULL OR d.user_id = %(of_user)s)
    AND (%(of_thread)s::uuid IS NULL OR d.thread_id = %(of_thread)s)
    AND (%(sees_all)s OR ({DOCUMENT_IN_SIGHT}))
"""
_DOCUMENTS = f"""
    SELECT {DOCUMENT} FROM document d
    WHERE {_CHOSEN_DOCUMENT}
    ORDER BY d.created_at, d.id
"""
_INSIGHTS = f"""
    SELECT {INSIGHT} FROM insight
    WHERE workspace_id = %(workspace_id)s AND (%(is_whole)s OR user_id = %(of_user)s)
        AND (%(sees_all)s OR user_id = %(user_id)s)
    ORDER BY created_at, id
"""

# Of a whole workspace all; else those that something chosen names.
_NAMED_AGENTS = f"""
    SELECT m.agent_id FROM memory m WHERE {_CHOSEN_MEMORY}
    UNION
    SELECT t.agent_id FROM thread t WHERE {_CHOSEN_THREAD}
"""
_AGENTS = f"""
    SELECT {AGENT} FROM agent
    WHERE workspace_id = %(workspace_id)s AND (%(is_whole)s OR id IN ({_NAMED_AGENTS}))
    ORDER BY created_at, id
"""
_NAMED_PROJECTS = f"""
    SELECT m.project_id FROM memory m WHERE {_CHOSEN_MEMORY}
    UNION
    SELECT t.project_id FROM thread t WHERE {_CHOSEN_THREAD}
    UNION
    SELECT d.project_id FROM document d WHERE {_CHOSEN_DOCUMENT}
    UNION
    SELECT a.project_id FROM agent a
    WHERE a.workspace_id = %(workspace_id)s AND a.id IN ({_NAMED_AGENTS})
"""
_PROJECTS = f"""
    SELECT {PROJECT} FROM project
    WHERE workspace_id = %(workspace_id)s AND (%(is_whole)s OR id IN ({_NAMED_PROJECTS}))
    ORDER BY created_at, id
"""
_PROJECT_MEMBERS = f"""
    SELECT {PROJECT_MEMBER} FROM project_member
    WHERE workspace_id = %(workspace_id)s
        AND (%(is_whole)s OR (user_id = %(of_user)s AND project_id IN ({_NAMED_PROJECTS})))
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
        SELECT m.user_id FROM memory m WHERE {_CHOSEN_MEMORY}
        UNION
        SELECT t.user_id FROM thread t WHERE {_CHOSEN_THREAD}
        UNION
        SELECT d.user_id FROM document d WHERE {_CHOSEN_DOCUMENT}
        UNION
        SELECT said.user_id FROM message said
        WHERE said.workspace_id = %(workspace_id)s AND %(sees_all)s
            AND said.thread_id IN ({_OPEN_THREADS})
        UNION
        SELECT turn.user_id FROM turn
        WHERE turn.workspace_id = %(workspace_id)s AND %(sees_all)s
            AND turn.thread_id IN ({_OPEN_THREADS})
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

# Each kind after what it hangs on: so it can be taken in line by line.
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
class Choice:
    """Whose rows of one workspace are meant; nothing named is all of them."""

    workspace_id: WorkspaceId
    org_id: OrgId
    user_id: UserId | None = None
    # Whom it is about, as clients name their own users.
    subject: str | None = None
    thread_id: ThreadId | None = None
    # With what was forgotten or whose time is up.
    with_ended: bool = False
    # Only what this caller could see; None is whoever runs the house.
    sight: Caller | None = None

    @property
    def is_whole(self) -> bool:
        """Whether everything in the workspace is meant."""
        return (self.user_id, self.subject, self.thread_id) == (None, None, None)


async def rows(db: Db, kind: str, choice: Choice, now: datetime) -> AsyncGenerator[dict[str, Any]]:
    """The chosen rows of a kind, a few hundred in memory at a time."""
    async with db.cursor(name=f"export_{kind}", row_factory=dict_row) as cursor:
        cursor.itersize = _AT_ONCE
        await cursor.execute(KINDS[kind], _values(choice, now))
        async for row in cursor:
            yield row


_COUNT_MEMORIES = f"SELECT count(*) FROM memory m WHERE {_CHOSEN_MEMORY}"
_COUNT_MESSAGES = f"""
    SELECT count(*) FROM message
    WHERE workspace_id = %(workspace_id)s AND thread_id IN ({_OPEN_THREADS})
"""


async def count(db: Db, choice: Choice, now: datetime) -> tuple[int, int]:
    """How many memories and messages are meant: what most of an export is."""
    values = _values(choice, now)
    memories = await (await db.execute(_COUNT_MEMORIES, values)).fetchone()
    messages = await (await db.execute(_COUNT_MESSAGES, values)).fetchone()
    return (memories[0] if memories else 0, messages[0] if messages else 0)


_BYTES_OF_ASSETS = f"""
    SELECT DISTINCT ON (digest) id, digest FROM asset
    WHERE workspace_id = %(workspace_id)s AND memory_id IN ({_MEMORIES}) AND digest IS NOT NULL
    ORDER BY digest, id
"""
_BYTES_OF_FILES = f"""
    SELECT DISTINCT ON (digest) id, digest FROM message_file
    WHERE workspace_id = %(workspace_id)s AND message_id IN ({_SAID})
    ORDER BY digest, id
"""


_BYTES_OF_DOCUMENTS = f"""
    SELECT DISTINCT ON (d.digest) d.id, d.digest FROM document d
    WHERE {_CHOSEN_DOCUMENT}
    ORDER BY d.digest, d.id
"""


_WITH_BYTES: dict[str, LiteralString] = {
    "asset": _BYTES_OF_ASSETS,
    "file": _BYTES_OF_FILES,
    "document": _BYTES_OF_DOCUMENTS,
}


async def attached(
    db: Db, choice: Choice, now: datetime
) -> AsyncGenerator[tuple[str, UUID, bytes]]:
    """What has bytes, equal ones of a kind once: the kind, the id, the digest."""
    values = _values(choice, now)
    for kind, query in _WITH_BYTES.items():
        async with db.cursor(name=f"export_bytes_of_{kind}") as cursor:
            await cursor.execute(query, values)
            async for thing_id, digest in cursor:
                yield kind, thing_id, bytes(digest)


_FIND_THREAD = """
    SELECT t.id FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
        AND (t.id = %(id)s
             OR (t.short_code = left(%(code)s, 12) AND starts_with(t.code, %(code)s)))
"""


async def find_thread(db: Db, workspace_id: WorkspaceId, ref: Ref) -> ThreadId | None:
    """The thread of any spelling of its id, whosever it is."""
    values = {"workspace_id": workspace_id, "id": ref.id, "code": ref.code}
    row = await (await db.execute(_FIND_THREAD, values)).fetchone()
    return ThreadId(row[0]) if row else None


_ONE_AT_A_TIME = "SELECT pg_try_advisory_xact_lock(hashtextextended(%(user)s, 7245018846215))"


# Each holds a connection for as long as it takes: a few at a time leave the rest to others.
_HAS_ROOM = """
    SELECT CASE WHEN pg_try_advisory_xact_lock(7245018846217) THEN true
        ELSE pg_try_advisory_xact_lock(7245018846218) END
"""


async def is_only(db: Db, user_id: UserId) -> bool:
    """Whether nothing else of this user's leaves or comes in; held until the transaction ends."""
    row = await (await db.execute(_ONE_AT_A_TIME, {"user": str(user_id)})).fetchone()
    return bool(row and row[0])


async def has_room(db: Db) -> bool:
    """Whether fewer than two are under way, of anybody; that place is held as long."""
    row = await (await db.execute(_HAS_ROOM)).fetchone()
    return bool(row and row[0])


def _values(choice: Choice, now: datetime) -> dict[str, Any]:
    sight = choice.sight
    return {
        "workspace_id": choice.workspace_id,
        "org_id": choice.org_id,
        "of_user": choice.user_id,
        "of_subject": choice.subject,
        "of_thread": choice.thread_id,
        "with_ended": choice.with_ended,
        "is_whole": choice.is_whole,
        "now": now,
        "sees_all": sight is None,
        "user_id": sight and sight.user_id,
        "is_home": sight is None or not sight.is_visiting,
    }
