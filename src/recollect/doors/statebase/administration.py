"""Arranging an org over HTTP: users, workspaces, projects, agents and what is to be erased.

Beside the plain REST API, with its key and its envelope. Everything is named by id or by name.
"""

import re
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query

from recollect.domain import THREAD_PREFIXES, parse_ref
from recollect.doors.front import Door, key_or_bearer
from recollect.doors.furnish import KEY_OR_BEARER, CallerOf, EngineOf, furnish, new_app, new_router
from recollect.doors.statebase import administration_wire as wire
from recollect.doors.statebase.errors import ErrorObject, answer
from recollect.engine import administration, circles, erase_receipts, erase_targets, tenants
from recollect.engine import erase as erasing
from recollect.engine.administration import Admin, administer, note
from recollect.engine.circles import Where
from recollect.engine.core import Engine
from recollect.engine.erase_targets import Kind, Target
from recollect.errors import Denied

PREFIXES = ("/v1/admin",)
# Where a password or a key is told, once.
_TELLS_SECRET = re.compile(r"/v1/admin/(orgs|users|keys|keys/[^/]+/rotate)")
router = new_router(ErrorObject)


def door(engine: Engine) -> Door:
    """The door, ready to be hung."""
    app = new_app(
        "Recollect: administration",
        "Arrange an org. The key needs the `admin` right and acts for an admin.",
        router.routes,
    )
    furnish(app, engine, answer, KEY_OR_BEARER)
    return Door("administration", PREFIXES, app, answer, key_or_bearer, secrets=_TELLS_SECRET)


async def _admin(engine: EngineOf, caller: CallerOf) -> Admin:
    return await administer(engine, caller)


AdminOf = Annotated[Admin, Depends(_admin)]
InsideOf = Annotated[wire.Inside, Query()]
RemovalOf = Annotated[wire.Removal, Query()]
RemovalInsideOf = Annotated[wire.RemovalInside, Query()]


# Orgs. An admin sees their own; one of the house's first org sees and arranges all.


@router.get("/v1/admin/orgs")
async def list_orgs(engine: EngineOf, admin: AdminOf) -> wire.OrgList:
    """List the orgs that may be arranged."""
    found = await tenants.list_orgs(engine, admin.reach)
    return wire.OrgList(data=[wire.from_org(each) for each in found])


@router.post("/v1/admin/orgs", status_code=201)
async def create_org(engine: EngineOf, admin: AdminOf, body: wire.NewOrg) -> wire.OrgObject:
    """Make an org with its first user and its default workspace."""
    admin.require_house()
    org_id, user = await tenants.create_org(engine, body.name, body.admin)
    await note(engine, admin, "org.created", org=org_id)
    return wire.from_org(await tenants.find_org(engine, str(org_id), admin.reach), user)


@router.patch("/v1/admin/orgs/{org}")
async def change_org(
    engine: EngineOf, admin: AdminOf, org: str, body: wire.OrgChange
) -> wire.OrgObject:
    """Rename an org, tell its workspaces apart or not, archive it or bring it back."""
    found = await tenants.find_org(engine, org, admin.reach)
    wanted = str(found.id)
    if body.archived is not None:
        admin.check_not_self(wanted)
        await tenants.archive_org(engine, wanted, is_over=body.archived, within=admin.reach)
    if body.name is not None:
        await tenants.rename_org(engine, wanted, body.name, within=admin.reach)
    if body.workspaces_on is not None:
        await tenants.switch_workspaces(
            engine, wanted, is_on=body.workspaces_on, within=admin.reach
        )
    await note(engine, admin, "org.changed", org=found.id)
    return wire.from_org(await tenants.find_org(engine, wanted, admin.reach))


@router.delete("/v1/admin/orgs/{org}")
async def delete_org(
    engine: EngineOf, admin: AdminOf, org: str, asked: RemovalOf
) -> wire.ErasureObject:
    """Remove an archived org for good, with everything in it."""
    found = await tenants.find_org(engine, org, admin.reach)
    admin.require_house()
    admin.check_not_self(str(found.id))
    done = await tenants.delete_org(
        engine, str(found.id), by=admin.caller.label, is_dry=asked.dry_run, within=admin.reach
    )
    return wire.from_erased(done)


# Users.


@router.get("/v1/admin/users")
async def list_users(engine: EngineOf, admin: AdminOf) -> wire.UserList:
    """List the users of the org, archived ones too."""
    found = await tenants.list_users(engine, admin.org, admin.org_id)
    return wire.UserList(data=[wire.from_user(each) for each in found])


