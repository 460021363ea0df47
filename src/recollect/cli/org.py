"""`recollect org`: the customers of a house."""

import argparse
import sys

from recollect.cli.arguments import Commands
from recollect.cli.houses import Verbs, state, table
from recollect.engine import tenants
from recollect.engine.core import Engine
from recollect.engine.erase import Erased


def add(commands: Commands) -> None:
    """Add the arguments of `org`."""
    verbs = Verbs(
        commands,
        "org",
        about="Orgs never see anything of one another. Each has users, keys and workspaces.",
        example="recollect org create Acme --admin ada\nrecollect org workspaces Acme on",
    )
    verbs.add("list", "Show every org.", _list)
    create = verbs.add(
        "create", "Make an org, its first user and its default workspace.", _create, "name"
    )
    create.add_argument("--admin", required=True, help="login of its first user")
    verbs.add("rename", "Give an org another name.", _rename, "org", "name")
    verbs.add("archive", "Put an org away: none of its keys opens anything.", _archive, "org")
    verbs.add("restore", "Bring an archived org back.", _restore, "org")
    switch = verbs.add(
        "workspaces", "Tell the workspaces of an org apart (on), or not (off).", _switch, "org"
    )
    switch.add_argument("switch", choices=("on", "off"))
    verbs.add_delete(_delete)


async def _list(engine: Engine, _: argparse.Namespace) -> str:
    rows = [
        (each.id, each.name, "on" if each.workspaces_on else "off", state(each.archived_at))
        for each in await tenants.list_orgs(engine)
    ]
    return table(("ID", "NAME", "WORKSPACES", "STATE"), rows)


async def _create(engine: Engine, asked: argparse.Namespace) -> str:
    org_id, user = await tenants.create_org(engine, asked.name, asked.admin)
    print(f"first sign-in: {user.login} / {user.password}", file=sys.stderr)
    return str(org_id)


async def _rename(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.rename_org(engine, asked.org, asked.name)
    return "renamed"


async def _archive(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.archive_org(engine, asked.org, is_over=True)
    return "archived"


async def _restore(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.archive_org(engine, asked.org, is_over=False)
    return "restored"


async def _switch(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.switch_workspaces(engine, asked.org, is_on=asked.switch == "on")
    return f"workspaces {asked.switch}"


async def _delete(engine: Engine, asked: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - as `Verbs` hands it on
    return await tenants.delete_org(engine, asked.org, by="operator", is_dry=is_dry)
