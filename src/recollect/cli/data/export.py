"""`recollect export`: write a workspace, a user's data or one thread as JSON Lines."""

import argparse
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic

from recollect.cli.arguments import Commands, add_command
from recollect.cli.data.backup import print_progress
from recollect.cli.tenants.common import open_command_engine, require_existing_data
from recollect.core.domain import THREAD_PREFIXES, Ref, parse_ref
from recollect.core.errors import Invalid
from recollect.core.settings import Settings
from recollect.portability.archive import write as write_all
from recollect.portability.archive import writing
from recollect.portability.exporting import Export, find_export_scopes, open_export

_PROGRESS_SECONDS = 2.0


def add(commands: Commands) -> None:
    """Add the arguments of `export`."""
    parser = add_command(
        commands,
        "export",
        about="Write memories, conversations and files as JSON Lines: a consistent snapshot, also "
        "while a server is running. FILE decides the format: .zip writes a zip archive, .jsonl or "
        "`-` writes lines without file contents, and any other name creates a directory. "
        "`recollect import` reads all of these. To copy everything, use `recollect backup`.",
        example="recollect export                          recollect-export-20270131-020000.zip\n"
        "recollect export research.zip --workspace research\n"
        "recollect export ada.zip --user ada\n"
        "recollect export - --thread sess_8Kq2Lm4Np6Rt > talk.jsonl",
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the file to write")
    parser.add_argument(
        "--workspace", help="name or id of the workspace (default: the default workspace)"
    )
    parser.add_argument(
        "--user", help="login or id: only this user's data, from all workspaces of their org"
    )
    parser.add_argument(
        "--subject", help="only data about this person, as your clients identify them"
    )
    parser.add_argument(
        "--thread", help="only this session, chat or channel, by any form of its id"
    )
    parser.add_argument("--key", help="only the memories with this memory key")
    parser.add_argument(
        "--with-deleted",
        action="store_true",
        help="also include forgotten and expired memories that are not yet erased",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.set_defaults(run=run)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Write the export and print the name of its file."""
    target: Path = args.file or Path(f"recollect-export-{datetime.now():%Y%m%d-%H%M%S}.zip")  # noqa: DTZ005 - file names use local time
    require_existing_data(settings)
    with writing(target, replace=args.force) as sink:
        async with open_command_engine(settings) as engine:
            choices = await find_export_scopes(
                engine,
                workspace=args.workspace,
                user=args.user,
                subject=args.subject,
                thread=_thread(args.thread),
                key=args.key,
                with_ended=args.with_deleted,
            )
            async with open_export(engine, choices) as export:
                progress = _ExportProgress(export, await export.count_expected())
                await write_all(export, sink, progress)
    print_progress(_summarise_counts(export.counts))
    if str(target) == "-" or target.suffix == ".jsonl":
        _warn_about_omitted_files(export.counts)
    if str(target) != "-":
        print(target)
    return 0


def _summarise_counts(counts: Mapping[str, int]) -> str:
    named = {
        "memories": counts.get("memory", 0),
        "threads": counts.get("thread", 0),
        "messages": counts.get("message", 0),
        "files": _count_files(counts),
        "lines in total": sum(counts.values()),
    }
    return ", ".join(f"{count:,} {name}" for name, count in named.items())


def _count_files(counts: Mapping[str, int]) -> int:
    return sum(counts.get(kind, 0) for kind in ("asset", "file", "document"))


def _warn_about_omitted_files(counts: Mapping[str, int]) -> None:
    files = _count_files(counts)
    if files:
        print_progress(
            f"the contents of {files:,} files were left out; export to a .zip or a directory "
            "to include them"
        )


def _thread(text: str | None) -> Ref | None:
    if text is None:
        return None
    ref = parse_ref(text, *THREAD_PREFIXES)
    if ref is None:
        raise Invalid(f"`--thread`: `{text}` is not an id of a session, chat or channel.")
    return ref


class _ExportProgress:
    """Prints the progress every few seconds."""

    def __init__(self, export: Export, expected: int) -> None:
        self._export = export
        self._expected = expected
        self._reported_at = monotonic()

    def __call__(self) -> None:
        if monotonic() > self._reported_at + _PROGRESS_SECONDS:
            self._reported_at = monotonic()
            counts = self._export.counts
            done = counts["memory"] + counts["message"]
            print_progress(f"{done:,} of {self._expected:,} memories and messages")
