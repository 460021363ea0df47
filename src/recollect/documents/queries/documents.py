"""The rows of `document`, and their bytes in pieces of equal size."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg.rows import kwargs_row

from recollect.core.domain import (
    Caller,
    Document,
    DocumentId,
    DocumentKind,
    DocumentStatus,
    Ref,
    ThreadId,
    WorkspaceId,
)
from recollect.db.pool import Db
from recollect.db.visibility import DOCUMENT_VISIBLE, scope_values

# An upload that takes longer than this is considered interrupted.
_ABANDONED = timedelta(hours=1)

_BEGIN = """
    INSERT INTO document (
        workspace_id, id, code, user_id, project_id, thread_id, kind, name, status, created_at,
        updated_at
    ) VALUES (
        %(workspace_id)s, %(id)s, %(code)s, %(user_id)s, %(project_id)s, %(thread_id)s, %(kind)s,
        %(name)s, 'uploading', %(now)s, %(now)s
    )
"""


async def begin(
    db: Db,
    caller: Caller,
    document_id: DocumentId,
    *,
    code: str,
    kind: DocumentKind,
    name: str,
    thread_id: ThreadId | None,
    now: datetime,
) -> None:
    """Insert a document that is invisible until `finish` is called."""
    values = {
        "workspace_id": caller.workspace_id,
        "id": document_id,
        "code": code,
        "user_id": caller.user_id,
        "project_id": caller.project_id,
        "thread_id": thread_id,
        "kind": kind,
        "name": name,
        "now": now,
    }
    await db.execute(_BEGIN, values)


_ADD_PIECE = """
    INSERT INTO document_piece (workspace_id, document_id, number, bytes)
    VALUES (%(workspace_id)s, %(document_id)s, %(number)s, %(bytes)s)
"""


async def add_piece(
    db: Db, workspace_id: WorkspaceId, document_id: DocumentId, number: int, data: bytes
) -> None:
    """Store the next piece. All pieces except the last have the full size."""
    values = {
        "workspace_id": workspace_id,
        "document_id": document_id,
        "number": number,
        "bytes": data,
    }
    await db.execute(_ADD_PIECE, values)


_FINISH = """
    UPDATE document SET size = %(size)s, digest = %(digest)s, status = 'waiting'
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'uploading'
"""


async def finish(
    db: Db, workspace_id: WorkspaceId, document_id: DocumentId, *, size: int, digest: bytes
) -> bool:
    """Make the document visible and ready to be read; False if it was deleted as interrupted."""
    values = {"workspace_id": workspace_id, "id": document_id, "size": size, "digest": digest}
    return (await db.execute(_FINISH, values)).rowcount > 0


# A chunk counts as embedded if it has a vector in the serving generation.
_COLUMNS = """
    d.id, d.code, d.kind, d.name, d.media_type, d.size, d.digest, d.status, d.created_at, d.error,
    d.chunk_count, d.project_id, d.thread_id,
    (SELECT count(*) FROM chunk_vector v
     JOIN generation g ON g.workspace_id = v.workspace_id AND g.number = v.generation
     WHERE v.workspace_id = d.workspace_id AND v.document_id = d.id AND g.state = 'serving')
        AS embedded_count
"""
_FIND = f"""
    SELECT {_COLUMNS} FROM document d
    WHERE d.workspace_id = %(workspace_id)s
        AND (d.id = %(id)s
             OR (left(d.code, 12) = left(%(code)s, 12) AND starts_with(d.code, %(code)s)))
        AND {DOCUMENT_VISIBLE}
"""


async def find(db: Db, caller: Caller, ref: Ref) -> Document | None:
    """Return a document that the caller can see."""
    return await _one(db, _FIND, scope_values(caller) | {"id": ref.id, "code": ref.code})


_SAME = f"""
    SELECT {_COLUMNS} FROM document d
    WHERE d.workspace_id = %(workspace_id)s AND d.digest = %(digest)s AND d.name = %(name)s
        AND CASE WHEN d.project_id IS NULL THEN d.workspace_id ELSE d.project_id END = %(place)s
        AND {DOCUMENT_VISIBLE}
    ORDER BY d.created_at, d.id
    LIMIT 1
