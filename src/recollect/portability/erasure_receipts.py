"""Receipts of erasures: salted hashes and counts, which do not reveal what was erased.

Each receipt contains the hash of the one before it, so none can be changed or removed unnoticed.
`verify` checks that a receipt is from this database and that all it names is gone. A receipt can
also repeat its erasure after a backup was restored.
"""

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, cast
from uuid import UUID, uuid4

from recollect.core.domain import OrgId, WorkspaceId
from recollect.core.errors import Invalid, NotFound
from recollect.db import audit_events
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.portability.erasure_targets import ErasureKind, ErasureTarget, list_workspace_ids
from recollect.portability.queries import receipts
from recollect.portability.queries.receipts import StoredReceipt
from recollect.tenancy.queries import orgs, users, workspaces

# The `previous` of the first receipt.
_NO_HASH = "0" * 64


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of checking a receipt: its problems, and the rows that are left by column."""

    problems: Sequence[str] = ()
    left: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_good(self) -> bool:
        """Whether the receipt is valid and everything it names is gone."""
        return not self.problems and not self.left


async def write_receipt(
    db: Db,
    target: ErasureTarget,
    *,
    ids: Collection[UUID],
    counts: Mapping[str, int],
    by: str,
    now: datetime,
) -> dict[str, Any]:
    """Store the next receipt of the chain, and an audit event in each workspace."""
    previous = await receipts.last_receipt(db)
    salt = secrets.token_bytes(16)
    receipt_id = uuid4()
    receipt: dict[str, Any] = {
        "receipt": str(receipt_id),
        "version": 1,
        "number": previous.number + 1 if previous else 1,
        "previous": previous.hash if previous else _NO_HASH,
        "kind": target.kind.value,
        "erased_at": now.isoformat(),
        "erased_by": by,
        "salt": salt.hex(),
        "target": _digest(salt, _target_key(target)).hex(),
        "is_of_one_user": target.owner_id is not None,
        "ids": sorted(_digest(salt, each.bytes).hex() for each in ids),
        "counts": dict(sorted(counts.items())),
    }
    receipt["hash"] = _hash(receipt)
    stored = StoredReceipt(
        receipt_id, receipt["number"], target.org_id, _canonical(receipt), receipt["hash"], now
    )
    await receipts.add_receipt(db, stored)
    if target.kind not in {ErasureKind.WORKSPACE, ErasureKind.ORG}:
        for workspace_id in target.workspace_ids:
            await audit_events.insert_event(
                db,
                workspace_id,
                f"{target.kind}.erased",
                actor=by,
                user_id=None,
                details={"receipt": str(receipt_id), "hash": receipt["hash"]},
                at=now,
            )
    return receipt


def _target_key(target: ErasureTarget) -> bytes:
    """Return the value whose hash is the receipt's `target`."""
    if target.id:
        return target.id.bytes
    key = f"{target.workspace_ids[0]}/{target.text}"
    return (f"{key}/{target.owner_id}" if target.owner_id else key).encode()


def _digest(salt: bytes, value: bytes) -> bytes:
    # `portability.queries.receipts` computes the same in SQL.
    return sha256(salt + value).digest()[:16]


def _canonical(receipt: Mapping[str, Any]) -> str:
    return json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _hash(receipt: Mapping[str, Any]) -> str:
    hashed = {name: value for name, value in receipt.items() if name != "hash"}
    return sha256(_canonical(hashed).encode()).hexdigest()


