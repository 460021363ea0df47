"""Whoever runs the house arranges who there is."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from recollect.domain import NOWHERE, Caller, Right
from recollect.engine import circles, tenants
from recollect.engine.circles import Where
from recollect.engine.core import Engine
from recollect.engine.keys import KeyRing, create_key, rotate_key
from recollect.errors import Conflict, Invalid, NotFound, Unauthenticated
from recollect.server import Server
from recollect.store import identity
from tests.support.alumia import client_of, colleague, kept, values
from tests.support.clock import Clock
from tests.support.house import until_blocked

pytestmark = pytest.mark.anyio


@pytest.fixture
def ring(engine: Engine) -> KeyRing:
    return KeyRing(engine.pool, engine.now)


async def test_an_org_comes_with_a_user_and_a_workspace_and_can_be_put_away(
    engine: Engine, ring: KeyRing
) -> None:
    name, login = uuid4().hex, uuid4().hex
    org_id, admin = await tenants.create_org(engine, name, login)
    [user] = await tenants.list_users(engine, name)
    [workspace] = [each for each in await tenants.list_workspaces(engine) if each.org_id == org_id]
    key = await create_key(engine, workspace=str(workspace.id), user=login)

    assert (user.id, user.login, user.is_admin) == (admin.id, login, True)
    assert workspace.is_default
    assert (await ring.recognise(key.text)).user_id == admin.id

    await tenants.rename_org(engine, name, f"{name} Ltd")
    await tenants.archive_org(engine, str(org_id), is_over=True)
    ring.forget()
    with pytest.raises(Unauthenticated):
        await ring.recognise(key.text)

    await tenants.archive_org(engine, f"{name} Ltd", is_over=False)
    ring.forget()
    assert (await ring.recognise(key.text)).org_id == org_id


async def test_an_archived_user_or_workspace_opens_nothing(
    engine: Engine, ring: KeyRing, caller: Caller
) -> None:
    login = uuid4().hex
    made = await tenants.create_user(engine, login, org=str(caller.org_id))
    room = await tenants.create_workspace(engine, "research", org=str(caller.org_id), embedder=None)
    key = await create_key(engine, workspace=str(room), user=login)
    assert (await ring.recognise(key.text)).workspace_id == room

    for archive, wanted in (
        (tenants.archive_user, str(made.id)),
        (tenants.archive_workspace, str(room)),
    ):
        await archive(engine, wanted, is_over=True)
        ring.forget()
        with pytest.raises(Unauthenticated):
            await ring.recognise(key.text)
        await archive(engine, wanted, is_over=False)
        ring.forget()
        assert await ring.recognise(key.text)

    with pytest.raises(Invalid):
        await tenants.archive_workspace(engine, str(caller.workspace_id), is_over=True)


async def test_names_are_unique_and_sensible(engine: Engine, caller: Caller) -> None:
    org, room = str(caller.org_id), str(caller.workspace_id)
    inside = Where(room)
    login = uuid4().hex
    await tenants.create_user(engine, login, org=org)
    await tenants.create_workspace(engine, "research", org=org, embedder=None)
    await circles.create_project(engine, inside, "apollo")
    await circles.create_agent(engine, inside, "scribe", project="apollo")

    for again in (
        tenants.create_user(engine, login, org=org),
        tenants.create_workspace(engine, "research", org=org, embedder=None),
        tenants.rename_workspace(engine, room, "research"),
        circles.create_project(engine, inside, "apollo"),
        circles.create_agent(engine, inside, "scribe", project=None),
    ):
        with pytest.raises(Conflict):
            await again
    for name in ("", " ", "x" * 256, "a\nb"):
        with pytest.raises(Invalid):
            await circles.create_project(engine, inside, name)
    for unknown in (
        circles.rename_project(engine, inside, "gemini", "apollo 2"),
        circles.create_agent(engine, inside, "other", project="gemini"),
        circles.invite_to_project(engine, inside, "apollo", "nobody"),
        tenants.rename_org(engine, uuid4().hex, "x"),
    ):
        with pytest.raises(NotFound):
            await unknown


async def test_two_who_name_a_workspace_at_once_do_not_both_get_the_name(
    engine: Engine, caller: Caller
) -> None:
    async with engine.pool.everywhere() as db:
        # What a member does on the page, not yet committed.
        assert not await identity.is_name_taken(db, caller.org_id, "research")
        operator = asyncio.create_task(
            tenants.create_workspace(engine, "research", org=str(caller.org_id), embedder=None)
        )
        await until_blocked(engine)
        await identity.add_workspace(db, caller.org_id, "research")

    with pytest.raises(Conflict):
        await operator


async def test_a_user_of_another_org_is_let_in_nowhere(engine: Engine, caller: Caller) -> None:
    room, inside = str(caller.workspace_id), Where(str(caller.workspace_id))
    await circles.create_project(engine, inside, "apollo")
    stranger = uuid4().hex
    await tenants.create_org(engine, uuid4().hex, stranger)

    for invited in (
        circles.invite_to_project(engine, inside, "apollo", stranger),
        tenants.invite_to_workspace(engine, room, stranger),
        create_key(engine, workspace=room, user=stranger),
    ):
        with pytest.raises(NotFound):
            await invited


async def test_members_come_and_go_and_an_archived_project_is_out_of_sight(
    engine: Engine, server: Server, caller: Caller
) -> None:
    inside = Where(str(caller.workspace_id))
    member = await colleague(engine, caller)
    project = str(await circles.create_project(engine, inside, "apollo"))
    await circles.invite_to_project(engine, inside, "apollo", str(member.user_id))
    await circles.invite_to_project(engine, inside, "apollo", str(caller.user_id))
    async with client_of(engine, server, member) as http:
        await kept(http, "the plan", scope="project", projectId=project)
        assert await values(http) == ["the plan"]

        await circles.archive_project(engine, inside, "apollo", is_over=True)
        assert await values(http) == []

        await circles.archive_project(engine, inside, "apollo", is_over=False)
        assert await values(http) == ["the plan"]

        await circles.remove_from_project(engine, inside, "apollo", str(member.user_id))
        assert await values(http) == []
    [(found, members)] = await circles.list_projects(engine, inside)
    assert (found.name, members) == ("apollo", [caller.user_id])


async def test_workspaces_are_switched_on_and_off_for_an_unbound_key(
    engine: Engine, ring: KeyRing, caller: Caller
) -> None:
    new = await create_key(engine, workspace=str(caller.workspace_id), is_unbound=True)
    assert (await ring.recognise(new.text)).workspace_id == caller.workspace_id

    await tenants.switch_workspaces(engine, str(caller.org_id), is_on=True)
    ring.forget()

    assert (await ring.recognise(new.text)).workspace_id == NOWHERE


async def test_S25_a_replaced_key_works_on_for_a_day_at_most(
    engine: Engine, ring: KeyRing, caller: Caller, clock: Clock
) -> None:
    old = await create_key(
        engine,
        workspace=str(caller.workspace_id),
        name=uuid4().hex,
        rights=(Right.READ,),
    )
    with pytest.raises(Invalid):
        await rotate_key(engine, old.record.name, timedelta(hours=25))

    new = await rotate_key(engine, old.record.name, timedelta(hours=24))

    assert new.text != old.text
    assert (await ring.recognise(new.text)).rights == frozenset({Right.READ})
    clock.advance(timedelta(hours=24) - timedelta(seconds=1))
    ring.forget()
    assert await ring.recognise(old.text)
    clock.advance(timedelta(seconds=1))
    ring.forget()
    with pytest.raises(Unauthenticated):
        await ring.recognise(old.text)
    assert await ring.recognise(new.text)
    with pytest.raises(NotFound):
        await rotate_key(engine, str(old.record.id), timedelta(0))
