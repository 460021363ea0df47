"""`recollect migrate`: upgrade the database to this release's schema."""

import argparse

from recollect.cli.arguments import Commands, add_command
from recollect.compose import open_database
from recollect.core.settings import Settings
from recollect.db.migrate import migrate


def add(commands: Commands) -> None:
    """Add the arguments of `migrate`."""
    parser = add_command(
        commands,
        "migrate",
        about="Apply pending migrations. `serve` and `work` do this automatically. Processes that "
        "migrate at the same time wait for each other.",
        example="recollect migrate",
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, _: argparse.Namespace) -> int:
    """Migrate and print the number of migrations applied."""
    async with open_database(settings) as database:
        applied = await migrate(database.url, say=print)
    print(f"{applied} migrations applied" if applied else "already up to date")
    return 0
