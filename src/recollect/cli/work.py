"""`recollect work`: run workers without a server."""

import argparse
import asyncio
import signal

from recollect.cli.arguments import Commands, add_command, positive_int
from recollect.compose import open_database, open_engine
from recollect.core.settings import Settings
from recollect.core.tasks import cancel_all
from recollect.db import job_queue
from recollect.db.migrate import migrate
from recollect.db.notifications import listen
from recollect.worker import Worker


def add(commands: Commands) -> None:
    """Add the arguments of `work`."""
    parser = add_command(
        commands,
        "work",
        about="Run background jobs until stopped. Several of these processes can run at once; no "
        "job runs twice. With --once, run all due jobs and exit.",
        example="recollect work --slots 8\nrecollect work --once",
    )
    parser.add_argument(
        "--slots", type=positive_int, default=4, help="jobs to run at once (default 4)"
    )
    parser.add_argument("--once", action="store_true", help="run every due job, then exit")
    parser.set_defaults(run=run)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Run jobs until a signal arrives, or until none are due with `--once`."""
    async with open_database(settings) as database:
        await migrate(database.url)
        async with open_engine(settings, database) as engine:
            worker = Worker(engine, slots=args.slots)
            if args.once:
                print(f"{await worker.run_until_empty()} jobs done")
                return 0
            await _run_until_signal(worker, None if settings.pgbouncer else database.url)
    return 0


async def _run_until_signal(worker: Worker, url: str | None) -> None:
    tasks = [asyncio.create_task(worker.run())]
    if url:
        tasks.append(asyncio.create_task(listen(url, {job_queue.CHANNEL: lambda _: worker.wake()})))
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    print("Working. Stop with Ctrl-C.", flush=True)
    await stop.wait()
    await cancel_all(tasks)
