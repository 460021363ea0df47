"""The operator manages orgs, users, workspaces, projects, agents and keys."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from recollect.core.domain import NO_WORKSPACE, Caller, Right
from recollect.core.errors import Conflict, Invalid, NotFound, Unauthenticated
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy import orgs, projects
from recollect.tenancy.keys import KeyCache, create_key, rotate_key
from recollect.tenancy.projects import InWorkspace
from recollect.tenancy.queries import workspaces
from tests.support.alumia import add_colleague, client_of, list_values, save_memory
from tests.support.clock import Clock
from tests.support.instance import wait_until_blocked

pytestmark = pytest.mark.anyio


@pytest.fixture
def key_cache(engine: Engine) -> KeyCache:
    return KeyCache(engine.pool, engine.now)


async def test_a_new_org_has_a_user_and_a_workspace_and_can_be_archived(
    engine: Engine, key_cache: KeyCache
) -> None:
    name, login = uuid4().hex, uuid4().hex
    org_id, admin = await orgs.create_org(engine, name, login)
    [user] = await orgs.list_users(engine, name)
    [workspace] = [each for each in await orgs.list_workspaces(engine) if each.org_id == org_id]
    key = await create_key(engine, workspace=str(workspace.id), user=login)

    assert (user.id, user.login, user.is_admin) == (admin.id, login, True)
    assert workspace.is_default
    assert (await key_cache.recognise(key.text)).user_id == admin.id

    await orgs.rename_org(engine, name, f"{name} Ltd")
    await orgs.archive_org(engine, str(org_id), is_archived=True)
    key_cache.forget()
    with pytest.raises(Unauthenticated):
        await key_cache.recognise(key.text)

    await orgs.archive_org(engine, f"{name} Ltd", is_archived=False)
    key_cache.forget()
    assert (await key_cache.recognise(key.text)).org_id == org_id


async def test_keys_of_an_archived_user_or_workspace_do_not_work(
    engine: Engine, key_cache: KeyCache, caller: Caller
) -> None:
    login = uuid4().hex
    user = await orgs.create_user(engine, login, org=str(caller.org_id))
    workspace = await orgs.create_workspace(
        engine, "research", org=str(caller.org_id), embedder=None
    )
    key = await create_key(engine, workspace=str(workspace), user=login)
    assert (await key_cache.recognise(key.text)).workspace_id == workspace

    for archive, wanted in (
        (orgs.archive_user, str(user.id)),
        (orgs.archive_workspace, str(workspace)),
    ):
        await archive(engine, wanted, is_archived=True)
        key_cache.forget()
        with pytest.raises(Unauthenticated):
            await key_cache.recognise(key.text)
        await archive(engine, wanted, is_archived=False)
        key_cache.forget()
        assert await key_cache.recognise(key.text)

    with pytest.raises(Invalid):
        await orgs.archive_workspace(engine, str(caller.workspace_id), is_archived=True)


async def test_names_must_be_unique_and_valid(engine: Engine, caller: Caller) -> None:
    org, workspace = str(caller.org_id), str(caller.workspace_id)
    inside = InWorkspace(workspace)
    login = uuid4().hex
    await orgs.create_user(engine, login, org=org)
    await orgs.create_workspace(engine, "research", org=org, embedder=None)
    await projects.create_project(engine, inside, "apollo")
    await projects.create_agent(engine, inside, "scribe", project="apollo")

    for again in (
        orgs.create_user(engine, login, org=org),
        orgs.create_workspace(engine, "research", org=org, embedder=None),
        orgs.rename_workspace(engine, workspace, "research"),
        projects.create_project(engine, inside, "apollo"),
        projects.create_agent(engine, inside, "scribe", project=None),
    ):
        with pytest.raises(Conflict):
            await again
    for name in ("", " ", "x" * 256, "a\nb"):
        with pytest.raises(Invalid):
            await projects.create_project(engine, inside, name)
    for unknown in (
        projects.rename_project(engine, inside, "gemini", "apollo 2"),
        projects.create_agent(engine, inside, "other", project="gemini"),
        projects.invite_to_project(engine, inside, "apollo", "nobody"),
        orgs.rename_org(engine, uuid4().hex, "x"),
    ):
        with pytest.raises(NotFound):
            await unknown


async def test_concurrent_workspaces_cannot_get_the_same_name(
    engine: Engine, caller: Caller
) -> None:
    async with engine.pool.everywhere() as db:
        # A member creates a workspace in the dashboard, not yet committed.
        assert not await workspaces.is_name_taken(db, caller.org_id, "research")
        operator = asyncio.create_task(
            orgs.create_workspace(engine, "research", org=str(caller.org_id), embedder=None)
        )
        await wait_until_blocked(engine)
        await workspaces.add_workspace(db, caller.org_id, "research")

    with pytest.raises(Conflict):
        await operator


async def test_a_user_of_another_org_cannot_be_invited(engine: Engine, caller: Caller) -> None:
    workspace, inside = str(caller.workspace_id), InWorkspace(str(caller.workspace_id))
    await projects.create_project(engine, inside, "apollo")
    outsider = uuid4().hex
    await orgs.create_org(engine, uuid4().hex, outsider)

    for invited in (
        projects.invite_to_project(engine, inside, "apollo", outsider),
        orgs.invite_to_workspace(engine, workspace, outsider),
        create_key(engine, workspace=workspace, user=outsider),
    ):
        with pytest.raises(NotFound):
            await invited


async def test_removed_members_and_archived_projects_lose_access_to_project_memories(
    engine: Engine, server: Server, caller: Caller
) -> None:
    inside = InWorkspace(str(caller.workspace_id))
    member = await add_colleague(engine, caller)
    project = str(await projects.create_project(engine, inside, "apollo"))
    await projects.invite_to_project(engine, inside, "apollo", str(member.user_id))
    await projects.invite_to_project(engine, inside, "apollo", str(caller.user_id))
    async with client_of(engine, server, member) as http:
        await save_memory(http, "the plan", scope="project", projectId=project)
        assert await list_values(http) == ["the plan"]

        await projects.archive_project(engine, inside, "apollo", is_archived=True)
        assert await list_values(http) == []

        await projects.archive_project(engine, inside, "apollo", is_archived=False)
        assert await list_values(http) == ["the plan"]

        await projects.remove_from_project(engine, inside, "apollo", str(member.user_id))
        assert await list_values(http) == []
    [(found, members)] = await projects.list_projects(engine, inside)
    assert (found.name, members) == ("apollo", [caller.user_id])


async def test_an_unbound_key_has_no_workspace_when_workspaces_are_on(
    engine: Engine, key_cache: KeyCache, caller: Caller
) -> None:
    new = await create_key(engine, workspace=str(caller.workspace_id), is_unbound=True)
    assert (await key_cache.recognise(new.text)).workspace_id == caller.workspace_id

    await orgs.switch_workspaces(engine, str(caller.org_id), is_on=True)
    key_cache.forget()

    assert (await key_cache.recognise(new.text)).workspace_id == NO_WORKSPACE


async def test_S25_a_rotated_key_works_for_at_most_one_more_day(
    engine: Engine, key_cache: KeyCache, caller: Caller, clock: Clock
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
    assert (await key_cache.recognise(new.text)).rights == frozenset({Right.READ})
    clock.advance(timedelta(hours=24) - timedelta(seconds=1))
    key_cache.forget()
    assert await key_cache.recognise(old.text)
    clock.advance(timedelta(seconds=1))
    key_cache.forget()
    with pytest.raises(Unauthenticated):
        await key_cache.recognise(old.text)
    assert await key_cache.recognise(new.text)
    with pytest.raises(NotFound):
        await rotate_key(engine, str(old.record.id), timedelta(0))
