"""The `recollect` command: each subcommand is the module of its name, with `add` and `run`."""

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
from recollect.cli.arguments import SUMMARIES
from recollect.cli.urls import check_url, shown
from recollect.errors import Failure
from recollect.logs import configure_logging
from recollect.settings import Settings, read_settings
from recollect.tasks import until_ended

_ABOUT = """\
Recollect: the long-term memory for every chat and agent a team runs.

  recollect serve                     start everything; the first run prints a key
  recollect key create --name laptop  make another key; prints the key and nothing else
  recollect doctor                    check the installation and say what to do

Settings come from the environment (RECOLLECT_*, DATABASE_URL) and from recollect.toml in the
current directory. Every command but `move` and `restore` works beside a running server.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with 0, 1 for a failure, 2 for wrong usage."""
    words = sys.argv[1:] if arguments is None else arguments
    with _kept_for_good():
        parser = _parser(words)
    asked = parser.parse_args(words)
    settings: Settings | None = None
    try:
        settings = _read_settings(asked)
        configure_logging(settings.log_level, settings.log_format)
        # The driver tells of every transaction that Ctrl-C or an error cuts off. So do we.
        logging.getLogger("psycopg").setLevel(logging.ERROR)
        signal.signal(signal.SIGTERM, _leave)
        code = uvloop.run(until_ended(asked.run(settings, asked)))
        sys.stdout.flush()
    except Failure as failure:
        if settings is None and asked.without_settings:
            sys.exit(asked.without_settings(failure, asked))
        _complain(failure.message + _reason(failure, settings))
    except psycopg.Error as error:
        _complain(
            f"The database answers with an error: {_first_line(error)}. Ask `recollect doctor`."
        )
    except BrokenPipeError:
        # Whoever read our output has gone; say nothing more, not even when Python flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    else:
        sys.exit(code)


@contextmanager
def _kept_for_good() -> Generator[None]:
    """Hide what is made in here from Python's collector: modules and routes stay to the end.

    Those of a server are 240,000 objects. While the collector looks at them nobody gets an answer.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _leave(number: int, _: object) -> None:
    # As Ctrl-C does, this unwinds what is under way: a half-written backup goes, a server detaches.
    sys.exit(128 + number)


def _read_settings(asked: argparse.Namespace) -> Settings:
    settings = read_settings(file=asked.config, overrides=_overrides(asked))
    if settings.database_url:
        check_url("DATABASE_URL", settings.database_url)
    return settings


def _complain(message: str) -> None:
    print(f"recollect: {message}", file=sys.stderr)
    sys.exit(1)


def _reason(failure: Failure, settings: Settings | None) -> str:
    """What the driver said about a database that does not answer, for whoever has to mend it."""
    if not isinstance(failure.__cause__, psycopg.OperationalError):
        return ""
    url = settings.database_url if settings else None
    where = f" `DATABASE_URL` is `{shown(url)}`." if url else ""
    return f" {_first_line(failure.__cause__)}.{where}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")


def _parser(wanted: Collection[str] = SUMMARIES) -> argparse.ArgumentParser:
    """What can be asked for; a command that is not wanted is listed and not loaded."""
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
            import_module(f"recollect.cli.{name.replace('-', '_')}").add(commands)
        else:
            commands.add_parser(name, help=summary)
    return parser


def _overrides(asked: argparse.Namespace) -> dict[str, object]:
    given = {name: getattr(asked, name, None) for name in ("data_dir", "host", "port")}
    return {name: value for name, value in given.items() if value is not None}
