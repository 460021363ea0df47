"""Erasing for good: a person, a thread, a key, or a whole part of the house, with a receipt.

One transaction removes every row that is somebody's and every row made of it, in every workspace
of the org, and keeps the receipt: either all of it happened or nothing. A receipt holds hashes and
numbers. It can be checked later, and with it a restored backup is erased again.
"""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, cast
from uuid import UUID, uuid4

import structlog

from recollect.domain import AgentId, OrgId, ProjectId, Ref, UserId, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.named import agent_named, project_named, user_named
from recollect.errors import Conflict, Invalid, NotFound, Unavailable
from recollect.store import erasure, events, identity, threads
from recollect.store.erasure import Kept, Span
from recollect.store.pool import Db

# Another's transaction may hold in the other order what we hold: then one of us begins anew.
_TRIES = 4
_PAUSE_SECONDS = 0.2
_FIRST = "0" * 64
_NOBODY_ELSE = "Nobody else is in that org. Add another user first, or delete the org."

_log = structlog.get_logger(__name__)


class Kind(StrEnum):
    """What is erased."""

    USER = "user"
    THREAD = "thread"
    KEY = "key"
    SUBJECT = "subject"
    PROJECT = "project"
    AGENT = "agent"
    WORKSPACE = "workspace"
    ORG = "org"
    # What came back of an earlier erasure, by its receipt.
    RECEIPT = "receipt"


@dataclass(frozen=True, slots=True)
class Target:
    """Whose or which; in which workspaces of the org there can be something of it."""

    kind: Kind
    org_id: OrgId
    workspace_ids: Sequence[WorkspaceId]
    id: UUID | None = None
    # A key, or a name that clients have for a person; in the one workspace.
    text: str | None = None
    # Only this user's memories of the key.
    owner_id: UserId | None = None
    # Threads, memories, messages, turns and documents by id.
    named_ids: Sequence[UUID] = ()


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


@dataclass(frozen=True, slots=True)
class Verified:
    """What a check of a receipt found; nothing is right."""

    problems: Sequence[str] = ()
    left: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_good(self) -> bool:
        """Whether the receipt is ours and what it says is gone is gone."""
        return not self.problems and not self.left


async def erase(engine: Engine, target: Target, *, by: str, is_dry: bool = False) -> Erased:
    """Erase it and keep a receipt; a dry run does the same, counts, and takes all of it back."""
    if target.kind is Kind.USER and not is_dry:
        await _shut_out(engine, UserId(_given(target.id)))
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
        receipt = await _certify(engine, db, target, gone, by=by)
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
    user_id = UserId(_given(target.id))
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
            return Span(workspace_id, named_ids=[_given(target.id)])
        case Kind.RECEIPT:
            return Span(workspace_id, named_ids=target.named_ids)
        case Kind.PROJECT:
            return Span(workspace_id, project_id=ProjectId(_given(target.id)))
        case Kind.AGENT:
            return Span(workspace_id, agent_id=AgentId(_given(target.id)))
        case Kind.KEY:
            return Span(workspace_id, key=target.text, owner_id=target.owner_id)
        case _:
            return Span(workspace_id, subject=target.text)


def _given(value: UUID | None) -> UUID:
    assert value
    return value


# Receipts.


async def _certify(
    engine: Engine, db: Db, target: Target, gone: _Gone, *, by: str
) -> dict[str, Any]:
    """Write the receipt, the next of the chain, and a line in the audit of each workspace."""
    now = engine.now()
    before = await erasure.last_receipt(db)
    salt = secrets.token_bytes(16)
    receipt_id = uuid4()
    receipt: dict[str, Any] = {
        "receipt": str(receipt_id),
        "version": 1,
        "number": before.number + 1 if before else 1,
        "previous": before.hash if before else _FIRST,
        "kind": target.kind.value,
        "erased_at": now.isoformat(),
        "erased_by": by,
        "salt": salt.hex(),
        "target": _digest(salt, _told(target)).hex(),
        "is_of_one_user": target.owner_id is not None,
        "ids": sorted(_digest(salt, each.bytes).hex() for each in gone.ids),
        "counts": dict(sorted(gone.counts.items())),
    }
    receipt["hash"] = _hash(receipt)
    kept = Kept(
        receipt_id, receipt["number"], target.org_id, _canonical(receipt), receipt["hash"], now
    )
    await erasure.keep_receipt(db, kept)
    if target.kind not in {Kind.WORKSPACE, Kind.ORG}:
        for workspace_id in target.workspace_ids:
            await events.record(
                db,
                workspace_id,
                f"{target.kind}.erased",
                actor=by,
                user_id=None,
                details={"receipt": str(receipt_id), "hash": receipt["hash"]},
                at=now,
            )
    return receipt