def read_receipt(text: str) -> dict[str, Any]:
    """Parse a receipt as it was printed; raise `Invalid` for anything else."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        raise Invalid("This is not a receipt: it is not JSON.") from None
    if not isinstance(value, dict):
        raise Invalid("This is not a receipt.")
    receipt = cast("dict[str, Any]", value)
    try:
        bytes.fromhex(receipt["salt"] + receipt["target"] + "".join(receipt["ids"]))
        datetime.fromisoformat(receipt["erased_at"])
        UUID(receipt["receipt"])
        ErasureKind(receipt["kind"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Invalid("This is not a receipt: a field is missing or invalid.") from None
    return receipt


async def list_receipts(engine: Engine, org_id: OrgId) -> list[dict[str, Any]]:
    """Return the receipts of an org, oldest first."""
    async with engine.pool.everywhere() as db:
        return [json.loads(each.receipt) for each in await receipts.list_receipts(db, org_id)]


async def get_receipt(engine: Engine, org_id: OrgId | None, receipt_id: UUID) -> dict[str, Any]:
    """Return one receipt; if `org_id` is given, only a receipt of that org."""
    async with engine.pool.everywhere() as db:
        found = await receipts.find_receipt(db, receipt_id)
    if found is None or org_id not in {None, found.org_id}:
        raise NotFound("receipt")
    return json.loads(found.receipt)


async def verify(engine: Engine, receipt: Mapping[str, Any]) -> Verified:
    """Check that a receipt is from this database, the chain is intact, and no row is left."""
    async with engine.pool.everywhere() as db:
        chain = await receipts.list_receipts(db)
        problems = [*_receipt_problems(receipt, chain), *_chain_problems(chain)]
        left = await _count_left(db, receipt)
    return Verified(problems, left)


_CHANGED = "The receipt was changed: its hash does not match."


def _receipt_problems(receipt: Mapping[str, Any], chain: Sequence[StoredReceipt]) -> list[str]:
    if receipt.get("hash") != _hash(receipt):
        return [_CHANGED]
    if all(each.hash != receipt["hash"] for each in chain):
        return ["The receipt is from another database, or newer than a restored backup."]
    return []


def _chain_problems(chain: Sequence[StoredReceipt]) -> list[str]:
    previous = _NO_HASH
    for number, each in enumerate(chain, 1):
        receipt = json.loads(each.receipt)
        is_intact = receipt["hash"] == each.hash == _hash(receipt)
        if not is_intact or (receipt["number"], receipt["previous"]) != (number, previous):
            return [f"The chain of receipts is broken at receipt number {number}."]
        previous = each.hash
    return []


async def _count_left(db: Db, receipt: Mapping[str, Any]) -> dict[str, int]:
    salt, target = bytes.fromhex(receipt["salt"]), bytes.fromhex(receipt["target"])
    digests = [bytes.fromhex(each) for each in receipt["ids"]]
    at = datetime.fromisoformat(receipt["erased_at"])
    left = await receipts.count_left_by_id(db, salt, digests) if digests else {}
    match ErasureKind(receipt["kind"]):
        case ErasureKind.KEY:
            is_owned = bool(receipt.get("is_of_one_user"))
            left |= await receipts.count_left_of_key(db, salt, target, at, is_owned=is_owned)
        case ErasureKind.SUBJECT:
            left |= await receipts.count_left_of_subject(db, salt, target, at)
        case _:
            pass
    return left


async def find_restored_targets(engine: Engine, receipt: Mapping[str, Any]) -> list[ErasureTarget]:
    """Return what an erasure removed and a restored older backup brought back."""
    if receipt.get("hash") != _hash(receipt):
        raise Invalid(_CHANGED)
    salt = bytes.fromhex(receipt["salt"])
    digests = {bytes.fromhex(each) for each in receipt["ids"]}
    async with engine.pool.everywhere() as db:
        all_orgs = await orgs.list_orgs(db)
        for org in all_orgs:
            if _digest(salt, org.id.bytes) in digests:
                return [
                    ErasureTarget(
                        ErasureKind.ORG, org.id, await list_workspace_ids(db, org.id), id=org.id
                    )
                ]
        org_ids = {each.id: each.org_id for each in await workspaces.list_workspaces(db)}
        found = [
            ErasureTarget(ErasureKind.WORKSPACE, org_id, [workspace_id], id=workspace_id)
            for workspace_id, org_id in org_ids.items()
            if _digest(salt, workspace_id.bytes) in digests
        ]
        for org in all_orgs:
            found += [
                ErasureTarget(
                    ErasureKind.USER, org.id, await list_workspace_ids(db, org.id), id=user.id
                )
                for user in await users.list_users(db, org.id)
                if _digest(salt, user.id.bytes) in digests
            ]
        for kind in (ErasureKind.PROJECT, ErasureKind.AGENT):
            found += [
                ErasureTarget(kind, org_ids[workspace_id], [workspace_id], id=each)
                for workspace_id, each in await receipts.find_rows(db, kind, salt, list(digests))
            ]
        named_ids: dict[WorkspaceId, list[UUID]] = {}
        for table in ("thread", "memory", "message", "turn", "document"):
            for workspace_id, each in await receipts.find_rows(db, table, salt, list(digests)):
                named_ids.setdefault(workspace_id, []).append(each)
    found += [
        ErasureTarget(
            ErasureKind.RECEIPT,
            org_ids[each],
            [each],
            id=UUID(receipt["receipt"]),
            named_ids=named_ids[each],
        )
        for each in named_ids
    ]
    return found
