"""`recollect distil --dry-run`: show what would be learnt from a text."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from recollect.cli.arguments import Commands, add_command
from recollect.cli.tenants.common import open_command_engine
from recollect.core.domain import utc_now
from recollect.core.errors import Invalid
from recollect.core.settings import Settings
from recollect.learning.distil_job import ModelDistiller, gate
from recollect.learning.inbox import LearningInput, inbox_item_of
from recollect.learning.rules import Candidate, distil_statements
from recollect.learning.secrets import redact
from recollect.tenancy.keys import operator_caller


def add(commands: Commands) -> None:
    """Add the arguments of `distil`."""
    parser = add_command(
        commands,
        "distil",
        about="Read a user's message from a file or standard input and show what would be learnt "
        "from it: one JSON object per line, with the supporting quote. Nothing is saved. "
        "Conversations are distilled automatically.",
        example="recollect distil --dry-run message.txt\n"
        "recollect distil --dry-run --model < message.txt",
    )
    parser.add_argument("--dry-run", action="store_true", required=True, help="save nothing")
    parser.add_argument(
        "--model", action="store_true", help="use the configured chat model instead of the rules"
    )
    parser.add_argument("file", nargs="?", type=Path, help="the text (default: standard input)")
    parser.set_defaults(run=run)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Show what the rules or the model would learn."""
    text = redact(_read(args.file))
    if args.model:
        show(text, await _distil_with_model(settings, text))
    else:
        show(text, distil_statements(text, utc_now()))
    return 0


def show(text: str, found: Sequence[Candidate]) -> None:
    """Print the candidates that pass the write gate, and whether each would wait for review."""
    for each in gate(text, found, is_reviewed=False):
        made = each.candidate
        shown = {"content": made.content, "category": made.category, "quote": made.quote}
        print(json.dumps({**shown, "waits": each.review_reason}, ensure_ascii=False))


def _read(file: Path | None) -> str:
    name = file or "standard input"
    try:
        return file.read_text("utf-8") if file else sys.stdin.read()
    except OSError as error:
        raise Invalid(f"`{name}` cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"`{name}` is not UTF-8 text.") from error


async def _distil_with_model(settings: Settings, text: str) -> list[Candidate]:
    async with open_command_engine(settings) as engine:
        route = engine.chat_models.background
        if route is None:
            raise Invalid("No chat model is configured. Set `chat_url` and `chat_model`.")
        # Counted as usage of the default workspace.
        caller = await operator_caller(engine)
        item = inbox_item_of(caller, LearningInput(text, "turn", engine.now()))
        return await ModelDistiller(route).distil(engine, caller.workspace_id, item)
