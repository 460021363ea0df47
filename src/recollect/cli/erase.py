"""`recollect erase`: a person, a thread or a key, and everything made of it, for good."""

import argparse
import sys
from collections.abc import Awaitable, Callable

from recollect.cli.arguments import Commands, add_command
from recollect.cli.houses import opened, read_file, removed, sure
from recollect.domain import THREAD_PREFIXES, parse_ref
from recollect.engine import erase as erasing
from recollect.engine import erase_receipts, erase_targets
from recollect.engine.core import Engine
from recollect.engine.erase_targets import Kind, Target
from recollect.engine.tenants import find_workspace
from recollect.settings import Settings

Find = Callable[[Engine, argparse.Namespace], Awaitable[list[Target]]]


def add(commands: Commands) -> None:
    """Add the arguments of `erase`."""
    parser = add_command(
        commands,
        "erase",
        about="Remove somebody or something for good, with all that was made of it: memories, "
        "forgotten ones too, vectors, words, links, files, conversations, kept answers, names and "
        "reasons in the audit. Prints a receipt that `recollect verify-erasure` can check.",
        example="recollect erase user ada --dry-run\n"
        "recollect erase user ada --yes > receipt.json\n"
        "recollect erase thread sess_8fK2mQ1xYz03 --yes\n"
        "recollect erase key favourite.drink --yes",
    )
    verbs = parser.add_subparsers(metavar="WHAT", required=True)
    _verb(verbs, "user", "a user with all they ever said, in every workspace", "login or id", _user)
    every = [
        _verb(verbs, "thread", "a session, chat or channel", "any id, or its label", _thread),
        _verb(verbs, "key", "every memory of a key", "the key", _key),
        _verb(
            verbs,
            "subject",
            "a person as your clients name them (`user_id` in requests)",
            "the name",
            _subject,
        ),
    ]
    for verb in every:
        verb.add_argument("--workspace", help="name or id (default: the default one)")
    every[1].add_argument("--user", help="login or id: only this user's memories of the key")
    _verb(
        verbs,
        "again",
        "what came back of an erasure with a restored backup",
        "file of a receipt, or -",
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
    sure(verb)

    async def run(settings: Settings, asked: argparse.Namespace) -> int:
        async with opened(settings) as engine:
            targets = await find(engine, asked)
            if not targets:
                print("Nothing of it is here.", file=sys.stderr)
            codes = [
                await removed(
                    asked,
                    lambda is_dry, target=target: erasing.erase(
                        engine, target, by="operator", is_dry=is_dry
                    ),
                )
                for target in targets
            ]
        return max(codes, default=0)

    verb.set_defaults(run=run)
    return verb


async def _user(engine: Engine, asked: argparse.Namespace) -> list[Target]:
    return [await erase_targets.target_user(engine, asked.wanted)]


async def _thread(engine: Engine, asked: argparse.Namespace) -> list[Target]:
    place = await find_workspace(engine, asked.workspace)
    ref = parse_ref(asked.wanted, *THREAD_PREFIXES)
    return [await erase_targets.target_thread(engine, place.id, place.org_id, ref, asked.wanted)]


async def _key(engine: Engine, asked: argparse.Namespace) -> list[Target]:
    place = await find_workspace(engine, asked.workspace)
    owner = await erase_targets.find_owner(engine, asked.user, place.org_id)
    return [Target(Kind.KEY, place.org_id, [place.id], text=asked.wanted, owner_id=owner)]


async def _subject(engine: Engine, asked: argparse.Namespace) -> list[Target]:
    place = await find_workspace(engine, asked.workspace)
    return [Target(Kind.SUBJECT, place.org_id, [place.id], text=asked.wanted)]


async def _again(engine: Engine, asked: argparse.Namespace) -> list[Target]:
    receipt = erase_receipts.read_receipt(read_file(asked.wanted))
    return await erase_receipts.targets_of(engine, receipt)
