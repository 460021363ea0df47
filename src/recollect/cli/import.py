"""`recollect import`: an export, or what people bring from elsewhere."""

import argparse
import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic

from recollect.cli.arguments import Commands, add_command
from recollect.cli.backup import say
from recollect.cli.houses import opened, refuse_absent, table
from recollect.domain import Scope, UserId
from recollect.engine.core import Engine
from recollect.engine.exports import owner_named
from recollect.engine.imports import Refusal, Report, Target, take_in
from recollect.engine.named import workspace_named
from recollect.engine.records import KINDS
from recollect.errors import Invalid
from recollect.settings import Settings
from recollect.store import generations, identity
from recollect.store.identity import Workspace
from recollect.trade.errors import Unreadable
from recollect.trade.incoming import NAMES, OURS, incoming
from recollect.worker import Worker

_TELL_SECONDS = 2.0
# How long to wait for the next vector: an embedder that is down comes back, or it does not.
_PATIENCE_SECONDS = 20.0
# So many refusals are shown; `--report` writes all of them.
_MOST_SHOWN = 20


def add(commands: Commands) -> None:
    """Add the arguments of `import`."""
    parser = add_command(
        commands,
        "import",
        about="Take in what `recollect export` wrote, or what another system did, beside a running "
        "server or without one. What is there already is left alone: running it twice changes "
        "nothing, and running it again after a stop goes on. A line that cannot be kept is told "
        "with its number and why, and costs no other.",
        example="recollect import research.zip --workspace research --dry-run\n"
        "recollect import --from chatgpt chatgpt-export.zip --as ada\n"
        "recollect import --from markdown notes/",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a file, a zip or a directory")
    parser.add_argument(
        "--from",
        dest="source",
        choices=NAMES,
        default=OURS,
        help="which system wrote it (default: recollect)",
    )
    parser.add_argument("--workspace", help="where to: name or id (default: the default one)")
    parser.add_argument(
        "--as",
        dest="owner",
        metavar="USER",
        help="whose it shall be, by login or id (default: of an export whoever's it was, who is "
        "made if need be; of other systems' the first administrator's)",
    )
    parser.add_argument(
        "--new-ids", action="store_true", help="give everything new ids, each time the same ones"
    )
    parser.add_argument(
        "--scope",
        choices=[Scope.GLOBAL, Scope.WORKSPACE],
        default=Scope.GLOBAL,
        help="who sees memories of other systems: their user alone (global), or the workspace",
    )
    parser.add_argument(
        "--learn",
        action="store_true",
        help="also learn from what the user said in other systems' conversations; with a chat "
        "model configured, every such message is a question to it",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="do all of it, report, and undo it at the end"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write every refusal there, as JSON Lines"
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="leave vectors and summaries to the server's workers"
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Take it in, see to the vectors, and say what became of it; 1 if anything was refused."""
    refuse_absent(settings)
    with (
        _telling(asked.report) as tell,
        incoming(asked.file, asked.source, Scope(asked.scope)) as source,
    ):
        async with opened(settings) as engine:
            target, workspace = await _target(engine, asked)
            read = source(engine, target)
            report = await take_in(
                engine,
                target,
                read.lines,
                attachments=read.attachments,
                is_dry_run=asked.dry_run,
                watch=_Progress(read.share),
                tell=tell,
            )
            report.left_out.update(read.left_out)
            _show(report, is_dry_run=asked.dry_run)
            if not asked.dry_run and not asked.no_wait:
                await _settle(engine, workspace)
    return 1 if report.refused else 0


async def _target(engine: Engine, asked: argparse.Namespace) -> tuple[Target, Workspace]:
    is_ours = asked.source == OURS
    async with engine.pool.everywhere() as db:
        workspace = await workspace_named(db, asked.workspace)
        owner: UserId | None = None
        if asked.owner:
            owner = await owner_named(db, workspace, asked.owner)
        elif not is_ours:
            owner = await identity.admin_of(db, workspace.org_id)
            if owner is None:
                raise Invalid("The org has no users. `recollect user create` makes one.")
    target = Target(
        workspace_id=workspace.id,
        org_id=workspace.org_id,
        owner=owner,
        new_ids=asked.new_ids and is_ours,
        is_to_segment=not is_ours,
        is_to_learn=asked.learn and not is_ours,
    )
    return target, workspace


async def _settle(engine: Engine, workspace: Workspace) -> None:
    """See the vectors made, here or by a server's workers, as long as there are more and more."""
    lacking, since = -1, monotonic()
    while monotonic() < since + _PATIENCE_SECONDS:
        work = asyncio.create_task(Worker(engine, slots=2).run_until_empty())
        while not work.done():
            await asyncio.wait([work], timeout=_TELL_SECONDS)
            if not work.done():
                await _tell_of_vectors(engine, workspace)
        work.result()
        left = await _tell_of_vectors(engine, workspace)
        if not left:
            return
        if left != lacking:
            lacking, since = left, monotonic()
        await asyncio.sleep(_TELL_SECONDS)
    say("not every memory has its vector yet; the server's workers go on with that")


async def _tell_of_vectors(engine: Engine, workspace: Workspace) -> int:
    """How many memories still lack one."""
    async with engine.pool.reading(workspace.id) as db:
        found = await generations.progress(db, workspace.id)
    filled, wanted = sum(each.filled for each in found), sum(each.wanted for each in found)
    if filled < wanted:
        say(f"vectors: {filled:,} of {wanted:,}")
    return wanted - filled


@contextmanager
def _telling(path: Path | None) -> Generator[Callable[[Refusal], None]]:
    """Writes refusals into a file as they come."""
    if path is None:
        yield lambda _: None
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise Unreadable(f"`{path}` cannot be written: {error.strerror}.") from error
    with file:
        yield lambda refusal: print(json.dumps(asdict(refusal), ensure_ascii=False), file=file)


class _Progress:
    """Tells every few seconds how far it is."""

    def __init__(self, share: Callable[[], float] | None) -> None:
        self._share = share
        self._told = monotonic()

    def __call__(self, report: Report) -> None:
        if monotonic() > self._told + _TELL_SECONDS:
            self._told = monotonic()
            kept, known = report.kept.total(), report.known.total()
            read = f"{self._share():.0%} read: " if self._share else ""
            refused = report.refused.total()
            say(f"{read}{kept:,} kept, {known:,} there already, {refused:,} refused")


def _show(report: Report, *, is_dry_run: bool) -> None:
    """What became of it: the result on standard output, what needs a look beside it."""
    for refusal in report.refusals[:_MOST_SHOWN]:
        say(f"{refusal.where}: {refusal.type} refused: {refusal.why}")
    more = report.refused.total() - min(len(report.refusals), _MOST_SHOWN)
    if more:
        say(f"and {more:,} more; `--report FILE` writes all of them")
    seen = set(report.kept) | set(report.known) | set(report.refused)
    kinds = [*(kind for kind in KINDS if kind in seen), *sorted(seen - set(KINDS))]
    rows = [
        (kind, f"{report.kept[kind]:,}", f"{report.known[kind]:,}", f"{report.refused[kind]:,}")
        for kind in kinds
    ]
    print(table(("KIND", "WOULD KEEP" if is_dry_run else "KEPT", "THERE ALREADY", "REFUSED"), rows))
    for what, count in report.left_out.items():
        if count:
            print(f"left out: {count:,} {what}")
