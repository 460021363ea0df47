"""Projects and agents inside a workspace, managed by the operator or by an org's admins.

Each is found by id or by name, archived or not. An archived one is kept but cannot be used. It can
be restored, or deleted permanently with the data that only it can see. `tenancy.request_scope`
decides which callers may use one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from recollect.core.domain import AgentId, Caller, OrgId, ProjectId, UserId, WorkspaceId
from recollect.core.errors import Conflict, NotFound
from recollect.db import audit_events
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.tenancy import lookup
from recollect.tenancy.orgs import check_name, find_workspace
from recollect.tenancy.queries import projects
from recollect.tenancy.queries.projects import Agent, Project
from recollect.tenancy.queries.workspaces import Workspace

_PROJECT_NAME_TAKEN = "The workspace already has a project with that name."
_AGENT_NAME_TAKEN = "The workspace already has an agent with that name."


@dataclass(frozen=True, slots=True)
class InWorkspace:
    """The workspace to work in, and the admin who does so."""

    # An id or name; the default workspace when None.
    workspace: str | None = None
    # The only org that the admin can see, and the admin, for the audit; None for the operator.
    within: OrgId | None = None
    by: Caller | None = None


async def list_projects(engine: Engine, where: InWorkspace) -> list[tuple[Project, list[UserId]]]:
    """Return the projects of a workspace, each with its members."""
    async with _reading(engine, where) as (db, workspace_id):
        return [
            (each, await projects.list_members(db, workspace_id, each.id))
            for each in await projects.list_projects(db, workspace_id)
        ]


async def find_project(
    engine: Engine, where: InWorkspace, wanted: str
) -> tuple[Project, list[UserId]]:
    """Return a project with its members."""
    async with _reading(engine, where) as (db, workspace_id):
        project = await lookup.find_project(db, workspace_id, wanted)
        return project, await projects.list_members(db, workspace_id, project.id)


async def create_project(engine: Engine, where: InWorkspace, name: str) -> ProjectId:
    """Create a project without members in a workspace."""
    check_name(name)
    async with _changing(engine, where) as change:
        new_id = await projects.add_project(change.db, change.workspace.id, name, engine.now())
        if new_id is None:
            raise Conflict(_PROJECT_NAME_TAKEN)
        await change.record_event("project.created", project=new_id)
    return new_id


async def rename_project(engine: Engine, where: InWorkspace, wanted: str, name: str) -> None:
    """Rename a project."""
    check_name(name)
    async with _changing(engine, where) as change:
        project = await change.find_project(wanted)
        if await projects.find_projects(change.db, change.workspace.id, name):
            raise Conflict(_PROJECT_NAME_TAKEN)
        await projects.rename_project(change.db, change.workspace.id, project.id, name)
        await change.record_event("project.renamed", project=project.id)


async def archive_project(
    engine: Engine, where: InWorkspace, wanted: str, *, is_archived: bool
) -> None:
    """Archive a project with all its data, or restore it."""
    async with _changing(engine, where) as change:
        project = await change.find_project(wanted)
        at = engine.now() if is_archived else None
        await projects.archive_project(change.db, change.workspace.id, project.id, at)
        action = "project.archived" if is_archived else "project.restored"
        await change.record_event(action, project=project.id)


async def invite_to_project(engine: Engine, where: InWorkspace, wanted: str, user: str) -> None:
    """Add a user of the org to a project."""
    async with _changing(engine, where) as change:
        member = await lookup.find_user(change.db, user, change.workspace.org_id)
        project = await change.find_project(wanted)
        await projects.add_member(
            change.db, change.workspace.id, project.id, member.id, engine.now()
        )
        await change.record_event("project.joined", project=project.id, user=member.id)


async def remove_from_project(engine: Engine, where: InWorkspace, wanted: str, user: str) -> None:
    """Remove a user from a project; they lose access to it at once."""
    async with _changing(engine, where) as change:
        member = await lookup.find_user(change.db, user, change.workspace.org_id)
        project = await change.find_project(wanted)
        if not await projects.remove_member(change.db, change.workspace.id, project.id, member.id):
            raise NotFound("member")
        await change.record_event("project.left", project=project.id, user=member.id)


async def list_agents(engine: Engine, where: InWorkspace) -> list[Agent]:
    """Return the agents of a workspace."""
    async with _reading(engine, where) as (db, workspace_id):
        return await projects.list_agents(db, workspace_id)


async def find_agent(engine: Engine, where: InWorkspace, wanted: str) -> Agent:
    """Return one agent."""
    async with _reading(engine, where) as (db, workspace_id):
        return await lookup.find_agent(db, workspace_id, wanted)


async def create_agent(
    engine: Engine, where: InWorkspace, name: str, *, project: str | None = None
) -> AgentId:
    """Create an agent in a workspace, or in one of its projects."""
    check_name(name)
    async with _changing(engine, where) as change:
        project_id = (await change.find_project(project)).id if project else None
        new_id = await projects.add_agent(
            change.db, change.workspace.id, name, project_id=project_id, now=engine.now()
        )
        if new_id is None:
            raise Conflict(_AGENT_NAME_TAKEN)
        await change.record_event("agent.created", agent=new_id)
    return new_id


async def rename_agent(engine: Engine, where: InWorkspace, wanted: str, name: str) -> None:
    """Rename an agent."""
    check_name(name)
    async with _changing(engine, where) as change:
        agent = await lookup.find_agent(change.db, change.workspace.id, wanted)
        if await projects.find_agents(change.db, change.workspace.id, name):
            raise Conflict(_AGENT_NAME_TAKEN)
        await projects.rename_agent(change.db, change.workspace.id, agent.id, name)
        await change.record_event("agent.renamed", agent=agent.id)


async def archive_agent(
    engine: Engine, where: InWorkspace, wanted: str, *, is_archived: bool
) -> None:
    """Archive an agent, or restore it."""
    async with _changing(engine, where) as change:
        agent = await lookup.find_agent(change.db, change.workspace.id, wanted)
        at = engine.now() if is_archived else None
        await projects.archive_agent(change.db, change.workspace.id, agent.id, at)
        action = "agent.archived" if is_archived else "agent.restored"
        await change.record_event(action, agent=agent.id)


@dataclass(frozen=True, slots=True)
class _Change:
    """A transaction that changes projects or agents of one workspace."""

    engine: Engine
    db: Db
    workspace: Workspace
    by: Caller | None

    async def find_project(self, wanted: str) -> Project:
        return await lookup.find_project(self.db, self.workspace.id, wanted)

    async def record_event(self, action: str, **ids: UUID) -> None:
        """Record a private audit event: only a project's members may learn that it exists."""
        await audit_events.insert_event(
            self.db,
            self.workspace.id,
            action,
            actor=self.by.label if self.by else "operator",
            user_id=self.by.user_id if self.by else None,
            details={name: str(value) for name, value in ids.items()},
            at=self.engine.now(),
            is_private=True,
        )


@asynccontextmanager
async def _changing(engine: Engine, where: InWorkspace) -> AsyncGenerator[_Change]:
    """Open a transaction in the workspace; its admin cannot be erased until it ends."""
    found = await find_workspace(engine, where.workspace, where.within)
    writing = (
        engine.pool.writing_as(found.id, where.by.user_id)
        if where.by
        else engine.pool.writing(found.id)
    )
    async with writing as db:
        yield _Change(engine, db, found, where.by)


@asynccontextmanager
async def _reading(engine: Engine, where: InWorkspace) -> AsyncGenerator[tuple[Db, WorkspaceId]]:
    found = await find_workspace(engine, where.workspace, where.within)
    async with engine.pool.reading(found.id) as db:
        yield db, found.id
