"""`recollect distil --dry-run`: what would be learnt from a text."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from recollect.cli.arguments import Commands, add_command
from recollect.cli.houses import opened
from recollect.domain import utc_now
from recollect.engine.distiller import Candidate, distilled
from recollect.engine.keys import operator
from recollect.engine.learn import ModelDistiller, gate
from recollect.engine.learning import Said, lesson_of
from recollect.engine.secrets import redacted
from recollect.errors import Invalid
from recollect.settings import Settings


def add(commands: Commands) -> None:
    """Add the arguments of `distil`."""
    parser = add_command(
        commands,
        "distil",
        about="Read what somebody said, from a file or standard input, and show what would be "
        "learnt from it, one JSON object a line with the words it rests on. Conversations are "
        "distilled by themselves; this keeps nothing.",
        example="recollect distil --dry-run message.txt\n"
        "recollect distil --dry-run --model < message.txt",
    )
    parser.add_argument("--dry-run", action="store_true", required=True, help="keep nothing")
    parser.add_argument(
        "--model", action="store_true", help="ask the configured chat model instead of the rules"
    )
    parser.add_argument("file", nargs="?", type=Path, help="the text (default: standard input)")
    parser.set_defaults(run=run)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Show what the rules, or the model, would learn."""
    text = redacted(_read(asked.file))
    if asked.model:
        show(text, await _by_model(settings, text))
    else:
        show(text, distilled(text, utc_now()))
    return 0


def show(text: str, found: Sequence[Candidate]) -> None:
    """Print what passes the gate, and whether it would wait for a person."""
    for each in gate(text, found, is_reviewed=False):
        made = each.candidate
        shown = {"content": made.content, "category": made.category, "quote": made.quote}
        print(json.dumps({**shown, "waits": each.waits}, ensure_ascii=False))


def _read(file: Path | None) -> str:
    name = file or "standard input"
    try:
        return file.read_text("utf-8") if file else sys.stdin.read()
    except OSError as error:
        raise Invalid(f"`{name}` cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"`{name}` is not UTF-8 text.") from error


async def _by_model(settings: Settings, text: str) -> list[Candidate]:
    async with opened(settings) as engine:
        route = engine.chats.background
        if route is None:
            raise Invalid("No chat model is configured. Set `chat_url` and `chat_model`.")
        # On the account of the default workspace: it is in the bill.
        caller = await operator(engine)
        lesson = lesson_of(caller, Said(text, "turn", engine.now()))
        return await ModelDistiller(route).distil(engine, caller.workspace_id, lesson)
