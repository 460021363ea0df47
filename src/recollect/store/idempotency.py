"""Answers kept for a day, so that a repeated request is answered and not done again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from recollect.domain import Once, WorkspaceId
from recollect.store.pool import Db

KEPT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Earlier:
    """What is known of an earlier request under the same key."""

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
    db: Db, workspace_id: WorkspaceId, once: Once, body_digest: bytes, now: datetime
) -> Earlier | None:
    """Take the key for this request, or hand back what is known of the earlier one.

    A claim whose holder did nothing before its time ran out can be taken over. Should that one be
    alive after all, it finds the claim no longer its own and can do nothing any more.
    """
    values = _values(workspace_id, once) | {
        "body_digest": body_digest,
        "now": now,
        "too_old": now - KEPT,
    }
    if (await db.execute(_CLAIM, values)).rowcount:
        return None
    async with db.cursor(row_factory=class_row(Earlier)) as cursor:
        await cursor.execute(_FIND, values)
        return await cursor.fetchone()


_MARK_DONE = """
    UPDATE idempotency SET is_done = true
    WHERE workspace_id = %(workspace_id)s AND key_id = %(key_id)s AND route = %(route)s
        AND token = %(token)s AND locked_until = %(locked_until)s
"""


async def mark_done(db: Db, workspace_id: WorkspaceId, once: Once) -> bool:
    """Say in the write's own transaction that it was carried out; False when it was taken over."""
    return (await db.execute(_MARK_DONE, _values(workspace_id, once))).rowcount > 0


_KEEP = """
    UPDATE idempotency
    SET is_done = true, status = %(status)s, answer = %(answer)s, media_type = %(media_type)s
    WHERE workspace_id = %(workspace_id)s AND key_id = %(key_id)s AND route = %(route)s
        AND token = %(token)s AND locked_until = %(locked_until)s
"""


async def keep(
    db: Db,
    workspace_id: WorkspaceId,
    once: Once,
    *,
    status: int,
    answer: bytes,
    media_type: str | None,
) -> None:
    """Keep the answer for a repeat."""
    values = {"status": status, "answer": answer, "media_type": media_type}
    await db.execute(_KEEP, _values(workspace_id, once) | values)


_RELEASE = """
    DELETE FROM idempotency
    WHERE workspace_id = %(workspace_id)s AND key_id = %(key_id)s AND route = %(route)s
        AND token = %(token)s AND locked_until = %(locked_until)s AND NOT is_done
"""


async def release(db: Db, workspace_id: WorkspaceId, once: Once) -> None:
    """Forget a claim whose request failed without doing anything: a repeat may try again."""
    await db.execute(_RELEASE, _values(workspace_id, once))


# Looked through once for all that goes: what an answer shows stands in no index, and answers of
# the last day alone are kept, to requests that came with a key. An answer may tell of something
# without naming it, as that of a turn does of its chat; then the address named it, in whichever
# spelling. An empty one tells nothing.
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
    """Drop kept answers that show these, by id or code, and all that was asked of what is gone."""
    if shown:
        values = {
            "workspace_id": workspace_id,
            "ids": [str(each) for each, _ in shown],
            "codes": [code[:12] for _, code in shown],
            "are_gone": are_gone,
        }
        await db.execute(_FORGET, values)


# everywhere: one sweep drops what is out of date for all.
_SWEEP = "DELETE FROM idempotency WHERE created_at < %(before)s"


async def sweep(db: Db, now: datetime) -> int:
    """Drop answers older than a day, in every workspace."""
    return (await db.execute(_SWEEP, {"before": now - KEPT})).rowcount


def _values(workspace_id: WorkspaceId, once: Once) -> dict[str, Any]:
    return {
        "workspace_id": workspace_id,
        "key_id": once.key_id,
        "route": once.route,
        "token": once.token,
        "locked_until": once.held_until,
    }
