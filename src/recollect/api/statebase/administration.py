"""Routes that administer an org: users, keys, workspaces, projects, agents and erasures.

They use the keys and the error envelope of the plain REST API. Paths name things by id or by name.
"""

import re
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query

from recollect.api.apps import KEY_OR_BEARER, CallerOf, EngineOf, new_app, new_router, set_up
from recollect.api.gateway import Interface, key_or_bearer
from recollect.api.statebase import administration_wire as wire
from recollect.api.statebase.errors import StatebaseErrorObject, answer
from recollect.core.domain import THREAD_PREFIXES, parse_ref
from recollect.core.errors import Denied
from recollect.engine import Engine
from recollect.portability import erasure as erasing
from recollect.portability import erasure_receipts, erasure_targets, tenant_deletion
from recollect.portability.erasure_targets import ErasureKind, ErasureTarget
from recollect.tenancy import administration, orgs, projects
from recollect.tenancy.administration import OrgAdmin, record_admin_event, require_admin
from recollect.tenancy.projects import InWorkspace

PREFIXES = ("/v1/admin",)
# Responses that contain a new password or key. The gateway stores no copy of them.
_SECRET_PATHS = re.compile(r"/v1/admin/(orgs|users|keys|keys/[^/]+/rotate)")
router = new_router(StatebaseErrorObject)


def new_interface(engine: Engine) -> Interface:
    """Return the administration interface."""
    app = new_app(
        "Recollect: administration",
        "Administer an org. The key needs the `admin` right and must belong to an admin.",
        router.routes,
    )
    set_up(app, engine, answer, KEY_OR_BEARER)
    return Interface(
        "administration", PREFIXES, app, answer, key_or_bearer, secret_paths=_SECRET_PATHS
    )


async def _admin(engine: EngineOf, caller: CallerOf) -> OrgAdmin:
    return await require_admin(engine, caller)


AdminOf = Annotated[OrgAdmin, Depends(_admin)]
InWorkspaceOf = Annotated[wire.AdminWorkspaceParameters, Query()]
DeleteOf = Annotated[wire.AdminDeleteParameters, Query()]
DeleteInWorkspaceOf = Annotated[wire.AdminDeleteInWorkspaceParameters, Query()]


# Orgs. An admin sees their own org. An admin of the instance's first org administers all orgs.


@router.get("/v1/admin/orgs")
async def list_orgs(engine: EngineOf, admin: AdminOf) -> wire.OrgList:
    """List the orgs that the caller may administer."""
    found = await orgs.list_orgs(engine, admin.within)
    return wire.OrgList(data=[wire.from_org(each) for each in found])


@router.post("/v1/admin/orgs", status_code=201)
async def create_org(
    engine: EngineOf, admin: AdminOf, body: wire.NewOrg
) -> wire.StatebaseOrgObject:
    """Create an org with its first user and its default workspace."""
    admin.require_instance_admin()
    org_id, user = await orgs.create_org(engine, body.name, body.admin)
    await record_admin_event(engine, admin, "org.created", org=org_id)
    return wire.from_org(await orgs.find_org(engine, str(org_id), admin.within), user)


@router.patch("/v1/admin/orgs/{org}")
async def change_org(
    engine: EngineOf, admin: AdminOf, org: str, body: wire.OrgChange
) -> wire.StatebaseOrgObject:
    """Rename an org, switch its workspaces on or off, archive it or restore it."""
    found = await orgs.find_org(engine, org, admin.within)
    org_id = str(found.id)
    if body.archived is not None:
        admin.check_not_self(org_id)
        await orgs.archive_org(engine, org_id, is_archived=body.archived, within=admin.within)
    if body.name is not None:
        await orgs.rename_org(engine, org_id, body.name, within=admin.within)
    if body.workspaces_on is not None:
        await orgs.switch_workspaces(engine, org_id, is_on=body.workspaces_on, within=admin.within)
    await record_admin_event(engine, admin, "org.changed", org=found.id)
    return wire.from_org(await orgs.find_org(engine, org_id, admin.within))


