"""Routes of jobs, server settings, API keys and members."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from recollect.api import ids
from recollect.api.apps import CallerOf, EngineOf
from recollect.api.cursors import make_cursor, read_cursor
from recollect.api.dashboard.common import RESPONSES
from recollect.api.dashboard.wire import common, settings
from recollect.api.fields import clamp
from recollect.chat.model_list import default_model, list_models
from recollect.core.domain import Right
from recollect.embeddings.status import embedding_status
from recollect.memories.save import MAX_BYTES
from recollect.tenancy.members import (
    MemberNewKey,
    add_member,
    change_role,
    list_members,
    list_own_keys,
    make_key,
    remove_member,
    revoke_own_key,
)
from recollect.tenancy.workspace_jobs import list_jobs, retry_job
from recollect.tenancy.workspaces import enter_workspace

_DEFAULT_LIMIT, _MAX_LIMIT = 20, 100
_MODEL_LIST_SECONDS = 2.0

router = APIRouter(responses=RESPONSES)


class JobParameters(common.DashboardPageParameters):
    """Which jobs to list."""

    state: Literal["pending", "running", "failed"] | None = None


@router.get("/chat/api/jobs")
async def get_jobs(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[JobParameters, Query()]
) -> settings.Jobs:
    """List unfinished jobs of every workspace that the caller may enter, newest first."""
    filters = {"jobs": parameters.state}
    found = await list_jobs(
        engine,
        caller,
        state=parameters.state,
        after=read_cursor(parameters.cursor, caller, filters),
        limit=clamp(parameters.limit, default=_DEFAULT_LIMIT, maximum=_MAX_LIMIT),
    )
    last = found.jobs[-1] if found.has_more else None
    return settings.Jobs(
        items=[settings.from_job(each) for each in found.jobs],
        next_cursor=make_cursor((last.created_at, last.id), caller, filters) if last else None,
        has_more=found.has_more,
        counts=dict(found.counts),
    )


@router.post("/chat/api/jobs/{job_id}/retry")
async def retry(engine: EngineOf, caller: CallerOf, job_id: str) -> settings.JobObject:
    """Retry a failed job."""
    return settings.from_job(await retry_job(engine, caller, ids.uuid_of(job_id, "job")))


class SettingsParameters(common.Parameters):
    """The workspace. Default: the default workspace."""

    workspace: common.Word | None = None


@router.get("/chat/api/settings")
async def get_settings(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[SettingsParameters, Query()]
) -> settings.SettingsObject:
    """Return the server settings that matter to its users."""
    if parameters.workspace:
        caller = await enter_workspace(engine, caller, ids.workspace(parameters.workspace))
    models = await list_models(engine, caller, timeout_seconds=_MODEL_LIST_SECONDS)
    default = default_model(engine, models)
    return settings.SettingsObject(
        models=[
            settings.ChatModelObject(id=each.id, owned_by=each.owner, is_default=each.id == default)
            for each in models
        ],
        embedder=settings.from_embedding(await embedding_status(engine, caller)),
        limits=settings.LimitsObject(
            content_bytes=MAX_BYTES,
            daily_tokens=engine.daily_tokens,
            injection_floor=engine.injection_floor,
            is_reviewed=engine.needs_review,
        ),
    )


@router.get("/chat/api/keys")
async def get_keys(
    engine: EngineOf, caller: CallerOf
) -> common.DashboardPage[settings.DashboardKeyObject]:
    """List the caller's keys, newest first. An admin sees all keys of the org."""
    found = await list_own_keys(engine, caller)
    return common.DashboardPage(items=[settings.from_key(each) for each in found])


@router.post("/chat/api/keys", status_code=201)
async def create_key(
    engine: EngineOf, caller: CallerOf, body: settings.DashboardNewKey
) -> settings.DashboardNewKeyObject:
    """Create a key for a workspace. Its text is shown only in this response."""
    if body.workspace_id is not None:
        caller = await enter_workspace(engine, caller, ids.workspace(body.workspace_id))
    expires = body.expires
    if expires is None and body.expires_days:
        expires = engine.now() + timedelta(days=body.expires_days)
    ask = MemberNewKey(body.name, [Right(each) for each in dict.fromkeys(body.rights)], expires)
    made = await make_key(engine, caller, ask)
    return settings.DashboardNewKeyObject(
        **settings.from_key(made.record).model_dump(), key=made.text
    )


@router.post("/chat/api/keys/{key_id}/revoke", status_code=204)
async def revoke_key(engine: EngineOf, caller: CallerOf, key_id: str) -> None:
    """Revoke a key, effective at once on every server."""
    await revoke_own_key(engine, caller, ids.uuid_of(key_id, "key", "key_"))


@router.get("/chat/api/members")
async def get_members(
    engine: EngineOf, caller: CallerOf
) -> common.DashboardPage[settings.MemberObject]:
    """List the members, who can sign in."""
    found = await list_members(engine, caller)
    return common.DashboardPage(items=[settings.from_member(each) for each in found])


@router.post("/chat/api/members", status_code=201)
async def create_member(
    engine: EngineOf, caller: CallerOf, body: settings.NewMember
) -> settings.NewMemberObject:
    """Add a member; needs an admin. A generated password is shown only in this response."""
    is_admin = Right.ADMIN in body.rights
    added = await add_member(engine, caller, body.name, password=body.password, is_admin=is_admin)
    [user] = [each for each in await list_members(engine, caller) if each.id == added.id]
    password = None if body.password else added.password
    return settings.NewMemberObject(**settings.from_member(user).model_dump(), password=password)


@router.patch("/chat/api/members/{member_id}")
async def change_member(
    engine: EngineOf, caller: CallerOf, member_id: str, body: settings.Role
) -> settings.MemberObject:
    """Grant or withdraw the admin role; needs an admin."""
    user_id = ids.uuid_of(member_id, "member")
    is_admin = body.role == "admin"
    return settings.from_member(await change_role(engine, caller, user_id, is_admin=is_admin))


@router.delete("/chat/api/members/{member_id}", status_code=204)
async def delete_member(engine: EngineOf, caller: CallerOf, member_id: str) -> None:
    """Remove a member; needs an admin. Their messages and memories stay."""
    await remove_member(engine, caller, ids.uuid_of(member_id, "member"))
