"""Projects and agents, the circles inside a workspace, arranged by whoever runs the house.

Named by id or by name, archived ones too. What is put away is kept and opens nothing; it can be
brought back, or deleted for good with what only it knew. Who acts inside one is `contexts`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from recollect.domain import AgentId, Caller, OrgId, ProjectId, UserId, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.erase import Erased, erase
from recollect.engine.erase_targets import Kind, target_circle
from recollect.engine.named import agent_named, project_named, user_named
from recollect.engine.tenants import check_archived, check_name, find_workspace
from recollect.errors import Conflict, NotFound
from recollect.store import events, projects
from recollect.store.identity import Workspace
from recollect.store.pool import Db
from recollect.store.projects import Agent, Project


@dataclass(frozen=True, slots=True)
class Where:
    """In which workspace, and who arranges it."""

    # By id or name; the default one when None.
    workspace: str | None = None
    # The org that an administrator may not look beyond, and who that is, for the audit; None is
    # for whoever runs the house.
    within: OrgId | None = None
    by: Caller | None = None


async def list_projects(engine: Engine, where: Where) -> list[tuple[Project, list[UserId]]]:
    """The projects of a workspace, each with its members."""
    async with _looking(engine, where) as (db, workspace_id):
        return [
            (each, await projects.members(db, workspace_id, each.id))
            for each in await projects.projects(db, workspace_id)
        ]


async def find_project(engine: Engine, where: Where, wanted: str) -> tuple[Project, list[UserId]]:
    """A project with its members."""
    async with _looking(engine, where) as (db, workspace_id):
        project = await project_named(db, workspace_id, wanted)
        return project, await projects.members(db, workspace_id, project.id)


async def create_project(engine: Engine, where: Where, name: str) -> ProjectId:
    """A project of a workspace, with nobody in it."""
    check_name(name)
    async with _arranging(engine, where) as desk:
        made = await projects.add_project(desk.db, desk.workspace.id, name, engine.now())
        if made is None:
            raise Conflict("The workspace has a project of that name.")
        await desk.note("project.created", project=made)
    return made


async def rename_project(engine: Engine, where: Where, wanted: str, name: str) -> None:
    """Give a project another name."""
    check_name(name)
    async with _arranging(engine, where) as desk:
        project = await desk.project(wanted)
        if await projects.projects_named(desk.db, desk.workspace.id, name):
            raise Conflict("The workspace has a project of that name.")
        await projects.rename_project(desk.db, desk.workspace.id, project.id, name)
        await desk.note("project.renamed", project=project.id)


async def archive_project(engine: Engine, where: Where, wanted: str, *, is_over: bool) -> None:
    """Put a project away with all it knows, or bring it back."""
    async with _arranging(engine, where) as desk:
        project = await desk.project(wanted)
        at = engine.now() if is_over else None
        await projects.archive_project(desk.db, desk.workspace.id, project.id, at)
        await desk.note("project.archived" if is_over else "project.restored", project=project.id)


async def invite_to_project(engine: Engine, where: Where, wanted: str, user: str) -> None:
    """Let a user of the org into a project."""
    async with _arranging(engine, where) as desk:
        guest = await user_named(desk.db, user, desk.workspace.org_id)
        project = await desk.project(wanted)
        await projects.add_member(desk.db, desk.workspace.id, project.id, guest.id, engine.now())
        await desk.note("project.joined", project=project.id, user=guest.id)


async def remove_from_project(engine: Engine, where: Where, wanted: str, user: str) -> None:
    """Put a user out of a project; they see nothing more of it from that moment."""
    async with _arranging(engine, where) as desk:
        guest = await user_named(desk.db, user, desk.workspace.org_id)
        project = await desk.project(wanted)
        if not await projects.remove_member(desk.db, desk.workspace.id, project.id, guest.id):
            raise NotFound("member")
        await desk.note("project.left", project=project.id, user=guest.id)


async def list_agents(engine: Engine, where: Where) -> list[Agent]:
    """The agents of a workspace."""
    async with _looking(engine, where) as (db, workspace_id):
        return await projects.agents(db, workspace_id)


async def find_agent(engine: Engine, where: Where, wanted: str) -> Agent:
    """An agent."""
    async with _looking(engine, where) as (db, workspace_id):
        return await agent_named(db, workspace_id, wanted)


async def create_agent(
    engine: Engine, where: Where, name: str, *, project: str | None = None
) -> AgentId:
    """An agent of a workspace, or of a project in it."""
    check_name(name)
    async with _arranging(engine, where) as desk:
        owner = (await desk.project(project)).id if project else None
        made = await projects.add_agent(
            desk.db, desk.workspace.id, name, project_id=owner, now=engine.now()
        )
        if made is None:
            raise Conflict("The workspace has an agent of that name.")
        await desk.note("agent.created", agent=made)
    return made


async def rename_agent(engine: Engine, where: Where, wanted: str, name: str) -> None:
    """Give an agent another name."""
    check_name(name)
    async with _arranging(engine, where) as desk:
        agent = await agent_named(desk.db, desk.workspace.id, wanted)
        if await projects.agents_named(desk.db, desk.workspace.id, name):
            raise Conflict("The workspace has an agent of that name.")
        await projects.rename_agent(desk.db, desk.workspace.id, agent.id, name)
        await desk.note("agent.renamed", agent=agent.id)


async def archive_agent(engine: Engine, where: Where, wanted: str, *, is_over: bool) -> None:
    """Put an agent away, or bring it back."""
    async with _arranging(engine, where) as desk:
        agent = await agent_named(desk.db, desk.workspace.id, wanted)
        at = engine.now() if is_over else None
        await projects.archive_agent(desk.db, desk.workspace.id, agent.id, at)
        await desk.note("agent.archived" if is_over else "agent.restored", agent=agent.id)


async def delete_circle(
    engine: Engine, where: Where, kind: Kind, wanted: str, *, is_dry: bool = False
) -> Erased:
    """Remove an archived project or agent for good, with what only it knew."""
    found = await find_workspace(engine, where.workspace, where.within)
    target, is_archived = await target_circle(engine, kind, found.id, found.org_id, wanted)
    check_archived(engine.now() if is_archived else None, kind)
    return await erase(engine, target, by=_name_of(where.by), is_dry=is_dry)


@dataclass(frozen=True, slots=True)
class _Desk:
    """A workspace being arranged, in one transaction."""

    engine: Engine
    db: Db
    workspace: Workspace
    by: Caller | None

    async def project(self, wanted: str) -> Project:
        return await project_named(self.db, self.workspace.id, wanted)

    async def note(self, action: str, **ids: UUID) -> None:
        """Write down who did it, for them alone: which projects there are is their members'."""
        await events.record(
            self.db,
            self.workspace.id,
            action,
            actor=_name_of(self.by),
            user_id=self.by.user_id if self.by else None,
            details={name: str(value) for name, value in ids.items()},
            at=self.engine.now(),
            is_private=True,
        )


@asynccontextmanager
async def _arranging(engine: Engine, where: Where) -> AsyncGenerator[_Desk]:
    """Whoever is named in what is written cannot be erased until it is."""
    found = await find_workspace(engine, where.workspace, where.within)
    writing = (
        engine.pool.writing_as(found.id, where.by.user_id)
        if where.by
        else engine.pool.writing(found.id)
    )
    async with writing as db:
        yield _Desk(engine, db, found, where.by)


@asynccontextmanager
async def _looking(engine: Engine, where: Where) -> AsyncGenerator[tuple[Db, WorkspaceId]]:
    found = await find_workspace(engine, where.workspace, where.within)
    async with engine.pool.reading(found.id) as db:
        yield db, found.id


def _name_of(by: Caller | None) -> str:
    return by.label if by else "operator"
