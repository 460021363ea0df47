"""Projects with their members, and agents: create, find, rename and archive them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.rows import class_row

from recollect.core.domain import AgentId, Caller, ProjectId, UserId, WorkspaceId
from recollect.db.pool import Db
from recollect.tenancy.queries.orgs import id_or_name


@dataclass(frozen=True, slots=True)
class Project:
    """A group of users inside a workspace."""

    id: ProjectId
    workspace_id: WorkspaceId
    name: str
    created_at: datetime
    archived_at: datetime | None


@dataclass(frozen=True, slots=True)
class Agent:
    """A program that talks to users; it belongs to a project or to the whole workspace."""

    id: AgentId
    workspace_id: WorkspaceId
    project_id: ProjectId | None
    name: str
    created_at: datetime
    archived_at: datetime | None


_PROJECT_COLUMNS = "id, workspace_id, name, created_at, archived_at"
_AGENT_COLUMNS = "id, workspace_id, project_id, name, created_at, archived_at"

_ADD_PROJECT = """
    INSERT INTO project (workspace_id, id, name, created_at)
    VALUES (%(workspace_id)s, %(id)s, %(name)s, %(now)s)
    ON CONFLICT (workspace_id, name) DO NOTHING
"""


async def add_project(
    db: Db, workspace_id: WorkspaceId, name: str, now: datetime
) -> ProjectId | None:
    """Add a project without members; None when the name is taken."""
    project_id = uuid4()
    values = {"workspace_id": workspace_id, "id": project_id, "name": name, "now": now}
    is_added = (await db.execute(_ADD_PROJECT, values)).rowcount > 0
    return ProjectId(project_id) if is_added else None


_PROJECTS = f"""
    SELECT {_PROJECT_COLUMNS} FROM project
    WHERE workspace_id = %(workspace_id)s
    ORDER BY created_at, id
"""


async def list_projects(db: Db, workspace_id: WorkspaceId) -> list[Project]:
    """Return every project of a workspace, oldest first, archived ones included."""
    async with db.cursor(row_factory=class_row(Project)) as cursor:
        await cursor.execute(_PROJECTS, {"workspace_id": workspace_id})
        return await cursor.fetchall()


_FIND_PROJECTS = f"""
    SELECT {_PROJECT_COLUMNS} FROM project
    WHERE workspace_id = %(workspace_id)s AND (id = %(id)s OR name = %(wanted)s)
    LIMIT 2
"""


async def find_projects(db: Db, workspace_id: WorkspaceId, wanted: str) -> list[Project]:
    """Return the projects with this id or name, archived or not; two rows if it is ambiguous."""
    async with db.cursor(row_factory=class_row(Project)) as cursor:
        await cursor.execute(_FIND_PROJECTS, id_or_name(wanted) | {"workspace_id": workspace_id})
        return await cursor.fetchall()


# Only members may use a project.
_OWN_PROJECT = """
    SELECT p.id FROM project p
    JOIN project_member own ON own.workspace_id = p.workspace_id AND own.project_id = p.id
    WHERE p.workspace_id = %(workspace_id)s AND p.id = %(id)s AND p.archived_at IS NULL
        AND own.user_id = %(user_id)s
"""


async def is_member(db: Db, caller: Caller, project_id: UUID) -> bool:
    """Return whether the caller is a member of this active project of their workspace."""
    values = {
        "workspace_id": caller.workspace_id,
        "id": project_id,
        "user_id": caller.user_id,
    }
    return await (await db.execute(_OWN_PROJECT, values)).fetchone() is not None


_RENAME_PROJECT = """
    UPDATE project SET name = %(name)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""
_ARCHIVE_PROJECT = """
    UPDATE project SET archived_at = %(at)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""


async def rename_project(db: Db, workspace_id: WorkspaceId, project_id: UUID, name: str) -> bool:
    """Rename a project; False when it does not exist."""
    values = {"workspace_id": workspace_id, "id": project_id, "name": name}
    return (await db.execute(_RENAME_PROJECT, values)).rowcount > 0


async def archive_project(
    db: Db, workspace_id: WorkspaceId, project_id: UUID, at: datetime | None
) -> bool:
    """Archive a project with all its data; None restores it. False when it does not exist."""
    values = {"workspace_id": workspace_id, "id": project_id, "at": at}
    return (await db.execute(_ARCHIVE_PROJECT, values)).rowcount > 0


_ADD_MEMBER = """
    INSERT INTO project_member (workspace_id, project_id, user_id, created_at)
    VALUES (%(workspace_id)s, %(project_id)s, %(user_id)s, %(now)s)
    ON CONFLICT (workspace_id, project_id, user_id) DO NOTHING
"""
_REMOVE_MEMBER = """
    DELETE FROM project_member
    WHERE workspace_id = %(workspace_id)s AND project_id = %(project_id)s
        AND user_id = %(user_id)s
"""
_MEMBERS = """
    SELECT user_id FROM project_member
    WHERE workspace_id = %(workspace_id)s AND project_id = %(project_id)s
    ORDER BY created_at, user_id
