"""`recollect export`: a workspace, a user's part of it, or one thread, for people and programs."""

import argparse
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic

from recollect.cli.arguments import Commands, add_command
from recollect.cli.backup import say
from recollect.cli.houses import opened, refuse_absent
from recollect.domain import THREAD_PREFIXES, Ref, parse_ref
from recollect.engine.exports import Leaving, choices_of, leaving
from recollect.errors import Invalid
from recollect.settings import Settings
from recollect.trade.archive import write as write_all
from recollect.trade.archive import writing

_TELL_SECONDS = 2.0


def add(commands: Commands) -> None:
    """Add the arguments of `export`."""
    parser = add_command(
        commands,
        "export",
        about="Write memories, conversations and files as JSON Lines: one consistent moment, also "
        "while a server is running. A name that ends in .zip makes a zip, .jsonl or `-` the lines "
        "without the bytes of files, any other a directory. `recollect import` takes all of them "
        "in. For a copy of the whole house use `recollect backup`.",
        example="recollect export                          recollect-export-20270131-020000.zip\n"
        "recollect export research.zip --workspace research\n"
        "recollect export ada.zip --user ada\n"
        "recollect export - --thread sess_8Kq2Lm4Np6Rt > talk.jsonl",
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="where to write it")
    parser.add_argument("--workspace", help="name or id (default: the default one)")
    parser.add_argument(
        "--user", help="only what is this user's, by login or id; in all workspaces of their org"
    )
    parser.add_argument("--subject", help="only what is about this person, as your clients say it")
    parser.add_argument("--thread", help="only this session, chat or channel, by any spelling")
    parser.add_argument(
        "--with-deleted",
        action="store_true",
        help="also what was forgotten or has expired, and is not yet erased",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.set_defaults(run=run)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Write the file and print its name."""
    goal: Path = asked.file or Path(f"recollect-export-{datetime.now():%Y%m%d-%H%M%S}.zip")  # noqa: DTZ005 - a name in local time
    refuse_absent(settings)
    with writing(goal, replace=asked.force) as sink:
        async with opened(settings) as engine:
            choices = await choices_of(
                engine,
                workspace=asked.workspace,
                user=asked.user,
                subject=asked.subject,
                thread=_thread(asked.thread),
                with_ended=asked.with_deleted,
            )
            async with leaving(engine, choices) as export:
                progress = _Progress(export, await export.expected())
                await write_all(export, sink, progress)
    say(spoken(export.counts))
    if str(goal) == "-" or goal.suffix == ".jsonl":
        _tell_of_bytes(export.counts)
    if str(goal) != "-":
        print(goal)
    return 0


def spoken(counts: Mapping[str, int]) -> str:
    """What people count."""
    told = {
        "memories": counts.get("memory", 0),
        "sessions": counts.get("thread", 0),
        "messages": counts.get("message", 0),
        "files": _attached(counts),
        "lines in all": sum(counts.values()),
    }
    return ", ".join(f"{count:,} {name}" for name, count in told.items())


def _attached(counts: Mapping[str, int]) -> int:
    return sum(counts.get(kind, 0) for kind in ("asset", "file", "document"))


def _tell_of_bytes(counts: Mapping[str, int]) -> None:
    attached = _attached(counts)
    if attached:
        say(f"the bytes of {attached:,} files were left out; a .zip or a directory holds them")


def _thread(text: str | None) -> Ref | None:
    if text is None:
        return None
    ref = parse_ref(text, *THREAD_PREFIXES)
    if ref is None:
        raise Invalid("`--thread` is no id of a session, chat or channel.")
    return ref


class _Progress:
    """Tells every few seconds how far it is."""

    def __init__(self, export: Leaving, expected: int) -> None:
        self._export = export
        self._expected = expected
        self._told = monotonic()

    def __call__(self) -> None:
        if monotonic() > self._told + _TELL_SECONDS:
            self._told = monotonic()
            counts = self._export.counts
            done = counts["memory"] + counts["message"]
            say(f"{done:,} of {self._expected:,} memories and messages")