@router.delete("/v1/admin/orgs/{org}")
async def delete_org(
    engine: EngineOf, admin: AdminOf, org: str, parameters: DeleteOf
) -> wire.ErasureObject:
    """Delete an archived org and everything in it."""
    found = await orgs.find_org(engine, org, admin.within)
    admin.require_instance_admin()
    admin.check_not_self(str(found.id))
    done = await tenant_deletion.delete_org(
        engine,
        str(found.id),
        by=admin.caller.label,
        is_dry=parameters.dry_run,
        within=admin.within,
    )
    return wire.from_erased(done)


# Users.


@router.get("/v1/admin/users")
async def list_users(engine: EngineOf, admin: AdminOf) -> wire.UserList:
    """List the users of the org, including archived ones."""
    found = await orgs.list_users(engine, admin.org, admin.org_id)
    return wire.UserList(data=[wire.from_user(each) for each in found])


@router.post("/v1/admin/users", status_code=201)
async def create_user(
    engine: EngineOf, admin: AdminOf, body: wire.NewAccount
) -> wire.NewUserObject:
    """Create a user. Only this response contains the password."""
    made = await orgs.create_user(
        engine, body.login, org=admin.org, is_admin=body.admin, within=admin.org_id
    )
    await record_admin_event(engine, admin, "user.created", user=made.id)
    return wire.from_new_user(made)


@router.patch("/v1/admin/users/{user}")
async def change_user(
    engine: EngineOf, admin: AdminOf, user: str, body: wire.UserChange
) -> wire.StatebaseUserObject:
    """Change a user's login, archive the user with all their keys, or restore both."""
    found = await orgs.find_user(engine, user, admin.org_id)
    user_id = str(found.id)
    if body.archived is not None:
        admin.check_not_self(user_id)
        await orgs.archive_user(engine, user_id, is_archived=body.archived, within=admin.org_id)
    if body.login is not None and body.login != found.login:
        await orgs.rename_user(engine, user_id, body.login, within=admin.org_id)
    await record_admin_event(engine, admin, "user.changed", user=found.id)
    return wire.from_user(await orgs.find_user(engine, user_id, admin.org_id))


@router.delete("/v1/admin/users/{user}")
async def delete_user(
    engine: EngineOf, admin: AdminOf, user: str, parameters: DeleteOf
) -> wire.ErasureObject:
    """Delete an archived user and all their data."""
    found = await orgs.find_user(engine, user, admin.org_id)
    admin.check_not_self(str(found.id))
    done = await tenant_deletion.delete_user(
        engine, str(found.id), by=admin.caller.label, is_dry=parameters.dry_run, within=admin.org_id
    )
    return wire.from_erased(done)


# Keys.


@router.get("/v1/admin/keys")
async def list_keys(engine: EngineOf, admin: AdminOf) -> wire.KeyList:
    """List the keys of the org, including revoked and expired ones, without the secrets."""
    found = await administration.list_keys(engine, admin)
    return wire.KeyList(data=[wire.from_key(each) for each in found])


@router.post("/v1/admin/keys", status_code=201)
async def create_key(
    engine: EngineOf, admin: AdminOf, body: wire.StatebaseNewKey
) -> wire.StatebaseNewKeyObject:
    """Create a key. Only this response contains its text."""
    if body.user not in {None, str(admin.caller.user_id)}:
        raise Denied("You can only create keys for yourself. Leave out `user` or send your own id.")
    return wire.from_new_key(await administration.make_key(engine, admin, wire.to_new_key(body)))


@router.post("/v1/admin/keys/{key}/rotate", status_code=201)
async def rotate_key(
    engine: EngineOf, admin: AdminOf, key: str, body: wire.Rotation
) -> wire.StatebaseNewKeyObject:
    """Replace one of your own keys. The old key keeps working for `keep_hours`."""
    keep_for = timedelta(hours=body.keep_hours)
    return wire.from_new_key(await administration.rotate_key(engine, admin, key, keep_for))