@router.post("/v1/admin/users", status_code=201)
async def create_user(
    engine: EngineOf, admin: AdminOf, body: wire.NewAccount
) -> wire.NewUserObject:
    """Make a user; the password is in this answer and nowhere else."""
    made = await tenants.create_user(
        engine, body.login, org=admin.org, is_admin=body.admin, within=admin.org_id
    )
    await note(engine, admin, "user.created", user=made.id)
    return wire.from_new_user(made)


@router.patch("/v1/admin/users/{user}")
async def change_user(
    engine: EngineOf, admin: AdminOf, user: str, body: wire.UserChange
) -> wire.UserObject:
    """Give a user another login, end all their keys, or let these work again."""
    found = await tenants.find_user(engine, user, admin.org_id)
    wanted = str(found.id)
    if body.archived is not None:
        admin.check_not_self(wanted)
        await tenants.archive_user(engine, wanted, is_over=body.archived, within=admin.org_id)
    if body.login is not None and body.login != found.login:
        await tenants.rename_user(engine, wanted, body.login, within=admin.org_id)
    await note(engine, admin, "user.changed", user=found.id)
    return wire.from_user(await tenants.find_user(engine, wanted, admin.org_id))


@router.delete("/v1/admin/users/{user}")
async def delete_user(
    engine: EngineOf, admin: AdminOf, user: str, asked: RemovalOf
) -> wire.ErasureObject:
    """Remove an archived user for good, with everything they ever said."""
    found = await tenants.find_user(engine, user, admin.org_id)
    admin.check_not_self(str(found.id))
    done = await tenants.delete_user(
        engine, str(found.id), by=admin.caller.label, is_dry=asked.dry_run, within=admin.org_id
    )
    return wire.from_erased(done)


# Keys.


@router.get("/v1/admin/keys")
async def list_keys(engine: EngineOf, admin: AdminOf) -> wire.KeyList:
    """List the keys of the org, revoked and expired ones too, without their texts."""
    found = await administration.list_keys(engine, admin)
    return wire.KeyList(data=[wire.from_key(each) for each in found])


@router.post("/v1/admin/keys", status_code=201)
async def create_key(engine: EngineOf, admin: AdminOf, body: wire.NewKey) -> wire.NewKeyObject:
    """Make a key; its text is in this answer and nowhere else."""
    if body.user not in {None, str(admin.caller.user_id)}:
        raise Denied("A key made here acts for whoever makes it.")
    return wire.from_new_key(await administration.make_key(engine, admin, wire.to_make(body)))


@router.post("/v1/admin/keys/{key}/rotate", status_code=201)
async def rotate_key(
    engine: EngineOf, admin: AdminOf, key: str, body: wire.Rotation
) -> wire.NewKeyObject:
    """Put a new key in the place of one of your own; the old one works on as long as you say."""
    keeps_for = timedelta(hours=body.keep_hours)
    return wire.from_new_key(await administration.rotate_key(engine, admin, key, keeps_for))


@router.post("/v1/admin/keys/{key}/revoke")
async def revoke_key(engine: EngineOf, admin: AdminOf, key: str) -> wire.KeyList:
    """End a key of the org, at once and everywhere."""
    found = await administration.revoke_key(engine, admin, key)
    return wire.KeyList(data=[wire.from_key(each) for each in found])


# Workspaces.


@router.get("/v1/admin/workspaces")
async def list_workspaces(engine: EngineOf, admin: AdminOf) -> wire.WorkspaceList:
    """List the workspaces of the org, archived ones too."""
    found = await tenants.list_workspaces(engine, admin.org_id)
    return wire.WorkspaceList(data=[wire.from_workspace(each) for each in found])


@router.post("/v1/admin/workspaces", status_code=201)
async def create_workspace(
    engine: EngineOf, admin: AdminOf, body: wire.NewWorkspace
) -> wire.WorkspaceObject:
    """Make a workspace."""
    made = await tenants.create_workspace(
        engine, body.name, org=admin.org, embedder=body.embedder, within=admin.org_id
    )
    await note(engine, admin, "workspace.created", workspace=made)
    return wire.from_workspace(await tenants.find_workspace(engine, str(made), admin.org_id))


@router.patch("/v1/admin/workspaces/{workspace}")
async def change_workspace(
    engine: EngineOf, admin: AdminOf, workspace: str, body: wire.Change
) -> wire.WorkspaceObject:
    """Rename a workspace, archive it with its keys, or bring it back."""
    found = await tenants.find_workspace(engine, workspace, admin.org_id)
    wanted = str(found.id)
    if body.archived is not None:
        await tenants.archive_workspace(engine, wanted, is_over=body.archived, within=admin.org_id)
    if body.name is not None and body.name != found.name:
        await tenants.rename_workspace(engine, wanted, body.name, within=admin.org_id)
    await note(engine, admin, "workspace.changed", workspace=found.id)
    return wire.from_workspace(await tenants.find_workspace(engine, wanted, admin.org_id))


