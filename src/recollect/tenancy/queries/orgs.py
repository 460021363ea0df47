"""Orgs: create, find, rename and archive them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from psycopg.rows import class_row

from recollect.core.domain import OrgId, parse_ref
from recollect.db.pool import Db
from recollect.tenancy.queries.keys import notify_key_change


@dataclass(frozen=True, slots=True)
class Org:
    """A customer: it owns users, keys and workspaces."""

    id: OrgId
    name: str
    workspaces_on: bool
    archived_at: datetime | None


_ANY_ORG = "SELECT EXISTS (SELECT FROM org)"
# Only one process does the first-run setup, however many start at once.
_LOCK = "SELECT pg_advisory_xact_lock(7245018846214)"


async def is_empty(db: Db) -> bool:
    """Return whether no org exists yet; the lock keeps that true until the transaction ends."""
    await db.execute(_LOCK)
    row = await (await db.execute(_ANY_ORG)).fetchone()
    return not (row and row[0])


_ADD_ORG = "INSERT INTO org (id, name) VALUES (%(id)s, %(name)s)"


async def add_org(db: Db, name: str) -> OrgId:
    """Add an org."""
    org_id = uuid4()
    await db.execute(_ADD_ORG, {"id": org_id, "name": name})
    return OrgId(org_id)


_ORG_COLUMNS = "id, name, workspaces_on, archived_at"
_ORGS = f"""
    SELECT {_ORG_COLUMNS} FROM org
    WHERE %(within)s::uuid IS NULL OR id = %(within)s
    ORDER BY created_at, id
"""
_FIND_ORGS = f"""
    SELECT {_ORG_COLUMNS} FROM org
    WHERE (id = %(id)s OR name = %(wanted)s) AND (%(within)s::uuid IS NULL OR id = %(within)s)
    ORDER BY created_at, id
    LIMIT 2
"""
_ORG_NAME = "SELECT name FROM org WHERE id = %(org_id)s"


async def list_orgs(db: Db, within: OrgId | None = None) -> list[Org]:
    """Return every org, oldest first, or only the org `within`."""
    async with db.cursor(row_factory=class_row(Org)) as cursor:
        await cursor.execute(_ORGS, {"within": within})
        return await cursor.fetchall()


async def find_orgs(db: Db, wanted: str, within: OrgId | None) -> list[Org]:
    """Return the orgs with this id or name; two rows mean that the name is ambiguous."""
    async with db.cursor(row_factory=class_row(Org)) as cursor:
        await cursor.execute(_FIND_ORGS, id_or_name(wanted) | {"within": within})
        return await cursor.fetchall()


async def find_org_name(db: Db, org_id: OrgId) -> str:
    """Return an org's name; empty when the org does not exist."""
    row = await (await db.execute(_ORG_NAME, {"org_id": org_id})).fetchone()
    return row[0] if row else ""


def id_or_name(wanted: str) -> dict[str, Any]:
    """Return the parameters of a statement that finds a row by id or by name."""
    ref = parse_ref(wanted)
    return {"id": ref.id if ref else None, "wanted": wanted}


_RENAME_ORG = "UPDATE org SET name = %(name)s WHERE id = %(id)s"
_ARCHIVE_ORG = "UPDATE org SET archived_at = %(at)s WHERE id = %(id)s"
_SET_WORKSPACES = "UPDATE org SET workspaces_on = %(is_on)s WHERE id = %(org_id)s"


async def rename_org(db: Db, org_id: OrgId, name: str) -> None:
    """Rename an org."""
    await db.execute(_RENAME_ORG, {"id": org_id, "name": name})


async def archive_org(db: Db, org_id: OrgId, at: datetime | None) -> None:
    """Archive an org, which disables its keys; None restores it."""
    await db.execute(_ARCHIVE_ORG, {"id": org_id, "at": at})
    await notify_key_change(db)


async def set_workspaces(db: Db, org_id: OrgId, *, is_on: bool) -> None:
    """Switch separate workspaces on or off for an org, in every process at once."""
    await db.execute(_SET_WORKSPACES, {"org_id": org_id, "is_on": is_on})
    await notify_key_change(db)