"""


async def find_same(db: Db, caller: Caller, *, name: str, digest: bytes) -> Document | None:
    """Return the document with the same name and bytes in the caller's project or workspace."""
    place = caller.project_id or caller.workspace_id
    values = {"name": name, "digest": digest, "place": place}
    return await _one(db, _SAME, scope_values(caller) | values)


_LIST = f"""
    SELECT {_COLUMNS} FROM document d
    WHERE d.workspace_id = %(workspace_id)s
        AND (%(before_at)s::timestamptz IS NULL
             OR (d.created_at, d.id) < (%(before_at)s, %(before_id)s))
        AND (%(kind)s::text IS NULL OR d.kind = %(kind)s)
        AND {DOCUMENT_VISIBLE}
    ORDER BY d.created_at DESC, d.id DESC
    LIMIT %(limit)s
"""


async def listed(
    db: Db,
    caller: Caller,
    *,
    kind: DocumentKind | None,
    before: tuple[datetime, DocumentId] | None,
    limit: int,
) -> list[Document]:
    """Return documents that the caller can see, newest first, starting after a position."""
    before_at, before_id = before or (None, None)
    values = {"kind": kind, "before_at": before_at, "before_id": before_id, "limit": limit}
    async with db.cursor(row_factory=kwargs_row(_document)) as cursor:
        await cursor.execute(_LIST, scope_values(caller) | values)
        return await cursor.fetchall()


_PIECE = """
    SELECT bytes FROM document_piece
    WHERE workspace_id = %(workspace_id)s AND document_id = %(document_id)s
        AND number = %(number)s
"""


async def piece(
    db: Db, workspace_id: WorkspaceId, document_id: DocumentId, number: int
) -> bytes | None:
    """Return one piece, or None if there is no piece with that number."""
    values = {"workspace_id": workspace_id, "document_id": document_id, "number": number}
    row = await (await db.execute(_PIECE, values)).fetchone()
    return bytes(row[0]) if row else None


_CLAIM = f"""
    WITH mine AS (
        UPDATE document
        SET status = 'reading', reading_until = %(until)s, tries = tries + 1
        WHERE workspace_id = %(workspace_id)s AND id = (
            SELECT u.id FROM document u
            WHERE u.workspace_id = %(workspace_id)s
                AND (u.status = 'waiting'
                     OR (u.status = 'reading' AND u.reading_until < %(now)s))
            ORDER BY u.created_at, u.id
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        )
        RETURNING id, tries
    )
    SELECT {_COLUMNS}, mine.tries FROM mine
    JOIN document d ON d.workspace_id = %(workspace_id)s AND d.id = mine.id
"""


async def claim_next(
    db: Db, workspace_id: WorkspaceId, *, until: datetime, now: datetime
) -> tuple[Document, int] | None:
    """Claim the next document to read until the given time; return it and the attempt's number."""
    values = {"workspace_id": workspace_id, "until": until, "now": now}
    async with db.cursor(row_factory=kwargs_row(_claimed)) as cursor:
        await cursor.execute(_CLAIM, values)
        return await cursor.fetchone()


_NEXT_RELEASE = """
    SELECT min(reading_until) FROM document
    WHERE workspace_id = %(workspace_id)s AND status = 'reading'
"""


async def next_release(db: Db, workspace_id: WorkspaceId) -> datetime | None:
    """Return when the first lease of a document being read ends; None if none is being read."""
    row = await (await db.execute(_NEXT_RELEASE, {"workspace_id": workspace_id})).fetchone()
    return row[0] if row else None


_RENEW_LEASE = """
    UPDATE document SET reading_until = %(until)s, chunk_count = %(chunk_count)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'reading'
        AND tries = %(tries)s
"""


