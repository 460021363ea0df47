"""Stored responses, so that a repeated request is not carried out again. Deleted after a day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from recollect.core.domain import RepeatKey, WorkspaceId
from recollect.db.pool import Db

RETENTION = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """The stored state of an earlier request with the same key."""

    body_digest: bytes
    is_done: bool
    status: int | None
    answer: bytes | None
    media_type: str | None


_CLAIM = """
    INSERT INTO idempotency AS earlier (
        workspace_id, key_id, route, token, body_digest, created_at, locked_until
    ) VALUES (
        %(workspace_id)s, %(key_id)s, %(route)s, %(token)s, %(body_digest)s, %(now)s,
        %(locked_until)s
    )
    ON CONFLICT (workspace_id, key_id, route, token) DO UPDATE
    SET body_digest = EXCLUDED.body_digest, created_at = EXCLUDED.created_at,
        locked_until = EXCLUDED.locked_until, is_done = false, status = NULL, answer = NULL,
        media_type = NULL
    WHERE earlier.created_at <= %(too_old)s
        OR (NOT earlier.is_done AND earlier.locked_until <= %(now)s
            AND earlier.body_digest = EXCLUDED.body_digest)
"""
_FIND = """
    SELECT body_digest, is_done, status, answer, media_type
    FROM idempotency
    WHERE workspace_id = %(workspace_id)s AND key_id = %(key_id)s AND route = %(route)s
        AND token = %(token)s
"""


async def claim(
    db: Db, workspace_id: WorkspaceId, repeat_key: RepeatKey, body_digest: bytes, now: datetime
) -> EarlierRequest | None:
    """Claim the key for this request and return None, or return the earlier request.

    A claim can be taken over if its request did nothing before its lease ended. If that request is
    still running after all, it finds that it has lost the claim and can no longer commit.
    """
    values = _values(workspace_id, repeat_key) | {
        "body_digest": body_digest,
        "now": now,
        "too_old": now - RETENTION,
    }
    if (await db.execute(_CLAIM, values)).rowcount:
        return None
    async with db.cursor(row_factory=class_row(EarlierRequest)) as cursor:
        await cursor.execute(_FIND, values)
        return await cursor.fetchone()


_MARK_DONE = """
    UPDATE idempotency SET is_done = true
    WHERE workspace_id = %(workspace_id)s AND key_id = %(key_id)s AND route = %(route)s
        AND token = %(token)s AND locked_until = %(locked_until)s
"""


async def mark_done(db: Db, workspace_id: WorkspaceId, repeat_key: RepeatKey) -> bool:
    """Mark the request as done, in the transaction of its write. False if the claim was lost."""
    return (await db.execute(_MARK_DONE, _values(workspace_id, repeat_key))).rowcount > 0


_STORE = """
    UPDATE idempotency
    SET is_done = true, status = %(status)s, answer = %(answer)s, media_type = %(media_type)s
    WHERE workspace_id = %(workspace_id)s AND key_id = %(key_id)s AND route = %(route)s
        AND token = %(token)s AND locked_until = %(locked_until)s
"""


async def store_response(
    db: Db,
    workspace_id: WorkspaceId,
    repeat_key: RepeatKey,
    *,
    status: int,
    answer: bytes,
    media_type: str | None,
) -> None:
    """Store the response for a repeated request."""
    values = {"status": status, "answer": answer, "media_type": media_type}
    await db.execute(_STORE, _values(workspace_id, repeat_key) | values)


_RELEASE = """
    DELETE FROM idempotency
    WHERE workspace_id = %(workspace_id)s AND key_id = %(key_id)s AND route = %(route)s
        AND token = %(token)s AND locked_until = %(locked_until)s AND NOT is_done
"""


async def release(db: Db, workspace_id: WorkspaceId, repeat_key: RepeatKey) -> None:
    """Delete the claim of a request that failed without doing anything. It can be retried."""
    await db.execute(_RELEASE, _values(workspace_id, repeat_key))


# One scan covers all deleted rows: the content of responses is not indexed, and the table only
# holds the last day's responses to requests with a key. A response may contain text of an object
# without its id: a turn's response does not name its chat. The path of the request then contains
# the id, in any of its forms. An empty response contains nothing to delete.
_FORGET = """
    DELETE FROM idempotency
    WHERE workspace_id = %(workspace_id)s AND answer <> ''
        AND EXISTS (
            SELECT FROM unnest(%(ids)s::text[], %(codes)s::text[]) AS shown (id, code)
            WHERE position(convert_to(shown.id, 'UTF8') in answer) > 0
                OR position(convert_to(shown.code, 'UTF8') in answer) > 0
                OR (%(are_gone)s AND (
                    strpos(route, shown.code) > 0
                    OR strpos(replace(lower(route), '-', ''), replace(shown.id, '-', '')) > 0)))
"""


async def forget_answers(
    db: Db, workspace_id: WorkspaceId, shown: Sequence[tuple[UUID, str]], *, are_gone: bool = True
) -> None:
    """Delete stored responses that contain these ids or codes.

    With `are_gone`, also delete the responses to requests whose path names them.
    """
    if shown:
        values = {
            "workspace_id": workspace_id,
            "ids": [str(each) for each, _ in shown],
            "codes": [code[:12] for _, code in shown],
            "are_gone": are_gone,
        }
        await db.execute(_FORGET, values)


# everywhere: one sweep deletes the expired rows of all workspaces.
_SWEEP = "DELETE FROM idempotency WHERE created_at < %(before)s"


async def sweep(db: Db, now: datetime) -> int:
    """Delete responses older than a day, in every workspace."""
    return (await db.execute(_SWEEP, {"before": now - RETENTION})).rowcount


def _values(workspace_id: WorkspaceId, repeat_key: RepeatKey) -> dict[str, Any]:
    return {
        "workspace_id": workspace_id,
        "key_id": repeat_key.key_id,
        "route": repeat_key.route,
        "token": repeat_key.token,
        "locked_until": repeat_key.locked_until,
    }
