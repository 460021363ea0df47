"""Receipts of erasures: hashes and numbers, from which nobody learns what was erased.

Each names the one before it, so that none can be changed or taken out. A receipt can be checked
later: whether it is ours, and whether all of it is gone. With it a restored backup is erased again.
"""

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, cast
from uuid import UUID, uuid4

from recollect.domain import OrgId, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.erase_targets import Kind, Target, workspaces_of
from recollect.errors import Invalid, NotFound
from recollect.store import erasure, events, identity
from recollect.store.erasure import Kept
from recollect.store.pool import Db

_FIRST = "0" * 64


@dataclass(frozen=True, slots=True)
class Verified:
    """What a check of a receipt found; nothing is right."""

    problems: Sequence[str] = ()
    left: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_good(self) -> bool:
        """Whether the receipt is ours and what it says is gone is gone."""
        return not self.problems and not self.left


async def certify(
    db: Db,
    target: Target,
    *,
    ids: Collection[UUID],
    counts: Mapping[str, int],
    by: str,
    now: datetime,
) -> dict[str, Any]:
    """Write the receipt, the next of the chain, and a line in the audit of each workspace."""
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
        "ids": sorted(_digest(salt, each.bytes).hex() for each in ids),
        "counts": dict(sorted(counts.items())),
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


_CHANGED = "The receipt was changed: its hash does not fit it."


def _faults_of(receipt: Mapping[str, Any], chain: Sequence[Kept]) -> list[str]:
    if receipt.get("hash") != _hash(receipt):
        return [_CHANGED]
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


async def targets_of(engine: Engine, receipt: Mapping[str, Any]) -> list[Target]:
    """What of an erasure is there again, after a backup from before it was restored."""
    if receipt.get("hash") != _hash(receipt):
        raise Invalid(_CHANGED)
    salt = bytes.fromhex(receipt["salt"])
    digests = {bytes.fromhex(each) for each in receipt["ids"]}
    async with engine.pool.everywhere() as db:
        orgs = await identity.orgs(db)
        for org in orgs:
            if _digest(salt, org.id.bytes) in digests:
                return [Target(Kind.ORG, org.id, await workspaces_of(db, org.id), id=org.id)]
        homes = {each.id: each.org_id for each in await identity.workspaces(db)}
        found = [
            Target(Kind.WORKSPACE, org_id, [workspace_id], id=workspace_id)
            for workspace_id, org_id in homes.items()
            if _digest(salt, workspace_id.bytes) in digests
        ]
        for org in orgs:
            found += [
                Target(Kind.USER, org.id, await workspaces_of(db, org.id), id=user.id)
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
