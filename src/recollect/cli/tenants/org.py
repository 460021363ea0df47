"""`recollect org`: create, list, rename, archive and delete orgs."""

import argparse
import sys

from recollect.cli.arguments import Commands
from recollect.cli.tenants.common import Verbs, format_table, state_label
from recollect.engine import Engine
from recollect.portability import tenant_deletion
from recollect.portability.erasure import Erased
from recollect.tenancy import orgs


def add(commands: Commands) -> None:
    """Add the arguments of `org`."""
    verbs = Verbs(
        commands,
        "org",
        about="An org has users, keys and workspaces, and never sees data of another org.",
        example="recollect org create Acme --admin ada\nrecollect org workspaces Acme on",
    )
    verbs.add("list", "List all orgs.", _list)
    create = verbs.add(
        "create", "Create an org with its first user and default workspace.", _create, "name"
    )
    create.add_argument("--admin", required=True, help="login of its first user")
    verbs.add("rename", "Rename an org.", _rename, "org", "name")
    verbs.add("archive", "Archive an org; its keys stop working.", _archive, "org")
    verbs.add("restore", "Restore an archived org.", _restore, "org")
    switch = verbs.add(
        "workspaces", "Switch separate workspaces of an org on or off.", _switch, "org"
    )
    switch.add_argument("switch", choices=("on", "off"))
    verbs.add_delete(_delete)


async def _list(engine: Engine, _: argparse.Namespace) -> str:
    rows = [
        (each.id, each.name, "on" if each.workspaces_on else "off", state_label(each.archived_at))
        for each in await orgs.list_orgs(engine)
    ]
    return format_table(("ID", "NAME", "WORKSPACES", "STATE"), rows)


async def _create(engine: Engine, args: argparse.Namespace) -> str:
    org_id, user = await orgs.create_org(engine, args.name, args.admin)
    print(f"first sign-in: {user.login} / {user.password}", file=sys.stderr)
    return str(org_id)


async def _rename(engine: Engine, args: argparse.Namespace) -> str:
    await orgs.rename_org(engine, args.org, args.name)
    return "renamed"


async def _archive(engine: Engine, args: argparse.Namespace) -> str:
    await orgs.archive_org(engine, args.org, is_archived=True)
    return "archived"


async def _restore(engine: Engine, args: argparse.Namespace) -> str:
    await orgs.archive_org(engine, args.org, is_archived=False)
    return "restored"


async def _switch(engine: Engine, args: argparse.Namespace) -> str:
    await orgs.switch_workspaces(engine, args.org, is_on=args.switch == "on")
    return f"workspaces {args.switch}"


async def _delete(engine: Engine, args: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - `Verbs` passes it by position
    return await tenant_deletion.delete_org(engine, args.org, by="operator", is_dry=is_dry)
