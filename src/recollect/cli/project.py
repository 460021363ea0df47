"""`recollect project`: circles of users inside a workspace."""

import argparse

from recollect.cli.arguments import Commands
from recollect.cli.houses import Verbs, state, table
from recollect.engine import circles, tenants
from recollect.engine.circles import Where
from recollect.engine.core import Engine
from recollect.engine.erase import Erased
from recollect.engine.erase_targets import Kind


def add(commands: Commands) -> None:
    """Add the arguments of `project`."""
    verbs = Verbs(
        commands,
        "project",
        about="A memory of scope `project` is seen by the members of its project alone.",
        example="recollect project create apollo\nrecollect project invite apollo ada",
    )
    every = [
        verbs.add("list", "Show the projects of a workspace and their members.", _list),
        verbs.add("create", "Make a project, with nobody in it.", _create, "name"),
        verbs.add("rename", "Give a project another name.", _rename, "project", "name"),
        verbs.add("archive", "Put a project away with all it knows.", _archive, "project"),
        verbs.add("restore", "Bring an archived project back.", _restore, "project"),
        verbs.add("invite", "Let a user in.", _invite, "project", "user"),
        verbs.add("remove", "Put a user out, at once.", _remove, "project", "user"),
        verbs.add_delete(_delete),
    ]
    for verb in every:
        verb.add_argument("--workspace", help="name or id (default: the default one)")


async def _list(engine: Engine, asked: argparse.Namespace) -> str:
    org = (await tenants.find_workspace(engine, asked.workspace)).org_id
    logins = {each.id: each.login for each in await tenants.list_users(engine, None, within=org)}
    rows = [
        (each.id, each.name, state(each.archived_at), ", ".join(logins[one] for one in members))
        for each, members in await circles.list_projects(engine, _where(asked))
    ]
    return table(("ID", "NAME", "STATE", "MEMBERS"), rows)


async def _create(engine: Engine, asked: argparse.Namespace) -> str:
    return str(await circles.create_project(engine, _where(asked), asked.name))


async def _rename(engine: Engine, asked: argparse.Namespace) -> str:
    await circles.rename_project(engine, _where(asked), asked.project, asked.name)
    return "renamed"


async def _archive(engine: Engine, asked: argparse.Namespace) -> str:
    await circles.archive_project(engine, _where(asked), asked.project, is_over=True)
    return "archived"


async def _restore(engine: Engine, asked: argparse.Namespace) -> str:
    await circles.archive_project(engine, _where(asked), asked.project, is_over=False)
    return "restored"


async def _invite(engine: Engine, asked: argparse.Namespace) -> str:
    await circles.invite_to_project(engine, _where(asked), asked.project, asked.user)
    return "invited"


async def _remove(engine: Engine, asked: argparse.Namespace) -> str:
    await circles.remove_from_project(engine, _where(asked), asked.project, asked.user)
    return "removed"


async def _delete(engine: Engine, asked: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - as `Verbs` hands it on
    return await circles.delete_circle(
        engine, _where(asked), Kind.PROJECT, asked.project, is_dry=is_dry
    )


def _where(asked: argparse.Namespace) -> Where:
    return Where(asked.workspace)