@router.delete("/v1/admin/workspaces/{workspace}")
async def delete_workspace(
    engine: EngineOf, admin: AdminOf, workspace: str, asked: RemovalOf
) -> wire.ErasureObject:
    """Remove an archived workspace for good, with everything in it."""
    done = await tenants.delete_workspace(
        engine, workspace, by=admin.caller.label, is_dry=asked.dry_run, within=admin.org_id
    )
    return wire.from_erased(done)


@router.get("/v1/admin/workspaces/{workspace}/members")
async def list_workspace_members(
    engine: EngineOf, admin: AdminOf, workspace: str
) -> wire.MemberList:
    """Who may make the workspace their active one, beside the org's admins."""
    found = await tenants.workspace_members(engine, workspace, within=admin.org_id)
    return wire.MemberList(data=list(found))


@router.put("/v1/admin/workspaces/{workspace}/members/{user}")
async def invite_to_workspace(
    engine: EngineOf, admin: AdminOf, workspace: str, user: str
) -> wire.MemberList:
    """Let a user of the org in; whoever is in it stays."""
    place = await tenants.find_workspace(engine, workspace, admin.org_id)
    guest = await tenants.find_user(engine, user, admin.org_id)
    await tenants.invite_to_workspace(engine, str(place.id), str(guest.id), within=admin.org_id)
    await note(engine, admin, "workspace.joined", workspace=place.id, user=guest.id)
    return await list_workspace_members(engine, admin, workspace)


@router.delete("/v1/admin/workspaces/{workspace}/members/{user}")
async def remove_from_workspace(
    engine: EngineOf, admin: AdminOf, workspace: str, user: str
) -> wire.MemberList:
    """Keep a user out."""
    place = await tenants.find_workspace(engine, workspace, admin.org_id)
    guest = await tenants.find_user(engine, user, admin.org_id)
    await tenants.remove_from_workspace(engine, str(place.id), str(guest.id), within=admin.org_id)
    await note(engine, admin, "workspace.left", workspace=place.id, user=guest.id)
    return await list_workspace_members(engine, admin, workspace)


# Projects.


@router.get("/v1/admin/projects")
async def list_projects(engine: EngineOf, admin: AdminOf, asked: InsideOf) -> wire.ProjectList:
    """List the projects of a workspace with their members."""
    found = await circles.list_projects(engine, _where(admin, asked))
    return wire.ProjectList(data=[wire.from_project(each, members) for each, members in found])


@router.post("/v1/admin/projects", status_code=201)
async def create_project(
    engine: EngineOf, admin: AdminOf, asked: InsideOf, body: wire.NewProject
) -> wire.ProjectObject:
    """Make a project, with nobody in it."""
    where = _where(admin, asked)
    made = await circles.create_project(engine, where, body.name)
    return await _project(engine, where, str(made))


@router.patch("/v1/admin/projects/{project}")
async def change_project(
    engine: EngineOf, admin: AdminOf, project: str, asked: InsideOf, body: wire.Change
) -> wire.ProjectObject:
    """Rename a project, archive it with all it knows, or bring it back."""
    where = _where(admin, asked)
    found = await _project(engine, where, project)
    wanted = str(found.id)
    if body.archived is not None:
        await circles.archive_project(engine, where, wanted, is_over=body.archived)
    if body.name is not None and body.name != found.name:
        await circles.rename_project(engine, where, wanted, body.name)
    return await _project(engine, where, wanted)


@router.delete("/v1/admin/projects/{project}")
async def delete_project(
    engine: EngineOf, admin: AdminOf, project: str, asked: RemovalInsideOf
) -> wire.ErasureObject:
    """Remove an archived project for good, with what only it knew."""
    return await _delete_circle(engine, admin, Kind.PROJECT, project, asked)


@router.put("/v1/admin/projects/{project}/members/{user}")
async def invite_to_project(
    engine: EngineOf, admin: AdminOf, project: str, user: str, asked: InsideOf
) -> wire.ProjectObject:
    """Let a user of the org in; whoever is in it stays."""
    where = _where(admin, asked)
    await circles.invite_to_project(engine, where, project, user)
    return await _project(engine, where, project)


@router.delete("/v1/admin/projects/{project}/members/{user}")
async def remove_from_project(
    engine: EngineOf, admin: AdminOf, project: str, user: str, asked: InsideOf
) -> wire.ProjectObject:
    """Put a user out; they see nothing more of it from that moment."""
    where = _where(admin, asked)
    await circles.remove_from_project(engine, where, project, user)
    return await _project(engine, where, project)


