"""The `recollect` command. Each subcommand is a module with `add` and `run`."""

import argparse
import gc
import logging
import os
import signal
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module

import psycopg
import uvloop

from recollect import __version__
from recollect.cli.arguments import SUMMARIES, module_of
from recollect.cli.urls import check_url, hide_password
from recollect.core.errors import Failure
from recollect.core.logging import configure_logging
from recollect.core.settings import Settings, read_settings
from recollect.core.tasks import run_to_end

_ABOUT = """\
Recollect: long-term memory for all the chats and agents of a team.

  recollect serve                     start everything; the first run prints an API key
  recollect key create --name laptop  create another key; prints only the key
  recollect doctor                    check the installation and suggest fixes

Settings come from the environment (RECOLLECT_*, DATABASE_URL) and from recollect.toml in the
current directory. All commands except `move` and `restore` also work while a server is running.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 1 for a failure, 2 for wrong usage."""
    words = sys.argv[1:] if arguments is None else arguments
    with _excluded_from_garbage_collection():
        parser = _make_parser(words)
    args = parser.parse_args(words)
    settings: Settings | None = None
    try:
        settings = _read_settings(args)
        configure_logging(settings.log_level, settings.log_format)
        # The driver logs every transaction that Ctrl-C or an error interrupts. We report those
        # ourselves.
        logging.getLogger("psycopg").setLevel(logging.ERROR)
        signal.signal(signal.SIGTERM, _exit_on_signal)
        code = uvloop.run(run_to_end(args.run(settings, args)))
        sys.stdout.flush()
    except Failure as failure:
        if settings is None and args.without_settings:
            sys.exit(args.without_settings(failure, args))
        _exit_with_error(failure.message + _database_reason(failure, settings))
    except psycopg.Error as error:
        _exit_with_error(
            f"The database returned an error: {_first_line(error)}. Run `recollect doctor`."
        )
    except BrokenPipeError:
        # The reader of our output has closed the pipe. Python must not fail again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    else:
        sys.exit(code)


@contextmanager
def _excluded_from_garbage_collection() -> Generator[None]:
    """Exclude objects created in this block from garbage collection.

    Modules and routes live until the process ends. A server has 240,000 such objects, and it
    cannot respond to requests while the collector scans them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _exit_on_signal(number: int, _: object) -> None:
    # Like Ctrl-C, this unwinds the stack: an incomplete backup is removed, a server detaches.
    sys.exit(128 + number)


def _read_settings(args: argparse.Namespace) -> Settings:
    settings = read_settings(file=args.config, overrides=_overrides(args))
    if settings.database_url:
        check_url("DATABASE_URL", settings.database_url)
    return settings


def _exit_with_error(message: str) -> None:
    print(f"recollect: {message}", file=sys.stderr)
    sys.exit(1)


def _database_reason(failure: Failure, settings: Settings | None) -> str:
    """Return the driver's message and the address if the database cannot be reached, else ""."""
    if not isinstance(failure.__cause__, psycopg.OperationalError):
        return ""
    url = settings.database_url if settings else None
    where = f" `DATABASE_URL` is `{hide_password(url)}`." if url else ""
    return f" {_first_line(failure.__cause__)}.{where}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")


def _make_parser(wanted: Collection[str] = SUMMARIES) -> argparse.ArgumentParser:
    """Build the parser; commands not in `wanted` are listed in the help but not loaded."""
    parser = argparse.ArgumentParser(
        prog="recollect",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"recollect {__version__}")
    parser.set_defaults(config=None, without_settings=None)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in SUMMARIES.items():
        if name in wanted:
            import_module(module_of(name)).add(commands)
        else:
            commands.add_parser(name, help=summary)
    return parser


def _overrides(args: argparse.Namespace) -> dict[str, object]:
    given = {name: getattr(args, name, None) for name in ("data_dir", "host", "port")}
    return {name: value for name, value in given.items() if value is not None}
