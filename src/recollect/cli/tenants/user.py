"""`recollect user`: create, list, rename, archive and delete the users of an org."""

import argparse
import sys

from recollect.cli.arguments import Commands
from recollect.cli.tenants.common import Verbs, format_table, state_label
from recollect.engine import Engine
from recollect.portability import tenant_deletion
from recollect.portability.erasure import Erased
from recollect.tenancy import orgs


def add(commands: Commands) -> None:
    """Add the arguments of `user`."""
    verbs = Verbs(
        commands,
        "user",
        about="Users own memories and keys, and are members of projects and workspaces.",
        example="recollect user create ada\nrecollect key create --user ada --name laptop",
    )
    show = verbs.add("list", "List the users of an org.", _list)
    create = verbs.add("create", "Create a user; the password is shown once.", _create, "login")
    for verb in (show, create):
        verb.add_argument("--org", help="name or id of the org (default: the only one)")
    create.add_argument("--admin", action="store_true", help="an admin may use every workspace")
    verbs.add("rename", "Change a user's login.", _rename, "user", "login")
    verbs.add(
        "password", "Set a new password, shown once, and sign the user out.", _password, "user"
    )
    verbs.add("archive", "Archive a user: keys stop working, memories stay.", _archive, "user")
    verbs.add("restore", "Restore an archived user; their keys work again.", _restore, "user")
    verbs.add_delete(_delete)


async def _list(engine: Engine, args: argparse.Namespace) -> str:
    rows = [
        (each.id, each.login, "admin" if each.is_admin else "user", state_label(each.archived_at))
        for each in await orgs.list_users(engine, args.org)
    ]
    return format_table(("ID", "LOGIN", "ROLE", "STATE"), rows)


async def _create(engine: Engine, args: argparse.Namespace) -> str:
    user = await orgs.create_user(engine, args.login, org=args.org, is_admin=args.admin)
    print(f"first sign-in: {user.login} / {user.password}", file=sys.stderr)
    return str(user.id)


async def _rename(engine: Engine, args: argparse.Namespace) -> str:
    await orgs.rename_user(engine, args.user, args.login)
    return "renamed"


async def _password(engine: Engine, args: argparse.Namespace) -> str:
    return await orgs.reset_password(engine, args.user)


async def _archive(engine: Engine, args: argparse.Namespace) -> str:
    await orgs.archive_user(engine, args.user, is_archived=True)
    return "archived"


async def _restore(engine: Engine, args: argparse.Namespace) -> str:
    await orgs.archive_user(engine, args.user, is_archived=False)
    return "restored"


async def _delete(engine: Engine, args: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - `Verbs` passes it by position
    return await tenant_deletion.delete_user(engine, args.user, by="operator", is_dry=is_dry)
