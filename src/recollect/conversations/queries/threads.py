"""SQL for threads with their versioned state and their turns."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.core.domain import (
    Caller,
    Json,
    ProjectId,
    Ref,
    StateVersion,
    Thread,
    ThreadId,
    Turn,
    UserId,
    WorkspaceId,
)
from recollect.core.errors import Conflict
from recollect.db.pool import Db
from recollect.db.visibility import THREAD_VISIBLE, VISIBLE, scope_values, visibility_values

# A caller who sees a thread also sees the memories within it, as if it were the caller's thread.
_VISIBLE_INSIDE = VISIBLE.replace("%(in_thread)s", "t.id")
_COLUMNS = f"""
    t.id, t.code, t.workspace_id, t.agent, t.subject, t.metadata, t.state, t.state_version,
    t.created_at, t.updated_at, t.expires_at, t.turn_count, t.label, t.name, t.pinned,
    t.message_count, t.user_id, t.project_id, t.agent_id,
    (SELECT count(*) FROM memory m
     WHERE m.workspace_id = t.workspace_id AND m.thread_id = t.id AND {_VISIBLE_INSIDE}
    ) AS memory_count
"""

_INSERT = """
    INSERT INTO thread (
        workspace_id, id, code, agent, subject, metadata, state, state_version, created_at,
        updated_at, expires_at, label, name, pinned, user_id, project_id, agent_id
    ) VALUES (
        %(workspace_id)s, %(id)s, %(code)s, %(agent)s, %(subject)s, %(metadata)s, %(state)s,
        %(state_version)s, %(created_at)s, %(updated_at)s, %(expires_at)s, %(label)s, %(name)s,
        %(pinned)s, %(user_id)s, %(project_id)s, %(agent_id)s
    )
    ON CONFLICT (workspace_id, label) DO NOTHING
    RETURNING id
"""


async def insert(db: Db, thread: Thread) -> bool:
    """Store a new thread and its first state; return False if its label is taken."""
    values = asdict(thread) | {
        "metadata": Jsonb(dict(thread.metadata)),
        "state": Jsonb(dict(thread.state)),
    }
    if await (await db.execute(_INSERT, values)).fetchone() is None:
        return False
    await _keep_version(db, thread, reasoning=None, at=thread.created_at)
    return True


_FIND_BY_ID = f"""
    SELECT {_COLUMNS} FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.id = %(id)s
        AND (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_VISIBLE}
"""
_FIND_BY_CODE = f"""
    SELECT {_COLUMNS} FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.short_code = left(%(code)s, 12)
        AND starts_with(t.code, %(code)s)
        AND (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_VISIBLE}
"""


async def find(db: Db, caller: Caller, ref: Ref, now: datetime) -> Thread | None:
    """Return the thread for any form of its id, unless it has expired."""
    query = _FIND_BY_ID if ref.id else _FIND_BY_CODE
    async with db.cursor(row_factory=class_row(Thread)) as cursor:
        await cursor.execute(
            query, {"id": ref.id, "code": ref.code, **visibility_values(caller, now)}
        )
        return await cursor.fetchone()


_FIND_BY_LABEL = f"""
    SELECT {_COLUMNS} FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.label = %(label)s AND {THREAD_VISIBLE}
"""


async def find_labelled(db: Db, caller: Caller, label: str, now: datetime) -> Thread | None:
    """Return the thread with this label from another system; such threads never expire."""
    async with db.cursor(row_factory=class_row(Thread)) as cursor:
        await cursor.execute(_FIND_BY_LABEL, {"label": label, **visibility_values(caller, now)})
        return await cursor.fetchone()


async def find_or_create_labelled(
    db: Db, caller: Caller, thread: Thread, now: datetime
) -> tuple[Thread, bool]:
    """Return the thread with this label, and whether this call created it."""
    assert thread.label
    found = await find_labelled(db, caller, thread.label, now)
    if found is None and await insert(db, thread):
        return thread, True
    # Another transaction was first; the insert has waited for its commit.
    found = found or await find_labelled(db, caller, thread.label, now)
    if found is None:
        raise Conflict("This conversation was just deleted. Try again.", is_temporary=True)
    return found, False


_NAMES_AGENT = f"""
    SELECT EXISTS (
        SELECT FROM thread t
        WHERE t.workspace_id = %(workspace_id)s AND t.agent = %(agent)s AND {THREAD_VISIBLE}
    )
