"""`recollect jobs`: what waits, what was given up, and another try for it."""

import argparse
from uuid import UUID

from recollect.cli.arguments import Commands
from recollect.compose import open_database, open_engine
from recollect.domain import JobId
from recollect.settings import Settings
from recollect.store import jobs


def add(commands: Commands) -> None:
    """Add the arguments of `jobs`."""
    parser = commands.add_parser("jobs", help="show background jobs and retry buried ones")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    show = verbs.add_parser("list", help="show jobs, newest first")
    show.add_argument("--status", choices=["pending", "running", "done", "buried"])
    show.add_argument("--limit", type=int, default=50)
    show.set_defaults(run=_list)
    retry = verbs.add_parser("retry", help="let buried jobs try again")
    retry.add_argument("job", nargs="?", type=UUID, help="one job's id (default: all buried ones)")
    retry.set_defaults(run=_retry)


async def _list(settings: Settings, asked: argparse.Namespace) -> int:
    async with (
        open_database(settings) as database,
        open_engine(settings, database) as engine,
        engine.pool.everywhere() as db,
    ):
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
    async with (
        open_database(settings) as database,
        open_engine(settings, database) as engine,
        engine.pool.everywhere() as db,
    ):
        job_id = JobId(asked.job) if asked.job else None
        count = await jobs.revive(db, job_id, engine.now())
    print(f"{count} jobs will be tried again")
    return 0
