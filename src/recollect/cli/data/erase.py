"""`recollect erase`: permanently erase a person, a thread or a memory key and all derived data."""

import argparse
import sys
from collections.abc import Awaitable, Callable

from recollect.cli.arguments import Commands, add_command
from recollect.cli.tenants.common import (
    add_confirmation,
    open_command_engine,
    read_file,
    run_removal,
)
from recollect.core.domain import THREAD_PREFIXES, parse_ref
from recollect.core.settings import Settings
from recollect.engine import Engine
from recollect.portability import erasure, erasure_receipts, erasure_targets
from recollect.portability.erasure_targets import ErasureKind, ErasureTarget
from recollect.tenancy.orgs import find_workspace

Find = Callable[[Engine, argparse.Namespace], Awaitable[list[ErasureTarget]]]


def add(commands: Commands) -> None:
    """Add the arguments of `erase`."""
    parser = add_command(
        commands,
        "erase",
        about="Permanently erase a person, a thread or a memory key and all data derived from it: "
        "memories (also forgotten ones), vectors, keywords, links, files, conversations, stored "
        "answers, and names and reasons in the audit log. Prints a receipt that "
        "`recollect verify-erasure` can check.",
        example="recollect erase user ada --dry-run\n"
        "recollect erase user ada --yes > receipt.json\n"
        "recollect erase thread sess_8fK2mQ1xYz03 --yes\n"
        "recollect erase key favourite.drink --yes",
    )
    verbs = parser.add_subparsers(metavar="WHAT", required=True)
    _verb(verbs, "user", "a user and all their data, in every workspace", "login or id", _user)
    every = [
        _verb(
            verbs,
            "thread",
            "a session, chat or channel",
            "its id in any form, or its label",
            _thread,
        ),
        _verb(verbs, "key", "every memory with a given memory key", "the memory key", _key),
        _verb(
            verbs,
            "subject",
            "a person as your clients identify them (`user_id` in requests)",
            "the identifier",
            _subject,
        ),
    ]
    for verb in every:
        verb.add_argument(
            "--workspace", help="name or id of the workspace (default: the default workspace)"
        )
    every[1].add_argument("--user", help="login or id: only this user's memories with the key")
    _verb(
        verbs,
        "again",
        "data that a restored backup brought back after an erasure",
        "the receipt's file, or - for standard input",
        _again,
    )


def _verb(
    verbs: Commands, name: str, about: str, wanted: str, find: Find
) -> argparse.ArgumentParser:
    what = name if name != "again" else "receipt"
    verb = add_command(
        verbs,
        name,
        summary=about,
        about=f"Erase {about}.",
        example=f"recollect erase {name} <{what}> --dry-run",
    )
    verb.add_argument("wanted", metavar=what, help=wanted)
    add_confirmation(verb)

    async def run(settings: Settings, args: argparse.Namespace) -> int:
        async with open_command_engine(settings) as engine:
            targets = await find(engine, args)
            if not targets:
                print("No matching data was found.", file=sys.stderr)
            codes = [
                await run_removal(
                    args,
                    lambda is_dry, target=target: erasure.erase(
                        engine, target, by="operator", is_dry=is_dry
                    ),
                )
                for target in targets
            ]
        return max(codes, default=0)

    verb.set_defaults(run=run)
    return verb


async def _user(engine: Engine, args: argparse.Namespace) -> list[ErasureTarget]:
    return [await erasure_targets.target_user(engine, args.wanted)]


async def _thread(engine: Engine, args: argparse.Namespace) -> list[ErasureTarget]:
    workspace = await find_workspace(engine, args.workspace)
    ref = parse_ref(args.wanted, *THREAD_PREFIXES)
    return [
        await erasure_targets.target_thread(
            engine, workspace.id, workspace.org_id, ref, args.wanted
        )
    ]


async def _key(engine: Engine, args: argparse.Namespace) -> list[ErasureTarget]:
    workspace = await find_workspace(engine, args.workspace)
    owner = await erasure_targets.find_owner(engine, args.user, workspace.org_id)
    return [
        ErasureTarget(
            ErasureKind.KEY, workspace.org_id, [workspace.id], text=args.wanted, owner_id=owner
        )
    ]


async def _subject(engine: Engine, args: argparse.Namespace) -> list[ErasureTarget]:
    workspace = await find_workspace(engine, args.workspace)
    return [ErasureTarget(ErasureKind.SUBJECT, workspace.org_id, [workspace.id], text=args.wanted)]


async def _again(engine: Engine, args: argparse.Namespace) -> list[ErasureTarget]:
    receipt = erasure_receipts.read_receipt(read_file(args.wanted))
    return await erasure_receipts.find_restored_targets(engine, receipt)