async def renew_lease(
    db: Db,
    workspace_id: WorkspaceId,
    document_id: DocumentId,
    *,
    tries: int,
    until: datetime,
    chunk_count: int,
) -> bool:
    """Extend the lease; False if the document was deleted or claimed by another worker."""
    values = {
        "workspace_id": workspace_id,
        "id": document_id,
        "tries": tries,
        "until": until,
        "chunk_count": chunk_count,
    }
    return (await db.execute(_RENEW_LEASE, values)).rowcount > 0


_FINISH_READING = """
    UPDATE document
    SET status = %(status)s, error = %(error)s, media_type = coalesce(%(media_type)s, media_type),
        chunk_count = %(chunk_count)s, reading_until = NULL, updated_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'reading'
        AND tries = %(tries)s
"""


async def finish_reading(
    db: Db,
    workspace_id: WorkspaceId,
    document_id: DocumentId,
    *,
    tries: int,
    status: DocumentStatus,
    error: str | None,
    media_type: str | None,
    chunk_count: int,
    now: datetime,
) -> bool:
    """Store the result of reading; False if the document was deleted or claimed by another."""
    values = {
        "workspace_id": workspace_id,
        "id": document_id,
        "tries": tries,
        "status": status,
        "error": error,
        "media_type": media_type,
        "chunk_count": chunk_count,
        "now": now,
    }
    return (await db.execute(_FINISH_READING, values)).rowcount > 0


_READ_AGAIN = """
    UPDATE document SET status = 'waiting', error = NULL, tries = 0
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'failed'
"""


async def read_again(db: Db, workspace_id: WorkspaceId, document_id: DocumentId) -> bool:
    """Queue a document whose reading failed again; False if it had not failed."""
    values = {"workspace_id": workspace_id, "id": document_id}
    return (await db.execute(_READ_AGAIN, values)).rowcount > 0


# Postings have no foreign key, so they are deleted first.
_REMOVE_WORDS = """
    DELETE FROM chunk_word w
    USING chunk c, unnest(c.terms) AS indexed (term)
    WHERE c.workspace_id = %(workspace_id)s AND c.document_id = ANY(%(ids)s)
        AND w.workspace_id = %(workspace_id)s AND w.term = indexed.term AND w.chunk_id = c.id
"""
_REMOVE_CHUNKS = """
    DELETE FROM chunk WHERE workspace_id = %(workspace_id)s AND document_id = ANY(%(ids)s)
"""
_REMOVE = "DELETE FROM document WHERE workspace_id = %(workspace_id)s AND id = ANY(%(ids)s)"


async def remove_chunks(db: Db, workspace_id: WorkspaceId, ids: Sequence[DocumentId]) -> None:
    """Delete the chunks of documents with their words and vectors."""
    values = {"workspace_id": workspace_id, "ids": list(ids)}
    await db.execute(_REMOVE_WORDS, values)
    await db.execute(_REMOVE_CHUNKS, values)


async def remove(db: Db, workspace_id: WorkspaceId, ids: Sequence[DocumentId]) -> int:
    """Delete documents with everything derived from them; return how many there were."""
    await remove_chunks(db, workspace_id, ids)
    return (await db.execute(_REMOVE, {"workspace_id": workspace_id, "ids": list(ids)})).rowcount


# everywhere: one sweep deletes the interrupted uploads of all workspaces.
_SWEEP = "DELETE FROM document WHERE status = 'uploading' AND created_at < %(before)s"


async def sweep(db: Db, now: datetime) -> int:
    """Delete interrupted uploads in every workspace."""
    return (await db.execute(_SWEEP, {"before": now - _ABANDONED})).rowcount


async def _one(db: Db, query: Any, values: dict[str, Any]) -> Document | None:
    async with db.cursor(row_factory=kwargs_row(_document)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchone()


def _document(**row: Any) -> Document:
    row["kind"], row["status"] = DocumentKind(row["kind"]), DocumentStatus(row["status"])
    return Document(**row)


def _claimed(*, tries: int, **row: Any) -> tuple[Document, int]:
    return _document(**row), tries