"""


async def names_agent(db: Db, caller: Caller, agent: str) -> bool:
    """Whether any thread belongs to this agent."""
    values = {**scope_values(caller), "agent": agent}
    row = await (await db.execute(_NAMES_AGENT, values)).fetchone()
    return bool(row and row[0])


# The first agent keeps the thread: this statement waits for a concurrent update and then sees it.
_GIVE_TO_AGENT = """
    UPDATE thread
    SET agent = coalesce(nullif(agent, ''), %(agent)s), updated_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
    RETURNING agent
"""


async def give_to_agent(db: Db, thread: Thread, agent: str, now: datetime) -> Thread:
    """Assign a thread to an agent unless it already has one, and return it as it is now."""
    values = {
        "workspace_id": thread.workspace_id,
        "id": thread.id,
        "agent": agent,
        "now": now,
    }
    row = await (await db.execute(_GIVE_TO_AGENT, values)).fetchone()
    return replace(thread, agent=row[0]) if row else thread


_IDENTIFY = f"""
    SELECT t.id FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
        AND (t.id = %(id)s
             OR (t.short_code = left(%(code)s, 12) AND starts_with(t.code, %(code)s)))
        AND {THREAD_VISIBLE}
"""


async def identify(db: Db, caller: Caller, ref: Ref) -> ThreadId | None:
    """Return the id for any form of it, even if the thread has expired: its memories outlive it."""
    cursor = await db.execute(_IDENTIFY, {**scope_values(caller), "id": ref.id, "code": ref.code})
    row = await cursor.fetchone()
    return ThreadId(row[0]) if row else None


# everywhere: the URL of a chat does not say which of the caller's workspaces it is in.
_LOCATE = """
    SELECT t.workspace_id, t.id FROM thread t
    WHERE t.workspace_id = ANY(%(workspace_ids)s)
        AND (t.id = %(id)s OR t.label = %(label)s
             OR (t.short_code = left(%(code)s, 12) AND starts_with(t.code, %(code)s)))
    ORDER BY array_position(%(workspace_ids)s, t.workspace_id),
        t.label IS NOT DISTINCT FROM %(label)s
    LIMIT 1
"""


async def locate(
    db: Db, workspace_ids: Sequence[WorkspaceId], ref: Ref, label: str
) -> tuple[WorkspaceId, ThreadId] | None:
    """Return which of these workspaces a thread is in, by its id or its label in another system.

    Visibility is not checked here.
    """
    values = {
        "workspace_ids": list(workspace_ids),
        "id": ref.id,
        "code": ref.code,
        "label": label,
    }
    row = await (await db.execute(_LOCATE, values)).fetchone()
    return (WorkspaceId(row[0]), ThreadId(row[1])) if row else None


_LOCK = """
    SELECT t.id FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.id = %(id)s
    FOR UPDATE
"""


async def lock(db: Db, workspace_id: WorkspaceId, thread_id: ThreadId) -> None:
    """Lock a thread until the transaction ends, so that versions and turns count without gaps."""
    await db.execute(_LOCK, {"workspace_id": workspace_id, "id": thread_id})


_HOLD = """
    SELECT t.id FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.id = %(id)s
    FOR KEY SHARE
"""


async def share_lock(db: Db, workspace_id: WorkspaceId, thread_id: ThreadId) -> bool:
    """Prevent deletion of a thread until the transaction ends; return False if it is gone."""
    cursor = await db.execute(_HOLD, {"workspace_id": workspace_id, "id": thread_id})
    return await cursor.fetchone() is not None


_PROJECT_OF = """
    SELECT t.project_id FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.id = %(id)s
"""


async def project_of(db: Db, workspace_id: WorkspaceId, thread_id: ThreadId) -> ProjectId | None:
    """Return the project of a thread, without checking visibility or expiry."""
    cursor = await db.execute(_PROJECT_OF, {"workspace_id": workspace_id, "id": thread_id})
    row = await cursor.fetchone()
    return row[0] if row else None


_PAGE = f"""
    SELECT {_COLUMNS} FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
        AND (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_VISIBLE}
        AND (%(agent)s::text IS NULL OR t.agent = %(agent)s)
        AND (%(subject)s::text IS NULL OR t.subject = %(subject)s)
        AND (%(created_after)s::timestamptz IS NULL OR t.created_at > %(created_after)s)
        AND (%(after_at)s::timestamptz IS NULL
             OR (t.created_at, t.id) < (%(after_at)s, %(after_id)s::uuid))
    ORDER BY t.created_at DESC, t.id DESC
    LIMIT %(limit)s
