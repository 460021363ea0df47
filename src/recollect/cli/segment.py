"""`recollect segment`: show how a chat is divided into segments, or divide it again."""

import argparse

from recollect.api import ids
from recollect.cli.arguments import Commands, add_command
from recollect.cli.tenants.common import open_command_engine, operator_in
from recollect.conversations.segments import (
    PlannedSegment,
    plan_segments,
    resegment,
    segment_threads,
)
from recollect.core.domain import Caller, Ref, SegmentRules
from recollect.core.settings import Settings
from recollect.embeddings.generations import no_heartbeat
from recollect.engine import Engine


def add(commands: Commands) -> None:
    """Add the arguments of `segment`."""
    parser = add_command(
        commands,
        "segment",
        about="Divide a chat into segments again, with the current settings. Memories made from "
        "the old segments are replaced; memories saved by hand stay. With --dry-run, show the "
        "segments and the reason for each boundary, and change nothing.",
        example="recollect segment chat-4fJq0cW2xYzA --dry-run\n"
        "RECOLLECT_SEGMENT_MESSAGES=10 recollect segment chat-4fJq0cW2xYzA",
    )
    parser.add_argument("chat", metavar="CHAT", help="the chat's id, in any form")
    parser.add_argument(
        "--dry-run", action="store_true", help="show the segments and change nothing"
    )
    parser.add_argument(
        "--workspace",
        metavar="NAME",
        help="name or id of its workspace (default: the default workspace)",
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Show the segments, then divide the chat again unless this is a dry run."""
    ref = ids.chat(args.chat)
    async with open_command_engine(settings) as engine:
        caller = await operator_in(engine, args.workspace)
        _show(await plan_segments(engine, caller, ref, engine.segment_rules or SegmentRules()))
        if not args.dry_run:
            await _segment_again(engine, caller, ref)
    return 0


async def _segment_again(engine: Engine, caller: Caller, ref: Ref) -> None:
    removed = await resegment(engine, caller, ref)
    await segment_threads(engine, caller.workspace_id, no_heartbeat)
    print(f"{removed} memories replaced")


def _show(planned: list[PlannedSegment]) -> None:
    if not planned:
        print("the chat has no messages")
    first = 1
    for each in planned:
        last = first + each.length - 1
        reason = each.reason or "open"
        print(f"{first:>6}-{last:<6} {reason:<22} {each.note}")
        first = last + 1
