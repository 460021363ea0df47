"""Export: the selected rows as lines, then the bytes of files, all from one snapshot."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from recollect import __version__
from recollect.conversations.queries import files
from recollect.core.domain import (
    NO_WORKSPACE,
    Caller,
    DocumentId,
    FileId,
    Ref,
    Right,
    ThreadId,
    UserId,
    WorkspaceId,
)
from recollect.core.errors import Conflict, Invalid, NotFound, RateLimited
from recollect.db import audit_events
from recollect.db.pool import Db, switch_workspace
from recollect.documents.queries import documents
from recollect.engine import Engine
from recollect.memories.queries import assets
from recollect.portability.queries import exports, imports
from recollect.portability.queries.exports import ExportScope
from recollect.portability.records import FORMAT
from recollect.tenancy.lookup import find_user, find_workspace
from recollect.tenancy.queries import workspaces
from recollect.tenancy.queries.workspaces import Workspace
from recollect.tenancy.request_scope import RequestScope
from recollect.tenancy.workspace_scope import workspace_scope

ExportLine = dict[str, Any]

# When to retry while too many exports or imports run.
_RETRY_AFTER = timedelta(seconds=10)


class Export:
    """A running export: read its lines first, then the bytes of the files that they name."""

    def __init__(self, engine: Engine, db: Db, scopes: Sequence[ExportScope]) -> None:
        self._engine = engine
        self._db = db
        self._scopes = scopes
        self._now = engine.now()
        self.counts: Counter[str] = Counter()

    async def count_expected(self) -> int:
        """Return how many memories and messages the export will contain."""
        total = 0
        for scope in self._scopes:
            await switch_workspace(self._db, scope.workspace_id)
            total += sum(await exports.count(self._db, scope, self._now))
        return total

    async def lines(self) -> AsyncGenerator[ExportLine]:
        """Yield a header, every row after the rows it refers to, and an end line with counts."""
        yield {
            "type": "recollect",
            "format": FORMAT,
            "version": __version__,
            "exported_at": self._now,
        }
        for scope in self._scopes:
            await switch_workspace(self._db, scope.workspace_id)
            for kind in exports.KINDS:
                async for row in exports.stream_rows(self._db, kind, scope, self._now):
                    self.counts[kind] += 1
                    yield {"type": kind, **row}
        yield {"type": "end", "lines": dict(self.counts)}

    async def attachments(self) -> AsyncGenerator[tuple[str, AsyncGenerator[bytes]]]:
        """Yield the digest and the bytes of each asset and file; equal files only once."""
        seen: set[bytes] = set()
        for scope in self._scopes:
            await switch_workspace(self._db, scope.workspace_id)
            async for kind, item_id, digest in exports.stream_attachments(
                self._db, scope, self._now
            ):
                if digest not in seen:
                    seen.add(digest)
                    yield digest.hex(), self._pieces(scope, kind, item_id)

    async def _pieces(self, scope: ExportScope, kind: str, item_id: UUID) -> AsyncGenerator[bytes]:
        if kind == "file":
            async for piece in files.pieces(self._db, scope.workspace_id, FileId(item_id)):
                yield piece
            return
        number = 0
        while piece := await self._piece(scope.workspace_id, kind, item_id, number):
            yield piece
            number += 1

    async def _piece(
        self, workspace_id: WorkspaceId, kind: str, item_id: UUID, number: int
    ) -> bytes | None:
        if kind == "document":
            return await documents.piece(self._db, workspace_id, DocumentId(item_id), number)
        return await assets.piece(self._db, workspace_id, item_id, number)


@asynccontextmanager
async def open_export(engine: Engine, scopes: Sequence[ExportScope]) -> AsyncGenerator[Export]:
    """Open an export of these scopes as they are now; it is recorded as an audit event."""
    first = scopes[0]
    async with engine.pool.snapshot(first.workspace_id) as db:
        if first.viewer and not await exports.try_lock_user(db, first.viewer.user_id):
            raise Conflict(
                "Another of your exports is running. Wait for it to finish.", is_temporary=True
            )
        if first.viewer and not await exports.try_lock_slot(db):
            raise RateLimited(_RETRY_AFTER)
        export = Export(engine, db, scopes)
        yield export
    for scope in scopes:
        async with engine.pool.writing(scope.workspace_id) as db:
            await audit_events.insert_event(
                db,
                scope.workspace_id,
                "data.exported",
                actor=scope.viewer.label if scope.viewer else "operator",
                user_id=scope.viewer and scope.viewer.user_id,
                details={"lines": sum(export.counts.values())},
                at=engine.now(),
                is_private=scope.viewer is not None,
            )


async def own_scope(engine: Engine, caller: Caller) -> list[ExportScope]:
    """Return the caller's own data in each of their workspaces, as far as they can see it."""
    caller.require(Right.READ)
    found = await workspace_scope(engine, caller, RequestScope())
    scopes = [
        ExportScope(each.workspace_id, each.org_id, user_id=each.user_id, viewer=each)
        for each in found.everywhere
        if each.workspace_id != NO_WORKSPACE
    ]
    if not scopes:
        raise Invalid("No workspace is active. Name one, or use a key of one workspace.")
    return scopes


async def find_export_scopes(
    engine: Engine,
    *,
    workspace: str | None,
    user: str | None = None,
    subject: str | None = None,
    thread: Ref | None = None,
    key: str | None = None,
    with_ended: bool = False,
) -> list[ExportScope]:
    """Return the scopes that an operator selects: a workspace, or a part of it.

    A user's data is selected in one workspace, or in all workspaces of the org if none is named.
    """
    async with engine.pool.everywhere() as db:
        found = await find_workspace(db, workspace)
        user_id = await find_owner_id(db, found, user) if user else None
        selected = [found]
        if user_id and workspace is None:
            selected = await workspaces.list_workspaces(db, found.org_id)
        thread_id = None
        if thread:
            found, thread_id = await _find_thread(db, found, workspace, thread)
            selected = [found]
    return [
        ExportScope(
            each.id,
            each.org_id,
            user_id=user_id,
            subject=subject,
            thread_id=thread_id,
            key=key,
            with_ended=with_ended,
        )
        for each in selected
    ]


async def find_owner_id(db: Db, workspace: Workspace, wanted: str) -> UserId:
    """Return a user of the workspace's org by login or id, archived or not."""
    try:
        return (await find_user(db, wanted, workspace.org_id)).id
    except NotFound:
        known = await imports.find_login(db, wanted)
        raise Invalid(
            f"`{wanted}` belongs to another org. Name a workspace of that org with `--workspace`."
            if known
            else f"There is no user `{wanted}`. `recollect user list` shows all users."
        ) from None


async def _find_thread(
    db: Db, found: Workspace, workspace: str | None, ref: Ref
) -> tuple[Workspace, ThreadId]:
    """Return the thread and its workspace: the named workspace, or the one that has the thread."""
    candidates = [found] if workspace else await workspaces.list_workspaces(db)
    for each in candidates:
        thread_id = await exports.find_thread(db, each.id, ref)
        if thread_id:
            return each, thread_id
    raise NotFound("session")
