"""`recollect learn`: what would be learnt from a text, what waits for a decision, what it cost."""

import argparse
import sys
from datetime import timedelta
from uuid import UUID

from recollect.cli.arguments import Commands, add_command, positive
from recollect.cli.distil import show
from recollect.cli.houses import opened
from recollect.domain import Caller, Right, utc_now
from recollect.engine.core import Engine
from recollect.engine.distiller import distilled
from recollect.engine.learn import accept, list_waiting, reject
from recollect.engine.secrets import redacted
from recollect.errors import Invalid
from recollect.settings import Settings
from recollect.store import identity, ledger


def add(commands: Commands) -> None:
    """Add the arguments of `learn`."""
    parser = add_command(
        commands,
        "learn",
        about="See what the local distiller would learn from a text, decide what waits for a "
        "person, and read what models were asked and what that cost.",
        example="recollect learn try < message.txt\nrecollect learn waiting\nrecollect learn bill",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    attempt = add_command(
        verbs,
        "try",
        summary="show what would be learnt from a text; nothing is kept",
        about="Read what somebody said from standard input and show what the local distiller "
        "would learn from it, with the words each rests on. Nothing is kept.",
        example='echo "I live in Oslo." | recollect learn try',
    )
    attempt.set_defaults(run=_try)
    waiting = add_command(
        verbs,
        "waiting",
        summary="list what waits for a decision",
        about="List what was learnt and waits for a person: what reads like an order, and "
        "everything where the setting `review` is on.",
        example="recollect learn waiting --limit 10",
    )
    waiting.add_argument("--limit", type=positive, default=50, help="at most so many (default 50)")
    waiting.set_defaults(run=_waiting)
    for name, verb in (("accept", _accept), ("reject", _reject)):
        decide = add_command(
            verbs,
            name,
            summary=f"{name} one of them",
            about=f"{name.title()} something that waits, by the id that `waiting` shows.",
            example=f"recollect learn {name} 0197c0de-7a4b-7c1e-9d2f-3b6a5e8f1c20",
        )
        decide.add_argument("id", type=UUID)
        decide.set_defaults(run=verb)
    bill = add_command(
        verbs,
        "bill",
        summary="show model calls and tokens by day",
        about="Show how often models were asked, for what, and with how many tokens, by day.",
        example="recollect learn bill --days 7",
    )
    bill.add_argument("--days", type=positive, default=30, help="so far back (default 30)")
    bill.set_defaults(run=_bill)


async def _try(_: Settings, __: argparse.Namespace) -> int:
    text = redacted(sys.stdin.read())
    show(text, distilled(text, utc_now()))
    return 0


async def _callers(engine: Engine) -> list[Caller]:
    """The operator, in every workspace."""
    async with engine.pool.everywhere() as db:
        found = await identity.workspaces(db)
        admins = {each.id: await identity.admin_of(db, each.org_id) for each in found}
    return [
        Caller(
            org_id=each.org_id,
            user_id=admin,
            workspace_id=each.id,
            rights=frozenset(Right),
            label="operator",
        )
        for each in found
        if (admin := admins[each.id])
    ]


async def _waiting(settings: Settings, asked: argparse.Namespace) -> int:
    async with opened(settings) as engine:
        found = [
            each
            for caller in await _callers(engine)
            for each in await list_waiting(engine, caller, limit=asked.limit)
        ]
    for each in found:
        print(f"{each.id}  {each.why or '':<12} {each.content}")
    if not found:
        print("nothing waits", file=sys.stderr)
    return 0


async def _accept(settings: Settings, asked: argparse.Namespace) -> int:
    async with opened(settings) as engine:
        memory = await accept(engine, await _owner(engine, asked.id), asked.id)
    print(f"mem_{memory.code}")
    return 0


async def _reject(settings: Settings, asked: argparse.Namespace) -> int:
    async with opened(settings) as engine:
        await reject(engine, await _owner(engine, asked.id), asked.id)
    print("rejected")
    return 0


async def _owner(engine: Engine, candidate_id: UUID) -> Caller:
    """The operator in the workspace where this waits."""
    for caller in await _callers(engine):
        waiting = await list_waiting(engine, caller, limit=10_000)
        if any(each.id == candidate_id for each in waiting):
            return caller
    raise Invalid("Nothing of that id waits; `recollect learn waiting` shows what does.")


async def _bill(settings: Settings, asked: argparse.Namespace) -> int:
    async with opened(settings) as engine, engine.pool.everywhere() as db:
        lines = await ledger.bill(db, utc_now() - timedelta(days=asked.days))
    for each in lines:
        print(
            f"{each.day:%Y-%m-%d}  {each.purpose:<8} {each.state:<7} {each.model:<30} "
            f"{each.calls} calls  {each.input_tokens} in  {each.output_tokens} out"
            + (f"  cost {each.cost:.4f}" if each.cost is not None else "")
        )
    if not lines:
        print(f"no model was asked in the last {asked.days} days", file=sys.stderr)
    return 0
