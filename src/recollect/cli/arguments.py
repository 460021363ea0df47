"""What the subcommands share: how they are declared, and how their arguments are read."""

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.domain import Right

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no public name
else:
    Commands = object

# One line for each command. They stand here so that their list needs none of them loaded: what a
# server needs takes a second to import.
SUMMARIES = {
    "serve": "start the server, its database and its workers",
    "work": "run workers without a server",
    "mcp": "speak MCP on standard input and output",
    "doctor": "check the installation and say what to do",
    "key": "create, list, replace and revoke API keys",
    "org": "create, list, rename, archive and delete orgs",
    "user": "create, list, rename, archive and delete users",
    "workspace": "create, list, rename, archive and delete workspaces",
    "project": "create, list, rename, archive and delete projects, and their members",
    "agent": "create, list, rename, archive and delete agents",
    "document": "add, list and delete documents",
    "erase": "remove a person, a thread or a key with everything made of it",
    "verify-erasure": "check that what a receipt says is gone is gone",
    "backup": "write everything into one file",
    "restore": "fill an empty house from a backup",
    "move": "move everything to an external PostgreSQL",
    "export": "write a workspace, a user's part or a thread as JSON Lines",
    "import": "take in an export, or what other systems wrote",
    "migrate": "bring the database to this release's schema",
    "jobs": "show background jobs and retry buried ones",
    "distil": "show what would be learnt from a text; nothing is kept",
    "learn": "see what would be learnt, decide what waits, read the bill",
    "reembed": "move every memory to the configured embedding model",
    "segment": "cut a chat into memories anew, or show where and why",
    "version": "print the version",
}

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_command(
    commands: Commands, name: str, *, about: str, example: str, summary: str | None = None
) -> argparse.ArgumentParser:
    """A subcommand whose help says what it is for and shows it in use."""
    parser = commands.add_parser(
        name,
        help=summary or SUMMARIES[name],
        description=about,
        epilog="example:\n" + "\n".join(f"  {line}" for line in example.splitlines()),
        formatter_class=_Help,
    )
    # A default here would undo what was said before a verb: `key --data-dir X create`.
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="where the embedded database lives",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="settings file (default: recollect.toml)",
    )
    return parser


def positive(text: str) -> int:
    """A whole number above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is no whole number above zero")
    return int(text)


def moment(text: str) -> datetime:
    """A time as a date, a timestamp, or how long from now: `90d`, `12h`."""
    try:
        if text[-1:] in _UNITS and text[:-1].isdecimal():
            return datetime.now(UTC) + timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"`{text}` is no time: write 2027-01-31, 90d or 12h"
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def rights(text: str) -> tuple[Right, ...]:
    """Rights separated by commas."""
    try:
        return tuple(dict.fromkeys(Right(part.strip()) for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"`{text}`: rights are {', '.join(Right)}, separated by commas"
        ) from None


class _Help(argparse.HelpFormatter):
    """Wraps the description and leaves the lines of the example alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example:"):
            return "\n".join(indent + line for line in text.splitlines())
        return super()._fill_text(text, width, indent)
