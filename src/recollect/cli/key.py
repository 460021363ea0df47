"""`recollect key`: create, list and revoke API keys."""

import argparse
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from recollect.cli.arguments import Commands, add_command, moment, rights
from recollect.compose import open_database, open_engine
from recollect.engine.core import Engine
from recollect.engine.keys import ALL_RIGHTS, create_key, list_keys, move_in, revoke_key
from recollect.settings import Settings
from recollect.store.migrate import migrate


def add(commands: Commands) -> None:
    """Add the arguments of `key`."""
    parser = add_command(
        commands,
        "key",
        about="Create, list and revoke API keys. What changes here holds at once in every server.",
        example="recollect key create --name laptop\nrecollect key list\n"
        "recollect key revoke laptop",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    create = add_command(
        verbs,
        "create",
        summary="make a key",
        about="Make a key and print it, and nothing else, on standard output. "
        "It cannot be shown again.",
        example="recollect key create --name laptop\n"
        "recollect key create --name dashboard --rights read --expires 90d",
    )
    create.add_argument("--name", default="", help="a label to find it by")
    create.add_argument("--workspace", help="name or id of a workspace (default: the default one)")
    create.add_argument(
        "--rights",
        type=rights,
        default=ALL_RIGHTS,
        metavar="RIGHTS",
        help="of read,write,delete,admin (default: all)",
    )
    create.add_argument("--expires", type=moment, metavar="WHEN", help="2027-01-31, 90d or 12h")
    create.set_defaults(run=_create)
    show = add_command(
        verbs,
        "list",
        summary="show every key, without its text",
        about="Show every key by its beginning and end, its rights, and when it was last used.",
        example="recollect key list",
    )
    show.set_defaults(run=_list)
    revoke = add_command(
        verbs,
        "revoke",
        summary="end a key, at once and everywhere",
        about="End every key of that id, name or shown beginning, at once and everywhere.",
        example="recollect key revoke laptop\nrecollect key revoke rk_850bf72b",
    )
    revoke.add_argument("key", help="its id, its name or its shown beginning (rk_...)")
    revoke.set_defaults(run=_revoke)


@asynccontextmanager
async def _engine(settings: Settings) -> AsyncGenerator[Engine]:
    async with open_database(settings) as database:
        await migrate(database.url)
        async with open_engine(settings, database) as engine:
            yield engine


async def _create(settings: Settings, asked: argparse.Namespace) -> int:
    async with _engine(settings) as engine:
        admin = await move_in(engine)
        if admin:
            print(f"first sign-in: {admin.login} / {admin.password}", file=sys.stderr)
        new = await create_key(
            engine,
            name=asked.name,
            workspace=asked.workspace,
            rights=asked.rights,
            expires_at=asked.expires,
        )
    print(new.text)
    return 0


async def _list(settings: Settings, _: argparse.Namespace) -> int:
    async with _engine(settings) as engine:
        found = await list_keys(engine)
        now = engine.now()
    print(f"{'KEY':<22}{'NAME':<20}{'RIGHTS':<28}{'STATE':<10}{'LAST USED':<18}CREATED")
    for key in found:
        is_over = key.expires_at is not None and key.expires_at <= now
        state = "revoked" if key.revoked_at else "expired" if is_over else "good"
        used = f"{key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never"
        print(
            f"{key.prefix + '..' + key.last_four:<22}{key.name:<18}  {','.join(key.rights):<28}"
            f"{state:<10}{used:<18}{key.created_at:%Y-%m-%d}"
        )
    return 0


async def _revoke(settings: Settings, asked: argparse.Namespace) -> int:
    async with _engine(settings) as engine:
        count = await revoke_key(engine, asked.key)
    print(f"{count} revoked")
    return 0
