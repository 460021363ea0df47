"""`recollect project`: manage projects, which are groups of users inside a workspace."""

import argparse

from recollect.cli.arguments import Commands
from recollect.cli.tenants.common import Verbs, format_table, state_label
from recollect.engine import Engine
from recollect.portability import tenant_deletion
from recollect.portability.erasure import Erased
from recollect.portability.erasure_targets import ErasureKind
from recollect.tenancy import orgs, projects
from recollect.tenancy.projects import InWorkspace


def add(commands: Commands) -> None:
    """Add the arguments of `project`."""
    verbs = Verbs(
        commands,
        "project",
        about="A memory of scope `project` is visible only to the members of its project.",
        example="recollect project create apollo\nrecollect project invite apollo ada",
    )
    every = [
        verbs.add("list", "List the projects of a workspace and their members.", _list),
        verbs.add("create", "Create a project without members.", _create, "name"),
        verbs.add("rename", "Rename a project.", _rename, "project", "name"),
        verbs.add("archive", "Archive a project and its memories.", _archive, "project"),
        verbs.add("restore", "Restore an archived project.", _restore, "project"),
        verbs.add("invite", "Add a user to a project.", _invite, "project", "user"),
        verbs.add("remove", "Remove a user from a project at once.", _remove, "project", "user"),
        verbs.add_delete(_delete),
    ]
    for verb in every:
        verb.add_argument(
            "--workspace", help="name or id of the workspace (default: the default workspace)"
        )


async def _list(engine: Engine, args: argparse.Namespace) -> str:
    org = (await orgs.find_workspace(engine, args.workspace)).org_id
    logins = {each.id: each.login for each in await orgs.list_users(engine, None, within=org)}
    rows = [
        (
            each.id,
            each.name,
            state_label(each.archived_at),
            ", ".join(logins[one] for one in members),
        )
        for each, members in await projects.list_projects(engine, _where(args))
    ]
    return format_table(("ID", "NAME", "STATE", "MEMBERS"), rows)


async def _create(engine: Engine, args: argparse.Namespace) -> str:
    return str(await projects.create_project(engine, _where(args), args.name))


async def _rename(engine: Engine, args: argparse.Namespace) -> str:
    await projects.rename_project(engine, _where(args), args.project, args.name)
    return "renamed"


async def _archive(engine: Engine, args: argparse.Namespace) -> str:
    await projects.archive_project(engine, _where(args), args.project, is_archived=True)
    return "archived"


async def _restore(engine: Engine, args: argparse.Namespace) -> str:
    await projects.archive_project(engine, _where(args), args.project, is_archived=False)
    return "restored"


async def _invite(engine: Engine, args: argparse.Namespace) -> str:
    await projects.invite_to_project(engine, _where(args), args.project, args.user)
    return "invited"


async def _remove(engine: Engine, args: argparse.Namespace) -> str:
    await projects.remove_from_project(engine, _where(args), args.project, args.user)
    return "removed"


async def _delete(engine: Engine, args: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - `Verbs` passes it by position
    return await tenant_deletion.delete_project_or_agent(
        engine, _where(args), ErasureKind.PROJECT, args.project, is_dry=is_dry
    )


def _where(args: argparse.Namespace) -> InWorkspace:
    return InWorkspace(args.workspace)
