"""`recollect user`: who belongs to an org."""

import argparse
import sys

from recollect.cli.arguments import Commands
from recollect.cli.houses import Verbs, state, table
from recollect.engine import tenants
from recollect.engine.core import Engine
from recollect.engine.erase import Erased


def add(commands: Commands) -> None:
    """Add the arguments of `user`."""
    verbs = Verbs(
        commands,
        "user",
        about="Users own memories and keys, and are members of projects and workspaces.",
        example="recollect user create ada\nrecollect key create --user ada --name laptop",
    )
    show = verbs.add("list", "Show the users of an org.", _list)
    create = verbs.add("create", "Make a user; the password is shown once.", _create, "login")
    for verb in (show, create):
        verb.add_argument("--org", help="name or id (default: the only one)")
    create.add_argument("--admin", action="store_true", help="may be in every workspace")
    verbs.add("rename", "Give a user another login.", _rename, "user", "login")
    verbs.add(
        "password", "Give a user a new password, shown once; sign them out.", _password, "user"
    )
    verbs.add("archive", "End all keys of a user; what they remember stays.", _archive, "user")
    verbs.add("restore", "Let an archived user's keys work again.", _restore, "user")
    verbs.add_delete(_delete)


async def _list(engine: Engine, asked: argparse.Namespace) -> str:
    rows = [
        (each.id, each.login, "admin" if each.is_admin else "user", state(each.archived_at))
        for each in await tenants.list_users(engine, asked.org)
    ]
    return table(("ID", "LOGIN", "ROLE", "STATE"), rows)


async def _create(engine: Engine, asked: argparse.Namespace) -> str:
    user = await tenants.create_user(engine, asked.login, org=asked.org, is_admin=asked.admin)
    print(f"first sign-in: {user.login} / {user.password}", file=sys.stderr)
    return str(user.id)


async def _rename(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.rename_user(engine, asked.user, asked.login)
    return "renamed"


async def _password(engine: Engine, asked: argparse.Namespace) -> str:
    return await tenants.reset_password(engine, asked.user)


async def _archive(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.archive_user(engine, asked.user, is_over=True)
    return "archived"


async def _restore(engine: Engine, asked: argparse.Namespace) -> str:
    await tenants.archive_user(engine, asked.user, is_over=False)
    return "restored"


async def _delete(engine: Engine, asked: argparse.Namespace, is_dry: bool) -> Erased:  # noqa: FBT001 - as `Verbs` hands it on
    return await tenants.delete_user(engine, asked.user, by="operator", is_dry=is_dry)
