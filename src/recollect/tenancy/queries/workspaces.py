"""Workspaces and their members: create, find, rename and archive them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.rows import class_row

from recollect.core.domain import NO_WORKSPACE, OrgId, UserId, WorkspaceId
from recollect.db.pool import Db
from recollect.tenancy.queries.keys import notify_key_change


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace and the org it belongs to."""

    id: WorkspaceId
    org_id: OrgId
    name: str
    embedder: str | None
    is_default: bool
    archived_at: datetime | None = None


_ADD_WORKSPACE = """
    INSERT INTO workspace (id, org_id, name, embedder, is_default)
    VALUES (%(id)s, %(org_id)s, %(name)s, %(embedder)s, %(is_default)s)
"""


async def add_workspace(
    db: Db, org_id: OrgId, name: str, *, embedder: str | None = None, is_default: bool = False
) -> WorkspaceId:
    """Add a workspace to an org."""
    workspace_id = uuid4()
    await db.execute(
        _ADD_WORKSPACE,
        {
            "id": workspace_id,
            "org_id": org_id,
            "name": name,
            "embedder": embedder,
            "is_default": is_default,
        },
    )
    return WorkspaceId(workspace_id)


_WORKSPACE_COLUMNS = "id, org_id, name, embedder, is_default, archived_at"
_WORKSPACES = f"""
    SELECT {_WORKSPACE_COLUMNS} FROM workspace
    WHERE %(org_id)s::uuid IS NULL OR org_id = %(org_id)s
    ORDER BY created_at, id
"""
_FIND_WORKSPACES = f"""
    SELECT {_WORKSPACE_COLUMNS} FROM workspace
    WHERE (%(org_id)s::uuid IS NULL OR org_id = %(org_id)s)
        AND ((%(wanted)s::text IS NULL AND is_default)
             OR name = %(wanted)s OR id::text = %(wanted)s)
    ORDER BY is_default DESC, created_at, id
    LIMIT 2
"""


async def list_workspaces(db: Db, org_id: OrgId | None = None) -> list[Workspace]:
    """Return every workspace, of one org or of all, oldest first."""
    async with db.cursor(row_factory=class_row(Workspace)) as cursor:
        await cursor.execute(_WORKSPACES, {"org_id": org_id})
        return await cursor.fetchall()


async def find_workspaces(
    db: Db, wanted: str | None, org_id: OrgId | None = None
) -> list[Workspace]:
    """Return the workspaces with this name or id, or the default ones when None.

    Only those of one org if `org_id` is given. Two rows mean that `wanted` is ambiguous.
    """
    async with db.cursor(row_factory=class_row(Workspace)) as cursor:
        await cursor.execute(_FIND_WORKSPACES, {"wanted": wanted, "org_id": org_id})
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class OrgWorkspaces:
    """The workspaces of an org, the default one first, and whether they are kept separate."""

    is_on: bool
    workspace_ids: Sequence[WorkspaceId]


_ORG_WORKSPACES = """
    SELECT o.workspaces_on, w.id
    FROM org o
    LEFT JOIN workspace w ON w.org_id = o.id AND w.archived_at IS NULL
    WHERE o.id = %(org_id)s
    ORDER BY w.is_default DESC, w.created_at, w.id
"""


async def find_org_workspaces(db: Db, org_id: OrgId) -> OrgWorkspaces:
    """Return the active workspaces of an org."""
    rows = await (await db.execute(_ORG_WORKSPACES, {"org_id": org_id})).fetchall()
    return OrgWorkspaces(bool(rows and rows[0][0]), [WorkspaceId(row[1]) for row in rows if row[1]])


_CAN_ENTER = """
    SELECT EXISTS (
        SELECT FROM workspace w
        JOIN app_user u ON u.id = %(user_id)s AND u.org_id = w.org_id
        WHERE w.id = %(workspace_id)s AND w.org_id = %(org_id)s AND w.archived_at IS NULL
            AND (u.is_admin OR EXISTS (
                SELECT FROM workspace_member own
                WHERE own.workspace_id = %(workspace_id)s AND own.user_id = u.id))
    )
"""


async def can_enter(db: Db, org_id: OrgId, user_id: UserId, workspace_id: UUID) -> bool:
    """Return whether a user may make this workspace of the org the active one."""
    values = {"workspace_id": workspace_id, "org_id": org_id, "user_id": user_id}
    row = await (await db.execute(_CAN_ENTER, values)).fetchone()
    return bool(row and row[0])


@dataclass(frozen=True, slots=True)
class WorkspaceEntry:
    """A workspace as a user of its org sees it."""

    id: WorkspaceId
    name: str
    is_default: bool
    created_at: datetime


