"""The SQL for stored responses, which later requests continue by id."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.core.domain import Caller
from recollect.db.pool import Db

# Longer chains lose their beginning: no model reads further back. The size is that of the stored
# bytes, and equals the largest request body of the OpenAI interface.
MAX_EARLIER = 500
MAX_EARLIER_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Response:
    """One response: its input, the messages it added, and the answer that the client got."""

    id: str
    previous_id: str | None
    conversation: str | None
    subject: str | None
    input: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    answer: dict[str, Any]
    created_at: datetime


_COLUMNS = "id, previous_id, conversation, subject, input, messages, answer, created_at"
_INSERT = """
    INSERT INTO response (
        workspace_id, id, user_id, previous_id, conversation, subject, input, messages, answer,
        created_at
    ) VALUES (
        %(workspace_id)s, %(id)s, %(user_id)s, %(previous_id)s, %(conversation)s, %(subject)s,
        %(input)s, %(messages)s, %(answer)s, %(created_at)s
    )
"""
# A conversation may contain data that only its user may see. Rows of older releases have no owner.
_OWN = "(r.user_id IS NULL OR r.user_id = %(user_id)s)"
_FIND = f"""
    SELECT {_COLUMNS} FROM response r
    WHERE r.workspace_id = %(workspace_id)s AND r.id = %(id)s AND {_OWN}
"""
_NEWEST = f"""
    SELECT {_COLUMNS}
    FROM response r
    WHERE r.workspace_id = %(workspace_id)s AND r.conversation = %(conversation)s AND {_OWN}
    ORDER BY created_at DESC, id
    LIMIT 1
"""
# The recursion reads only ids and sizes. Messages are read once, for the rows within the limits.
_CHAIN = f"""
    WITH RECURSIVE chain AS (
        SELECT r.id, r.previous_id, 1 AS depth, pg_column_size(r.messages)::bigint AS size
        FROM response r
        WHERE r.workspace_id = %(workspace_id)s AND r.id = %(id)s AND {_OWN}
        UNION ALL
        SELECT r.id, r.previous_id, chain.depth + 1, chain.size + pg_column_size(r.messages)
        FROM chain
        JOIN response r ON r.workspace_id = %(workspace_id)s AND r.id = chain.previous_id
        WHERE chain.depth < %(max_depth)s AND chain.size < %(max_bytes)s AND {_OWN}
    )
    SELECT r.messages FROM chain
    JOIN response r ON r.workspace_id = %(workspace_id)s AND r.id = chain.id
    WHERE chain.depth = 1 OR chain.size <= %(max_bytes)s
    ORDER BY chain.depth DESC
"""
_DELETE = f"""
    DELETE FROM response r
    WHERE r.workspace_id = %(workspace_id)s AND r.id = %(id)s AND {_OWN}
"""
# everywhere: one sweep deletes responses after their thirty days, in all workspaces.
_SWEEP = """
    DELETE FROM response
    WHERE (workspace_id, id) IN (
        SELECT workspace_id, id FROM response WHERE created_at < %(before)s LIMIT %(limit)s
    )
"""


async def insert(db: Db, caller: Caller, response: Response) -> None:
    """Insert a response of the caller."""
    await db.execute(
        _INSERT,
        {
            "workspace_id": caller.workspace_id,
            "user_id": caller.user_id,
            "id": response.id,
            "previous_id": response.previous_id,
            "conversation": response.conversation,
            "subject": response.subject,
            "input": Jsonb(response.input),
            "messages": Jsonb(response.messages),
            "answer": Jsonb(response.answer),
            "created_at": response.created_at,
        },
    )


async def find(db: Db, caller: Caller, response_id: str) -> Response | None:
    """Return the caller's response with this id."""
    async with db.cursor(row_factory=class_row(Response)) as cursor:
        await cursor.execute(_FIND, {**_owner_values(caller), "id": response_id})
        return await cursor.fetchone()


async def newest(db: Db, caller: Caller, conversation: str) -> Response | None:
    """Return the last response of the caller's conversation."""
    async with db.cursor(row_factory=class_row(Response)) as cursor:
        await cursor.execute(_NEWEST, {**_owner_values(caller), "conversation": conversation})
        return await cursor.fetchone()


async def messages_up_to(db: Db, caller: Caller, response_id: str) -> list[dict[str, Any]]:
    """Return the messages of a response and of those before it, in order.

    If there are too many, only the latest are returned.
    """
    values = {
        **_owner_values(caller),
        "id": response_id,
        "max_depth": MAX_EARLIER,
        "max_bytes": MAX_EARLIER_BYTES,
    }
    cursor = await db.execute(_CHAIN, values)
    return [message for row in await cursor.fetchall() for message in row[0]]


async def delete(db: Db, caller: Caller, response_id: str) -> bool:
    """Delete the caller's response; return False if there is none."""
    values = {**_owner_values(caller), "id": response_id}
    return (await db.execute(_DELETE, values)).rowcount > 0


async def sweep(db: Db, before: datetime, limit: int) -> None:
    """Delete up to `limit` responses from before this time, in every workspace."""
    await db.execute(_SWEEP, {"before": before, "limit": limit})


def _owner_values(caller: Caller) -> dict[str, Any]:
    return {"workspace_id": caller.workspace_id, "user_id": caller.user_id}
