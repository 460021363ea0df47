"""`recollect key`: create, list, replace and revoke API keys."""

import argparse
import sys
from datetime import datetime, timedelta

from recollect.cli.arguments import Commands, add_command, parse_rights, parse_time, positive_int
from recollect.cli.tenants.common import format_table, open_command_engine
from recollect.core.domain import UserId
from recollect.core.settings import Settings
from recollect.engine import Engine
from recollect.tenancy.keys import (
    ALL_RIGHTS,
    KEY_PREFIXES,
    PREFIX,
    create_key,
    first_run,
    list_keys,
    record_operator_event,
    revoke_key,
    rotate_key,
)
from recollect.tenancy.orgs import list_orgs, list_users, list_workspaces
from recollect.tenancy.queries.keys import KeyRecord

_HEADS = ("KEY", "NAME", "RIGHTS", "USER", "WORKSPACE", "STATE", "LAST USED", "CREATED")


def add(commands: Commands) -> None:
    """Add the arguments of `key`."""
    parser = add_command(
        commands,
        "key",
        about="Create, list, replace and revoke API keys. Changes take effect at once on every "
        "server.",
        example="recollect key create --name laptop\nrecollect key list\n"
        "recollect key revoke laptop",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    create = add_command(
        verbs,
        "create",
        summary="create a key",
        about="Create a key and print only the key on standard output. It cannot be shown again.",
        example="recollect key create --name laptop\n"
        "recollect key create --name dashboard --rights read --expires 90d",
    )
    create.add_argument("--name", default="", help="a label for the key")
    create.add_argument(
        "--workspace", help="name or id of the workspace (default: the default workspace)"
    )
    create.add_argument(
        "--rights",
        type=parse_rights,
        default=ALL_RIGHTS,
        metavar="RIGHTS",
        help="comma-separated list of read,write,delete,admin (default: all)",
    )
    create.add_argument("--user", help="login or id of the user it acts for (default: the admin)")
    create.add_argument(
        "--unbound",
        action="store_true",
        help="not tied to one workspace: it uses the user's active workspace",
    )
    create.add_argument(
        "--spelling", choices=KEY_PREFIXES, default=PREFIX, help="prefix of the key (default: rk_)"
    )
    create.add_argument(
        "--expires", type=parse_time, metavar="WHEN", help="expiry: 2027-01-31, 90d or 12h"
    )
    create.set_defaults(run=_create)
    show = add_command(
        verbs,
        "list",
        summary="list all keys without their secrets",
        about="List all keys: first and last characters, rights, state, and time of last use.",
        example="recollect key list",
    )
    show.set_defaults(run=_list)
    rotate = add_command(
        verbs,
        "rotate",
        summary="replace a key with a new one",
        about="Create a key with the same name, user, workspace and rights, and print it. "
        "The old key stops working at once, or after up to 24 hours with --keep.",
        example="recollect key rotate laptop --keep 12",
    )
    rotate.add_argument("key", help="the key's id, name or displayed prefix (rk_...)")
    rotate.add_argument(
        "--keep",
        type=positive_int,
        default=0,
        metavar="HOURS",
        help="how long the old key keeps working",
    )
    rotate.set_defaults(run=_rotate)
    revoke = add_command(
        verbs,
        "revoke",
        summary="revoke a key at once, on every server",
        about="Revoke every key with this id, name or displayed prefix, at once and on every "
        "server.",
        example="recollect key revoke laptop\nrecollect key revoke rk_850bf72b",
    )
    revoke.add_argument("key", help="the key's id, name or displayed prefix (rk_...)")
    revoke.set_defaults(run=_revoke)


async def _create(settings: Settings, args: argparse.Namespace) -> int:
    async with open_command_engine(settings, may_be_new=True) as engine:
        admin = await first_run(engine)
        if admin:
            print(f"first sign-in: {admin.login} / {admin.password}", file=sys.stderr)
        new = await create_key(
            engine,
            name=args.name,
            workspace=args.workspace,
            user=args.user,
            is_unbound=args.unbound,
            prefix=args.spelling,
            rights=args.rights,
            expires_at=args.expires,
        )
        await record_operator_event(engine, "key.created", [new.record.id])
    print(new.text)
    return 0


async def _list(settings: Settings, _: argparse.Namespace) -> int:
    async with open_command_engine(settings) as engine:
        found = await list_keys(engine)
        logins = await _logins(engine)
        workspaces = {each.id: each.name for each in await list_workspaces(engine)}
        now = engine.now()
    rows = [
        (
            f"{key.prefix}..{key.last_four}",
            key.name,
            ",".join(key.rights),
            # A user may have been deleted, with their keys, after the keys were read.
            logins.get(key.user_id, "gone"),
            workspaces.get(key.workspace_id, "gone") if key.workspace_id else "any",
            _state(key, now),
            f"{key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never",
            f"{key.created_at:%Y-%m-%d}",
        )
        for key in found
    ]
    print(format_table(_HEADS, rows))
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


async def _rotate(settings: Settings, args: argparse.Namespace) -> int:
    async with open_command_engine(settings) as engine:
        new = await rotate_key(engine, args.key, timedelta(hours=args.keep))
        await record_operator_event(engine, "key.rotated", [new.record.id])
    print(new.text)
    return 0


async def _revoke(settings: Settings, args: argparse.Namespace) -> int:
    async with open_command_engine(settings) as engine:
        revoked = await revoke_key(engine, args.key)
        await record_operator_event(engine, "key.revoked", revoked)
    print(f"{len(revoked)} revoked")
    return 0