"""


async def page(
    db: Db,
    caller: Caller,
    *,
    agent: str | None,
    subject: str | None,
    created_after: datetime | None,
    after: Thread | None,
    limit: int,
    now: datetime,
) -> list[Thread]:
    """Return threads, newest first, beginning after the given one."""
    async with db.cursor(row_factory=class_row(Thread)) as cursor:
        await cursor.execute(
            _PAGE,
            {
                "agent": agent,
                "subject": subject,
                "created_after": created_after,
                "after_at": after and after.created_at,
                "after_id": after and after.id,
                "limit": limit,
                **visibility_values(caller, now),
            },
        )
        return await cursor.fetchall()


_LISTED = f"""
    SELECT {_COLUMNS} FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
        AND (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_VISIBLE}
    ORDER BY t.pinned DESC, t.updated_at DESC, t.id DESC
    LIMIT %(limit)s OFFSET %(offset)s
"""
_COUNT = f"""
    SELECT count(*) FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
        AND (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_VISIBLE}
"""


async def listed(
    db: Db, caller: Caller, *, offset: int, limit: int, now: datetime
) -> tuple[list[Thread], int]:
    """Return threads, pinned ones first, then by last change, and their total number."""
    values = {**visibility_values(caller, now), "offset": offset, "limit": limit}
    async with db.cursor(row_factory=class_row(Thread)) as cursor:
        await cursor.execute(_LISTED, values)
        found = await cursor.fetchall()
    row = await (await db.execute(_COUNT, values)).fetchone()
    return found, row[0] if row else 0


# Chats are threads with messages, or opened for them. Sessions that only hold state are not.
_IS_CHAT = f"""
    (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_VISIBLE}
    AND (t.message_count > 0 OR t.agent = %(agent)s)
    AND (%(after_at)s::timestamptz IS NULL
         OR (t.updated_at, t.id) < (%(after_at)s, %(after_id)s::uuid))
"""
_CHATS = f"""
    SELECT {_COLUMNS} FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND {_IS_CHAT}
    ORDER BY t.updated_at DESC, t.id DESC
    LIMIT %(limit)s
"""
# Under row-level security no index finds words inside messages, so a search reads them. Each call
# reads this many messages: whole chats, and at least one.
_NEXT_CHATS = f"""
    SELECT t.updated_at, t.id, t.message_count FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND {_IS_CHAT}
    ORDER BY t.updated_at DESC, t.id DESC
    LIMIT %(limit)s
"""
_CONTAINING = f"""
    SELECT {_COLUMNS} FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.id = ANY(%(ids)s) AND {THREAD_VISIBLE}
        AND (position(%(words)s in lower(t.name)) > 0 OR EXISTS (
            SELECT FROM message said
            WHERE said.workspace_id = %(workspace_id)s AND said.thread_id = t.id
                AND position(%(words)s in lower(said.content)) > 0))
    ORDER BY t.updated_at DESC, t.id DESC
    LIMIT %(limit)s
"""
MAX_SEARCHED = 20_000
_MAX_CHATS = 2_000

ThreadPosition = tuple[datetime, UUID]


async def chats(
    db: Db, caller: Caller, *, agent: str, after: ThreadPosition | None, limit: int, now: datetime
) -> list[Thread]:
    """Return chats by their last change, beginning after a position."""
    values = _chats_after(caller, agent, after, now) | {"limit": limit}
    async with db.cursor(row_factory=class_row(Thread)) as cursor:
        await cursor.execute(_CHATS, values)
        return await cursor.fetchall()


async def chats_holding(
    db: Db,
    caller: Caller,
    words: str,
    *,
    agent: str,
    after: ThreadPosition | None,
    limit: int,
    now: datetime,
    most_messages: int = MAX_SEARCHED,
) -> tuple[list[Thread], ThreadPosition | None]:
    """Search the next chats for words; return the matches and the last chat searched.

    The position is None if no chats are left.
    """
    values = _chats_after(caller, agent, after, now)
    ahead = await (await db.execute(_NEXT_CHATS, values | {"limit": _MAX_CHATS})).fetchall()
    looked: list[ThreadPosition] = []
    for updated_at, thread_id, count in ahead:
        if looked and most_messages <= 0:
            break
        looked.append((updated_at, thread_id))
        most_messages -= count
    values |= {"ids": [each for _, each in looked], "words": words.lower(), "limit": limit}
    async with db.cursor(row_factory=class_row(Thread)) as cursor:
        await cursor.execute(_CONTAINING, values)
        found = await cursor.fetchall()
    is_all = len(looked) == len(ahead) < _MAX_CHATS
    return found, None if is_all else looked[-1]


def _chats_after(
    caller: Caller, agent: str, after: ThreadPosition | None, now: datetime
) -> dict[str, Any]:
    after_at, after_id = after or (None, None)
    place = {"agent": agent, "after_at": after_at, "after_id": after_id}
    return place | visibility_values(caller, now)


_RENAME = """
    UPDATE thread
    SET name = %(name)s, pinned = %(pinned)s, metadata = %(metadata)s, updated_at = %(updated_at)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""


