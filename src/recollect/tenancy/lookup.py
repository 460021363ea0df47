"""Find orgs, users, workspaces, projects and agents by id or by name, for administration.

`within` is the only org that an admin can see. None is for the operator, who sees every org.
"""

from collections.abc import Sequence
from typing import TypeVar

from recollect.core.domain import OrgId, WorkspaceId
from recollect.core.errors import Conflict, Invalid, NotFound
from recollect.db.pool import Db
from recollect.tenancy.queries import orgs, projects, users, workspaces
from recollect.tenancy.queries.orgs import Org
from recollect.tenancy.queries.projects import Agent, Project
from recollect.tenancy.queries.users import User
from recollect.tenancy.queries.workspaces import Workspace

N = TypeVar("N")


async def find_org(db: Db, wanted: str | None, within: OrgId | None) -> Org:
    """Return the org; with None, the only org there is."""
    if wanted is not None:
        return _only(await orgs.find_orgs(db, wanted, within), "org")
    found = await orgs.list_orgs(db, within)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound("org")
    raise Invalid("There is more than one org. Choose one with `--org`.", field="org")


async def find_user(db: Db, wanted: str, within: OrgId | None) -> User:
    """Return a user by login or id, archived or not."""
    found = await users.find_user(db, wanted, within)
    if found is None:
        raise NotFound("user")
    return found


async def find_workspace(db: Db, wanted: str | None, within: OrgId | None = None) -> Workspace:
    """Return the workspace; with None, the default one."""
    found = await workspaces.find_workspaces(db, wanted, within)
    if not found:
        raise NotFound("workspace")
    if len(found) > 1:
        raise Conflict("More than one workspace matches. Use its id.")
    return found[0]


async def find_project(db: Db, workspace_id: WorkspaceId, wanted: str) -> Project:
    """Return a project of the workspace by name or id, archived or not."""
    return _only(await projects.find_projects(db, workspace_id, wanted), "project")


async def find_agent(db: Db, workspace_id: WorkspaceId, wanted: str) -> Agent:
    """Return an agent of the workspace by name or id, archived or not."""
    return _only(await projects.find_agents(db, workspace_id, wanted), "agent")


def _only(found: Sequence[N], thing: str) -> N:
    if not found:
        raise NotFound(thing)
    if len(found) > 1:
        raise Conflict(f"More than one {thing} has that name. Use its id.")
    return found[0]