# everywhere: it checks all workspaces of the user's org at once. `only` limits it to one.
_USER_WORKSPACES = """
    SELECT w.id, w.name, w.is_default, w.created_at
    FROM workspace w
    JOIN app_user u ON u.id = %(user_id)s AND u.org_id = w.org_id
    WHERE w.org_id = %(org_id)s AND w.archived_at IS NULL
        AND (%(only)s::uuid IS NULL OR w.id = %(only)s)
        AND (w.id = %(own)s OR u.is_admin OR EXISTS (
            SELECT FROM workspace_member own
            WHERE own.workspace_id = w.id AND own.user_id = u.id))
    ORDER BY w.is_default DESC, w.created_at, w.id
"""


async def list_user_workspaces(
    db: Db,
    org_id: OrgId,
    user_id: UserId,
    *,
    own: WorkspaceId | None = None,
    only: UUID | None = None,
) -> list[WorkspaceEntry]:
    """Return the workspaces of an org that a user may enter, the default one first.

    The user may enter `own` even without being a member.
    """
    values = {"org_id": org_id, "user_id": user_id, "own": own, "only": only}
    async with db.cursor(row_factory=class_row(WorkspaceEntry)) as cursor:
        await cursor.execute(_USER_WORKSPACES, values)
        return await cursor.fetchall()


_NAME_TAKEN = """
    SELECT EXISTS (
        SELECT FROM workspace WHERE org_id = %(org_id)s AND name = %(name)s AND id <> %(except_id)s
    )
"""
# Without this lock, two transactions could both find the same name free.
_LOCK_NAMES = "SELECT pg_advisory_xact_lock(hashtextextended(%(org_id)s::text || ' names', 0))"


async def is_name_taken(
    db: Db, org_id: OrgId, name: str, *, except_id: UUID = NO_WORKSPACE
) -> bool:
    """Return whether another workspace of the org has this name.

    Locks the org's workspace names until the transaction ends.
    """
    await db.execute(_LOCK_NAMES, {"org_id": org_id})
    values = {"org_id": org_id, "name": name, "except_id": except_id}
    row = await (await db.execute(_NAME_TAKEN, values)).fetchone()
    return bool(row and row[0])


_RENAME_WORKSPACE = "UPDATE workspace SET name = %(name)s WHERE id = %(id)s"
_ARCHIVE_WORKSPACE = "UPDATE workspace SET archived_at = %(at)s WHERE id = %(id)s"
_SET_EMBEDDER = "UPDATE workspace SET embedder = %(embedder)s WHERE id = %(id)s"


async def rename_workspace(db: Db, workspace_id: WorkspaceId, name: str) -> None:
    """Rename a workspace."""
    await db.execute(_RENAME_WORKSPACE, {"id": workspace_id, "name": name})


async def archive_workspace(db: Db, workspace_id: WorkspaceId, at: datetime | None) -> None:
    """Archive a workspace, which disables its keys; None restores it."""
    await db.execute(_ARCHIVE_WORKSPACE, {"id": workspace_id, "at": at})
    await notify_key_change(db)


async def set_embedder(db: Db, workspace_id: WorkspaceId, embedder: str | None) -> None:
    """Set the configured embedder that a workspace uses; None is the server's default."""
    await db.execute(_SET_EMBEDDER, {"id": workspace_id, "embedder": embedder})


_ADD_WORKSPACE_MEMBER = """
    INSERT INTO workspace_member (workspace_id, user_id)
    VALUES (%(workspace_id)s, %(user_id)s)
    ON CONFLICT (workspace_id, user_id) DO NOTHING
"""
_REMOVE_WORKSPACE_MEMBER = """
    DELETE FROM workspace_member
    WHERE workspace_id = %(workspace_id)s AND user_id = %(user_id)s
"""
_WORKSPACE_MEMBERS = """
    SELECT user_id FROM workspace_member
    WHERE workspace_id = %(workspace_id)s
    ORDER BY created_at, user_id
"""


async def add_workspace_member(db: Db, workspace_id: WorkspaceId, user_id: UserId) -> None:
    """Let a user make this workspace the active one."""
    values = {"workspace_id": workspace_id, "user_id": user_id}
    await db.execute(_ADD_WORKSPACE_MEMBER, values)


async def remove_workspace_member(db: Db, workspace_id: WorkspaceId, user_id: UserId) -> bool:
    """Remove a user from a workspace; False when they were not a member."""
    values = {"workspace_id": workspace_id, "user_id": user_id}
    return (await db.execute(_REMOVE_WORKSPACE_MEMBER, values)).rowcount > 0


async def list_workspace_members(db: Db, workspace_id: WorkspaceId) -> list[UserId]:
    """Return the users, besides admins, who may make this workspace the active one."""
    cursor = await db.execute(_WORKSPACE_MEMBERS, {"workspace_id": workspace_id})
    return [UserId(row[0]) for row in await cursor.fetchall()]