async def rename(db: Db, thread: Thread) -> None:
    """Store the name and the notes of a locked thread."""
    values = {
        "workspace_id": thread.workspace_id,
        "id": thread.id,
        "name": thread.name,
        "pinned": thread.pinned,
        "metadata": Jsonb(dict(thread.metadata)),
        "updated_at": thread.updated_at,
    }
    await db.execute(_RENAME, values)


_REMOVE = "DELETE FROM thread WHERE workspace_id = %(workspace_id)s AND id = %(id)s"


async def remove(db: Db, workspace_id: WorkspaceId, thread_id: ThreadId) -> None:
    """Delete a thread with its state, turns and messages, but not its memories."""
    await db.execute(_REMOVE, {"workspace_id": workspace_id, "id": thread_id})


_SET_STATE = """
    UPDATE thread
    SET state = %(state)s, state_version = %(version)s, updated_at = %(at)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""
_KEEP_VERSION = """
    INSERT INTO thread_state (workspace_id, thread_id, version, state, reasoning, created_at)
    VALUES (%(workspace_id)s, %(id)s, %(version)s, %(state)s, %(reasoning)s, %(at)s)
"""


async def set_state(db: Db, thread: Thread, *, reasoning: str | None, at: datetime) -> None:
    """Store the thread's state and version, and add them to its history."""
    await db.execute(_SET_STATE, _version(thread, reasoning, at))
    await _keep_version(db, thread, reasoning=reasoning, at=at)


async def _keep_version(db: Db, thread: Thread, *, reasoning: str | None, at: datetime) -> None:
    await db.execute(_KEEP_VERSION, _version(thread, reasoning, at))


def _version(thread: Thread, reasoning: str | None, at: datetime) -> dict[str, Any]:
    return {
        "workspace_id": thread.workspace_id,
        "id": thread.id,
        "version": thread.state_version,
        "state": Jsonb(dict(thread.state)),
        "reasoning": reasoning,
        "at": at,
    }


_HISTORY = """
    SELECT version, state, reasoning, created_at
    FROM thread_state
    WHERE workspace_id = %(workspace_id)s AND thread_id = %(thread_id)s
        AND (%(version)s::integer IS NULL OR version = %(version)s)
        AND (%(before)s::integer IS NULL OR version < %(before)s)
    ORDER BY version DESC
    LIMIT %(limit)s
"""


async def history(
    db: Db,
    workspace_id: WorkspaceId,
    thread_id: ThreadId,
    *,
    version: int | None = None,
    before: int | None = None,
    limit: int,
) -> list[StateVersion]:
    """Return versions of a thread's state, newest first."""
    async with db.cursor(row_factory=class_row(StateVersion)) as cursor:
        await cursor.execute(
            _HISTORY,
            {
                "workspace_id": workspace_id,
                "thread_id": thread_id,
                "version": version,
                "before": before,
                "limit": limit,
            },
        )
        return await cursor.fetchall()


_COUNT_TURN = """
    UPDATE thread SET turn_count = turn_count + 1, updated_at = %(at)s
    WHERE workspace_id = %(workspace_id)s AND id = %(thread_id)s
    RETURNING turn_count
"""
_ADD_TURN = """
    INSERT INTO turn (
        workspace_id, thread_id, number, id, code, input, output, reasoning, metadata, created_at,
        user_id
    ) VALUES (
        %(workspace_id)s, %(thread_id)s, %(number)s, %(id)s, %(code)s, %(input)s, %(output)s,
        %(reasoning)s, %(metadata)s, %(at)s, %(user_id)s
    )
"""


