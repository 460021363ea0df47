"""Delete archived orgs, users, workspaces, projects and agents; each deletion is an erasure."""

from recollect.core.domain import OrgId
from recollect.engine import Engine
from recollect.portability.erasure import Erased, erase
from recollect.portability.erasure_targets import (
    ErasureKind,
    ErasureTarget,
    target_org,
    target_project_or_agent,
    target_user,
)
from recollect.tenancy import lookup
from recollect.tenancy.orgs import check_archived, find_workspace
from recollect.tenancy.projects import InWorkspace


async def delete_org(
    engine: Engine, wanted: str, *, by: str, is_dry: bool = False, within: OrgId | None = None
) -> Erased:
    """Delete an archived org with its users and all their data."""
    async with engine.pool.everywhere() as db:
        org = await lookup.find_org(db, wanted, within)
    check_archived(org.archived_at, "org")
    return await erase(engine, await target_org(engine, org.id), by=by, is_dry=is_dry)


async def delete_user(
    engine: Engine, wanted: str, *, by: str, is_dry: bool = False, within: OrgId | None = None
) -> Erased:
    """Delete an archived user with all their data."""
    async with engine.pool.everywhere() as db:
        user = await lookup.find_user(db, wanted, within)
    check_archived(user.archived_at, "user")
    target = await target_user(engine, str(user.id), user.org_id)
    return await erase(engine, target, by=by, is_dry=is_dry)


async def delete_workspace(
    engine: Engine, wanted: str, *, by: str, is_dry: bool = False, within: OrgId | None = None
) -> Erased:
    """Delete an archived workspace with everything in it."""
    async with engine.pool.everywhere() as db:
        found = await lookup.find_workspace(db, wanted, within)
    check_archived(found.archived_at, "workspace")
    target = ErasureTarget(ErasureKind.WORKSPACE, found.org_id, [found.id], id=found.id)
    return await erase(engine, target, by=by, is_dry=is_dry)


async def delete_project_or_agent(
    engine: Engine, where: InWorkspace, kind: ErasureKind, wanted: str, *, is_dry: bool = False
) -> Erased:
    """Delete an archived project or agent with the data that only it can see."""
    found = await find_workspace(engine, where.workspace, where.within)
    target, is_archived = await target_project_or_agent(
        engine, kind, found.id, found.org_id, wanted
    )
    check_archived(engine.now() if is_archived else None, kind)
    return await erase(engine, target, by=where.by.label if where.by else "operator", is_dry=is_dry)
