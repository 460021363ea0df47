"""`recollect workspace`: the rooms of an org, none of which hears another."""

import argparse

from recollect.cli.arguments import Commands
from recollect.cli.houses import Verbs, state, table
from recollect.engine import tenants
from recollect.engine.core import Engine
from recollect.engine.erase import Erased


def add(commands: Commands) -> None:
    """Add the arguments of `workspace`."""
    verbs = Verbs(
        commands,
        "workspace",
        about="A workspace is a memory of its own. A key belongs to one; the first is the default.",
        example="recollect workspace create research\n"
        "recollect key create --workspace research --name notebook",
    )
    verbs.add("list", "Show every workspace.", _list)
    create = verbs.add("create", "Make a workspace.", _create, "name")
    create.add_argument("--org", help="name or id (default: the only one)")
    create.add_argument("--embedder", help="one of the configured embedders, by name")
    verbs.add("rename", "Give a workspace another name.", _rename, "workspace", "name")
    verbs.add("archive", "Put a workspace away with its keys.", _archive, "workspace")
    verbs.add("restore", "Bring an archived workspace back.", _restore, "workspace")
    embed = verbs.add(
        "embedder", "Give a workspace an embedder; its vectors follow.", _embed, "workspace"
    )
    embed.add_argument("name", nargs="?", help="a configured embedder (default: the server's own)")
    verbs.add("invite", "Let a user make it their active one.", _invite, "workspace", "user")
    verbs.add("remove", "Keep a user out.", _remove, "workspace", "user")
    verbs.add_delete(_delete)


async def _list(engine: Engine, _: argparse.Namespace) -> str:
    orgs = {each.id: each.name for each in await tenants.list_orgs(engine)}
    rows = [
        (
            each.id,
            orgs[each.org_id],
            each.name,
            state(each.archived_at),
            each.embedder or "-",
            "yes" if each.is_default else "",
        )
        for each in await tenants.list_workspaces(engine)
    ]
    return table(("ID", "ORG", "NAME", "STATE", "EMBEDDER", "DEFAULT"), rows)


async def _create(engine: Engine, asked: argparse.Namespace) -> str:
    made = await tenants.create_workspace(
        engine, asked.name, org=asked.org, embedder=asked.embedder
    )
    return str(made)


async def _rename(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.rename_workspace(engine, asked.workspace, asked.name)
    return "renamed"


async def _archive(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.archive_workspace(engine, asked.workspace, is_over=True)
    return "archived"


async def _restore(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.archive_workspace(engine, asked.workspace, is_over=False)
    return "restored"


async def _embed(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.set_embedder(engine, asked.workspace, asked.name)
    return "the vectors follow in the background"


async def _invite(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.invite_to_workspace(engine, asked.workspace, asked.user)
    return "invited"


async def _remove(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.remove_from_workspace(engine, asked.workspace, asked.user)
    return "removed"


async def _delete(engine: Engine, asked: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - as `Verbs` hands it on
    return await tenants.delete_workspace(engine, asked.workspace, by="operator", is_dry=is_dry)