async def add_turn(
    db: Db,
    workspace_id: WorkspaceId,
    thread_id: ThreadId,
    *,
    turn_id: UUID,
    code: str,
    given: Json,
    answered: Json,
    reasoning: str | None,
    metadata: Json,
    user_id: UserId,
    at: datetime,
) -> Turn:
    """Append a turn with the next number."""
    values: dict[str, Any] = {"workspace_id": workspace_id, "thread_id": thread_id, "at": at}
    row = await (await db.execute(_COUNT_TURN, values)).fetchone()
    assert row
    values |= {
        "number": row[0],
        "id": turn_id,
        "code": code,
        "input": Jsonb(dict(given)),
        "output": Jsonb(dict(answered)),
        "reasoning": reasoning,
        "metadata": Jsonb(dict(metadata)),
        "user_id": user_id,
    }
    await db.execute(_ADD_TURN, values)
    return Turn(turn_id, code, thread_id, row[0], given, answered, reasoning, metadata, at)


_TURNS = """
    SELECT id, code, thread_id, number, input, output, reasoning, metadata, created_at
    FROM turn
    WHERE workspace_id = %(workspace_id)s AND thread_id = %(thread_id)s
        AND (%(before)s::integer IS NULL OR number < %(before)s)
    ORDER BY number DESC
    LIMIT %(limit)s
"""


async def turns(
    db: Db,
    workspace_id: WorkspaceId,
    thread_id: ThreadId,
    *,
    before: int | None,
    limit: int,
) -> list[Turn]:
    """Return turns of a thread, newest first."""
    async with db.cursor(row_factory=class_row(Turn)) as cursor:
        await cursor.execute(
            _TURNS,
            {
                "workspace_id": workspace_id,
                "thread_id": thread_id,
                "before": before,
                "limit": limit,
            },
        )
        return await cursor.fetchall()


_TURN_NUMBER = """
    SELECT number FROM turn
    WHERE workspace_id = %(workspace_id)s AND thread_id = %(thread_id)s
        AND (id = %(id)s OR (left(code, 12) = left(%(code)s, 12) AND starts_with(code, %(code)s)))
"""


async def turn_number(
    db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, ref: Ref
) -> int | None:
    """Return the number of a turn of this thread."""
    cursor = await db.execute(
        _TURN_NUMBER,
        {
            "workspace_id": workspace_id,
            "thread_id": thread_id,
            "id": ref.id,
            "code": ref.code,
        },
    )
    row = await cursor.fetchone()
    return row[0] if row else None


# everywhere: one job empties all expired threads.
_EMPTY_EXPIRED = """
    WITH ended AS (
        SELECT workspace_id, id FROM thread
        WHERE expires_at < %(now)s AND state_version >= 0
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ),
    forgotten_states AS (
        DELETE FROM thread_state s USING ended
        WHERE s.workspace_id = ended.workspace_id AND s.thread_id = ended.id
    ),
    forgotten_turns AS (
        DELETE FROM turn USING ended
        WHERE turn.workspace_id = ended.workspace_id AND turn.thread_id = ended.id
    ),
    forgotten_messages AS (
        DELETE FROM message USING ended
        WHERE message.workspace_id = ended.workspace_id AND message.thread_id = ended.id
    )
    UPDATE thread t
    SET state = '{}', metadata = '{}', state_version = -1, name = NULL, message_count = 0,
        segment_due_at = NULL
    FROM ended
    WHERE t.workspace_id = ended.workspace_id AND t.id = ended.id
    RETURNING t.workspace_id, t.id, t.code
"""


async def empty_expired_threads(
    db: Db, now: datetime, limit: int
) -> dict[WorkspaceId, list[tuple[ThreadId, str]]]:
    """Delete state, turns and messages of expired threads in all workspaces; return ids and codes.

    The empty row stays, because memories refer to their thread.
    """
    cursor = await db.execute(_EMPTY_EXPIRED, {"now": now, "limit": limit})
    ended: dict[WorkspaceId, list[tuple[ThreadId, str]]] = {}
    for workspace_id, thread_id, code in await cursor.fetchall():
        ended.setdefault(workspace_id, []).append((thread_id, code))
    return ended
