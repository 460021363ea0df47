"""Permanent erasure of a user, thread, key, project, agent, workspace or org, with a receipt.

One transaction deletes every row of the target and every row derived from it, in every workspace of
the org, and stores the receipt: all of it happens or none. `erasure_targets` finds the target;
`erasure_receipts` writes and checks receipts.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from recollect.core.domain import AgentId, ProjectId, UserId, WorkspaceId
from recollect.core.errors import Conflict, NotFound, Unavailable
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.portability.erasure_receipts import write_receipt
from recollect.portability.erasure_targets import ErasureKind, ErasureTarget
from recollect.portability.queries import erasure
from recollect.portability.queries.erasure import ErasureSpan
from recollect.tenancy.queries import keys, users

# A concurrent transaction may take the same locks in another order. PostgreSQL then aborts one of
# the two, so we retry.
_ATTEMPTS = 4
_RETRY_SECONDS = 0.2
_LAST_USER = "That org has no other user. Add another user first, or delete the org."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Erased:
    """The erased rows by table; without a receipt, the rows that a dry run would erase."""

    kind: ErasureKind
    counts: Mapping[str, int]
    receipt: Mapping[str, Any] | None = None

    @property
    def total(self) -> int:
        """The total number of rows."""
        return sum(self.counts.values())


async def erase(engine: Engine, target: ErasureTarget, *, by: str, is_dry: bool = False) -> Erased:
    """Erase the target and store a receipt; a dry run only counts, and rolls everything back."""
    if target.kind is ErasureKind.USER and not is_dry:
        await _disable_user(engine, UserId(target.given_id))
    for _ in range(_ATTEMPTS - 1):
        try:
            return await _erase(engine, target, by=by, is_dry=is_dry)
        except Unavailable:
            await asyncio.sleep(_RETRY_SECONDS)
    return await _erase(engine, target, by=by, is_dry=is_dry)


async def _disable_user(engine: Engine, user_id: UserId) -> None:
    """Archive the user first, so that a user who writes constantly cannot delay the erasure."""
    async with engine.pool.everywhere() as db:
        if await erasure.find_successor(db, user_id) is None:
            raise Conflict(_LAST_USER)
        await users.archive_user(db, user_id, engine.now())


async def _erase(engine: Engine, target: ErasureTarget, *, by: str, is_dry: bool) -> Erased:
    erased = _ErasedSoFar()
    async with engine.pool.erasing() as db:
        await _delete(db, target, erased)
        if is_dry:
            await db.rollback()
            return Erased(target.kind, erased.counts)
        receipt = await write_receipt(
            db, target, ids=erased.ids, counts=erased.counts, by=by, now=engine.now()
        )
        await keys.notify_key_change(db)
    _log.info("erasure.done", kind=target.kind, rows=sum(erased.counts.values()))
    return Erased(target.kind, erased.counts, receipt)


class _ErasedSoFar:
    """The rows erased so far, by table, and the ids that no row may hold any more."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.ids: set[UUID] = set()

    def add(self, counts: Mapping[str, int]) -> None:
        for table, count in counts.items():
            if count:
                self.counts[table] = self.counts.get(table, 0) + count


async def _delete(db: Db, target: ErasureTarget, erased: _ErasedSoFar) -> None:
    match target.kind:
        case ErasureKind.ORG:
            erased.ids |= set(await erasure.lock_users(db, target.org_id))
            await _delete_workspaces(db, target, erased)
            erased.add(await erasure.erase_org(db, target.org_id))
            erased.ids.add(target.org_id)
        case ErasureKind.WORKSPACE:
            await _delete_workspaces(db, target, erased)
        case ErasureKind.USER:
            await _delete_user(db, target, erased)
        case _:
            for workspace_id in target.workspace_ids:
                await _delete_span(db, _span(target, workspace_id), erased)


async def _delete_workspaces(db: Db, target: ErasureTarget, erased: _ErasedSoFar) -> None:
    for workspace_id in target.workspace_ids:
        erased.add(await erasure.empty_workspace(db, workspace_id))
        erased.ids.add(workspace_id)


async def _delete_user(db: Db, target: ErasureTarget, erased: _ErasedSoFar) -> None:
    user_id = UserId(target.given_id)
    if not await erasure.lock_user(db, user_id):
        raise NotFound("user")
    successor_id = await erasure.find_successor(db, user_id)
    if successor_id is None:
        raise Conflict(_LAST_USER)
    key_ids = await erasure.find_key_ids(db, user_id)
    for workspace_id in target.workspace_ids:
        span = ErasureSpan(
            workspace_id, user_id=user_id, successor_id=successor_id, key_ids=key_ids
        )
        await _delete_span(db, span, erased)
    erased.add(await erasure.erase_account(db, user_id))
    erased.ids.add(user_id)


async def _delete_span(db: Db, span: ErasureSpan, erased: _ErasedSoFar) -> None:
    span, candidates = await erasure.lock_rows(db, span)
    erased.add({"candidate": candidates})
    erased.add(await erasure.run_steps(db, span))
    erased.ids |= set(span.ids)


def _span(target: ErasureTarget, workspace_id: WorkspaceId) -> ErasureSpan:
    match target.kind:
        case ErasureKind.THREAD:
            return ErasureSpan(workspace_id, named_ids=[target.given_id])
        case ErasureKind.RECEIPT:
            return ErasureSpan(workspace_id, named_ids=target.named_ids)
        case ErasureKind.PROJECT:
            return ErasureSpan(workspace_id, project_id=ProjectId(target.given_id))
        case ErasureKind.AGENT:
            return ErasureSpan(workspace_id, agent_id=AgentId(target.given_id))
        case ErasureKind.KEY:
            return ErasureSpan(workspace_id, key=target.text, owner_id=target.owner_id)
        case _:
            return ErasureSpan(workspace_id, subject=target.text)
