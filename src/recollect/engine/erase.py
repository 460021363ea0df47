"""Erasing for good: a person, a thread, a key, or a whole part of the house, with a receipt.

One transaction removes every row that is somebody's and every row made of it, in every workspace
of the org, and keeps the receipt: either all of it happened or nothing. What is meant is found in
`erase_targets`; what the receipt is good for is in `erase_receipts`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from recollect.domain import AgentId, ProjectId, UserId, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.erase_receipts import certify
from recollect.engine.erase_targets import Kind, Target
from recollect.errors import Conflict, NotFound, Unavailable
from recollect.store import erasure, identity
from recollect.store.erasure import Span
from recollect.store.pool import Db

# Another's transaction may hold in the other order what we hold: then one of us begins anew.
_TRIES = 4
_PAUSE_SECONDS = 0.2
_NOBODY_ELSE = "Nobody else is in that org. Add another user first, or delete the org."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased, or with no receipt would be: rows by table."""

    kind: Kind
    counts: Mapping[str, int]
    receipt: Mapping[str, Any] | None = None

    @property
    def total(self) -> int:
        """Rows in all."""
        return sum(self.counts.values())


async def erase(engine: Engine, target: Target, *, by: str, is_dry: bool = False) -> Erased:
    """Erase it and keep a receipt; a dry run does the same, counts, and takes all of it back."""
    if target.kind is Kind.USER and not is_dry:
        await _shut_out(engine, UserId(target.given_id))
    for _ in range(_TRIES - 1):
        try:
            return await _erase(engine, target, by=by, is_dry=is_dry)
        except Unavailable:
            await asyncio.sleep(_PAUSE_SECONDS)
    return await _erase(engine, target, by=by, is_dry=is_dry)


async def _shut_out(engine: Engine, user_id: UserId) -> None:
    """End the user's keys first: under constant writing the erasure would never have its turn."""
    async with engine.pool.everywhere() as db:
        if await erasure.heir_of(db, user_id) is None:
            raise Conflict(_NOBODY_ELSE)
        await identity.archive_user(db, user_id, engine.now())


async def _erase(engine: Engine, target: Target, *, by: str, is_dry: bool) -> Erased:
    gone = _Gone()
    async with engine.pool.erasing() as db:
        await _remove(db, target, gone)
        if is_dry:
            await db.rollback()
            return Erased(target.kind, gone.counts)
        receipt = await certify(
            db, target, ids=gone.ids, counts=gone.counts, by=by, now=engine.now()
        )
        await identity.tell(db)
    _log.info("erasure.done", kind=target.kind, rows=sum(gone.counts.values()))
    return Erased(target.kind, gone.counts, receipt)


class _Gone:
    """What went, as it goes: rows by table, and the ids that nothing may have any more."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.ids: set[UUID] = set()

    def add(self, counts: Mapping[str, int]) -> None:
        for table, count in counts.items():
            if count:
                self.counts[table] = self.counts.get(table, 0) + count


async def _remove(db: Db, target: Target, gone: _Gone) -> None:
    match target.kind:
        case Kind.ORG:
            gone.ids |= set(await erasure.hold_users(db, target.org_id))
            await _remove_workspaces(db, target, gone)
            gone.add(await erasure.erase_org(db, target.org_id))
            gone.ids.add(target.org_id)
        case Kind.WORKSPACE:
            await _remove_workspaces(db, target, gone)
        case Kind.USER:
            await _remove_user(db, target, gone)
        case _:
            for workspace_id in target.workspace_ids:
                await _walk(db, _span(target, workspace_id), gone)


async def _remove_workspaces(db: Db, target: Target, gone: _Gone) -> None:
    for workspace_id in target.workspace_ids:
        gone.add(await erasure.empty_workspace(db, workspace_id))
        gone.ids.add(workspace_id)


async def _remove_user(db: Db, target: Target, gone: _Gone) -> None:
    user_id = UserId(target.given_id)
    if not await erasure.hold_user(db, user_id):
        raise NotFound("user")
    heir_id = await erasure.heir_of(db, user_id)
    if heir_id is None:
        raise Conflict(_NOBODY_ELSE)
    key_ids = await erasure.key_ids_of(db, user_id)
    for workspace_id in target.workspace_ids:
        span = Span(workspace_id, user_id=user_id, heir_id=heir_id, key_ids=key_ids)
        await _walk(db, span, gone)
    gone.add(await erasure.erase_account(db, user_id))
    gone.ids.add(user_id)


async def _walk(db: Db, span: Span, gone: _Gone) -> None:
    span, candidates = await erasure.look(db, span)
    gone.add({"candidate": candidates})
    gone.add(await erasure.walk(db, span))
    gone.ids |= set(span.ids)


def _span(target: Target, workspace_id: WorkspaceId) -> Span:
    match target.kind:
        case Kind.THREAD:
            return Span(workspace_id, named_ids=[target.given_id])
        case Kind.RECEIPT:
            return Span(workspace_id, named_ids=target.named_ids)
        case Kind.PROJECT:
            return Span(workspace_id, project_id=ProjectId(target.given_id))
        case Kind.AGENT:
            return Span(workspace_id, agent_id=AgentId(target.given_id))
        case Kind.KEY:
            return Span(workspace_id, key=target.text, owner_id=target.owner_id)
        case _:
            return Span(workspace_id, subject=target.text)
