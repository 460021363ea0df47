"""`recollect jobs`: list background jobs and retry failed ones."""

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

from recollect.cli.arguments import Commands, add_command, positive_int
from recollect.cli.tenants.common import require_existing_data
from recollect.compose import open_database
from recollect.core.domain import JobId, utc_now
from recollect.core.settings import Settings
from recollect.db import job_queue
from recollect.db.migrate import migrate
from recollect.db.pool import Db, Pool


def add(commands: Commands) -> None:
    """Add the arguments of `jobs`."""
    parser = add_command(
        commands,
        "jobs",
        about="List background jobs and retry those that failed too often.",
        example="recollect jobs list --status failed\nrecollect jobs retry",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    show = add_command(
        verbs,
        "list",
        summary="list jobs, newest first",
        about="List jobs, newest first: id, status, kind, attempts, due time and last error.",
        example="recollect jobs list --status failed --limit 10",
    )
    show.add_argument(
        "--status",
        choices=["pending", "running", "done", "failed"],
        help="only jobs with this status (pending: queued)",
    )
    show.add_argument(
        "--limit", type=positive_int, default=50, help="maximum number of jobs (default 50)"
    )
    show.set_defaults(run=_list)
    retry = add_command(
        verbs,
        "retry",
        summary="retry failed jobs",
        about="Retry failed jobs. Fix the cause of the failure first.",
        example="recollect jobs retry\nrecollect jobs retry 0197c0de-7a4b-7c1e-9d2f-3b6a5e8f1c20",
    )
    retry.add_argument("job", nargs="?", type=UUID, help="a job's id (default: all failed jobs)")
    retry.set_defaults(run=_retry)


@asynccontextmanager
async def _open_queue(settings: Settings) -> AsyncGenerator[Db]:
    require_existing_data(settings)
    async with open_database(settings) as database:
        await migrate(database.url)
        pool = Pool(database.url, size=2, behind_pgbouncer=settings.pgbouncer)
        try:
            await pool.open()
            async with pool.everywhere() as db:
                yield db
        finally:
            await pool.close()


async def _list(settings: Settings, args: argparse.Namespace) -> int:
    async with _open_queue(settings) as db:
        found = await job_queue.list_jobs(db, status=args.status, limit=args.limit)
    if not found:
        print("no jobs")
    for job in found:
        print(
            f"{job.id}  {job.status:<8} {job.kind:<16} try {job.attempts}  "
            f"due {job.run_after:%Y-%m-%d %H:%M:%S}  {job.last_error or ''}".rstrip()
        )
    return 0


async def _retry(settings: Settings, args: argparse.Namespace) -> int:
    async with _open_queue(settings) as db:
        count = await job_queue.retry_failed(db, JobId(args.job) if args.job else None, utc_now())
    print(f"{count} jobs will be retried")
    return 0
