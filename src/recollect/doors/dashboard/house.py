"""The routes of the house: its jobs, how it is set up, its keys and its people."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from recollect.domain import Right
from recollect.doors import refs
from recollect.doors.cursors import cursor_at, place_of
from recollect.doors.dashboard import house_wire, wire
from recollect.doors.dashboard.common import RESPONSES
from recollect.doors.furnish import CallerOf, EngineOf
from recollect.doors.values import clamped
from recollect.engine.catalogue import default_model, list_models
from recollect.engine.overview import embedding, list_jobs, retry_job
from recollect.engine.people import (
    MakeKey,
    add_member,
    change_role,
    end_key,
    list_members,
    list_own_keys,
    make_key,
    remove_member,
)
from recollect.engine.save import MOST_BYTES
from recollect.engine.workspaces import enter_place

_USUAL, _MOST = 20, 100
_PATIENCE_SECONDS = 2.0

router = APIRouter(responses=RESPONSES)


class JobParameters(wire.PageParameters):
    """Which jobs."""

    state: Literal["pending", "running", "buried"] | None = None


@router.get("/chat/api/jobs")
async def get_jobs(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[JobParameters, Query()]
) -> house_wire.Jobs:
    """Jobs that are not done, of every workspace one may be in, newest first."""
    asked = {"jobs": parameters.state}
    found = await list_jobs(
        engine,
        caller,
        state=parameters.state,
        after=place_of(parameters.cursor, caller, asked),
        limit=clamped(parameters.limit, default=_USUAL, most=_MOST),
    )
    last = found.jobs[-1] if found.has_more else None
    return house_wire.Jobs(
        items=[house_wire.from_job(each) for each in found.jobs],
        next_cursor=cursor_at((last.created_at, last.id), caller, asked) if last else None,
        has_more=found.has_more,
        counts=dict(found.counts),
    )


@router.post("/chat/api/jobs/{job_id}/retry")
async def retry(engine: EngineOf, caller: CallerOf, job_id: str) -> house_wire.JobObject:
    """Let a buried job try again."""
    return house_wire.from_job(await retry_job(engine, caller, refs.uuid_of(job_id, "job")))


class SettingsParameters(wire.Parameters):
    """Of which workspace; the default one where none is named."""

    workspace: wire.Word | None = None


@router.get("/chat/api/settings")
async def get_settings(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[SettingsParameters, Query()]
) -> house_wire.SettingsObject:
    """How the server is set up, as far as its people need to know."""
    if parameters.workspace:
        wanted = refs.workspace(parameters.workspace)
        caller = await enter_place(engine, caller, wanted)
    models = await list_models(engine, caller, patience_seconds=_PATIENCE_SECONDS)
    usual = default_model(engine, models)
    return house_wire.SettingsObject(
        models=[
            house_wire.ChatModelObject(id=each.id, owned_by=each.owner, is_default=each.id == usual)
            for each in models
        ],
        embedder=house_wire.from_embedding(await embedding(engine, caller)),
        limits=house_wire.LimitsObject(
            content_bytes=MOST_BYTES,
            daily_tokens=engine.daily_tokens,
            injection_floor=engine.injection_floor,
            is_reviewed=engine.is_reviewed,
        ),
    )


@router.get("/chat/api/keys")
async def get_keys(engine: EngineOf, caller: CallerOf) -> wire.Page[house_wire.KeyObject]:
    """One's keys, newest first; for an admin all of the org."""
    found = await list_own_keys(engine, caller)
    return wire.Page(items=[house_wire.from_key(each) for each in found])


@router.post("/chat/api/keys", status_code=201)
async def create_key(
    engine: EngineOf, caller: CallerOf, body: house_wire.NewKey
) -> house_wire.NewKeyObject:
    """Make a key to a workspace; it is shown only now."""
    if body.workspace_id is not None:
        wanted = refs.workspace(body.workspace_id)
        caller = await enter_place(engine, caller, wanted)
    expires = body.expires
    if expires is None and body.expires_days:
        expires = engine.now() + timedelta(days=body.expires_days)
    ask = MakeKey(body.name, [Right(each) for each in dict.fromkeys(body.rights)], expires)
    made = await make_key(engine, caller, ask)
    return house_wire.NewKeyObject(**house_wire.from_key(made.record).model_dump(), key=made.text)


@router.post("/chat/api/keys/{key_id}/revoke", status_code=204)
async def revoke_key(engine: EngineOf, caller: CallerOf, key_id: str) -> None:
    """End a key, at once and everywhere."""
    await end_key(engine, caller, refs.uuid_of(key_id, "key", "key_"))


@router.get("/chat/api/members")
async def get_members(engine: EngineOf, caller: CallerOf) -> wire.Page[house_wire.MemberObject]:
    """Who can sign in."""
    found = await list_members(engine, caller)
    return wire.Page(items=[house_wire.from_member(each) for each in found])


@router.post("/chat/api/members", status_code=201)
async def create_member(
    engine: EngineOf, caller: CallerOf, body: house_wire.NewMember
) -> house_wire.NewMemberObject:
    """Let somebody sign in; takes an admin. A password that is made up is shown only now."""
    is_admin = Right.ADMIN in body.rights
    made = await add_member(engine, caller, body.name, password=body.password, is_admin=is_admin)
    [user] = [each for each in await list_members(engine, caller) if each.id == made.id]
    shown = None if body.password else made.password
    return house_wire.NewMemberObject(**house_wire.from_member(user).model_dump(), password=shown)


@router.patch("/chat/api/members/{member_id}")
async def change_member(
    engine: EngineOf, caller: CallerOf, member_id: str, body: house_wire.Role
) -> house_wire.MemberObject:
    """Make somebody an admin, or one no longer; takes an admin."""
    wanted = refs.uuid_of(member_id, "member")
    is_admin = body.role == "admin"
    return house_wire.from_member(await change_role(engine, caller, wanted, is_admin=is_admin))


@router.delete("/chat/api/members/{member_id}", status_code=204)
async def delete_member(engine: EngineOf, caller: CallerOf, member_id: str) -> None:
    """Sign somebody out for good; takes an admin. What they told stays."""
    await remove_member(engine, caller, refs.uuid_of(member_id, "member"))
