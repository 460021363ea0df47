"""`recollect version`: print the version."""

import argparse

from recollect import __version__
from recollect.cli.arguments import Commands, add_command
from recollect.core.settings import Settings


def add(commands: Commands) -> None:
    """Add the arguments of `version`."""
    parser = add_command(
        commands,
        "version",
        about="Print the version and nothing else.",
        example="recollect version",
    )
    parser.set_defaults(run=run)


async def run(_: Settings, __: argparse.Namespace) -> int:
    """Print the version."""
    print(__version__)
    return 0
