"""Stored responses: what a later request continues by id."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.domain import Caller
from recollect.store.pool import Db

# Longer chains are cut at their beginning: no model reads further back. In bytes as they are
# stored, and as large as the largest request that the router takes.
MOST_EARLIER = 500
MOST_EARLIER_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Response:
    """One response: what was asked, the messages it added, and the answer as the client got it."""

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
# A conversation with a model may show what only its user sees. Rows of before have no owner.
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
# The way back is found by ids and sizes alone; messages are read once, of what is within bounds.
_CHAIN = f"""
    WITH RECURSIVE chain AS (
        SELECT r.id, r.previous_id, 1 AS depth, pg_column_size(r.messages)::bigint AS size
        FROM response r
        WHERE r.workspace_id = %(workspace_id)s AND r.id = %(id)s AND {_OWN}
        UNION ALL
        SELECT r.id, r.previous_id, chain.depth + 1, chain.size + pg_column_size(r.messages)
        FROM chain
        JOIN response r ON r.workspace_id = %(workspace_id)s AND r.id = chain.previous_id
        WHERE chain.depth < %(most)s AND chain.size < %(most_bytes)s AND {_OWN}
    )
    SELECT r.messages FROM chain
    JOIN response r ON r.workspace_id = %(workspace_id)s AND r.id = chain.id
    WHERE chain.depth = 1 OR chain.size <= %(most_bytes)s
    ORDER BY chain.depth DESC
"""
_DELETE = f"""
    DELETE FROM response r
    WHERE r.workspace_id = %(workspace_id)s AND r.id = %(id)s AND {_OWN}
"""
# everywhere: one sweep drops what was kept its thirty days.
_SWEEP = """
    DELETE FROM response
    WHERE (workspace_id, id) IN (
        SELECT workspace_id, id FROM response WHERE created_at < %(before)s LIMIT %(limit)s
    )
"""


async def insert(db: Db, caller: Caller, response: Response) -> None:
    """Keep a response, as the caller's."""
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
    """A response of the caller's by its id."""
    async with db.cursor(row_factory=class_row(Response)) as cursor:
        await cursor.execute(_FIND, {**_whose(caller), "id": response_id})
        return await cursor.fetchone()


async def newest(db: Db, caller: Caller, conversation: str) -> Response | None:
    """The last response of a conversation of the caller's."""
    async with db.cursor(row_factory=class_row(Response)) as cursor:
        await cursor.execute(_NEWEST, {**_whose(caller), "conversation": conversation})
        return await cursor.fetchone()


async def messages_up_to(db: Db, caller: Caller, response_id: str) -> list[dict[str, Any]]:
    """The messages of a response and of those before it, in order; of very many, the latest."""
    values = {
        **_whose(caller),
        "id": response_id,
        "most": MOST_EARLIER,
        "most_bytes": MOST_EARLIER_BYTES,
    }
    cursor = await db.execute(_CHAIN, values)
    return [message for row in await cursor.fetchall() for message in row[0]]


async def delete(db: Db, caller: Caller, response_id: str) -> bool:
    """Remove a response of the caller's; False when there is none."""
    values = {**_whose(caller), "id": response_id}
    return (await db.execute(_DELETE, values)).rowcount > 0


async def sweep(db: Db, before: datetime, limit: int) -> None:
    """Drop responses of long ago, in every workspace."""
    await db.execute(_SWEEP, {"before": before, "limit": limit})


def _whose(caller: Caller) -> dict[str, Any]:
    return {"workspace_id": caller.workspace_id, "user_id": caller.user_id}