@router.post("/v1/admin/keys/{key}/revoke")
async def revoke_key(engine: EngineOf, admin: AdminOf, key: str) -> wire.KeyList:
    """Revoke a key of the org, effective at once on every server."""
    found = await administration.revoke_key(engine, admin, key)
    return wire.KeyList(data=[wire.from_key(each) for each in found])


# Workspaces.


@router.get("/v1/admin/workspaces")
async def list_workspaces(engine: EngineOf, admin: AdminOf) -> wire.WorkspaceList:
    """List the workspaces of the org, including archived ones."""
    found = await orgs.list_workspaces(engine, admin.org_id)
    return wire.WorkspaceList(data=[wire.from_workspace(each) for each in found])


@router.post("/v1/admin/workspaces", status_code=201)
async def create_workspace(
    engine: EngineOf, admin: AdminOf, body: wire.StatebaseNewWorkspace
) -> wire.StatebaseWorkspaceObject:
    """Create a workspace."""
    made = await orgs.create_workspace(
        engine, body.name, org=admin.org, embedder=body.embedder, within=admin.org_id
    )
    await record_admin_event(engine, admin, "workspace.created", workspace=made)
    return wire.from_workspace(await orgs.find_workspace(engine, str(made), admin.org_id))


@router.patch("/v1/admin/workspaces/{workspace}")
async def change_workspace(
    engine: EngineOf, admin: AdminOf, workspace: str, body: wire.RenameOrArchive
) -> wire.StatebaseWorkspaceObject:
    """Rename a workspace, archive it with its keys, or restore it."""
    found = await orgs.find_workspace(engine, workspace, admin.org_id)
    workspace_id = str(found.id)
    if body.archived is not None:
        await orgs.archive_workspace(
            engine, workspace_id, is_archived=body.archived, within=admin.org_id
        )
    if body.name is not None and body.name != found.name:
        await orgs.rename_workspace(engine, workspace_id, body.name, within=admin.org_id)
    await record_admin_event(engine, admin, "workspace.changed", workspace=found.id)
    return wire.from_workspace(await orgs.find_workspace(engine, workspace_id, admin.org_id))


@router.delete("/v1/admin/workspaces/{workspace}")
async def delete_workspace(
    engine: EngineOf, admin: AdminOf, workspace: str, parameters: DeleteOf
) -> wire.ErasureObject:
    """Delete an archived workspace and everything in it."""
    done = await tenant_deletion.delete_workspace(
        engine, workspace, by=admin.caller.label, is_dry=parameters.dry_run, within=admin.org_id
    )
    return wire.from_erased(done)


@router.get("/v1/admin/workspaces/{workspace}/members")
async def list_workspace_members(
    engine: EngineOf, admin: AdminOf, workspace: str
) -> wire.MemberList:
    """List the users who may enter the workspace, besides the org's admins."""
    found = await orgs.workspace_members(engine, workspace, within=admin.org_id)
    return wire.MemberList(data=list(found))


@router.put("/v1/admin/workspaces/{workspace}/members/{user}")
async def invite_to_workspace(
    engine: EngineOf, admin: AdminOf, workspace: str, user: str
) -> wire.MemberList:
    """Add a user of the org to a workspace. Adding a member again changes nothing."""
    target = await orgs.find_workspace(engine, workspace, admin.org_id)
    member = await orgs.find_user(engine, user, admin.org_id)
    await orgs.invite_to_workspace(engine, str(target.id), str(member.id), within=admin.org_id)
    await record_admin_event(engine, admin, "workspace.joined", workspace=target.id, user=member.id)
    return await list_workspace_members(engine, admin, workspace)


@router.delete("/v1/admin/workspaces/{workspace}/members/{user}")
async def remove_from_workspace(
    engine: EngineOf, admin: AdminOf, workspace: str, user: str
) -> wire.MemberList:
    """Remove a user from a workspace."""
    target = await orgs.find_workspace(engine, workspace, admin.org_id)
    member = await orgs.find_user(engine, user, admin.org_id)
    await orgs.remove_from_workspace(engine, str(target.id), str(member.id), within=admin.org_id)
    await record_admin_event(engine, admin, "workspace.left", workspace=target.id, user=member.id)
    return await list_workspace_members(engine, admin, workspace)