def _told(target: Target) -> bytes:
    """What the receipt has the hash of as its target."""
    if target.id:
        return target.id.bytes
    place = f"{target.workspace_ids[0]}/{target.text}"
    return (f"{place}/{target.owner_id}" if target.owner_id else place).encode()


def _digest(salt: bytes, told: bytes) -> bytes:
    # As `store.erasure` computes it in the database.
    return sha256(salt + told).digest()[:16]


def _canonical(receipt: Mapping[str, Any]) -> str:
    return json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _hash(receipt: Mapping[str, Any]) -> str:
    told = {name: value for name, value in receipt.items() if name != "hash"}
    return sha256(_canonical(told).encode()).hexdigest()


def read_receipt(text: str) -> dict[str, Any]:
    """A receipt as it was printed; raise `Invalid` for anything else."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        raise Invalid("This is no receipt: it is not JSON.") from None
    if not isinstance(value, dict):
        raise Invalid("This is no receipt.")
    receipt = cast("dict[str, Any]", value)
    try:
        bytes.fromhex(receipt["salt"] + receipt["target"] + "".join(receipt["ids"]))
        datetime.fromisoformat(receipt["erased_at"])
        UUID(receipt["receipt"])
        Kind(receipt["kind"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Invalid("This is no receipt: something is missing from it.") from None
    return receipt


async def list_receipts(engine: Engine, org_id: OrgId) -> list[dict[str, Any]]:
    """The receipts of an org, oldest first."""
    async with engine.pool.everywhere() as db:
        return [json.loads(each.receipt) for each in await erasure.receipts(db, org_id)]


async def get_receipt(engine: Engine, org_id: OrgId | None, receipt_id: UUID) -> dict[str, Any]:
    """One receipt, of that org where one is named."""
    async with engine.pool.everywhere() as db:
        kept = await erasure.find_receipt(db, receipt_id)
    if kept is None or org_id not in {None, kept.org_id}:
        raise NotFound("receipt")
    return json.loads(kept.receipt)


async def verify(engine: Engine, receipt: Mapping[str, Any]) -> Verified:
    """Whether a receipt is ours, none of them was changed, and what it names is nowhere."""
    async with engine.pool.everywhere() as db:
        chain = await erasure.receipts(db)
        problems = [*_faults_of(receipt, chain), *_faults_of_chain(chain)]
        left = await _left(db, receipt)
    return Verified(problems, left)


def _faults_of(receipt: Mapping[str, Any], chain: Sequence[Kept]) -> list[str]:
    if receipt.get("hash") != _hash(receipt):
        return ["The receipt was changed: its hash does not fit it."]
    if all(each.hash != receipt["hash"] for each in chain):
        return ["This database has no such receipt: it was given by another, or before a restore."]
    return []


def _faults_of_chain(chain: Sequence[Kept]) -> list[str]:
    before = _FIRST
    for number, each in enumerate(chain, 1):
        receipt = json.loads(each.receipt)
        is_whole = receipt["hash"] == each.hash == _hash(receipt)
        if not is_whole or (receipt["number"], receipt["previous"]) != (number, before):
            return [f"The chain of receipts is broken at number {number}."]
        before = each.hash
    return []


async def _left(db: Db, receipt: Mapping[str, Any]) -> dict[str, int]:
    salt, target = bytes.fromhex(receipt["salt"]), bytes.fromhex(receipt["target"])
    digests = [bytes.fromhex(each) for each in receipt["ids"]]
    at = datetime.fromisoformat(receipt["erased_at"])
    left = await erasure.left_by_id(db, salt, digests) if digests else {}
    match Kind(receipt["kind"]):
        case Kind.KEY:
            is_owned = bool(receipt.get("is_of_one_user"))
            left |= await erasure.left_of_key(db, salt, target, at, is_owned=is_owned)
        case Kind.SUBJECT:
            left |= await erasure.left_of_subject(db, salt, target, at)
        case _:
            pass
    return left


# Finding what is meant.


async def target_user(engine: Engine, wanted: str, org_id: OrgId | None = None) -> Target:
    """A user by login or id."""
    async with engine.pool.everywhere() as db:
        user = await user_named(db, wanted, org_id)
        places = await _workspaces(db, user.org_id)
    return Target(Kind.USER, user.org_id, places, id=user.id)


async def find_owner(engine: Engine, wanted: str | None, org_id: OrgId) -> UserId | None:
    """Whose memories alone are meant; None for everybody's."""
    if wanted is None:
        return None
    return UserId(_given((await target_user(engine, wanted, org_id)).id))


