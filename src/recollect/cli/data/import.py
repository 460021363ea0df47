"""`recollect import`: import an export, or data from another system."""

import argparse
import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic

from recollect.cli.arguments import Commands, add_command
from recollect.cli.data.backup import print_progress
from recollect.cli.tenants.common import format_table, open_command_engine, require_existing_data
from recollect.core.domain import Scope, UserId
from recollect.core.errors import Invalid
from recollect.core.settings import Settings
from recollect.embeddings.queries import generations
from recollect.engine import Engine
from recollect.portability.errors import UnreadableFile
from recollect.portability.exporting import find_owner_id
from recollect.portability.importing import ImportReport, ImportTarget, Refusal, import_lines
from recollect.portability.records import KINDS
from recollect.portability.sources import NAMES, OURS, open_source
from recollect.tenancy.lookup import find_workspace
from recollect.tenancy.queries import users as users_queries
from recollect.tenancy.queries.workspaces import Workspace
from recollect.worker import Worker

_PROGRESS_SECONDS = 2.0
# Stop waiting if no vector was added for this long: the embedder may be down.
_MAX_WAIT_SECONDS = 20.0
# The number of rejected lines to print; `--report` writes all of them.
_MAX_SHOWN = 20


def add(commands: Commands) -> None:
    """Add the arguments of `import`."""
    parser = add_command(
        commands,
        "import",
        about="Import the output of `recollect export` or data from another system, with or "
        "without a running server. Existing items are not changed: a second run changes nothing, "
        "and a run after an interruption continues. A line that cannot be imported is reported "
        "with its number and the reason; the other lines are still imported.",
        example="recollect import research.zip --workspace research --dry-run\n"
        "recollect import --from chatgpt chatgpt-export.zip --as ada\n"
        "recollect import --from markdown notes/",
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a file, a zip archive or a directory"
    )
    parser.add_argument(
        "--from",
        dest="source",
        choices=NAMES,
        default=OURS,
        help="the system that wrote the data (default: recollect)",
    )
    parser.add_argument(
        "--workspace", help="name or id of the target workspace (default: the default workspace)"
    )
    parser.add_argument(
        "--as",
        dest="owner",
        metavar="USER",
        help="login or id of the new owner (default: for an export the original owner, who is "
        "created if missing; for other systems the first administrator)",
    )
    parser.add_argument(
        "--new-ids",
        action="store_true",
        help="give every item a new id; a repeated import gives the same new ids",
    )
    parser.add_argument(
        "--scope",
        choices=[Scope.GLOBAL, Scope.WORKSPACE],
        default=Scope.GLOBAL,
        help="who can see memories from other systems: only their owner (global), or everyone in "
        "the workspace (workspace)",
    )
    parser.add_argument(
        "--learn",
        action="store_true",
        help="also learn from user messages in conversations of other systems; if a chat model is "
        "configured, each such message is sent to it",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="run the import, report the result, then undo it"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write every rejected line there, as JSON Lines"
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="do not wait for vectors and summaries; the server's workers create them",
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Import the data, wait for the vectors and print a report; return 1 if a line was rejected."""
    require_existing_data(settings)
    with (
        _open_report(args.report) as write_refusal,
        open_source(args.file, args.source, Scope(args.scope)) as source,
    ):
        async with open_command_engine(settings) as engine:
            target, workspace = await _target(engine, args)
            read = source(engine, target)
            report = await import_lines(
                engine,
                target,
                read.lines,
                attachments=read.attachments,
                is_dry_run=args.dry_run,
                on_progress=_ImportProgress(read.share),
                on_refusal=write_refusal,
            )
            report.left_out.update(read.left_out)
            _show(report, is_dry_run=args.dry_run)
            if not args.dry_run and not args.no_wait:
                await _wait_for_vectors(engine, workspace)
    return 1 if report.refused else 0


async def _target(engine: Engine, args: argparse.Namespace) -> tuple[ImportTarget, Workspace]:
    is_ours = args.source == OURS
    async with engine.pool.everywhere() as db:
        workspace = await find_workspace(db, args.workspace)
        owner: UserId | None = None
        if args.owner:
            owner = await find_owner_id(db, workspace, args.owner)
        elif not is_ours:
            owner = await users_queries.find_admin(db, workspace.org_id)
            if owner is None:
                raise Invalid("The org has no users. Create one with `recollect user create`.")
    target = ImportTarget(
        workspace_id=workspace.id,
        org_id=workspace.org_id,
        owner=owner,
        new_ids=args.new_ids and is_ours,
        is_to_segment=not is_ours,
        is_to_learn=args.learn and not is_ours,
    )
    return target, workspace


async def _wait_for_vectors(engine: Engine, workspace: Workspace) -> None:
    """Wait while vectors are created, here or by a server's workers; stop if none are added."""
    lacking, since = -1, monotonic()
    while monotonic() < since + _MAX_WAIT_SECONDS:
        work = asyncio.create_task(Worker(engine, slots=2).run_until_empty())
        while not work.done():
            await asyncio.wait([work], timeout=_PROGRESS_SECONDS)
            if not work.done():
                await _report_vectors(engine, workspace)
        work.result()
        left = await _report_vectors(engine, workspace)
        if not left:
            return
        if left != lacking:
            lacking, since = left, monotonic()
        await asyncio.sleep(_PROGRESS_SECONDS)
    print_progress("some memories have no vector yet; the server's workers will add them")


async def _report_vectors(engine: Engine, workspace: Workspace) -> int:
    """Print the progress and return how many memories still lack a vector."""
    async with engine.pool.reading(workspace.id) as db:
        found = await generations.progress(db, workspace.id)
    filled, wanted = sum(each.filled for each in found), sum(each.wanted for each in found)
    if filled < wanted:
        print_progress(f"vectors: {filled:,} of {wanted:,}")
    return wanted - filled


@contextmanager
def _open_report(path: Path | None) -> Generator[Callable[[Refusal], None]]:
    """Yield a function that writes a rejected line to the report file, if there is one."""
    if path is None:
        yield lambda _: None
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise UnreadableFile(f"`{path}` cannot be written: {error.strerror}.") from error
    with file:
        yield lambda refusal: print(json.dumps(asdict(refusal), ensure_ascii=False), file=file)


class _ImportProgress:
    """Prints the progress every few seconds."""

    def __init__(self, share: Callable[[], float] | None) -> None:
        self._share = share
        self._reported_at = monotonic()

    def __call__(self, report: ImportReport) -> None:
        if monotonic() > self._reported_at + _PROGRESS_SECONDS:
            self._reported_at = monotonic()
            kept, known = report.kept.total(), report.known.total()
            read = f"{self._share():.0%} read: " if self._share else ""
            refused = report.refused.total()
            print_progress(
                f"{read}{kept:,} imported, {known:,} already there, {refused:,} rejected"
            )


def _show(report: ImportReport, *, is_dry_run: bool) -> None:
    """Print the result on standard output and the rejected lines on standard error."""
    for refusal in report.refusals[:_MAX_SHOWN]:
        print_progress(f"{refusal.where}: {refusal.type} rejected: {refusal.why}")
    more = report.refused.total() - min(len(report.refusals), _MAX_SHOWN)
    if more:
        print_progress(f"and {more:,} more; `--report FILE` writes all of them")
    seen = set(report.kept) | set(report.known) | set(report.refused)
    kinds = [*(kind for kind in KINDS if kind in seen), *sorted(seen - set(KINDS))]
    rows = [
        (kind, f"{report.kept[kind]:,}", f"{report.known[kind]:,}", f"{report.refused[kind]:,}")
        for kind in kinds
    ]
    imported = "WOULD IMPORT" if is_dry_run else "IMPORTED"
    print(format_table(("KIND", imported, "ALREADY THERE", "REJECTED"), rows))
    for what, count in report.left_out.items():
        if count:
            print(f"left out: {count:,} {what}")