async def _project(engine: Engine, where: Where, wanted: str) -> wire.ProjectObject:
    found = await circles.find_project(engine, where, wanted)
    return wire.from_project(*found)


# Agents.


@router.get("/v1/admin/agents")
async def list_agents(engine: EngineOf, admin: AdminOf, asked: InsideOf) -> wire.AgentList:
    """List the agents of a workspace."""
    found = await circles.list_agents(engine, _where(admin, asked))
    return wire.AgentList(data=[wire.from_agent(each) for each in found])


@router.post("/v1/admin/agents", status_code=201)
async def create_agent(
    engine: EngineOf, admin: AdminOf, asked: InsideOf, body: wire.NewAgent
) -> wire.AgentObject:
    """Make an agent known, to the workspace or to a project in it."""
    where = _where(admin, asked)
    made = await circles.create_agent(engine, where, body.name, project=body.project)
    return await _agent(engine, where, str(made))


@router.patch("/v1/admin/agents/{agent}")
async def change_agent(
    engine: EngineOf, admin: AdminOf, agent: str, asked: InsideOf, body: wire.Change
) -> wire.AgentObject:
    """Rename an agent, archive it, or bring it back."""
    where = _where(admin, asked)
    found = await _agent(engine, where, agent)
    wanted = str(found.id)
    if body.archived is not None:
        await circles.archive_agent(engine, where, wanted, is_over=body.archived)
    if body.name is not None and body.name != found.name:
        await circles.rename_agent(engine, where, wanted, body.name)
    return await _agent(engine, where, wanted)


@router.delete("/v1/admin/agents/{agent}")
async def delete_agent(
    engine: EngineOf, admin: AdminOf, agent: str, asked: RemovalInsideOf
) -> wire.ErasureObject:
    """Remove an archived agent for good, with what only it knew."""
    return await _delete_circle(engine, admin, Kind.AGENT, agent, asked)


async def _agent(engine: Engine, where: Where, wanted: str) -> wire.AgentObject:
    found = await circles.find_agent(engine, where, wanted)
    return wire.from_agent(found)


async def _delete_circle(
    engine: Engine, admin: Admin, kind: Kind, wanted: str, asked: wire.RemovalInside
) -> wire.ErasureObject:
    where = _where(admin, asked)
    return wire.from_erased(
        await circles.delete_circle(engine, where, kind, wanted, is_dry=asked.dry_run)
    )


def _where(admin: Admin, asked: wire.Inside) -> Where:
    return Where(asked.workspace or admin.workspace, admin.org_id, admin.caller)


# Erasing.


@router.post("/v1/admin/erasures", status_code=201)
async def erase(engine: EngineOf, admin: AdminOf, body: wire.NewErasure) -> wire.ErasureObject:
    """Erase a user, a session, a key or a subject with everything made of it."""
    target = await _target(engine, admin, body)
    if target.id:
        admin.check_not_self(str(target.id))
    done = await erasing.erase(engine, target, by=admin.caller.label, is_dry=body.dry_run)
    return wire.from_erased(done)


async def _target(engine: Engine, admin: Admin, body: wire.NewErasure) -> Target:
    kind = body.kind
    if kind is Kind.USER:
        return await erase_targets.target_user(engine, body.user or "", admin.org_id)
    place = await tenants.find_workspace(engine, body.workspace or admin.workspace, admin.org_id)
    if kind is Kind.THREAD:
        name = body.session or ""
        ref = parse_ref(name, *THREAD_PREFIXES)
        return await erase_targets.target_thread(engine, place.id, place.org_id, ref, name)
    owner = await erase_targets.find_owner(engine, body.user, admin.org_id)
    text = body.key or body.subject
    return Target(kind, place.org_id, [place.id], text=text, owner_id=owner)


@router.get("/v1/admin/erasures")
async def list_erasures(engine: EngineOf, admin: AdminOf) -> wire.ReceiptList:
    """The receipts of the org, oldest first."""
    return wire.ReceiptList(data=await erase_receipts.list_receipts(engine, admin.org_id))


@router.get("/v1/admin/erasures/{receipt}")
async def get_erasure(engine: EngineOf, admin: AdminOf, receipt: UUID) -> wire.ErasureObject:
    """One receipt."""
    found = await erase_receipts.get_receipt(engine, admin.org_id, receipt)
    return wire.ErasureObject(kind=found["kind"], counts=found["counts"], receipt=found)


@router.post("/v1/admin/erasures/{receipt}/verify")
async def verify_erasure(engine: EngineOf, admin: AdminOf, receipt: UUID) -> wire.Verdict:
    """Check that nothing of it is there."""
    found = await erase_receipts.get_receipt(engine, admin.org_id, receipt)
    return wire.from_verified(await erase_receipts.verify(engine, found))