async def target_thread(
    engine: Engine, workspace_id: WorkspaceId, org_id: OrgId, ref: Ref | None, name: str
) -> Target:
    """A thread by any spelling of its id, or by the client's own label."""
    async with engine.pool.everywhere() as db:
        found = await threads.locate(db, [workspace_id], ref or Ref(), name)
    if found is None:
        raise NotFound("session")
    return Target(Kind.THREAD, org_id, [workspace_id], id=found[1])


async def target_circle(
    engine: Engine, kind: Kind, workspace_id: WorkspaceId, org_id: OrgId, wanted: str
) -> tuple[Target, bool]:
    """A project or an agent by name or id, and whether it is archived."""
    async with engine.pool.reading(workspace_id) as db:
        named = project_named if kind is Kind.PROJECT else agent_named
        found = await named(db, workspace_id, wanted)
    return Target(kind, org_id, [workspace_id], id=found.id), found.archived_at is not None


async def target_org(engine: Engine, org_id: OrgId) -> Target:
    """An org with all its workspaces."""
    async with engine.pool.everywhere() as db:
        return Target(Kind.ORG, org_id, await _workspaces(db, org_id), id=org_id)


async def _workspaces(db: Db, org_id: OrgId) -> list[WorkspaceId]:
    return [each.id for each in await identity.workspaces(db, org_id)]


async def targets_of(engine: Engine, receipt: Mapping[str, Any]) -> list[Target]:
    """What of an erasure is there again, after a backup from before it was restored."""
    salt = bytes.fromhex(receipt["salt"])
    digests = {bytes.fromhex(each) for each in receipt["ids"]}
    async with engine.pool.everywhere() as db:
        orgs = await identity.orgs(db)
        for org in orgs:
            if _digest(salt, org.id.bytes) in digests:
                return [Target(Kind.ORG, org.id, await _workspaces(db, org.id), id=org.id)]
        homes = {each.id: each.org_id for each in await identity.workspaces(db)}
        found = [
            Target(Kind.WORKSPACE, org_id, [workspace_id], id=workspace_id)
            for workspace_id, org_id in homes.items()
            if _digest(salt, workspace_id.bytes) in digests
        ]
        for org in orgs:
            found += [
                Target(Kind.USER, org.id, await _workspaces(db, org.id), id=user.id)
                for user in await identity.users(db, org.id)
                if _digest(salt, user.id.bytes) in digests
            ]
        for kind in (Kind.PROJECT, Kind.AGENT):
            found += [
                Target(kind, homes[workspace_id], [workspace_id], id=each)
                for workspace_id, each in await erasure.places(db, kind, salt, list(digests))
            ]
        named: dict[WorkspaceId, list[UUID]] = {}
        for table in ("thread", "memory", "message", "turn", "document"):
            for workspace_id, each in await erasure.places(db, table, salt, list(digests)):
                named.setdefault(workspace_id, []).append(each)
    found += [
        Target(
            Kind.RECEIPT, homes[each], [each], id=UUID(receipt["receipt"]), named_ids=named[each]
        )
        for each in named
    ]
    return found
