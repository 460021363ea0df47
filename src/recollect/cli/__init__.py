"""The `recollect` command: each subcommand is a module with `add` (its arguments) and `run`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from recollect import __version__
from recollect.cli import jobs, keys, migrate, reembed, serve, work
from recollect.errors import Failure
from recollect.logs import configure_logging
from recollect.settings import Settings, read_settings

_ABOUT = """\
Recollect: the long-term memory for every chat and agent a team runs.

  recollect serve                     start everything; the first run prints a key
  recollect key create --name laptop  make another key; prints the key and nothing else
  recollect doctor                    check the installation and say what to do

Settings come from the environment (RECOLLECT_*, DATABASE_URL) and from recollect.toml in the
current directory. Every command works beside a running server.
"""

_COMMANDS = (serve, work, migrate, keys, jobs, reembed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with 0, 1 for a failure, 2 for wrong usage."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    try:
        settings = read_settings(file=asked.config, overrides=_overrides(asked))
        configure_logging(settings.log_level, settings.log_format)
        sys.exit(asyncio.run(asked.run(settings, asked)))
    except Failure as failure:
        print(f"recollect: {failure.message}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="recollect",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"recollect {__version__}")
    parser.set_defaults(config=None)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add(commands)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    for command in commands.choices.values():
        _add_common(command)
    return parser


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where the embedded database lives"
    )
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="settings file (default: recollect.toml)"
    )


def _overrides(asked: argparse.Namespace) -> dict[str, object]:
    given = {name: getattr(asked, name, None) for name in ("data_dir", "host", "port")}
    return {name: value for name, value in given.items() if value is not None}


async def _version(_: Settings, __: argparse.Namespace) -> int:
    print(__version__)
    return 0
