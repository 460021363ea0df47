"""`recollect workspace`: manage workspaces, the isolated memories of an org."""

import argparse

from recollect.cli.arguments import Commands
from recollect.cli.tenants.common import Verbs, format_table, state_label
from recollect.engine import Engine
from recollect.portability import tenant_deletion
from recollect.portability.erasure import Erased
from recollect.tenancy import orgs as tenants


def add(commands: Commands) -> None:
    """Add the arguments of `workspace`."""
    verbs = Verbs(
        commands,
        "workspace",
        about="A workspace is a separate memory. A key belongs to one workspace. The first "
        "workspace is the default.",
        example="recollect workspace create research\n"
        "recollect key create --workspace research --name notebook",
    )
    verbs.add("list", "List all workspaces.", _list)
    create = verbs.add("create", "Create a workspace.", _create, "name")
    create.add_argument("--org", help="name or id of the org (default: the only one)")
    create.add_argument("--embedder", help="name of a configured embedder")
    verbs.add("rename", "Rename a workspace.", _rename, "workspace", "name")
    verbs.add("archive", "Archive a workspace; its keys stop working.", _archive, "workspace")
    verbs.add("restore", "Restore an archived workspace.", _restore, "workspace")
    embed = verbs.add(
        "embedder", "Set a workspace's embedder and embed its memories again.", _embed, "workspace"
    )
    embed.add_argument("name", nargs="?", help="a configured embedder (default: the server's)")
    verbs.add("invite", "Let a user use a workspace.", _invite, "workspace", "user")
    verbs.add("remove", "Remove a user from a workspace.", _remove, "workspace", "user")
    verbs.add_delete(_delete)


async def _list(engine: Engine, _: argparse.Namespace) -> str:
    orgs = {each.id: each.name for each in await tenants.list_orgs(engine)}
    rows = [
        (
            each.id,
            orgs[each.org_id],
            each.name,
            state_label(each.archived_at),
            each.embedder or "-",
            "yes" if each.is_default else "",
        )
        for each in await tenants.list_workspaces(engine)
    ]
    return format_table(("ID", "ORG", "NAME", "STATE", "EMBEDDER", "DEFAULT"), rows)


async def _create(engine: Engine, args: argparse.Namespace) -> str:
    made = await tenants.create_workspace(engine, args.name, org=args.org, embedder=args.embedder)
    return str(made)


async def _rename(engine: Engine, args: argparse.Namespace) -> str:
    await tenants.rename_workspace(engine, args.workspace, args.name)
    return "renamed"


async def _archive(engine: Engine, args: argparse.Namespace) -> str:
    await tenants.archive_workspace(engine, args.workspace, is_archived=True)
    return "archived"


async def _restore(engine: Engine, args: argparse.Namespace) -> str:
    await tenants.archive_workspace(engine, args.workspace, is_archived=False)
    return "restored"


async def _embed(engine: Engine, args: argparse.Namespace) -> str:
    await tenants.set_embedder(engine, args.workspace, args.name)
    return "the vectors are created in the background"


async def _invite(engine: Engine, args: argparse.Namespace) -> str:
    await tenants.invite_to_workspace(engine, args.workspace, args.user)
    return "invited"


async def _remove(engine: Engine, args: argparse.Namespace) -> str:
    await tenants.remove_from_workspace(engine, args.workspace, args.user)
    return "removed"


async def _delete(engine: Engine, args: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - `Verbs` passes it by position
    return await tenant_deletion.delete_workspace(
        engine, args.workspace, by="operator", is_dry=is_dry
    )
