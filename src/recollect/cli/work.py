"""`recollect work`: workers alone, beside any number of servers."""

import argparse
import asyncio
import signal

from recollect.cli.arguments import Commands, add_command, positive
from recollect.compose import open_database, open_engine
from recollect.settings import Settings
from recollect.store import jobs
from recollect.store.listen import listen
from recollect.store.migrate import migrate
from recollect.tasks import end
from recollect.worker import Worker


def add(commands: Commands) -> None:
    """Add the arguments of `work`."""
    parser = add_command(
        commands,
        "work",
        about="Run background jobs until stopped. Several may run at once; no job is done "
        "twice. With --once, do what is due and end.",
        example="recollect work --slots 8\nrecollect work --once",
    )
    parser.add_argument("--slots", type=positive, default=4, help="jobs to run at once (default 4)")
    parser.add_argument("--once", action="store_true", help="do every job that is due, then end")
    parser.set_defaults(run=run)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Work until told to stop."""
    async with open_database(settings) as database:
        await migrate(database.url)
        async with open_engine(settings, database) as engine:
            worker = Worker(engine, slots=asked.slots)
            if asked.once:
                print(f"{await worker.run_until_empty()} jobs done")
                return 0
            await _until_told(worker, None if settings.pgbouncer else database.url)
    return 0


async def _until_told(worker: Worker, url: str | None) -> None:
    tasks = [asyncio.create_task(worker.run())]
    if url:
        tasks.append(asyncio.create_task(listen(url, {jobs.CHANNEL: lambda _: worker.wake()})))
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    print("Working. Stop with Ctrl-C.", flush=True)
    await stop.wait()
    await end(tasks)