"""


async def add_member(
    db: Db, workspace_id: WorkspaceId, project_id: UUID, user_id: UserId, now: datetime
) -> None:
    """Add a user to a project; an existing member stays one."""
    values = {
        "workspace_id": workspace_id,
        "project_id": project_id,
        "user_id": user_id,
        "now": now,
    }
    await db.execute(_ADD_MEMBER, values)


async def remove_member(db: Db, workspace_id: WorkspaceId, project_id: UUID, user_id: UUID) -> bool:
    """Remove a user from a project; False when they were not a member."""
    values = {"workspace_id": workspace_id, "project_id": project_id, "user_id": user_id}
    return (await db.execute(_REMOVE_MEMBER, values)).rowcount > 0


async def list_members(db: Db, workspace_id: WorkspaceId, project_id: UUID) -> list[UserId]:
    """Return the members of a project, in the order in which they joined."""
    values = {"workspace_id": workspace_id, "project_id": project_id}
    rows = await (await db.execute(_MEMBERS, values)).fetchall()
    return [UserId(row[0]) for row in rows]


_ADD_AGENT = """
    INSERT INTO agent (workspace_id, id, project_id, name, created_at)
    VALUES (%(workspace_id)s, %(id)s, %(project_id)s, %(name)s, %(now)s)
    ON CONFLICT (workspace_id, name) DO NOTHING
"""


async def add_agent(
    db: Db,
    workspace_id: WorkspaceId,
    name: str,
    *,
    project_id: ProjectId | None,
    now: datetime,
) -> AgentId | None:
    """Add an agent; None when the name is taken."""
    agent_id = uuid4()
    values = {
        "workspace_id": workspace_id,
        "id": agent_id,
        "project_id": project_id,
        "name": name,
        "now": now,
    }
    is_added = (await db.execute(_ADD_AGENT, values)).rowcount > 0
    return AgentId(agent_id) if is_added else None


_AGENTS = f"""
    SELECT {_AGENT_COLUMNS} FROM agent
    WHERE workspace_id = %(workspace_id)s
    ORDER BY created_at, id
"""


async def list_agents(db: Db, workspace_id: WorkspaceId) -> list[Agent]:
    """Return every agent of a workspace, oldest first, archived ones included."""
    async with db.cursor(row_factory=class_row(Agent)) as cursor:
        await cursor.execute(_AGENTS, {"workspace_id": workspace_id})
        return await cursor.fetchall()


_FIND_AGENTS = f"""
    SELECT {_AGENT_COLUMNS} FROM agent
    WHERE workspace_id = %(workspace_id)s AND (id = %(id)s OR name = %(wanted)s)
    LIMIT 2
"""


async def find_agents(db: Db, workspace_id: WorkspaceId, wanted: str) -> list[Agent]:
    """Return the agents with this id or name, archived or not; two rows if it is ambiguous."""
    async with db.cursor(row_factory=class_row(Agent)) as cursor:
        await cursor.execute(_FIND_AGENTS, id_or_name(wanted) | {"workspace_id": workspace_id})
        return await cursor.fetchall()


# By id or name. Only a project's members may use its agents.
_USABLE_AGENT = f"""
    SELECT {_AGENT_COLUMNS} FROM agent a
    WHERE a.workspace_id = %(workspace_id)s AND a.archived_at IS NULL
        AND (a.id::text = %(wanted)s OR a.name = %(wanted)s)
        AND (a.project_id IS NULL OR EXISTS (
            SELECT FROM project_member own
            JOIN project p ON p.workspace_id = own.workspace_id AND p.id = own.project_id
            WHERE own.workspace_id = %(workspace_id)s AND own.project_id = a.project_id
                AND own.user_id = %(user_id)s AND p.archived_at IS NULL))
"""


async def find_usable_agent(db: Db, caller: Caller, wanted: str) -> Agent | None:
    """Return an agent that the caller may act as, by id or name."""
    values = {
        "workspace_id": caller.workspace_id,
        "user_id": caller.user_id,
        "wanted": wanted,
    }
    async with db.cursor(row_factory=class_row(Agent)) as cursor:
        await cursor.execute(_USABLE_AGENT, values)
        return await cursor.fetchone()


_RENAME_AGENT = """
    UPDATE agent SET name = %(name)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""
_ARCHIVE_AGENT = """
    UPDATE agent SET archived_at = %(at)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""


async def rename_agent(db: Db, workspace_id: WorkspaceId, agent_id: UUID, name: str) -> bool:
    """Rename an agent; False when it does not exist."""
    values = {"workspace_id": workspace_id, "id": agent_id, "name": name}
    return (await db.execute(_RENAME_AGENT, values)).rowcount > 0


async def archive_agent(
    db: Db, workspace_id: WorkspaceId, agent_id: UUID, at: datetime | None
) -> bool:
    """Archive an agent; None restores it. False when it does not exist."""
    values = {"workspace_id": workspace_id, "id": agent_id, "at": at}
    return (await db.execute(_ARCHIVE_AGENT, values)).rowcount > 0
