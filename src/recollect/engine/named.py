"""Who or what is meant, by id or by name, when the house is arranged.

`within` is the org that an administrator may not look beyond; None is for whoever runs the house.
"""

from collections.abc import Sequence
from typing import TypeVar

from recollect.domain import OrgId, WorkspaceId
from recollect.errors import Conflict, Invalid, NotFound
from recollect.store import identity, projects
from recollect.store.identity import Org, User, Workspace
from recollect.store.pool import Db
from recollect.store.projects import Agent, Project

N = TypeVar("N")


async def org_named(db: Db, wanted: str | None, within: OrgId | None) -> Org:
    """The org; with None the only one there is."""
    if wanted is not None:
        return _only(await identity.orgs_named(db, wanted, within), "org")
    found = await identity.orgs(db, within)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound("org")
    raise Invalid("There is more than one org. Name it with `--org`.", field="org")


async def user_named(db: Db, wanted: str, within: OrgId | None) -> User:
    """A user by login or id, archived ones too."""
    found = await identity.user_named(db, wanted, within)
    if found is None:
        raise NotFound("user")
    return found


async def workspace_named(db: Db, wanted: str | None, within: OrgId | None = None) -> Workspace:
    """The workspace; with None the default one."""
    found = await identity.find_workspace(db, wanted, within)
    if not found:
        raise NotFound("workspace")
    if len(found) > 1:
        raise Conflict("More than one workspace fits. Name it by its id.")
    return found[0]


async def project_named(db: Db, workspace_id: WorkspaceId, wanted: str) -> Project:
    """A project of the workspace by name or id, archived ones too."""
    return _only(await projects.projects_named(db, workspace_id, wanted), "project")


async def agent_named(db: Db, workspace_id: WorkspaceId, wanted: str) -> Agent:
    """An agent of the workspace by name or id, archived ones too."""
    return _only(await projects.agents_named(db, workspace_id, wanted), "agent")


def _only(found: Sequence[N], thing: str) -> N:
    if not found:
        raise NotFound(thing)
    if len(found) > 1:
        raise Conflict(f"More than one {thing} has that name. Use its id.")
    return found[0]
