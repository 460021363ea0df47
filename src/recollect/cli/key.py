"""`recollect key`: create, list, replace and revoke API keys."""

import argparse
import sys
from datetime import datetime, timedelta

from recollect.cli.arguments import Commands, add_command, moment, positive, rights
from recollect.cli.houses import opened, table
from recollect.domain import UserId
from recollect.engine.core import Engine
from recollect.engine.keys import (
    ALL_RIGHTS,
    PREFIX,
    SPELLINGS,
    create_key,
    list_keys,
    move_in,
    note_by_operator,
    revoke_key,
    rotate_key,
)
from recollect.engine.tenants import list_orgs, list_users, list_workspaces
from recollect.settings import Settings
from recollect.store.identity import KeyRecord

_HEADS = ("KEY", "NAME", "RIGHTS", "USER", "WORKSPACE", "STATE", "LAST USED", "CREATED")


def add(commands: Commands) -> None:
    """Add the arguments of `key`."""
    parser = add_command(
        commands,
        "key",
        about="Create, list, replace and revoke API keys. What changes here holds at once in every "
        "server.",
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
    create.add_argument("--user", help="login or id of whom it acts for (default: the admin)")
    create.add_argument(
        "--unbound",
        action="store_true",
        help="for the org, in whichever workspace is active, and not for one workspace",
    )
    create.add_argument(
        "--spelling", choices=SPELLINGS, default=PREFIX, help="how it begins (default: rk_)"
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
    rotate = add_command(
        verbs,
        "rotate",
        summary="put a new key in the place of one",
        about="Make a key with the same name, user, workspace and rights, and print it. "
        "The old one ends at once, or works on for up to 24 hours.",
        example="recollect key rotate laptop --keep 12",
    )
    rotate.add_argument("key", help="its id, its name or its shown beginning (rk_...)")
    rotate.add_argument(
        "--keep", type=positive, default=0, metavar="HOURS", help="how long the old one works on"
    )
    rotate.set_defaults(run=_rotate)
    revoke = add_command(
        verbs,
        "revoke",
        summary="end a key, at once and everywhere",
        about="End every key of that id, name or shown beginning, at once and everywhere.",
        example="recollect key revoke laptop\nrecollect key revoke rk_850bf72b",
    )
    revoke.add_argument("key", help="its id, its name or its shown beginning (rk_...)")
    revoke.set_defaults(run=_revoke)


async def _create(settings: Settings, asked: argparse.Namespace) -> int:
    async with opened(settings, may_be_new=True) as engine:
        admin = await move_in(engine)
        if admin:
            print(f"first sign-in: {admin.login} / {admin.password}", file=sys.stderr)
        new = await create_key(
            engine,
            name=asked.name,
            workspace=asked.workspace,
            user=asked.user,
            is_unbound=asked.unbound,
            spelling=asked.spelling,
            rights=asked.rights,
            expires_at=asked.expires,
        )
        await note_by_operator(engine, "key.created", [new.record.id])
    print(new.text)
    return 0


async def _list(settings: Settings, _: argparse.Namespace) -> int:
    async with opened(settings) as engine:
        found = await list_keys(engine)
        logins = await _logins(engine)
        workspaces = {each.id: each.name for each in await list_workspaces(engine)}
        now = engine.now()
    rows = [
        (
            f"{key.prefix}..{key.last_four}",
            key.name,
            ",".join(key.rights),
            # Whoever was deleted since the keys were read is gone with theirs.
            logins.get(key.user_id, "gone"),
            workspaces.get(key.workspace_id, "gone") if key.workspace_id else "any",
            _state(key, now),
            f"{key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never",
            f"{key.created_at:%Y-%m-%d}",
        )
        for key in found
    ]
    print(table(_HEADS, rows))
    return 0


async def _logins(engine: Engine) -> dict[UserId, str]:
    return {
        each.id: each.login
        for org in await list_orgs(engine)
        for each in await list_users(engine, None, within=org.id)
    }


def _state(key: KeyRecord, now: datetime) -> str:
    if key.revoked_at:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "good"


async def _rotate(settings: Settings, asked: argparse.Namespace) -> int:
    async with opened(settings) as engine:
        new = await rotate_key(engine, asked.key, timedelta(hours=asked.keep))
        await note_by_operator(engine, "key.rotated", [new.record.id])
    print(new.text)
    return 0


async def _revoke(settings: Settings, asked: argparse.Namespace) -> int:
    async with opened(settings) as engine:
        revoked = await revoke_key(engine, asked.key)
        await note_by_operator(engine, "key.revoked", revoked)
    print(f"{len(revoked)} revoked")
    return 0
