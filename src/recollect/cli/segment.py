"""`recollect segment`: show where a chat would be cut and why, or cut it anew."""

import argparse

from recollect.cli.arguments import Commands, add_command
from recollect.cli.houses import opened, operator_in
from recollect.domain import Caller, Ref
from recollect.doors import refs
from recollect.engine.core import Engine
from recollect.engine.segmentation import Rules
from recollect.engine.segments import Planned, plan, resegment, segment_threads
from recollect.engine.spaces import no_beat
from recollect.settings import Settings


def add(commands: Commands) -> None:
    """Add the arguments of `segment`."""
    parser = add_command(
        commands,
        "segment",
        about="Cut a chat into segments anew, by the settings of now: the memories that were cut "
        "from it before go, those made by hand stay. With --dry-run nothing changes, and each cut "
        "is shown with its reason.",
        example="recollect segment chat-4fJq0cW2xYzA --dry-run\n"
        "RECOLLECT_SEGMENT_MESSAGES=10 recollect segment chat-4fJq0cW2xYzA",
    )
    parser.add_argument("chat", metavar="CHAT", help="the chat's id, in any spelling")
    parser.add_argument("--dry-run", action="store_true", help="show the cuts and change nothing")
    parser.add_argument(
        "--workspace", metavar="NAME", help="its workspace (default: the default one)"
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Show, or do it and show what came of it."""
    ref = refs.chat(asked.chat)
    async with opened(settings) as engine:
        caller = await operator_in(engine, asked.workspace)
        _show(await plan(engine, caller, ref, engine.segment_rules or Rules()))
        if not asked.dry_run:
            await _cut_anew(engine, caller, ref)
    return 0


async def _cut_anew(engine: Engine, caller: Caller, ref: Ref) -> None:
    removed = await resegment(engine, caller, ref)
    await segment_threads(engine, caller.workspace_id, no_beat)
    print(f"{removed} memories replaced")


def _show(planned: list[Planned]) -> None:
    if not planned:
        print("no messages to cut")
    begin = 1
    for each in planned:
        end = begin + each.length - 1
        reason = each.reason or "open"
        print(f"{begin:>6}-{end:<6} {reason:<22} {each.note}")
        begin = end + 1
