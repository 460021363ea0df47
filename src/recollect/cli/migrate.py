"""`recollect migrate`: bring the database to this release's schema."""

import argparse

from recollect.cli.arguments import Commands, add_command
from recollect.compose import open_database
from recollect.settings import Settings
from recollect.store.migrate import migrate


def add(commands: Commands) -> None:
    """Add the arguments of `migrate`."""
    parser = add_command(
        commands,
        "migrate",
        about="Apply the migrations the database lacks. `serve` and `work` do this "
        "themselves; several at once wait for one another.",
        example="recollect migrate",
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, _: argparse.Namespace) -> int:
    """Migrate and say what was done."""
    async with open_database(settings) as database:
        applied = await migrate(database.url, say=print)
    print(f"{applied} migrations applied" if applied else "already up to date")
    return 0