# Projects.


@router.get("/v1/admin/projects")
async def list_projects(
    engine: EngineOf, admin: AdminOf, parameters: InWorkspaceOf
) -> wire.ProjectList:
    """List the projects of a workspace with their members."""
    found = await projects.list_projects(engine, _in_workspace(admin, parameters))
    return wire.ProjectList(data=[wire.from_project(each, members) for each, members in found])


@router.post("/v1/admin/projects", status_code=201)
async def create_project(
    engine: EngineOf, admin: AdminOf, parameters: InWorkspaceOf, body: wire.NewProject
) -> wire.ProjectObject:
    """Create a project without members."""
    where = _in_workspace(admin, parameters)
    made = await projects.create_project(engine, where, body.name)
    return await _project(engine, where, str(made))


@router.patch("/v1/admin/projects/{project}")
async def change_project(
    engine: EngineOf,
    admin: AdminOf,
    project: str,
    parameters: InWorkspaceOf,
    body: wire.RenameOrArchive,
) -> wire.ProjectObject:
    """Rename a project, archive it with its memories, or restore it."""
    where = _in_workspace(admin, parameters)
    found = await _project(engine, where, project)
    project_id = str(found.id)
    if body.archived is not None:
        await projects.archive_project(engine, where, project_id, is_archived=body.archived)
    if body.name is not None and body.name != found.name:
        await projects.rename_project(engine, where, project_id, body.name)
    return await _project(engine, where, project_id)


@router.delete("/v1/admin/projects/{project}")
async def delete_project(
    engine: EngineOf, admin: AdminOf, project: str, parameters: DeleteInWorkspaceOf
) -> wire.ErasureObject:
    """Delete an archived project and everything that belongs only to it."""
    return await _delete_project_or_agent(engine, admin, ErasureKind.PROJECT, project, parameters)


@router.put("/v1/admin/projects/{project}/members/{user}")
async def invite_to_project(
    engine: EngineOf, admin: AdminOf, project: str, user: str, parameters: InWorkspaceOf
) -> wire.ProjectObject:
    """Add a user of the org to a project. Adding a member again changes nothing."""
    where = _in_workspace(admin, parameters)
    await projects.invite_to_project(engine, where, project, user)
    return await _project(engine, where, project)


@router.delete("/v1/admin/projects/{project}/members/{user}")
async def remove_from_project(
    engine: EngineOf, admin: AdminOf, project: str, user: str, parameters: InWorkspaceOf
) -> wire.ProjectObject:
    """Remove a user from a project. They lose access to it at once."""
    where = _in_workspace(admin, parameters)
    await projects.remove_from_project(engine, where, project, user)
    return await _project(engine, where, project)


async def _project(engine: Engine, where: InWorkspace, name_or_id: str) -> wire.ProjectObject:
    found = await projects.find_project(engine, where, name_or_id)
    return wire.from_project(*found)


# Agents.


@router.get("/v1/admin/agents")
async def list_agents(
    engine: EngineOf, admin: AdminOf, parameters: InWorkspaceOf
) -> wire.AgentList:
    """List the agents of a workspace."""
    found = await projects.list_agents(engine, _in_workspace(admin, parameters))
    return wire.AgentList(data=[wire.from_agent(each) for each in found])


@router.post("/v1/admin/agents", status_code=201)
async def create_agent(
    engine: EngineOf, admin: AdminOf, parameters: InWorkspaceOf, body: wire.NewAgent
) -> wire.AgentObject:
    """Create an agent in the workspace, or in one of its projects."""
    where = _in_workspace(admin, parameters)
    made = await projects.create_agent(engine, where, body.name, project=body.project)
    return await _agent(engine, where, str(made))


