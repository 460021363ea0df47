"""`recollect jobs`: what waits, what was given up, and another try for it."""

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

from recollect.cli.arguments import Commands, add_command, positive
from recollect.cli.houses import refuse_absent
from recollect.compose import open_database
from recollect.domain import JobId, utc_now
from recollect.settings import Settings
from recollect.store import jobs
from recollect.store.migrate import migrate
from recollect.store.pool import Db, Pool


def add(commands: Commands) -> None:
    """Add the arguments of `jobs`."""
    parser = add_command(
        commands,
        "jobs",
        about="Show background jobs and let buried ones, which failed too often, try again.",
        example="recollect jobs list --status buried\nrecollect jobs retry",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    show = add_command(
        verbs,
        "list",
        summary="show jobs, newest first",
        about="Show jobs, newest first: id, state, kind, tries, when due, the last error.",
        example="recollect jobs list --status buried --limit 10",
    )
    show.add_argument("--status", choices=["pending", "running", "done", "buried"])
    show.add_argument("--limit", type=positive, default=50, help="at most so many (default 50)")
    show.set_defaults(run=_list)
    retry = add_command(
        verbs,
        "retry",
        summary="let buried jobs try again",
        about="Let buried jobs try again, once what made them fail is mended.",
        example="recollect jobs retry\nrecollect jobs retry 0197c0de-7a4b-7c1e-9d2f-3b6a5e8f1c20",
    )
    retry.add_argument("job", nargs="?", type=UUID, help="one job's id (default: all buried ones)")
    retry.set_defaults(run=_retry)


@asynccontextmanager
async def _queue(settings: Settings) -> AsyncGenerator[Db]:
    refuse_absent(settings)
    async with open_database(settings) as database:
        await migrate(database.url)
        pool = Pool(database.url, size=2, behind_pgbouncer=settings.pgbouncer)
        try:
            await pool.open()
            async with pool.everywhere() as db:
                yield db
        finally:
            await pool.close()


async def _list(settings: Settings, asked: argparse.Namespace) -> int:
    async with _queue(settings) as db:
        found = await jobs.listed(db, status=asked.status, limit=asked.limit)
    if not found:
        print("no jobs")
    for job in found:
        print(
            f"{job.id}  {job.status:<8} {job.kind:<16} try {job.attempts}  "
            f"due {job.run_after:%Y-%m-%d %H:%M:%S}  {job.last_error or ''}".rstrip()
        )
    return 0


async def _retry(settings: Settings, asked: argparse.Namespace) -> int:
    async with _queue(settings) as db:
        count = await jobs.revive(db, JobId(asked.job) if asked.job else None, utc_now())
    print(f"{count} jobs will be tried again")
    return 0
