"""`recollect learn`: test the distiller, review candidates, and show model usage."""

import argparse
import sys
from datetime import timedelta
from uuid import UUID

from recollect.cli.arguments import Commands, add_command, positive_int
from recollect.cli.distil import show
from recollect.cli.tenants.common import open_command_engine
from recollect.core.domain import Caller, Right, utc_now
from recollect.core.errors import Invalid
from recollect.core.settings import Settings
from recollect.engine import Engine
from recollect.learning.distil_job import accept, list_waiting, reject
from recollect.learning.rules import distil_statements
from recollect.learning.secrets import redact
from recollect.tenancy.queries import users as users_queries
from recollect.tenancy.queries import workspaces as workspaces_queries
from recollect.usage import queries


def add(commands: Commands) -> None:
    """Add the arguments of `learn`."""
    parser = add_command(
        commands,
        "learn",
        about="Show what the local distiller would learn from a text, accept or reject candidates "
        "that wait for review, and show model calls and their cost.",
        example="recollect learn try < message.txt\nrecollect learn waiting\nrecollect learn bill",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    attempt = add_command(
        verbs,
        "try",
        summary="show what would be learnt from a text; nothing is saved",
        about="Read a user's message from standard input and show what the local distiller would "
        "learn from it, with the supporting quotes. Nothing is saved.",
        example='echo "I live in Oslo." | recollect learn try',
    )
    attempt.set_defaults(run=_try)
    waiting = add_command(
        verbs,
        "waiting",
        summary="list candidates that wait for review",
        about="List candidates that wait for review: those that read like an instruction, and all "
        "of them where the setting `review` is on.",
        example="recollect learn waiting --limit 10",
    )
    waiting.add_argument(
        "--limit", type=positive_int, default=50, help="maximum number of candidates (default 50)"
    )
    waiting.set_defaults(run=_waiting)
    for name, verb in (("accept", _accept), ("reject", _reject)):
        decide = add_command(
            verbs,
            name,
            summary=f"{name} a candidate",
            about=f"{name.title()} a candidate by its id. `recollect learn waiting` shows the ids.",
            example=f"recollect learn {name} 0197c0de-7a4b-7c1e-9d2f-3b6a5e8f1c20",
        )
        decide.add_argument("id", type=UUID)
        decide.set_defaults(run=verb)
    bill = add_command(
        verbs,
        "bill",
        summary="show model calls and tokens by day",
        about="Show model calls by day: their purpose, number and tokens.",
        example="recollect learn bill --days 7",
    )
    bill.add_argument("--days", type=positive_int, default=30, help="number of days (default 30)")
    bill.set_defaults(run=_bill)


async def _try(_: Settings, __: argparse.Namespace) -> int:
    text = redact(sys.stdin.read())
    show(text, distil_statements(text, utc_now()))
    return 0


async def _operators(engine: Engine) -> list[Caller]:
    """Return the operator as a caller of each workspace."""
    async with engine.pool.everywhere() as db:
        found = await workspaces_queries.list_workspaces(db)
        admins = {each.id: await users_queries.find_admin(db, each.org_id) for each in found}
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


async def _waiting(settings: Settings, args: argparse.Namespace) -> int:
    async with open_command_engine(settings) as engine:
        found = [
            each
            for caller in await _operators(engine)
            for each in await list_waiting(engine, caller, limit=args.limit)
        ]
    for each in found:
        print(f"{each.id}  {each.why or '':<12} {each.content}")
    if not found:
        print("no candidates wait for review", file=sys.stderr)
    return 0


async def _accept(settings: Settings, args: argparse.Namespace) -> int:
    async with open_command_engine(settings) as engine:
        memory = await accept(engine, await _operator_for(engine, args.id), args.id)
    print(f"mem_{memory.code}")
    return 0


async def _reject(settings: Settings, args: argparse.Namespace) -> int:
    async with open_command_engine(settings) as engine:
        await reject(engine, await _operator_for(engine, args.id), args.id)
    print("rejected")
    return 0


async def _operator_for(engine: Engine, candidate_id: UUID) -> Caller:
    """Return the operator as a caller of the candidate's workspace."""
    for caller in await _operators(engine):
        waiting = await list_waiting(engine, caller, limit=10_000)
        if any(each.id == candidate_id for each in waiting):
            return caller
    raise Invalid(
        f"No candidate with id `{candidate_id}` waits for review. "
        "List them with `recollect learn waiting`."
    )


async def _bill(settings: Settings, args: argparse.Namespace) -> int:
    async with open_command_engine(settings) as engine, engine.pool.everywhere() as db:
        lines = await queries.daily_usage(db, utc_now() - timedelta(days=args.days))
    for each in lines:
        print(
            f"{each.day:%Y-%m-%d}  {each.purpose:<8} {each.state:<7} {each.model:<30} "
            f"{each.calls} calls  {each.input_tokens} in  {each.output_tokens} out"
            + (f"  cost {each.cost:.4f}" if each.cost is not None else "")
        )
    if not lines:
        print(f"no model calls in the last {args.days} days", file=sys.stderr)
    return 0