@router.patch("/v1/admin/agents/{agent}")
async def change_agent(
    engine: EngineOf,
    admin: AdminOf,
    agent: str,
    parameters: InWorkspaceOf,
    body: wire.RenameOrArchive,
) -> wire.AgentObject:
    """Rename an agent, archive it, or restore it."""
    where = _in_workspace(admin, parameters)
    found = await _agent(engine, where, agent)
    agent_id = str(found.id)
    if body.archived is not None:
        await projects.archive_agent(engine, where, agent_id, is_archived=body.archived)
    if body.name is not None and body.name != found.name:
        await projects.rename_agent(engine, where, agent_id, body.name)
    return await _agent(engine, where, agent_id)


@router.delete("/v1/admin/agents/{agent}")
async def delete_agent(
    engine: EngineOf, admin: AdminOf, agent: str, parameters: DeleteInWorkspaceOf
) -> wire.ErasureObject:
    """Delete an archived agent and everything that belongs only to it."""
    return await _delete_project_or_agent(engine, admin, ErasureKind.AGENT, agent, parameters)


async def _agent(engine: Engine, where: InWorkspace, name_or_id: str) -> wire.AgentObject:
    found = await projects.find_agent(engine, where, name_or_id)
    return wire.from_agent(found)


async def _delete_project_or_agent(
    engine: Engine,
    admin: OrgAdmin,
    kind: ErasureKind,
    name_or_id: str,
    parameters: wire.AdminDeleteInWorkspaceParameters,
) -> wire.ErasureObject:
    where = _in_workspace(admin, parameters)
    return wire.from_erased(
        await tenant_deletion.delete_project_or_agent(
            engine, where, kind, name_or_id, is_dry=parameters.dry_run
        )
    )


def _in_workspace(admin: OrgAdmin, parameters: wire.AdminWorkspaceParameters) -> InWorkspace:
    return InWorkspace(parameters.workspace or admin.workspace, admin.org_id, admin.caller)


# Erasures.


@router.post("/v1/admin/erasures", status_code=201)
async def erase(engine: EngineOf, admin: AdminOf, body: wire.NewErasure) -> wire.ErasureObject:
    """Erase a user, a session, a key or a subject, with everything derived from it."""
    target = await _target(engine, admin, body)
    if target.id:
        admin.check_not_self(str(target.id))
    done = await erasing.erase(engine, target, by=admin.caller.label, is_dry=body.dry_run)
    return wire.from_erased(done)


async def _target(engine: Engine, admin: OrgAdmin, body: wire.NewErasure) -> ErasureTarget:
    kind = body.kind
    if kind is ErasureKind.USER:
        return await erasure_targets.target_user(engine, body.user or "", admin.org_id)
    workspace = await orgs.find_workspace(engine, body.workspace or admin.workspace, admin.org_id)
    if kind is ErasureKind.THREAD:
        name = body.session or ""
        ref = parse_ref(name, *THREAD_PREFIXES)
        return await erasure_targets.target_thread(
            engine, workspace.id, workspace.org_id, ref, name
        )
    owner = await erasure_targets.find_owner(engine, body.user, admin.org_id)
    text = body.key or body.subject
    return ErasureTarget(kind, workspace.org_id, [workspace.id], text=text, owner_id=owner)


@router.get("/v1/admin/erasures")
async def list_erasures(engine: EngineOf, admin: AdminOf) -> wire.ReceiptList:
    """List the erasure receipts of the org, oldest first."""
    return wire.ReceiptList(data=await erasure_receipts.list_receipts(engine, admin.org_id))


@router.get("/v1/admin/erasures/{receipt}")
async def get_erasure(engine: EngineOf, admin: AdminOf, receipt: UUID) -> wire.ErasureObject:
    """Return one erasure receipt."""
    found = await erasure_receipts.get_receipt(engine, admin.org_id, receipt)
    return wire.ErasureObject(kind=found["kind"], counts=found["counts"], receipt=found)


@router.post("/v1/admin/erasures/{receipt}/verify")
async def verify_erasure(engine: EngineOf, admin: AdminOf, receipt: UUID) -> wire.Verdict:
    """Check that nothing of the erased data is left."""
    found = await erasure_receipts.get_receipt(engine, admin.org_id, receipt)
    return wire.from_verified(await erasure_receipts.verify(engine, found))
